package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func deletion(t *testing.T, h Harness) {
	f := open(t, h)
	gone := job.Error{Type: job.CancelledError, Message: "its job was deleted"}
	t.Run("cancels what waits and leaves what runs", func(t *testing.T) {
		j, waits := f.add("doomed", func(j *job.Job, _ *job.Execution) { j.Key = "doomed" })
		runs := f.due(j)
		runs.Trigger = job.ByHand
		must(f.Trigger(f.ctx, tenant.Default, runs, engine.Idempotency{}, nil))
		_, as := f.take(runs.ID)
		got := must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
		if got.State != job.Deleted || got.Revision != 2 || !got.NextRunAt.IsZero() {
			t.Errorf("got %v, revision %d", got.State, got.Revision)
		}
		if e := f.execution(waits.ID); e.Status != job.Cancelled || e.FinishedAt.IsZero() || e.Error == nil || *e.Error != gone {
			t.Errorf("what waited: %v, %+v", e.Status, e.Error)
		}
		if e := f.execution(runs.ID); e.Status != job.Running {
			t.Errorf("what ran: %v", e.Status)
		}
		if h := must(f.Held(f.ctx, []job.Lease{as[0].Lease})); len(h) != 1 || h[0].JobState != job.Deleted {
			t.Errorf("held: %+v", h)
		}
		if v := f.report(succeed(as[0])); !v[0].Accepted {
			t.Errorf("its result: %+v", v)
		}
		again := must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
		if again.Revision != 2 || again.State != job.Deleted {
			t.Errorf("again: revision %d", again.Revision)
		}
		if got := must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID})); got.State != job.Deleted {
			t.Errorf("it is %v", got.State)
		}
		if p := must(f.FindJobs(f.ctx, engine.JobFilter{Tenant: tenant.Default, Name: "doomed"}, engine.Page{Limit: 5})); len(p.Jobs) != 0 {
			t.Error("it is still listed")
		}
		if p := must(f.FindJobs(f.ctx, engine.JobFilter{Tenant: tenant.Default, State: job.Deleted}, engine.Page{Limit: 5})); len(p.Jobs) != 1 {
			t.Error("it is not listed where deleted ones are asked for")
		}
	})
	t.Run("cancels what waits in pieces", func(t *testing.T) { inPieces(t, f) })
	t.Run("frees the key", func(t *testing.T) {
		j, _ := f.add("keyed", func(j *job.Job, _ *job.Execution) { j.Key = "again" })
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
		if _, err := f.Job(f.ctx, tenant.Default, engine.Ref{Key: "again"}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("by key: got %v, want ErrNotFound", err)
		}
		next, _ := f.add("keyed again", func(j *job.Job, _ *job.Execution) { j.Key = "again" })
		if got := must(f.Job(f.ctx, tenant.Default, engine.Ref{Key: "again"})); got.ID != next.ID {
			t.Error("the key names the deleted job")
		}
	})
	t.Run("what runs is not run again", func(t *testing.T) {
		// Each way in which a lease ends without a result.
		for name, end := range map[string]func(job.WorkerID, job.Attempt){
			"release": func(_ job.WorkerID, a job.Attempt) { must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{a.Lease})) },
			"leave":   func(w job.WorkerID, _ job.Attempt) { must(f.Leave(f.ctx, w)) },
			"disown":  func(w job.WorkerID, _ job.Attempt) { must(f.Disown(f.ctx, w, nil, time.Time{})) },
			"reap": func(w job.WorkerID, _ job.Attempt) {
				f.expire(w)
				must(f.Reap(f.ctx, 100, 3))
			},
		} {
			j, e := f.add("deleted, then " + name)
			w, as := f.take(e.ID)
			must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
			end(w, as[0])
			got := f.execution(e.ID)
			if got.Status != job.Cancelled || got.FinishedAt.IsZero() || got.Error == nil || *got.Error != gone {
				t.Errorf("%s: it is %v, %+v", name, got.Status, got.Error)
			}
			if got.StartedAt.IsZero() == (name == "reap") {
				t.Errorf("%s: it started at %v", name, got.StartedAt)
			}
			if s := must(f.Stats(f.ctx, tenant.Default, []job.ID{j.ID}))[0]; s.LastRunAt.IsZero() == (name == "reap") {
				t.Errorf("%s: its job's last run was at %v", name, s.LastRunAt)
			}
			if vs := f.report(succeed(as[0])); vs[0].Accepted {
				t.Errorf("%s: its late result was accepted", name)
			}
		}
	})
	t.Run("what fails is not tried again", func(t *testing.T) {
		late := &job.Error{Type: job.TimeoutError, Message: "too long"}
		for _, c := range []struct {
			err  *job.Error
			want job.Status
		}{{boom, job.Failed}, {late, job.TimedOut}} {
			j, e := f.add("deleted, then failed")
			_, as := f.take(e.ID)
			must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
			x := again(as[0], f.now(), 1) // decided before the deletion was seen
			x.Outcome.Error = c.err
			_, other := f.add("tried again beside it")
			if vs := f.report(x, x, again(f.took(other.ID), f.now(), 1)); !accepted(vs, c.want, c.want, 0) {
				t.Errorf("verdicts %+v", vs)
			}
			if got := f.execution(e.ID); got.Status != c.want || got.Error == nil || *got.Error != *c.err || got.Tries != 1 {
				t.Errorf("it is %v, %+v", got.Status, got.Error)
			}
			if past := must(f.Attempts(f.ctx, tenant.Default, e.ID)); len(past) != 1 {
				t.Errorf("attempts: %+v", past)
			}
		}
	})
	t.Run("what is snoozed does not go on", func(t *testing.T) {
		j, e := f.add("deleted, then snoozed")
		_, as := f.take(e.ID)
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
		x := job.Finish{
			Outcome: job.Outcome{Lease: as[0].Lease, Status: job.OutcomeSnoozed, RetryAfter: time.Hour},
			Then:    job.Transition{Move: job.Snoozed, Status: job.Pending, DueAt: f.now().Add(time.Hour)},
		}
		if vs := f.report(x, x); !accepted(vs, job.Cancelled, job.Cancelled) {
			t.Errorf("verdicts %+v", vs)
		}
		if got := f.execution(e.ID); got.Status != job.Cancelled || got.Error == nil || *got.Error != gone {
			t.Errorf("it is %v, %+v", got.Status, got.Error)
		}
	})
	t.Run("never fires again", func(t *testing.T) {
		j := f.sample("planned")
		j.Schedule = job.Schedule{Type: job.OneTime, At: f.now()}
		j.NextRunAt = j.Schedule.At
		f.store(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{j}})
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
		if due := must(f.Due(f.ctx, engine.DueFilter{Until: f.now().Add(time.Hour), Limit: 10})); len(due) != 0 {
			t.Errorf("it is due: %+v", due)
		}
	})
}

// A deletion of more than one transaction adds an operation for the rest of its cancellations; nothing of the rest
// starts.
func inPieces(t *testing.T, f fixture) {
	j, own := f.add("with a backlog")
	all := []job.ExecutionID{own.ID}
	for n := range 6 {
		e := f.due(j)
		e.Trigger, e.ScheduledAt = job.ByHand, e.ScheduledAt.Add(time.Duration(n)*time.Second)
		must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
		all = append(all, e.ID)
	}
	if n := len(must(f.CancelWaiting(f.ctx, tenant.Default, j.ID, 10))); n != 0 {
		t.Errorf("of a job that is not deleted %d were cancelled", n)
	}
	rest := f.operation(0)
	rest.Kind, rest.Spec, rest.Total = job.OpCancelWaiting, []byte(`{"job":"`+j.ID.String()+`"}`), 0
	waits := func() (n int) {
		for _, id := range all {
			if f.execution(id).Status == job.Pending {
				n++
			}
		}
		return n
	}
	d := engine.Deletion{Job: j.ID, AsOf: f.now(), Most: 3, Rest: &rest}
	got := must(f.DeleteJob(f.ctx, tenant.Default, d))
	if got.State != job.Deleted || got.Rest != rest.ID {
		t.Errorf("the job is %v, the rest is %v, want %v", got.State, got.Rest, rest.ID)
	}
	if n := waits(); n != 4 {
		t.Errorf("%d wait, want 4", n)
	}
	if o := must(f.Operation(f.ctx, tenant.Default, rest.ID)); o.Kind != job.OpCancelWaiting || o.Total != 4 || o.State != job.OpRunning {
		t.Errorf("the operation: %+v", o)
	}
	if as := must(f.Lease(f.ctx, []engine.Grant{{Worker: f.worker(), Executions: all}}, f.fence())); len(as) != 0 {
		t.Errorf("%d of a deleted job were leased", len(as))
	}
	another := rest
	another.ID = newID()
	d.Most, d.Rest = 1, &another
	if again := must(f.DeleteJob(f.ctx, tenant.Default, d)); again.Rest != rest.ID {
		t.Errorf("deleted again, the rest is %v, want the one that runs", again.Rest)
	}
	if n := len(must(f.CancelWaiting(f.ctx, "other", j.ID, 10))); n != 0 {
		t.Errorf("another tenant cancelled %d", n)
	}
	for _, want := range []int{2, 1, 0} {
		if n := len(must(f.CancelWaiting(f.ctx, tenant.Default, j.ID, 2))); n != want {
			t.Errorf("a piece cancelled %d, want %d", n, want)
		}
	}
	if n := waits(); n != 0 {
		t.Errorf("%d wait in the end", n)
	}
	if e := f.execution(all[6]); e.Status != job.Cancelled || e.Error == nil || e.Error.Message != "its job was deleted" {
		t.Errorf("the last: %v, %+v", e.Status, e.Error)
	}
	if s := must(f.Stats(f.ctx, tenant.Default, []job.ID{j.ID}))[0]; s.Total != 7 {
		t.Errorf("the statistics count %d, want 7", s.Total)
	}
	d.Rest = &another
	if again := must(f.DeleteJob(f.ctx, tenant.Default, d)); again.Rest != (job.OperationID{}) {
		t.Errorf("where nothing waits, the rest is %v", again.Rest)
	}
}
