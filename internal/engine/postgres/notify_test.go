package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

var (
	_ engine.Notifier = (*Store)(nil)
	_ engine.Feeds    = (*Store)(nil)
)

func TestFeeds(t *testing.T) {
	a := fresh(t)
	b, err := Open(t.Context(), Config{URL: a.admin.ConnString()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	begun, heard := make(chan struct{}), make(chan string, 10)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.Subscribe(ctx, func() { close(begun) }, func(m []byte) { heard <- string(m) }); !errors.Is(err, context.Canceled) {
			t.Errorf("subscribe ended with %v", err)
		}
	})
	<-begun
	long := strings.Repeat("ü", engine.MaxMessage/2)
	for _, m := range []string{`{"f": "x"}`, long} {
		if err := a.Publish(t.Context(), []byte(m)); err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != m {
			t.Errorf("heard %d bytes, want %d", len(got), len(m))
		}
	}
	cancel()
	wg.Wait()
}

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
