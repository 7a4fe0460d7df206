package worker

import (
	"context"
	"errors"
	"sync/atomic"
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
		made    bool // without being looked at
	}{
		"it runs":                      {do: func(*running, context.CancelCauseFunc) {}},
		"it was stopped":               {do: func(r *running, _ context.CancelCauseFunc) { r.stop(why) }, err: context.Canceled, cause: why, stopped: why},
		"the first reason counts":      {do: func(r *running, _ context.CancelCauseFunc) { r.stop(why); r.stop(ErrCancelled) }, err: context.Canceled, cause: why, stopped: why},
		"all was stopped":              {do: func(_ *running, kill context.CancelCauseFunc) { kill(why) }, err: context.Canceled, cause: why, stopped: why},
		"all was stopped, and then it": {do: func(r *running, kill context.CancelCauseFunc) { kill(why); r.stop(ErrCancelled) }, err: context.Canceled, cause: why, stopped: why},
		"its time is up":               {do: func(*running, context.CancelCauseFunc) { time.Sleep(3 * time.Second) }, err: context.DeadlineExceeded, cause: context.DeadlineExceeded},
		"its time was up before it was stopped": {
			do: func(r *running, _ context.CancelCauseFunc) { time.Sleep(3 * time.Second); r.stop(why) }, err: context.DeadlineExceeded, cause: context.DeadlineExceeded, stopped: why, made: true,
		},
		"stopped before its time was up": {do: func(r *running, _ context.CancelCauseFunc) { r.stop(why); time.Sleep(3 * time.Second) }, err: context.Canceled, cause: why, stopped: why},
		"whoever ran it has returned":    {do: func(r *running, _ context.CancelCauseFunc) { r.leave() }, err: context.Canceled, cause: context.Canceled},
		"returned when its time was up": {
			do: func(r *running, _ context.CancelCauseFunc) { time.Sleep(3 * time.Second); r.leave() }, err: context.DeadlineExceeded, cause: context.DeadlineExceeded, made: true,
		},
		"stopped, and then returned":       {do: func(r *running, _ context.CancelCauseFunc) { r.stop(why); r.leave() }, err: context.Canceled, cause: why, stopped: why},
		"returned before its time was up":  {do: func(r *running, _ context.CancelCauseFunc) { r.leave(); time.Sleep(3 * time.Second) }, err: context.Canceled, cause: context.Canceled},
		"returned, and then stopped":       {do: func(r *running, _ context.CancelCauseFunc) { r.leave(); r.stop(why) }, err: context.Canceled, cause: context.Canceled, stopped: why},
		"it is over":                       {do: func(r *running, _ context.CancelCauseFunc) { r.over() }, err: context.Canceled, cause: context.Canceled, stopped: context.Canceled},
		"it is over, and then its time is": {do: func(r *running, _ context.CancelCauseFunc) { r.over(); time.Sleep(3 * time.Second) }, err: context.Canceled, cause: context.Canceled, stopped: context.Canceled},
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
						if made := r.whole != nil; made != c.made {
							t.Errorf("nobody looked at it, and it was made: %v; want %v", made, c.made)
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

// The end of a log is waited for although the attempt's time is up, or whoever ran it has returned, but not when it is stopped.
func TestALogOutlivesTheTimeOfItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, kill := context.WithCancelCause(context.Background())
		defer kill(nil)
		r := newRunning(base, client.Attempt{ExecutionID: "1", Execution: client.Target{TimeoutSeconds: new(int64(2))}})
		r.onWay, r.write = new(atomic.Int64), func(context.Context, client.LogRequest) (client.LogAnswer, error) { return client.LogAnswer{}, nil }
		book := r.book()
		time.Sleep(3 * time.Second)
		r.leave()
		if r.Err() == nil || book.ctx.Err() != nil {
			t.Errorf("the attempt's context has ended with %v, its log's with %v", r.Err(), book.ctx.Err())
		}
		if r.over(); book.ctx.Err() == nil {
			t.Error("the log's goes on")
		}
	})
}

// A context whose time is up says so ever after.
func TestAnErrorStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, kill := context.WithCancelCause(context.Background())
		r := newRunning(base, client.Attempt{ExecutionID: "1", Execution: client.Target{TimeoutSeconds: new(int64(2))}})
		time.Sleep(3 * time.Second)
		before := r.Err()
		kill(ErrStopping)
		r.over()
		if after := r.Err(); !errors.Is(before, context.DeadlineExceeded) || after != before { //nolint:errorlint // this very value
			t.Errorf("it ended with %v, and then with %v", before, after)
		}
	})
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
