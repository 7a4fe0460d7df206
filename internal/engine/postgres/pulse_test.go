package postgres

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// wire is a way to a server that can be held up, in both directions, without being cut.
type wire struct {
	net.Listener
	mu   sync.RWMutex // held while nothing passes
	busy sync.WaitGroup
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l}
	w.busy.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			w.busy.Go(func() { w.join(a, to) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); w.busy.Wait() })
	return w
}

func (w *wire) join(a net.Conn, to string) {
	w.mu.RLock() // a server that stands still takes connections, and says nothing
	b, err := net.Dial("tcp", to)
	w.mu.RUnlock()
	if err != nil {
		_ = a.Close()
		return
	}
	w.busy.Go(func() { w.pass(a, b) })
	w.pass(b, a)
}

func (w *wire) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		w.mu.RLock()
		if n > 0 && err == nil {
			_, err = to.Write(b[:n])
		}
		w.mu.RUnlock()
		if err != nil {
			return
		}
	}
}

func TestAServerThatDoesNotAnswerIsAwayWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, u.Host)
	u.Host = w.Addr().String()
	s, err := Open(t.Context(), Config{URL: u.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	held := creation(t, s, 1)
	w.mu.Lock()
	began := time.Now()
	_, err = s.CreateJobs(t.Context(), []engine.Creation{held})
	took := time.Since(began)
	w.mu.Unlock()
	if !errors.Is(err, engine.ErrUnavailable) || took < slowAfter || took > patience-time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	if _, err := s.Now(t.Context()); err != nil {
		t.Errorf("when it answers again: %v", err)
	}
}

// One that has much to do is waited for.
func TestASlowStatementIsNotAServerThatIsAway(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	err := s.ask(t.Context(), "wait", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_sleep($1)", (slowAfter + pulseTime + 200*time.Millisecond).Seconds())
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
