package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func forgetting(t *testing.T, h Harness) {
	t.Run("executions", func(t *testing.T) { forgetExecutions(t, h) })
	t.Run("one-off jobs", func(t *testing.T) { forgetOneOffs(t, h) })
	t.Run("deleted jobs", func(t *testing.T) { forgetDeleted(t, h) })
	t.Run("runs", func(t *testing.T) { forgetRuns(t, h) })
	t.Run("workflows", func(t *testing.T) { forgetWorkflows(t, h) })
	t.Run("holds", func(t *testing.T) { holds(t, h) })
	t.Run("holds beside a purge", func(t *testing.T) { holdBesidePurge(t, h) })
	t.Run("a constant load", func(t *testing.T) { forgetConstantly(t, h) })
}

// forget drops everything of a tenant that ended before an instant.
func (f fixture) forget(t tenant.ID, before time.Time) (n int) {
	f.Helper()
	for _, call := range []func(engine.Place) (engine.Forgot, error){
		func(from engine.Place) (engine.Forgot, error) { return f.ForgetRuns(f.ctx, t, before, from, 3) },
		func(from engine.Place) (engine.Forgot, error) { return f.ForgetHistory(f.ctx, t, before, from, 3) },
		func(from engine.Place) (engine.Forgot, error) { return f.ForgetJobs(f.ctx, t, before, from, 3) },
	} {
		for got := (engine.Forgot{More: true}); got.More; n += got.N {
			got = must(call(got.Next))
		}
	}
	return n
}

// knows reports whether the store has a job.
func (f fixture) knows(id job.ID) bool {
	f.Helper()
	_, err := f.Job(f.ctx, tenant.Default, engine.Ref{ID: id})
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		f.Fatal(err)
	}
	return err == nil
}

// done adds a one-off job that has succeeded.
func (f fixture) done(name string) (job.Job, job.Execution) {
	f.Helper()
	j, e := f.add(name)
	_, as := f.take(e.ID)
	f.report(succeed(as[0]))
	return j, e
}

func forgetExecutions(t *testing.T, h Harness) {
	f := open(t, h)
	acme := func(j *job.Job, e *job.Execution) { j.Tenant, e.Tenant = "acme", "acme" }
	j, first := f.add("one", acme)
	_, other := f.add("other")
	_, lives := f.add("lives", acme)
	_, as := f.take(first.ID, other.ID)
	for _, a := range as {
		f.report(die(a, 1))
	}
	list := func(q engine.ExecutionFilter) (ids []job.ExecutionID) {
		q.Tenant = "acme"
		for _, e := range must(f.FindExecutions(f.ctx, q, engine.Page{Limit: 10})).Executions {
			ids = append(ids, e.ID)
		}
		return ids
	}
	later := f.now().Add(time.Hour)
	if got := list(engine.ExecutionFilter{Kept: later}); !slices.Equal(got, []job.ExecutionID{lives.ID}) {
		t.Errorf("kept from later on: %v", got)
	}
	if got := list(engine.ExecutionFilter{Kept: f.now().Add(-time.Hour)}); len(got) != 2 {
		t.Errorf("kept from before: %v", got)
	}
	hour := f.now().Add(-time.Hour)
	if got := list(engine.ExecutionFilter{Finished: hour}); !slices.Equal(got, []job.ExecutionID{first.ID}) {
		t.Errorf("finished from before: %v", got)
	}
	for _, q := range []engine.ExecutionFilter{{Finished: later}, {Job: j.ID, Finished: later}, {Finished: hour, Statuses: []job.Status{job.Pending}}} {
		if got := list(q); len(got) != 0 {
			t.Errorf("finished, of %+v: %v", q, got)
		}
	}
	if got := list(engine.ExecutionFilter{Job: j.ID, Kept: later}); len(got) != 0 {
		t.Errorf("of the job: %v", got)
	}
	if got := must(f.ForgetHistory(f.ctx, "acme", f.now().Add(-time.Hour), engine.Place{}, 10)); got != (engine.Forgot{}) {
		t.Errorf("nothing is old: %+v", got)
	}
	got := must(f.ForgetHistory(f.ctx, "acme", later, engine.Place{}, 1))
	if got.N != 1 || !got.More || got.Next.ID != first.ID {
		t.Errorf("the first: %+v", got)
	}
	if got := must(f.ForgetHistory(f.ctx, "acme", later, got.Next, 1)); got != (engine.Forgot{}) {
		t.Errorf("and then: %+v", got)
	}
	if got := list(engine.ExecutionFilter{}); !slices.Equal(got, []job.ExecutionID{lives.ID}) {
		t.Errorf("left: %v", got)
	}
	if past, err := f.Attempts(f.ctx, "acme", first.ID); len(past) != 0 || !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("attempts are left: %+v, %v", past, err)
	}
	if ds := must(f.DeadLetters(f.ctx, engine.DeadLetterFilter{Tenant: "acme"}, engine.Page{Limit: 10})); len(ds.DeadLetters) != 0 || ds.Total.Count != 0 {
		t.Errorf("dead letters are left: %+v", ds)
	}
	if ds := must(f.DeadLetters(f.ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, engine.Page{Limit: 10})); len(ds.DeadLetters) != 1 {
		t.Errorf("another tenant's: %+v", ds)
	}
}

// A one-off job goes with its last execution, unless something of it lives, or others use it.
func forgetOneOffs(t *testing.T, h Harness) {
	f := open(t, h)
	gone, ended := f.done("gone")
	again, was := f.done("runs again")
	rerun := f.rerunOf(f.execution(was.ID), job.ByHand)
	must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{rerun}}))
	waits, _ := f.add("waits")
	manual := f.manual("by hand")
	f.ends(manual)
	keyed, once := f.add("with a key", func(j *job.Job, _ *job.Execution) { j.Key = "migrate" })
	_, as := f.take(once.ID)
	f.report(succeed(as[0]))
	parent, _ := f.done("a parent")
	child := f.dependent("a child", parent.ID)
	u := engine.Update{Job: f.job(gone.ID), AsOf: f.now(), Secrets: []engine.Secret{f.managed(gone, "X-A", "sealed")}}
	u.Job.Name = "changed"
	must(f.UpdateJob(f.ctx, tenant.Default, u))
	if err := f.KeepTraces(f.ctx, []engine.Trace{{Tenant: tenant.Default, At: f.now(), Of: gone.ID, Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}); err != nil {
		t.Fatal(err)
	}
	before := f.now()
	if f.forget(tenant.Default, ended.ScheduledAt.Add(-time.Hour)); !f.knows(gone.ID) {
		t.Error("it is gone before its time")
	}
	later := before.Add(time.Hour)
	f.forget(tenant.Default, later)
	for j, want := range map[*job.Job]bool{&gone: false, &again: true, &waits: true, &manual: true, &keyed: true, &parent: true, &child: true} {
		if f.knows(j.ID) != want {
			t.Errorf("%q: it is there: %v, want %v", j.Name, !want, want)
		}
	}
	if left := must(f.Revisions(f.ctx, gone, 0, 10)); len(left) != 0 {
		t.Errorf("%d revisions are left", len(left))
	}
	if left := must(f.Traces(f.ctx, [][16]byte{gone.ID})); len(left) != 0 {
		t.Errorf("traces are left: %v", left)
	}
	if err := f.depend(child.ID, true); err != nil {
		t.Fatal(err)
	}
	_, as = f.take(rerun.ID)
	f.report(succeed(as[0]))
	f.forget(tenant.Default, later)
	if f.knows(parent.ID) || f.knows(again.ID) {
		t.Errorf("when nothing is left, the parent is there: %v, what ran again: %v", f.knows(parent.ID), f.knows(again.ID))
	}
	if err := f.forgotten(waits.ID); err != nil {
		t.Error(err)
	}
}

// forgotten returns why what waits could not run.
func (f fixture) forgotten(id job.ID) error {
	f.Helper()
	_, as := f.take(job.ExecutionID(id))
	if vs := f.report(succeed(as[0])); !vs[0].Accepted {
		return fmt.Errorf("what waited did not run: %+v", vs[0])
	}
	return nil
}

func forgetDeleted(t *testing.T, h Harness) {
	f := open(t, h)
	idle, busy := f.manual("idle"), f.manual("busy")
	ended := f.ends(busy)
	for _, j := range []job.Job{idle, busy} {
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
	}
	if f.forget(tenant.Default, f.now().Add(-time.Minute)); !f.knows(idle.ID) {
		t.Error("a job that was deleted just now is gone")
	}
	later := f.now().Add(time.Hour)
	if got := must(f.ForgetJobs(f.ctx, tenant.Default, later, engine.Place{}, 100)); got.N != 1 || got.More || f.knows(idle.ID) || !f.knows(busy.ID) {
		t.Errorf("got %+v; idle is there: %v, with history: %v", got, f.knows(idle.ID), f.knows(busy.ID))
	}
	if got := must(f.ForgetHistory(f.ctx, tenant.Default, later, engine.Place{}, 100)); got.N != 1 || f.knows(busy.ID) {
		t.Errorf("got %+v; it is there: %v", got, f.knows(busy.ID))
	}
	if _, err := f.Execution(f.ctx, tenant.Default, ended.ID); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("its execution: %v", err)
	}
}

// over ends the run, and the executions of its nodes before it.
func (b begun) over() {
	b.Helper()
	for _, m := range b.members {
		_, as := b.take(m.ID)
		b.report(succeed(as[0]))
	}
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Status, c.State, c.Ended, c.Output = 10, []byte("over"), true, []byte("{}")
		c.Finish = &job.Finish{
			Outcome: job.Outcome{Lease: job.Lease{Execution: b.run.Execution, Token: b.run.Token}, Status: job.OutcomeSucceeded, Result: c.Output},
			Then:    job.Transition{Status: job.Succeeded, Move: job.Done},
		}
		return &c
	})
}

// The executions of nodes are kept as long as their run, however long ago they ended, and go with it.
func forgetRuns(t *testing.T, h Harness) {
	f := open(t, h)
	b := f.begin(2)
	_, as := f.take(b.members[0].ID)
	f.report(succeed(as[0]))
	later := f.now().Add(time.Hour)
	if n := f.forget(tenant.Default, later); n != 0 {
		t.Errorf("%d were forgotten while the run goes on", n)
	}
	f.execution(b.members[0].ID)
	b.members = b.members[1:]
	b.over()
	if got := must(f.ForgetHistory(f.ctx, tenant.Default, later, engine.Place{}, 100)); got.N != 0 {
		t.Errorf("%+v were forgotten before their run", got)
	}
	if n := f.forget(tenant.Default, later); n == 0 {
		t.Error("the run is not forgotten")
	}
	for _, id := range []job.ExecutionID{b.members[0].ID, b.run.ID} {
		if _, err := f.Execution(f.ctx, tenant.Default, id); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%v is left: %v", id, err)
		}
	}
	if !f.knows(b.run.Workflow) {
		t.Error("the workflow is gone")
	}
}

// A workflow goes with its versions and the jobs of its inline nodes.
func forgetWorkflows(t *testing.T, h Harness) {
	f := open(t, h)
	used := f.manual("used")
	j, first := f.flow("flow", used.ID)
	node := f.sample("node")
	node.ID, node.State, node.Schedule = first.Jobs[0], job.Inline, job.Schedule{Type: job.Manual}
	if err := f.AddWorkflow(f.ctx, first); err != nil {
		t.Fatal(err)
	}
	f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j, node}})
	later := f.now().Add(time.Hour)
	if f.forget(tenant.Default, later); !f.knows(node.ID) {
		t.Error("the job of a node is gone before its workflow")
	}
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
	f.forget(tenant.Default, later)
	if f.knows(j.ID) || f.knows(node.ID) || !f.knows(used.ID) {
		t.Errorf("it is there: the workflow %v, its node %v, the job it used %v", f.knows(j.ID), f.knows(node.ID), f.knows(used.ID))
	}
	if vs := must(f.WorkflowVersions(f.ctx, tenant.Default, j.ID, 0, 10)); len(vs) != 0 {
		t.Errorf("%d versions are left", len(vs))
	}
	if us := must(f.WorkflowUsers(f.ctx, tenant.Default, used.ID)); len(us) != 0 {
		t.Errorf("it is still used by %+v", us)
	}
}

// brief are the tables that are bounded by the age of their rows, or by another subject, whatever is forgotten.
var brief = map[string]string{
	"sessions": "an hour", "leases": "a minute", "orders": "an hour", "idempotency": "a day", "past_secrets": "eight days", "audit": "a year", "audit_seals": "a year",
	"edge_marks": "until they are taken", "job_durations": "one for each length of a job that stays", "run_events": "a day", "carillon_migrations": "", "servers": "", "partitions": "",
}

// Under a load that is the same every day, no table grows once the first day is past its retention. A day is as long
// as its work takes.
func forgetConstantly(t *testing.T, h Harness) {
	const days, kept = 30, 4
	f := open(t, h)
	regular := f.manual("regular")
	var began []time.Time
	var was map[string]int64
	for day := range days {
		began = append(began, f.now())
		f.work(regular)
		if day >= kept {
			f.forget(tenant.Default, began[day-kept])
		}
		rows := h.Rows(t, f.where)
		maps.DeleteFunc(rows, func(name string, _ int64) bool { _, is := brief[name]; return is })
		if day > kept+1 {
			for _, name := range slices.Sorted(maps.Keys(rows)) {
				if rows[name] != was[name] {
					t.Errorf("day %d: %s has %d rows, and had %d", day, name, rows[name], was[name])
				}
			}
		}
		was = rows
	}
	if was["executions"] == 0 || was["attempts"] == 0 || was["run_members"] == 0 || was["logs"] == 0 || was["secrets"] == 0 {
		t.Errorf("a day leaves too little behind: %v", was)
	}
}

// work is that of a day, with something of everything.
func (f fixture) work(regular job.Job) {
	f.Helper()
	f.ends(regular)
	f.done("one-off")
	_, was := f.done("runs again")
	rerun := f.rerunOf(f.execution(was.ID), job.ByHand)
	must(f.Rerun(f.ctx, tenant.Default, engine.Rerun{Executions: []job.Execution{rerun}}))
	j, e := f.add("fails")
	w, as := f.take(rerun.ID, e.ID)
	for _, a := range as {
		f.report(map[bool]job.Finish{true: die(a, 1), false: succeed(a)}[a.Execution == e.ID])
	}
	u := engine.Update{Job: f.job(j.ID), AsOf: f.now(), Secrets: []engine.Secret{f.managed(j, "X-A", "sealed")}}
	u.Job.Description = "changed"
	must(f.UpdateJob(f.ctx, tenant.Default, u))
	_, e = f.add("talks")
	as = must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{}))
	must(f.AppendLogs(f.ctx, []engine.LogAppend{{Worker: w, Lease: as[0].Lease, To: job.LogHead{Lines: 1, Bytes: 4}, Data: []byte("line")}}))
	f.report(again(as[0], f.now(), 1))
	as = must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{}))
	f.report(succeed(as[0]))
	old := f.manual("deleted")
	f.ends(old)
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: old.ID, AsOf: f.now()}))
	b := f.begin(2)
	if err := f.AddWorkflow(f.ctx, engine.WorkflowVersion{
		Tenant: tenant.Default, Workflow: b.run.Workflow, Version: 1, CreatedAt: f.now(), Definition: []byte("{}"), Jobs: []job.ID{b.members[0].Job, b.members[1].Job, regular.ID},
	}); err != nil {
		f.Fatal(err)
	}
	b.over()
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: b.run.Workflow, AsOf: f.now()}))
}
