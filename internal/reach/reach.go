// Package reach tells workers which address ranges the callbacks of a tenant
// may reach though they are not public: those that an operator has set for it.
//
// It is a step of the hand-out. What it reads of the tenants it remembers for a
// few seconds, and for longer where the store is away. It never says that an
// address may be reached that no operator has named; whoever dials judges the
// address itself.
package reach

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const remember = 3 * time.Second

// Tenants lists all tenants.
type Tenants interface {
	Tenants(ctx context.Context) ([]tenant.Tenant, error)
}

// Lists are the ranges of every tenant that has some.
type Lists struct {
	store Tenants
	clock clock.Clock

	mu    sync.Mutex
	lists map[tenant.ID][]string // guarded by mu: replaced, never changed
	until time.Time              // guarded by mu
}

// New makes the lists over a store.
func New(store Tenants, clk clock.Clock) *Lists { return &Lists{store: store, clock: clk} }

// Step is the handout step that adds a tenant's ranges to a callback.
func (l *Lists) Step(ctx context.Context, a job.Attempt, out *client.Attempt) error {
	if a.Target.Kind != job.HTTP {
		return nil
	}
	lists, err := l.read(ctx)
	if err != nil {
		return err
	}
	out.CallbackAllow = lists[a.Tenant]
	return nil
}

// read is what is known, or what the store says where that is old.
func (l *Lists) read(ctx context.Context) (map[tenant.ID][]string, error) {
	now := l.clock.Now()
	l.mu.Lock()
	known, fresh := l.lists, now.Before(l.until)
	l.mu.Unlock()
	if fresh {
		return known, nil
	}
	all, err := l.store.Tenants(engine.Unconfined(ctx))
	if err != nil {
		if known != nil { // it was so a moment ago
			return known, nil
		}
		return nil, err
	}
	next := map[tenant.ID][]string{}
	for _, t := range all {
		if t.Reach != "" {
			next[t.ID] = strings.Split(t.Reach, ",")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists, l.until = next, now.Add(remember)
	return next, nil
}
