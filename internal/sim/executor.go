package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/worker"
)

// executor is the target of all jobs: it follows the script, and records the calls that reach it.
type executor struct {
	w     *world
	proc  string
	gone  <-chan struct{}        // closed when its process is dead: nothing it does is seen any more
	still func() <-chan struct{} // closed when its process moves; nil: it is never suspended
	whose tenant.ID              // it serves no other; "": all
	busy  atomic.Int64           // attempts that it runs
}

func (x *executor) dead() bool {
	select {
	case <-x.gone:
		return true
	default:
		return false
	}
}

// pause waits while the process is suspended.
func (x *executor) pause() {
	if x.still != nil {
		<-x.still()
	}
}

// Execute runs one attempt.
func (x *executor) Execute(ctx context.Context, a client.Attempt) client.Outcome {
	e := check.Event{Proc: x.proc, Op: check.Execute, Tenant: a.TenantID, Job: a.JobName, Execution: a.ExecutionID, Attempt: a.AttemptNumber, Token: a.FencingToken}
	if id, err := job.ParseExecutionID(a.ExecutionID); err == nil {
		e.Execution = x.w.store.name(id)
	}
	if x.pause(); x.dead() {
		return client.Outcome{Status: client.Failed}
	}
	e.Kind = check.Arrive
	x.w.store.add(e)
	if x.whose != "" && a.TenantID != string(x.whose) {
		x.w.runs.note(check.Violation{Check: "tenancy", Slice: []check.Event{e}, What: fmt.Sprintf("%s serves %s, and was given what is %s's", x.proc, x.whose, a.TenantID)})
	}
	x.busy.Add(1)
	defer x.busy.Add(-1)
	c := x.w.conduct(a)
	end := x.w.runs.begin(x, e)
	out := x.act(ctx, c)
	end()
	if x.pause(); x.dead() {
		return client.Outcome{Status: client.Failed}
	}
	if out.Status == client.Parked {
		x.w.completeLater(a, c)
	}
	e.Kind, e.Result = check.Reply, out.Status
	if c.deed == panics {
		e.Result = "panic"
	}
	x.w.store.add(e)
	if c.deed == panics {
		panic("as the script says")
	}
	return out
}

func (x *executor) act(ctx context.Context, c conduct) client.Outcome {
	t := time.NewTimer(c.took)
	defer t.Stop()
	stop := ctx.Done()
	if c.deed == ignoreStop {
		stop = nil
	}
	ends := t.C
	if c.deed == hang {
		ends = nil
	}
	var steps <-chan time.Time
	if c.deed == advance {
		every := time.NewTicker(step)
		defer every.Stop()
		steps = every.C
	}
	for going := true; going; {
		select {
		case <-x.gone:
			return client.Outcome{Status: client.Failed}
		case <-stop:
			return stopped(ctx)
		case <-steps:
			worker.Progress(ctx, 50, "as the script says")
		case <-ends:
			going = false
		}
	}
	switch c.deed {
	case fail:
		return failed("HANDLER_ERROR", true)
	case failForGood:
		return failed("HANDLER_ERROR", false)
	case park:
		return client.Outcome{Status: client.Parked}
	case snooze:
		return client.Outcome{Status: client.Snoozed, RetryAfterMS: 1 + c.took.Milliseconds()}
	}
	return client.Outcome{Status: client.Succeeded}
}

// step is how often an advancing attempt reports progress.
const step = 700 * time.Millisecond

// stopped returns the outcome of an attempt that was told to stop.
func stopped(ctx context.Context) client.Outcome {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, worker.ErrCancelled):
		return client.Outcome{Status: client.Cancelled, Error: &client.Error{Type: "CANCELLED", Message: "stopped as asked"}}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed("TIMEOUT", true)
	default:
		return failed("LEASE_LOST", true)
	}
}

func failed(kind string, again bool) client.Outcome {
	return client.Outcome{Status: client.Failed, Retryable: again, Error: &client.Error{Type: kind, Message: "as the script says"}}
}

// conduct returns how an attempt behaves.
func (w *world) conduct(a client.Attempt) conduct {
	switch {
	case recurs(a.JobName):
		return conductOf(w.seed, a.JobName+string(a.Payload)+a.ScheduledTime.Format(time.RFC3339Nano), a.AttemptNumber, a.FencingToken)
	case strings.HasPrefix(a.JobName, chained) && strings.Contains(string(a.Payload), forced):
		return conduct{succeed, time.Second}
	case strings.HasPrefix(a.JobName, flowPrefix), strings.HasPrefix(a.JobName, chained):
		return conductOf(w.seed, a.JobName+string(a.Payload), a.AttemptNumber, a.FencingToken)
	case strings.HasPrefix(a.JobName, hourly):
		return conduct{beSlow, w.hours}
	}
	return conductOf(w.seed, a.JobName, a.AttemptNumber, a.FencingToken)
}

// completeLater makes the target complete a parked attempt, in three of four cases: it asks one server after the
// other until it is answered.
func (w *world) completeLater(a client.Attempt, c conduct) {
	id, err := job.ParseExecutionID(a.ExecutionID)
	if err != nil || a.FencingToken%4 == 0 {
		return
	}
	w.later(func() {
		for try := range 30 {
			if !w.after(time.Second + c.took) {
				return
			}
			s := w.aServer(try)
			if s == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(w.ctx, patience)
			vs, err := s.disp.Report(ctx, job.WorkerID{}, []job.Outcome{{Lease: job.Lease{Execution: id, Token: job.Token(a.FencingToken)}, Status: job.OutcomeSucceeded}})
			if cancel(); err == nil && len(vs) == 1 && s.alive() {
				return
			}
		}
	})
}
