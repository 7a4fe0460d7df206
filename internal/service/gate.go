package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// gate lets concurrent creations share a commit. The first goes at once; those that arrive while commits are in
// progress go with the next. Each is answered after its commit, and fails only because of itself, or the store.
type gate struct {
	store  engine.Jobs
	direct bool // nothing is shared

	mu      sync.Mutex
	waiting []*passage // guarded by mu
	jobs    int        // guarded by mu: jobs of the waiting creations
	going   int        // guarded by mu: commits in progress
}

// passage is one creation on its way through the gate.
type passage struct {
	creation engine.Creation
	since    time.Time
	done     chan answer // of one
}

type answer struct {
	created engine.Created
	err     error
}

// The waiting creations are limited in number, in jobs and in time: if the store is slow, more are refused at once,
// so that results and heartbeats, which share the store with at most three commits of a limited size, are not
// delayed.
const (
	maxShared      = 1000             // creations in a commit …
	maxSharedJobs  = MaxBatch         // … and jobs
	maxWaiting     = 10_000           // creations that wait …
	maxWaitingJobs = 5 * MaxBatch     // … the jobs they carry …
	maxSince       = 5 * time.Second  // … and how long the first of them has
	maxGoing       = 3                // one is made, one is written, one waits for the disk
	patience       = 25 * time.Second // of a commit, which may carry ten thousand jobs
)

// pass stores one creation. If ctx ends first, it may or may not be stored.
func (g *gate) pass(ctx context.Context, c engine.Creation) (engine.Created, error) {
	if g.direct {
		out, err := g.store.CreateJobs(ctx, []engine.Creation{c})
		if err != nil {
			return engine.Created{}, err
		}
		return out[0], nil
	}
	p := &passage{creation: c, since: time.Now(), done: make(chan answer, 1)}
	g.mu.Lock()
	if n := len(g.waiting); n >= maxWaiting || n > 0 && (g.jobs+len(c.Jobs) > maxWaitingJobs || time.Since(g.waiting[0].since) > maxSince) {
		g.mu.Unlock()
		return engine.Created{}, fmt.Errorf("%d creations wait already, the store is slow: %w", n, engine.ErrUnavailable)
	}
	g.waiting = append(g.waiting, p)
	g.jobs += len(c.Jobs)
	if g.going < maxGoing {
		g.going++
		go g.run()
	}
	g.mu.Unlock()
	select {
	case a := <-p.done:
		return a.created, a.err
	case <-ctx.Done():
		return engine.Created{}, ctx.Err()
	}
}

// run commits until nothing waits.
func (g *gate) run() {
	for {
		g.mu.Lock()
		n, jobs := 0, 0
		for n < min(len(g.waiting), maxShared) {
			more := len(g.waiting[n].creation.Jobs)
			if n > 0 && jobs+more > maxSharedJobs {
				break
			}
			n, jobs = n+1, jobs+more
		}
		g.jobs -= jobs
		if n == 0 {
			g.waiting = nil
			g.going--
			g.mu.Unlock()
			return
		}
		batch := g.waiting[:n:n]
		g.waiting = g.waiting[n:]
		g.mu.Unlock()
		g.commit(batch)
	}
}

func (g *gate) commit(batch []*passage) {
	cs := make([]engine.Creation, len(batch))
	for i, p := range batch {
		cs[i] = p.creation
	}
	// Not a caller's context: one that gives up must not fail its neighbours.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := g.store.CreateJobs(ctx, cs)
	for i, p := range batch {
		a := answer{err: err}
		if err == nil {
			a.created = out[i]
		}
		p.done <- a
	}
}
