package enginetest

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func ownRetentions(t *testing.T, h Harness) {
	t.Run("executions", func(t *testing.T) { forgetOwn(t, h) })
	t.Run("a change", func(t *testing.T) { forgetOwnChanged(t, h) })
	t.Run("runs", func(t *testing.T) { forgetOwnRuns(t, h) })
	t.Run("files", func(t *testing.T) { ownStays(t, h) })
}

// forgetOwn drops what jobs no longer keep some days from now.
func (f fixture) forgetOwn(days, limit int) (n int) {
	f.Helper()
	now := f.now().AddDate(0, 0, days)
	for got := (engine.ForgotOwn{More: true}); got.More; n += got.N {
		got = must(f.ForgetOwn(f.ctx, tenant.Default, now, got.Next, limit))
	}
	return n
}

// seen lists the executions and dead letters that a tenant sees some days from now.
func (f fixture) seen(q engine.ExecutionFilter, days int) (es, dead []job.ExecutionID) {
	f.Helper()
	q.Tenant, q.OwnAsOf = tenant.Default, f.now().AddDate(0, 0, days)
	for _, e := range must(f.FindExecutions(f.ctx, q, engine.Page{Limit: 100})).Executions {
		es = append(es, e.ID)
	}
	for _, d := range must(f.DeadLetters(f.ctx, engine.DeadLetterFilter{Tenant: q.Tenant, Job: q.Job, OwnAsOf: q.OwnAsOf}, engine.Page{Limit: 100})).DeadLetters {
		dead = append(dead, d.Execution.ID)
	}
	return es, dead
}

func keeps(days, failed int) func(*job.Job) {
	return func(j *job.Job) { j.Retention = job.Retention{Days: days, FailedDays: failed} }
}

// A job with a retention of its own keeps what succeeded and what failed for its own days; others keep all.
func forgetOwn(t *testing.T, h Harness) {
	f := open(t, h)
	if ts := must(f.Tenants(f.ctx)); slices.ContainsFunc(ts, func(t tenant.Tenant) bool { return t.OwnKept }) {
		t.Errorf("without such a job: %+v", ts)
	}
	own, plain, held := f.manual("own", keeps(7, 90)), f.manual("plain"), f.manual("held", keeps(1, 1))
	short := func(j *job.Job, _ *job.Execution) { keeps(2, 3)(j) }
	once, fire := f.add("once", short)
	keyed, kept := f.add("with a key", short, func(j *job.Job, _ *job.Execution) { j.Key = "once" })
	_, as := f.take(fire.ID, kept.ID)
	f.report(succeed(as[0]), succeed(as[1]))
	var good []job.ExecutionID
	for range 5 {
		good = append(good, f.ends(own).ID)
	}
	bad := f.triggered(own)
	_, as = f.take(bad.ID)
	f.report(die(as[0], 1))
	waits := f.triggered(own)
	others, ofHeld := f.ends(plain).ID, f.ends(held).ID
	must(f.AddHold(f.ctx, f.hold(held.ID, "a case"), 9, nil))

	if r := f.job(own.ID).Retention; r != own.Retention {
		t.Errorf("stored: %+v", r)
	}
	if got := must(f.Retentions(f.ctx, tenant.Default, []job.ID{own.ID, plain.ID, once.ID})); len(got) != 2 || got[own.ID] != own.Retention || got[once.ID] != once.Retention {
		t.Errorf("read: %+v", got)
	}
	if got := must(f.Retentions(f.ctx, "other", []job.ID{own.ID})); len(got) != 0 {
		t.Errorf("of another tenant: %+v", got)
	}
	if ts := must(f.Tenants(f.ctx)); !slices.ContainsFunc(ts, func(t tenant.Tenant) bool { return t.ID == tenant.Default && t.OwnKept }) {
		t.Errorf("with such jobs: %+v", ts)
	}
	for _, c := range []struct{ days, all, dead, ofJob int }{{0, 11, 1, 7}, {3, 8, 1, 7}, {7, 8, 1, 7}, {8, 3, 1, 2}, {90, 3, 1, 2}, {91, 2, 0, 1}} {
		all, dead := f.seen(engine.ExecutionFilter{}, c.days)
		ofJob, _ := f.seen(engine.ExecutionFilter{Job: own.ID}, c.days)
		if len(all) != c.all || len(dead) != c.dead || len(ofJob) != c.ofJob {
			t.Errorf("after %d days %d are seen, %d of them dead, %d of the job; want %+v", c.days, len(all), len(dead), len(ofJob), c)
		}
	}

	if n := f.forgetOwn(2, 3); n != 0 || !f.knows(once.ID) {
		t.Errorf("%d are gone before their time", n)
	}
	if f.forgetOwn(3, 3); f.has(fire.ID) || f.knows(once.ID) || f.has(kept.ID) || !f.knows(keyed.ID) {
		t.Errorf("of one-off jobs are left: %v %v, with a key %v %v", f.has(fire.ID), f.knows(once.ID), f.has(kept.ID), f.knows(keyed.ID))
	}
	if f.forgetOwn(7, 3); !f.has(good[0]) {
		t.Error("they are gone on the last day")
	}
	f.forgetOwn(8, 2)
	for _, id := range good {
		if f.has(id) {
			t.Errorf("%v is left", id)
		}
	}
	if !f.has(bad.ID) || !f.has(waits.ID) || !f.has(others) || !f.has(ofHeld) {
		t.Errorf("it is there: what failed %v, what waits %v, another job's %v, what is held %v", f.has(bad.ID), f.has(waits.ID), f.has(others), f.has(ofHeld))
	}
	if f.forgetOwn(91, 2); f.has(bad.ID) || !f.has(waits.ID) || !f.has(others) || !f.has(ofHeld) {
		t.Errorf("later it is there: what failed %v, what waits %v, another job's %v, what is held %v", f.has(bad.ID), f.has(waits.ID), f.has(others), f.has(ofHeld))
	}
	if _, dead := f.seen(engine.ExecutionFilter{}, 0); len(dead) != 0 {
		t.Errorf("dead letters are left: %v", dead)
	}
	if n := f.forgetOwn(400, 2); n != 0 {
		t.Errorf("%d more are gone", n)
	}
}

// A retention that was shortened drops nothing for a week, and a job that has none again drops nothing.
func forgetOwnChanged(t *testing.T, h Harness) {
	f := open(t, h)
	j := f.manual("changes", keeps(5, 5))
	e := f.ends(j).ID
	set := func(days int) {
		t.Helper()
		u := engine.Update{Job: f.job(j.ID), AsOf: f.now(), Retained: true}
		u.Job.Retention = job.Retention{}
		if days > 0 {
			keeps(days, days)(&u.Job)
		}
		must(f.UpdateJob(f.ctx, tenant.Default, u))
	}
	for _, c := range []struct {
		days, after int
		gone        bool
	}{{days: 30, after: 20}, {days: 2, after: 6}, {days: 0, after: 60}, {days: 40, after: 30}, {days: 4, after: 6}, {days: 4, after: 8, gone: true}} {
		set(c.days)
		if es, _ := f.seen(engine.ExecutionFilter{}, c.after); (len(es) == 0) != (c.days > 0 && c.days < c.after) {
			t.Errorf("%+v: seen %v", c, es)
		}
		if f.forgetOwn(c.after, 10); f.has(e) == c.gone {
			t.Errorf("%+v: it is there: %v", c, f.has(e))
		}
	}
	if got := must(f.Retentions(f.ctx, tenant.Default, []job.ID{j.ID})); got[j.ID] != (job.Retention{Days: 4, FailedDays: 4}) {
		t.Errorf("stored: %+v", got)
	}
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
	if f.forgetOwn(20, 10); f.knows(j.ID) {
		t.Error("the deleted job is left")
	}
	if got := must(f.Retentions(f.ctx, tenant.Default, []job.ID{j.ID})); len(got) != 0 {
		t.Errorf("of a job that is gone: %+v", got)
	}
}

// A run goes as a whole by the retention of its workflow, whatever those of its nodes are.
func forgetOwnRuns(t *testing.T, h Harness) {
	f := open(t, h)
	b := f.begin(3)
	b.over()
	set := func(of job.ID, days int) {
		t.Helper()
		u := engine.Update{Job: f.job(of), AsOf: f.now(), Retained: true}
		keeps(days, days)(&u.Job)
		must(f.UpdateJob(f.ctx, tenant.Default, u))
	}
	set(b.members[0].Job, 1)
	if n := f.forgetOwn(30, 10); n != 0 || !f.has(b.members[0].ID) {
		t.Errorf("%d are gone by the retention of a node", n)
	}
	if es, _ := f.seen(engine.ExecutionFilter{}, 30); len(es) != 4 {
		t.Errorf("%d executions are seen of a run and its nodes", len(es))
	}
	set(b.run.Workflow, 20)
	if n := f.forgetOwn(20, 10); n != 0 {
		t.Errorf("%d are gone before their time", n)
	}
	f.forgetOwn(21, 2)
	for _, id := range []job.ExecutionID{b.members[0].ID, b.members[1].ID, b.members[2].ID, b.run.ID, b.run.Execution} {
		if f.has(id) {
			t.Errorf("%v is left", id)
		}
	}
	if runs := must(f.WorkflowRuns(f.ctx, engine.RunFilter{Tenant: tenant.Default}, engine.Page{Limit: 10})); len(runs.Rows) != 0 {
		t.Errorf("runs are left: %+v", runs.Rows)
	}
}

// Files are deleted as a whole, so what has a retention of its own does not move there.
func ownStays(t *testing.T, h Harness) {
	f := open(t, h)
	f.ends(f.manual("own", keeps(7, 7)))
	moves := f.ends(f.manual("plain"))
	var d dayRead
	if err := f.ReadDay(f.ctx, f.execution(moves.ID).FinishedAt.Truncate(24*time.Hour), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.all) != 1 || d.all[0].Execution.ID != moves.ID {
		t.Errorf("what may move: %+v", d.all)
	}
}
