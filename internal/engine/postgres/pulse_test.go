package postgres

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// wire is a way to a server that can be held up, in both directions, without being cut.
type wire struct {
	net.Listener
	mu   sync.RWMutex // held while nothing passes
	busy sync.WaitGroup
	held atomic.Int64 // what came before the so many-th connection passes no more
	came atomic.Int64
	all  sync.Map // the connections, by themselves
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
	t.Cleanup(func() {
		_ = l.Close()
		w.all.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true }) // pgx waits long for the other side to close
		w.busy.Wait()
	})
	return w
}

func (w *wire) join(a net.Conn, to string) {
	nth := w.came.Add(1)
	w.mu.RLock() // a server that stands still takes connections, and says nothing
	b, err := net.Dial("tcp", to)
	w.mu.RUnlock()
	if err != nil {
		_ = a.Close()
		return
	}
	w.all.Store(a, true)
	w.all.Store(b, true)
	w.busy.Go(func() { w.pass(nth, a, b) })
	w.pass(nth, b, a)
}

func (w *wire) pass(nth int64, from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		w.mu.RLock()
		if n > 0 && err == nil && nth > w.held.Load() {
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
	if !errors.Is(err, engine.ErrUnavailable) || took < slowAfter || took > patience-time.Second || awayAfter > 2*time.Second {
		t.Errorf("after %v, %v elsewhere: %v", took, awayAfter, err)
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

// A kept connection that something on the way has forgotten says nothing of the server.
func TestAForgottenConnectionIsNotAServerThatIsAway(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, u.Host)
	u.Host = w.Addr().String()
	cfg, err := pgx.ParseConfig(u.String())
	if err != nil {
		t.Fatal(err)
	}
	p := &pulse{cfg: cfg}
	defer p.close()
	for _, what := range []string{"a new connection", "the same again"} {
		if !p.alive() || w.came.Load() != 1 {
			t.Fatalf("%s: it is away, after %d connections", what, w.came.Load())
		}
	}
	w.held.Store(w.came.Load())
	if !p.alive() || w.came.Load() < 2 {
		t.Errorf("after the connection was forgotten: it is away, after %d connections", w.came.Load())
	}
	w.held.Store(100)
	if p.alive() {
		t.Error("nothing passes, and it lives")
	}
}
