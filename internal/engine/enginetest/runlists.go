package enginetest

import (
	"bytes"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Lists of runs hold those that wait to begin, and those that ended without, in one order with the others.
func listUnbegun(t *testing.T, h Harness) {
	f := open(t, h)
	b := f.begin(0)
	w, now := f.job(b.run.Workflow), f.now()
	given := func(e *job.Execution) { e.Payload = []byte(`{"a":1}`) }
	pending := f.waits(w, now.Add(-time.Minute), given)
	held := f.waits(w, now.Add(-2*time.Minute), given, func(e *job.Execution) { e.Status = job.Waiting })
	gone := f.waits(w, now.Add(-3*time.Minute), given)
	must(f.Cancel(f.ctx, tenant.Default, gone.ID, "enough", nil))
	plain := f.sample("plain")
	f.store(engine.Creation{Tenant: plain.Tenant, Jobs: []job.Job{plain}})
	must(f.Trigger(f.ctx, tenant.Default, f.due(plain), engine.Idempotency{}, nil))
	for range 20 { // so many workflows are not looked at one by one
		other := f.sample("flow")
		other.Schedule, other.Target = job.Schedule{Type: job.Manual}, job.Target{Kind: job.Workflow, Version: 1}
		for _, all := range []engine.RunFilter{{Tenant: tenant.Default}, {Tenant: tenant.Default, Workflow: w.ID}} {
			for _, c := range []struct {
				statuses []job.Status
				want     []job.ExecutionID
			}{
				{nil, []job.ExecutionID{b.run.ID, pending.ID, held.ID, gone.ID}},
				{[]job.Status{job.Waiting}, []job.ExecutionID{held.ID}},
				{[]job.Status{job.Pending}, []job.ExecutionID{pending.ID}},
				{[]job.Status{job.Pending, job.Waiting}, []job.ExecutionID{pending.ID, held.ID}},
				{[]job.Status{job.Cancelled, job.Waiting}, []job.ExecutionID{held.ID, gone.ID}},
				{[]job.Status{job.Failed}, nil},
				{[]job.Status{job.Running}, []job.ExecutionID{b.run.ID}},
			} {
				all.Statuses = nil
				for _, s := range c.statuses {
					all.Statuses = append(all.Statuses, int(s))
				}
				got := must(f.WorkflowRuns(f.ctx, all, engine.Page{Limit: 10}))
				var ids []job.ExecutionID
				for _, r := range got.Rows {
					ids = append(ids, r.ID)
				}
				if !slices.Equal(ids, c.want) || got.Next != "" || got.Total.Count != int64(len(c.want)) {
					t.Fatalf("%v: %v, of %d; want %v", c.statuses, ids, got.Total.Count, c.want)
				}
			}
			all.Statuses = nil
			var ids []job.ExecutionID
			for page := (engine.Page{Limit: 1}); ; {
				got := must(f.WorkflowRuns(f.ctx, all, page))
				for _, r := range got.Rows {
					ids = append(ids, r.ID)
					if r.Workflow != w.ID || r.Execution != r.ID || r.Attempt != 1 || r.State != nil || r.Input != nil {
						t.Errorf("listed: %+v", r)
					}
				}
				if page.Cursor = got.Next; page.Cursor == "" {
					break
				}
			}
			if want := []job.ExecutionID{b.run.ID, pending.ID, held.ID, gone.ID}; !slices.Equal(ids, want) {
				t.Errorf("page by page: %v, want %v", ids, want)
			}
			all.Kept = now.Add(time.Hour)
			if got := must(f.WorkflowRuns(f.ctx, all, engine.Page{Limit: 10})); len(got.Rows) != 3 {
				t.Errorf("without what is no longer kept: %+v", got.Rows)
			}
		}
		f.store(engine.Creation{Tenant: other.Tenant, Jobs: []job.Job{other}})
	}
}

// What is asked of the runs below a run is found at once, and what is asked of one that never will be is forgotten.
func askRunsBelow(t *testing.T, h Harness) {
	f := open(t, h)
	sub := f.sample("sub")
	sub.Schedule, sub.Queue, sub.Labels, sub.Target = job.Schedule{Type: job.Manual}, job.DefaultQueue, nil, job.Target{Kind: job.Workflow, Version: 1}
	f.store(engine.Creation{Tenant: sub.Tenant, Jobs: []job.Job{sub}})
	b := f.begin(1, func(e *job.Execution) { e.Job, e.Class = sub.ID, job.Class(job.Workflow) })
	worker, as := f.take(b.members[0].ID)
	pause := true
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Pause = &pause
		return &c
	})
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Cancel, c.Force, c.Reason = []engine.NodeStop{{Node: 0}}, true, "enough"
		return &c
	})
	id := b.members[0].ID
	if got := b.wakes(); !slices.Contains(got, id) {
		t.Errorf("runs to look after: %v; want %v among them", got, id)
	}
	run := b.run
	run.ID, run.Execution, run.Token, run.Workflow = id, id, as[0].Token, sub.ID
	must(f.BeginRuns(f.ctx, []engine.NewRun{{Run: run, First: b.same()}}))
	below := b
	below.run = run
	seen, _ := below.change(nil)
	asked := map[engine.NodePlace]job.Status{}
	for _, m := range seen.Marks {
		asked[m.Place] = m.Status
	}
	if len(asked) != 3 || asked[engine.AskedToStop] == 0 || asked[engine.AskedToForce] == 0 || asked[engine.AskedToPause(1)] != job.Waiting {
		t.Errorf("asked of the run below: %v", asked)
	}
	must(f.Leave(f.ctx, worker))

	b = f.begin(1, func(e *job.Execution) { e.Job, e.Class = sub.ID, job.Class(job.Workflow) })
	_, as = f.take(b.members[0].ID)
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		c.Pause = &pause
		return &c
	})
	o := job.Outcome{Lease: as[0].Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: "INPUT", Message: "no"}}
	f.report(job.Finish{Outcome: o, Then: job.Transition{Move: job.Died, Status: job.Failed, Tries: 1}})
	for _, want := range []bool{true, false} {
		if got := b.wakes(); slices.Contains(got, b.members[0].ID) != want {
			t.Errorf("runs to look after: %v; want the one that never began: %v", got, want)
		}
		must(f.ChangeRuns(f.ctx, []job.ExecutionID{b.members[0].ID}, func(engine.RunView) (*engine.RunChange, error) { return nil, nil }))
	}
}

// A list of approvals has what it shows of each, and of each node of a version one schema; it ends where these are too long.
func listApprovals(t *testing.T, h Harness) {
	b := open(t, h).begin(0)
	now, asks, large := b.now(), []byte(`{"key":"ok"}`), bytes.Repeat([]byte("x"), engine.PageBytes/2)
	put := func(of begun, ws ...engine.RunWait) {
		of.change(func(engine.RunView) *engine.RunChange {
			c := of.same()
			c.Waits = ws
			return &c
		})
	}
	wait := func(node int, schema []byte) engine.RunWait {
		return engine.RunWait{Node: node, Kind: engine.WaitApproval, BegunAt: now.Add(time.Duration(node) * time.Second), Asks: asks, Schema: schema}
	}
	put(b, wait(0, []byte(`{"type":"object"}`)), wait(1, large), wait(2, nil))
	voted, _ := b.change(func(v engine.RunView) *engine.RunChange {
		c := b.same()
		w := v.Waits[0]
		w.Votes, w.Voters = large, []byte(`["ann"]`)
		c.Waits = []engine.RunWait{w}
		return &c
	})
	if w := voted.Waits[0]; !bytes.Equal(w.Asks, asks) || w.Schema != nil {
		t.Errorf("a decision sees %+v", w)
	}
	list := func(want ...engine.RunWait) {
		t.Helper()
		got := must(b.Approvals(b.ctx, tenant.Default, 10))
		if len(got) != len(want) {
			t.Fatalf("%d approvals, want %d", len(got), len(want))
		}
		for i, w := range want {
			w.Run, w.Tenant = b.run.ID, tenant.Default
			if d := cmp.Diff(engine.OpenApproval{RunWait: w, Workflow: b.run.Workflow, Version: 1}, got[i], cmp.Comparer(bytes.Equal)); d != "" {
				t.Errorf("approval %d (-want +got):\n%.2000s", i, d)
			}
		}
	}
	first := wait(0, []byte(`{"type":"object"}`))
	first.Voters = []byte(`["ann"]`)
	list(first, wait(1, large), wait(2, nil))
	for _, w := range must(b.NewApprovals(b.ctx, tenant.Default, engine.RunWait{BegunAt: now.Add(-time.Hour)}, 10)) {
		if w.Votes != nil || w.Schema != nil || !bytes.Equal(w.Asks, asks) {
			t.Errorf("a new approval: votes of %d bytes, a schema of %d, %s", len(w.Votes), len(w.Schema), w.Asks)
		}
	}
	put(b, wait(2, large), wait(3, nil))
	list(first, wait(1, large), wait(2, large))                                                    // the first three have PageBytes
	put(b, engine.RunWait{Node: 0, Kind: engine.WaitApproval, BegunAt: first.BegunAt, Asks: asks}) // it has a schema already
	first.Voters = nil
	list(first, wait(1, large), wait(2, large))
}

// One commit cancels so many executions of a run, and leaves a wait for the rest.
func cancelPieces(t *testing.T, h Harness) {
	f := open(t, h)
	b := f.begin(0)
	const items = 2*engine.StopsAtOnce + 5
	j := f.sample("item")
	j.ID, j.State, j.Schedule = job.NodeID(newID()), job.Inline, job.Schedule{Type: job.Manual}
	f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
	b.change(func(engine.RunView) *engine.RunChange {
		c := b.same()
		for i := range items {
			x := f.due(j)
			x.Trigger = job.ByWorkflow
			c.Members = append(c.Members, engine.NewMember{Place: engine.PlaceOf(0, i), Execution: x})
		}
		return &c
	})
	next, left := engine.NodeStop{Node: 0}, items
	for left > 0 {
		_, out := b.change(func(engine.RunView) *engine.RunChange {
			c := b.same()
			c.Closed = []engine.RunWait{{Node: 0, Kind: engine.WaitStop}}
			c.Cancel, c.Reason = []engine.NodeStop{next}, "enough"
			return &c
		})
		more := left >= engine.StopsAtOnce
		if n := min(left, engine.StopsAtOnce); len(out.Ended) != n || more && !out.More {
			t.Fatalf("a commit cancelled %d of %d, more: %v", len(out.Ended), left, out.More)
		}
		left -= len(out.Ended)
		waits := must(f.RunWaits(f.ctx, tenant.Default, b.run.ID))
		if (len(waits) == 1) != more {
			t.Fatalf("waits: %+v; %d are left", waits, left)
		}
		for _, w := range waits {
			after, err := strconv.ParseInt(w.Event, 10, 64)
			if w.Kind != engine.WaitStop || err != nil {
				t.Fatalf("waits: %+v", waits)
			}
			next.After = engine.NodePlace(after)
		}
	}
}
