// Package loop runs the parts of the product that repeat: a scheduler, a
// reaper, a tidier. A part offers Tick, one pass that says when to look again;
// Run repeats it until its context ends.
//
// A pass that fails is logged and tried again, at growing intervals, so that a
// store that is away is neither hammered nor forgotten. A pass that panics
// counts as one that failed. Nothing here knows what a pass does.
package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// Tick is one pass: what it did is its own business, next is how long to wait before the one after it.
type Tick func(ctx context.Context) (next time.Duration, err error)

// The bounds of the wait after a pass that failed.
const (
	firstWait = 50 * time.Millisecond
	longWait  = 2 * time.Second
)

// Run repeats tick until ctx ends; a value on wake cuts the wait short. It returns when the last pass has.
func Run(ctx context.Context, log *slog.Logger, name string, wake <-chan struct{}, tick Tick) {
	fails := 0
	for ctx.Err() == nil {
		next, err := protect(ctx, tick)
		switch {
		case err == nil:
			if fails > 0 {
				log.Info("recovered", "loop", name, "failed_passes", fails)
			}
			fails = 0
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return
		default:
			fails++
			next = Backoff(fails)
			if fails == 1 || fails%20 == 0 {
				log.Warn("a pass failed; trying again", "loop", name, "failed_passes", fails, "error", err)
			}
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// Backoff returns how long to wait after the n-th failure in a row, with jitter so that many do not come back at once.
func Backoff(n int) time.Duration {
	d := min(longWait, firstWait<<min(n-1, 10))
	return d/2 + rand.N(d)
}

func protect(ctx context.Context, tick Tick) (next time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return tick(ctx)
}
