package service

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// A forecast of very many jobs takes long. The first caller gets what can be counted in a short time, marked as
// incomplete, while the whole is counted in the background; callers in the following minutes get the whole at once.
const (
	foretellTime = 80 * time.Millisecond // after which a waiting caller gets what there is
	foretoldPart = 5 * time.Second       // how long a part is reused, while the whole is counted
	foretoldAge  = time.Minute           // how long a forecast is reused
	foretoldOld  = 20 * time.Second      // after which it is recounted in the background
	foretellMost = time.Minute           // how long counting may take at all
	foretoldMost = 100                   // that are kept
)

// asked describes what a forecast covers.
type asked struct {
	tenant tenant.ID
	ahead  time.Duration
	spread bool
}

// foretold is a forecast that took long.
type foretold struct {
	Forecast
	at   time.Time
	part bool // it is what there was time for
}

// foretelling caches forecasts that took long.
type foretelling struct {
	mu   sync.Mutex
	kept map[asked]foretold // guarded by mu
	busy map[asked]bool     // guarded by mu: those that are being counted
	wg   sync.WaitGroup
	stop context.CancelFunc
	ctx  context.Context // ends with the service
}

func newForetelling() *foretelling {
	f := &foretelling{kept: map[asked]foretold{}, busy: map[asked]bool{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Close ends the service's background work.
func (s *Views) Close() {
	s.foretold.stop()
	s.foretold.wg.Wait()
}

// hurry reports whether a share of the time is used up.
type hurry func(share float64) bool

// foretell returns a forecast, of which count computes as much as time allows.
func (s *Views) foretell(ctx context.Context, of asked, count func(ctx context.Context, hurry hurry) (Forecast, error)) (Forecast, error) {
	f := s.foretold
	now := s.now()
	f.mu.Lock()
	known, ok := f.kept[of]
	f.mu.Unlock()
	most := foretoldAge
	if known.part {
		most = foretoldPart
	}
	if age := now.Sub(known.at); ok && age >= 0 && age < most {
		if age > foretoldOld || known.part {
			s.foretellAll(of, count)
		}
		return known.since(now), nil
	}
	begun, hurried := time.Now(), false
	out, err := count(ctx, func(share float64) bool {
		late := time.Since(begun).Seconds() > share*foretellTime.Seconds()
		hurried = hurried || late
		return late
	})
	if err == nil && hurried {
		s.keepForetold(of, foretold{out, now, true})
		s.foretellAll(of, count)
	}
	return out, err
}

// keepForetold caches a forecast for later callers; an incomplete one only if there is nothing better.
func (s *Views) keepForetold(of asked, x foretold) {
	f := s.foretold
	f.mu.Lock()
	defer f.mu.Unlock()
	if old, ok := f.kept[of]; ok && x.part && !old.part && x.at.Sub(old.at) < foretoldAge {
		return
	}
	for k, old := range f.kept {
		if x.at.Sub(old.at) > foretoldAge || len(f.kept) >= foretoldMost {
			delete(f.kept, k)
		}
	}
	f.kept[of] = x
}

// foretellAll counts a whole forecast in the background, unless that is in progress, or too many are.
func (s *Views) foretellAll(of asked, count func(ctx context.Context, hurry hurry) (Forecast, error)) {
	f := s.foretold
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[of] || len(f.busy) > 0 || f.ctx.Err() != nil { // one at a time: forecasts are only for display, and must not slow down real work
		return
	}
	f.busy[of] = true
	f.wg.Go(func() {
		ctx, cancel := context.WithTimeout(f.ctx, foretellMost)
		defer cancel()
		at := s.now()
		out, err := count(ctx, func(float64) bool { return false })
		if err == nil {
			s.keepForetold(of, foretold{out, at, false})
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.busy, of)
	})
}

// since returns a forecast without the past.
func (f foretold) since(now time.Time) Forecast {
	out := f.Forecast
	now = now.Truncate(time.Minute)
	passed := func(m Minute) bool { return m.At.Before(now) }
	out.Minutes = slices.DeleteFunc(slices.Clone(out.Minutes), passed)
	out.Herds = slices.DeleteFunc(slices.Clone(out.Herds), func(h Herd) bool { return passed(h.Minute) })
	if out.Spread != nil {
		x := *out.Spread
		x.Minutes = slices.DeleteFunc(slices.Clone(x.Minutes), passed)
		out.Spread = &x
	}
	return out
}
