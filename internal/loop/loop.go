// Package loop runs the repeating parts of the product: a scheduler, a reaper, a tidier. A part provides Tick, one
// pass that returns when to run again; Run repeats it until its context ends.
//
// A failed pass is logged and retried, at growing intervals, so that a store that is down is neither hammered nor
// forgotten. A panic counts as a failure. The package knows nothing of what a pass does.
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

// Tick makes one pass; next is how long to wait before the next one.
type Tick func(ctx context.Context) (next time.Duration, err error)

// The limits of the wait after a failed pass.
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

// Backoff returns how long to wait after the n-th failure in a row, with jitter so that many callers do not retry at
// once.
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
