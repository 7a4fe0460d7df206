// Package allowlist tells workers which private address ranges the callbacks of a tenant may reach, and whether they
// need https, as set by an operator.
//
// It is a step of the hand-out. What it reads of the tenants it remembers for a few seconds, and for longer where the
// store is away. It never says that an address may be reached that no operator has named; whoever dials judges the
// address itself.
package allowlist

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

// rules holds those of one tenant.
type rules struct {
	allow []string
	https bool
}

// Store is the part of a store that knows the rules.
type Store interface {
	Reaches(ctx context.Context) (map[tenant.ID]engine.Reach, error)
}

// Lists holds the rules of every tenant that has some.
type Lists struct {
	store Store
	clock clock.Clock
	turn  chan struct{} // a buffer of one: whoever fills it reads the rules

	mu    sync.Mutex
	lists map[tenant.ID]rules // guarded by mu: replaced, never changed
	until time.Time           // guarded by mu
}

// New makes the lists over a store.
func New(store Store, clk clock.Clock) *Lists {
	return &Lists{store: store, clock: clk, turn: make(chan struct{}, 1)}
}

// Step returns the delivery step that adds a tenant's rules to a callback.
func (l *Lists) Step(ctx context.Context, a job.Attempt, out *client.Attempt) error {
	if a.Target.Kind != job.HTTP {
		return nil
	}
	lists, err := l.read(ctx)
	if err != nil {
		return err
	}
	of := lists[a.Tenant]
	out.CallbackAllow, out.CallbackHTTPSOnly = of.allow, of.https
	return nil
}

// read returns the cached rules, or asks the store if they are too old. One caller reads for all; meanwhile the
// others use the cached ones.
func (l *Lists) read(ctx context.Context) (map[tenant.ID]rules, error) {
	known, fresh := l.known()
	if fresh {
		return known, nil
	}
	select {
	case l.turn <- struct{}{}:
	default:
		if known != nil {
			return known, nil
		}
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() { <-l.turn }()
	if known, fresh = l.known(); fresh { // another has read meanwhile
		return known, nil
	}
	now := l.clock.Now()
	all, err := l.store.Reaches(engine.Unconfined(ctx))
	if err != nil {
		if known != nil { // it was so a moment ago
			return known, nil
		}
		return nil, err
	}
	next := make(map[tenant.ID]rules, len(all))
	for id, reach := range all {
		of := rules{https: reach.HTTPSOnly}
		if reach.Allow != "" {
			of.allow = strings.Split(reach.Allow, ",")
		}
		next[id] = of
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists, l.until = next, now.Add(remember)
	return next, nil
}

func (l *Lists) known() (_ map[tenant.ID]rules, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lists, clock.Fresh(l.clock.Now(), l.until, remember)
}
