package enginetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// tried writes the attempts of an execution as "1 FAILED, 2 RUNNING". It fails the test if they disagree with the
// execution.
func (f fixture) tried(id job.ExecutionID) string {
	f.Helper()
	e := f.execution(id)
	all := e.Attempts(must(f.Attempts(f.ctx, tenant.Default, id)), must(f.Events(f.ctx, tenant.Default, id)))
	if len(all) != e.Attempt {
		f.Errorf("%d attempts are listed, and the execution counts %d", len(all), e.Attempt)
	}
	var out []string
	for _, a := range all {
		live := a.Status == job.AttemptRunning || a.Status == job.AttemptParked
		if a.Token == 0 || a.Worker.IsZero() || a.StartedAt.IsZero() || a.EndedAt.IsZero() != live || !live && a.EndedAt.Before(a.StartedAt) {
			f.Errorf("attempt: %+v", a)
		}
		if bad := a.Error != nil; bad == (live || a.Status == job.AttemptSucceeded) {
			f.Errorf("its error: %+v", a)
		}
		out = append(out, fmt.Sprintf("%d %s", a.Number, a.Status))
	}
	return strings.Join(out, ", ")
}

// everyAttempt checks the promise of GET /executions/{id}/attempts: every attempt is listed.
func everyAttempt(t *testing.T, h Harness) {
	f := open(t, h)
	late := func(a job.Attempt) job.Finish {
		return job.Finish{
			Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: job.TimeoutError, Message: "too long"}},
			Then:    job.Transition{Move: job.Late, Status: job.TimedOut, Tries: 1},
		}
	}
	stop := func(a job.Attempt) { must(f.Cancel(f.ctx, tenant.Default, a.Execution, "enough", nil)) }
	for name, c := range map[string]struct {
		do   func(a job.Attempt)
		want string
	}{
		"running":   {func(job.Attempt) {}, "1 RUNNING"},
		"succeeded": {func(a job.Attempt) { f.report(succeed(a)) }, "1 SUCCEEDED"},
		"failed":    {func(a job.Attempt) { f.report(die(a, 1)) }, "1 FAILED"},
		"timed out": {func(a job.Attempt) { f.report(late(a)) }, "1 TIMED_OUT"},
		"retried":   {func(a job.Attempt) { f.report(again(a, f.now(), 1)) }, "1 FAILED"},
		"retried, then succeeded": {func(a job.Attempt) {
			f.report(again(a, f.now(), 1))
			f.report(succeed(f.took(a.Execution)))
		}, "1 FAILED, 2 SUCCEEDED"},
		"retried, then cancelled": {func(a job.Attempt) {
			f.report(again(a, f.now().Add(time.Hour), 1))
			stop(a)
		}, "1 FAILED"},
		"lost, then running": {func(a job.Attempt) {
			f.expire(f.execution(a.Execution).Worker)
			must(f.Reap(f.ctx, 100, 3))
			f.took(a.Execution)
		}, "1 LOST, 2 RUNNING"},
		"asked to stop": {stop, "1 RUNNING"},
		"cancelled": {func(a job.Attempt) {
			stop(a)
			f.report(job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeCancelled}, Then: job.Transition{Move: job.Stopped, Status: job.Cancelled}})
		}, "1 CANCELLED"},
		"ended by force": {func(a job.Attempt) {
			stop(a)
			must(f.Force(f.ctx, -time.Second, 100))
		}, "1 CANCELLED"},
		"parked": {func(a job.Attempt) { f.park(a, f.now().Add(time.Hour)) }, "1 PARKED"},
		"parked, then succeeded": {func(a job.Attempt) {
			f.park(a, f.now().Add(time.Hour))
			f.report(succeed(a))
		}, "1 SUCCEEDED"},
		"handed back": {func(a job.Attempt) { must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{a.Lease})) }, ""},
		"handed back, then cancelled": {func(a job.Attempt) {
			must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{a.Lease}))
			stop(a)
		}, ""},
		"snoozed, then cancelled": {func(a job.Attempt) {
			f.report(job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSnoozed, RetryAfter: time.Hour}, Then: job.Transition{Move: job.Snoozed, Status: job.Pending, DueAt: f.now().Add(time.Hour)}})
			stop(a)
		}, ""},
	} {
		_, e := f.add(name)
		if got := f.tried(e.ID); got != "" {
			t.Errorf("%s: before it started: %q", name, got)
		}
		c.do(f.took(e.ID))
		if got := f.tried(e.ID); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
