package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

var _ engine.Notifier = (*Store)(nil)

func TestNotify(t *testing.T) {
	a := fresh(t)
	b, err := Open(t.Context(), Config{URL: a.admin.ConnString()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	woken := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.Listen(ctx, func() { woken <- struct{}{} }); !errors.Is(err, context.Canceled) {
			t.Errorf("listen ended with %v", err)
		}
	})
	<-woken // it listens
	if err := b.Notify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Notify(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-woken
	cancel()
	wg.Wait()
	if n := len(woken); n != 0 {
		t.Errorf("it heard %d more: its own?", n)
	}
}

func TestListenEndsWithItsConnection(t *testing.T) {
	s := fresh(t)
	c := direct(t, s)
	ended := make(chan error, 1)
	woken := make(chan struct{}, 1)
	go func() { ended <- s.Listen(t.Context(), func() { woken <- struct{}{} }) }()
	<-woken
	exec(t, c, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	if err := <-ended; !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
