package service

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// A forecast of very many jobs takes long. Whoever asks for one gets what can be counted in a short time, which says that it is
// not all, and the whole is counted behind it; whoever asks in the minutes after that gets the whole at once.
const (
	foretellTime = 80 * time.Millisecond // after which one who waits gets what there is
	foretoldPart = 5 * time.Second       // for which what there was is given again, while the whole is counted
	foretoldAge  = time.Minute           // for which a forecast is given again
	foretoldOld  = 20 * time.Second      // after which it is counted again meanwhile
	foretellMost = time.Minute           // for which one is counted at all
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

// foretelling keeps forecasts that took long.
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

// Close ends what the service does behind its answers.
func (s *Views) Close() {
	s.foretold.stop()
	s.foretold.wg.Wait()
}

// hurry says whether a share of the time is over.
type hurry func(share float64) bool

// foretell answers with a forecast, of which count makes all that there is time for.
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

// keepForetold keeps a forecast for whoever asks next; a part of one only where there is nothing better.
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

// foretellAll counts a whole forecast behind the answer, unless that is being done, or too many are.
func (s *Views) foretellAll(of asked, count func(ctx context.Context, hurry hurry) (Forecast, error)) {
	f := s.foretold
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[of] || len(f.busy) > 0 || f.ctx.Err() != nil { // one at a time: it is for looking at, and others work
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

// since is a forecast without what has passed.
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
