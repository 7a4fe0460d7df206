// Package ratelimit enforces tenants' rates that all servers share.
//
// A rate is a bucket that fills steadily (GCRA), stored as the instant at which it is full again. Each server decides
// by its own knowledge, in memory, so that a request costs no write and a store that is down blocks nobody. Several
// times a second it reports its usage to the store, in one commit for all tenants, and learns the usage of other
// servers. So over a longer time the rate is exact: all usage counts. For a moment, until it has learned of the
// others, a server may give out as much as the bucket holds; the bucket then owes that, and gives nothing before it
// is paid back.
//
// The package only counts; it never decides how high a rate is.
package ratelimit

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Every is how often servers exchange their usage.
const Every = 250 * time.Millisecond

// linger is how long others' use of a bucket is followed after it was last used here.
const linger = 5 * time.Second

// Store is the storage that servers share.
type Store interface {
	Charge(ctx context.Context, cs []engine.Charge) ([]time.Duration, error)
}

// Limiter holds the buckets that were used here.
type Limiter struct {
	store Store
	clock clock.Clock

	mu      sync.Mutex
	buckets map[string]*bucket // guarded by mu
}

type bucket struct {
	rate job.Rate
	full time.Time // when it is full again, as far as known here
	used int       // since the last report
	from time.Time // when the first of that was
	last time.Time // when it was used
}

// New makes a limiter over a store.
func New(store Store, clk clock.Clock) *Limiter {
	return &Limiter{store: store, clock: clk, buckets: map[string]*bucket{}}
}

// Answer reports whether there was enough, and what is left.
type Answer struct {
	OK    bool
	Left  int           // tokens left
	Wait  time.Duration // if not OK: until there is enough; Never if there never will be
	Reset time.Duration // until the bucket is full
}

// Never is the wait for more than a bucket holds.
const Never = time.Duration(1<<63 - 1)

// Take takes n tokens out of a bucket of that rate, or none.
func (r *Limiter) Take(name string, rate job.Rate, n int) Answer {
	now := r.clock.Now()
	step, burst := rate.Interval(), max(rate.Burst, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[name]
	if b == nil {
		b = &bucket{full: now}
		r.buckets[name] = b
	}
	b.rate, b.last = rate, now
	if b.full.Before(now) {
		b.full = now
	}
	if n > burst {
		return Answer{Left: left(b.full.Sub(now), step, burst), Wait: Never, Reset: b.full.Sub(now)}
	}
	then := b.full.Add(time.Duration(n) * step)
	if over := then.Sub(now) - time.Duration(burst)*step; over > 0 {
		return Answer{Left: left(b.full.Sub(now), step, burst), Wait: over, Reset: b.full.Sub(now)}
	}
	if b.full = then; b.used == 0 {
		b.from = now
	}
	b.used += n
	return Answer{OK: true, Left: left(then.Sub(now), step, burst), Reset: then.Sub(now)}
}

// left returns how many tokens a bucket holds that is full again after a duration.
func left(full, step time.Duration, burst int) int {
	return max(0, burst-int((full+step-1)/step))
}

// Tick reports the usage here to the store, and learns the usage elsewhere.
func (r *Limiter) Tick(ctx context.Context) (time.Duration, error) {
	now := r.clock.Now()
	r.mu.Lock()
	var cs []engine.Charge
	for _, name := range slices.Sorted(maps.Keys(r.buckets)) {
		b := r.buckets[name]
		if b.used == 0 && now.Sub(b.last) > linger {
			if !b.full.After(now) {
				delete(r.buckets, name)
			}
			continue
		}
		c := engine.Charge{Bucket: "used/" + name, Rate: b.rate, N: b.used}
		if b.used > 0 {
			c.Ago = max(0, now.Sub(b.from))
		}
		cs = append(cs, c)
		b.used = 0
	}
	r.mu.Unlock()
	if len(cs) == 0 {
		return Every, nil
	}
	full, err := r.store.Charge(ctx, cs)
	now = r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range cs {
		b := r.buckets[c.Bucket[len("used/"):]]
		if b == nil {
			continue
		}
		if err != nil {
			if b.used += c.N; c.N > 0 { // reported the next time; if it was stored all the same, it counts twice
				b.from = now.Add(-c.Ago)
			}
			continue
		}
		b.full = now.Add(full[i] + time.Duration(b.used)*b.rate.Interval())
	}
	return Every, err
}
