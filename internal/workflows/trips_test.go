package workflows

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// trips counts how often a client of a server spoke after the server had answered.
type trips struct{ n atomic.Int64 }

// front returns the address of a proxy that counts.
func (c *trips) front(t *testing.T, server string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(context.WithoutCancel(t.Context()), "tcp", server)
			if err != nil {
				_ = in.Close()
				return
			}
			var answered atomic.Bool
			go relay(in, out, func() { answered.Store(true) })
			go relay(out, in, func() {
				if answered.Swap(false) {
					c.n.Add(1)
				}
			})
		}
	}()
	return l.Addr().String()
}

// relay copies what one connection says to another, until it ends.
func relay(to, from net.Conn, heard func()) {
	defer to.Close()
	_, _ = io.Copy(to, hearing{from, heard})
}

type hearing struct {
	io.Reader
	heard func()
}

func (h hearing) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.heard()
	}
	return n, err
}

// localClock asks no store.
type localClock struct{}

func (localClock) Now() time.Time { return time.Now() }

// From the result of a node to its child, a server waits for its database three times: it stores the result and reads the run, it writes
// what follows and commits, and it leases the child.
func TestRoundTripsOfAStep(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(storetest.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	var count trips
	u.Host = count.front(t, u.Host)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: u.String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var nodes []workflow.Node
	for _, k := range "abcdefgh" {
		n := workflow.Node{Key: string(k), Execution: json.RawMessage(`{"target":"worker","kind":"x"}`)}
		if len(nodes) > 0 {
			n.DependsOn = []string{nodes[len(nodes)-1].Key}
		}
		nodes = append(nodes, n)
	}
	p := newPlayer(t, store, workflow.Definition{Nodes: nodes})
	p.runner = New(store, localClock{}, Config{Hint: p.runner.cfg.Hint})
	finished, leased := int64(100), int64(100)
	for i := range 2 * len(nodes) { // the first run prepares statements and reads jobs
		if i%len(nodes) == 0 {
			p.begin(nil)
		}
		before := count.n.Load()
		as, err := store.Lease(t.Context(), []engine.Grant{{Worker: p.worker, Executions: p.ready}}, engine.Fence{})
		if err != nil || len(as) != 1 || as[0].Run != p.run {
			t.Fatalf("leased %+v, %v", as, err)
		}
		leased = min(leased, count.n.Load()-before)
		p.ready = nil
		f := job.Finish{Outcome: job.Outcome{Lease: as[0].Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Status: job.Succeeded, Move: job.Done}, Worker: p.worker}
		before = count.n.Load()
		vs, err := p.runner.Finish(t.Context(), []job.Finish{f})
		if err != nil || !vs[0].Accepted {
			t.Fatalf("%+v, %v", vs, err)
		}
		finished = min(finished, count.n.Load()-before)
	}
	if s := p.state(); s.Status != workflow.Succeeded {
		t.Errorf("the run is %v", s.Status)
	}
	if finished != 2 || leased != 1 {
		t.Errorf("a result took %d round trips and a lease %d; want 2 and 1", finished, leased)
	}
}
