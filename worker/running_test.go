package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// The context of an attempt is as any other, whenever it is first looked at.
func TestTheContextOfAnAttempt(t *testing.T) {
	why := errors.New("why")
	for name, c := range map[string]struct {
		do      func(r *running, kill context.CancelCauseFunc)
		err     error
		cause   error
		stopped error
	}{
		"it runs":                          {func(*running, context.CancelCauseFunc) {}, nil, nil, nil},
		"it was stopped":                   {func(r *running, _ context.CancelCauseFunc) { r.stop(why) }, context.Canceled, why, why},
		"the first reason counts":          {func(r *running, _ context.CancelCauseFunc) { r.stop(why); r.stop(ErrCancelled) }, context.Canceled, why, why},
		"all was stopped":                  {func(_ *running, kill context.CancelCauseFunc) { kill(why) }, context.Canceled, why, why},
		"all was stopped, and then it":     {func(r *running, kill context.CancelCauseFunc) { kill(why); r.stop(ErrCancelled) }, context.Canceled, why, why},
		"its time is up":                   {func(*running, context.CancelCauseFunc) { time.Sleep(3 * time.Second) }, context.DeadlineExceeded, context.DeadlineExceeded, nil},
		"stopped before its time was up":   {func(r *running, _ context.CancelCauseFunc) { r.stop(why); time.Sleep(3 * time.Second) }, context.Canceled, why, why},
		"it is over":                       {func(r *running, _ context.CancelCauseFunc) { r.over() }, context.Canceled, context.Canceled, context.Canceled},
		"it is over, and then its time is": {func(r *running, _ context.CancelCauseFunc) { r.over(); time.Sleep(3 * time.Second) }, context.Canceled, context.Canceled, context.Canceled},
	} {
		for when, early := range map[string]bool{"looked at before": true, "looked at after": false} {
			t.Run(name+", "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					base, kill := context.WithCancelCause(context.Background())
					defer kill(nil)
					r := newRunning(base, client.Attempt{ExecutionID: "1", Execution: client.Target{TimeoutSeconds: new(int64(2))}})
					defer r.over()
					if d, ok := r.Deadline(); !ok || !d.Equal(time.Now().Add(2*time.Second)) {
						t.Errorf("its time is up at %v, %v", d, ok)
					}
					var derived context.Context = r
					if early {
						var cancel context.CancelFunc
						derived, cancel = context.WithCancel(r)
						defer cancel()
					}
					c.do(r, kill)
					synctest.Wait()
					if !early {
						if r.whole != nil {
							t.Error("it was made though nobody looked at it")
						}
						if err := r.Err(); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
							t.Errorf("before it was made it has ended with %v; want %v", err, c.err)
						}
						var cancel context.CancelFunc
						derived, cancel = context.WithCancel(r)
						defer cancel()
					}
					for of, ctx := range map[string]context.Context{"the attempt's": r, "one derived from it": derived} {
						done := false
						select {
						case <-ctx.Done():
							done = true
						default:
						}
						if err, cause := ctx.Err(), context.Cause(ctx); err != c.err || cause != c.cause || done != (c.err != nil) { //nolint:errorlint // these very values
							t.Errorf("%s: done %v with %v because of %v; want %v, %v", of, done, err, cause, c.err, c.cause)
						}
						if runningOf(ctx) != r {
							t.Errorf("%s does not lead to the attempt", of)
						}
					}
					if got := r.stopped(); got != c.stopped { //nolint:errorlint // this very value
						t.Errorf("it was stopped because of %v; want %v", got, c.stopped)
					}
				})
			})
		}
	}
}

// An attempt that does not look at its context costs none.
func TestAContextThatNobodyLooksAt(t *testing.T) {
	base, kill := context.WithCancelCause(context.Background())
	defer kill(nil)
	a := client.Attempt{ExecutionID: "1"}
	if n := testing.AllocsPerRun(100, func() {
		r := newRunning(base, a)
		if r.Err() != nil || runningOf(r) != r || r.stopped() != nil {
			t.Error("it has ended")
		}
		r.over()
	}); n > 1 {
		t.Errorf("%v allocations; want that of the attempt itself", n)
	}
}
