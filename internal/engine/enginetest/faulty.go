package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Faults is how often a store misbehaves, as shares from 0 to 1.
type Faults struct {
	Seed   uint64
	Before float64       // fails and does nothing
	After  float64       // does it, then fails
	Slow   float64       // takes Delay longer
	Delay  time.Duration // of a slow call
	Only   string        // the one method to disturb; "" for all
}

// Faulty is a store that misbehaves. Migrate, Steps, CheckSchema, Describe and Close are left alone.
type Faulty struct {
	engine.Around

	mu       sync.Mutex
	faults   Faults         // guarded by mu
	rng      *rand.Rand     // guarded by mu
	injected map[string]int // guarded by mu: method and kind → how many
}

// NewFaulty wraps a store; the same seed and calls give the same faults.
func NewFaulty(s engine.Store, f Faults) *Faulty {
	out := &Faulty{faults: f, rng: rand.New(rand.NewPCG(f.Seed, 1)), injected: map[string]int{}}
	out.Around = engine.Around{Store: s, Hook: out.disturb}
	return out
}

// Injected counts the faults so far, by method and kind ("Lease after").
func (f *Faulty) Injected() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]int, len(f.injected))
	for k, n := range f.injected {
		out[k] = n
	}
	return out
}

// Set changes how the store misbehaves from now on; the seed stays.
func (f *Faulty) Set(x Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = x
}

func (f *Faulty) roll(method string) (before, after bool, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults.Only != "" && f.faults.Only != method {
		return false, false, 0
	}
	before = f.rng.Float64() < f.faults.Before
	after = !before && f.rng.Float64() < f.faults.After
	slow := f.rng.Float64() < f.faults.Slow
	if slow {
		delay = f.faults.Delay
	}
	for kind, hit := range map[string]bool{"before": before, "after": after, "slow": slow} {
		if hit {
			f.injected[method+" "+kind]++
		}
	}
	return before, after, delay
}

// disturb fails a call before or after it runs, or delays it.
func (f *Faulty) disturb(ctx context.Context, method engine.Method, call func(context.Context) error) error {
	before, after, delay := f.roll(string(method))
	if delay > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
	}
	if before {
		return fmt.Errorf("%s: injected before it: %w", method, engine.ErrUnavailable)
	}
	err := call(ctx)
	if after && err == nil {
		return fmt.Errorf("%s: injected after its commit: %w", method, engine.ErrUnavailable)
	}
	return err
}

// Owners disturbs messages about ownership like all other calls.
func (f *Faulty) Owners(o engine.Owners) engine.Owners {
	return &engine.AroundOwners{Owners: o, Hook: f.disturb}
}
