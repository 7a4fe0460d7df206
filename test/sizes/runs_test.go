//go:build unix

package sizes

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// liveItems is the number of items of a map that may run at once.
const liveItems = 2000

// describeRuns stores a run of a workflow: a node, which has ended, and one wait of each kind.
func (b *bench) describeRuns() {
	now := b.now()
	flow, node := b.job("flow", time.Time{}), b.job("node", time.Time{})
	flow.Schedule, node.Schedule = job.Schedule{Type: job.Manual}, job.Schedule{Type: job.Manual}
	flow.Target = job.Target{Kind: job.Workflow, Version: 1}
	node.ID, node.State = job.NodeID(newID()), job.Inline
	b.create([]job.Job{flow, node}, false)
	e := flow.Fire(newID(), now, now)
	e.Trigger = job.ByHand
	must(b.Trigger(b.ctx, tenant.Default, e, engine.Idempotency{}, nil))
	as := must(b.Lease(b.ctx, []engine.Grant{{Worker: b.worker, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{}))
	b.run = engine.WorkflowRun{
		ID: e.ID, Execution: e.ID, Token: as[0].Token, Tenant: tenant.Default, Workflow: flow.ID, Version: 1, Attempt: 1, Status: 3, State: make([]byte, 400),
		Input: []byte(`{"a":1}`), ScheduledAt: now, BegunAt: now,
	}
	b.member = node.Fire(newID(), now, now)
	b.member.Trigger = job.ByWorkflow
	first := b.sameRun()
	first.Members = []engine.NewMember{{Place: engine.PlaceOf(0, 0), Execution: b.member}}
	first.Results = []engine.RunResult{{Place: engine.PlaceOf(0, 0), Result: []byte(`{"rows":1000}`)}}
	for _, w := range []engine.RunWait{
		{Node: 1, Kind: engine.WaitTimer, WakeAt: now}, {Node: 2, Kind: engine.WaitApproval}, {Node: 3, Kind: engine.WaitEvent, Event: "paid", Match: []byte(`"order 0"`)},
	} {
		w.Run, w.Tenant, w.BegunAt = b.run.ID, tenant.Default, now
		first.Waits = append(first.Waits, w)
	}
	must(b.BeginRuns(b.ctx, []engine.NewRun{{Run: b.run, First: first}}))
	must(b.Park(b.ctx, []engine.Parking{{Outcome: job.Outcome{Lease: as[0].Lease, Status: job.OutcomeParked}, Until: job.Forever}}))
	as = must(b.Lease(b.ctx, []engine.Grant{{Worker: b.worker, Executions: []job.ExecutionID{b.member.ID}}}, engine.Fence{}))
	must(b.Finish(b.ctx, []job.Finish{{Outcome: job.Outcome{Lease: as[0].Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}}))
	must(b.SendEvent(b.ctx, engine.RunEvent{ID: newID(), Tenant: tenant.Default, Name: "shipped", Match: []byte(`"order 0"`), Payload: []byte(`{"at":"noon"}`), At: now}, engine.EventOnce{}, nil))
}

// sameRun is a change that leaves the run as it is.
func (b *bench) sameRun() engine.RunChange {
	return engine.RunChange{Version: b.run.Version, Attempt: b.run.Attempt, Status: b.run.Status, State: b.run.State, Input: b.run.Input}
}

// fillRuns stores very many runs that have ended, of which the oldest has very many items, and others that wait. Of one run very many items
// have just ended.
func (b *bench) fillRuns() {
	run := b.literal(b.run.ID)
	place := "t.place + g.i"
	b.copies("runs", "t.id = "+run, 1, b.sizes.runs, map[string]string{
		"id": b.id(runIDs, "g.i"), "execution": b.id(runIDs, "g.i"), "begun_at": b.after("t.begun_at", "-g.i"), "ended_at": b.after("t.begun_at", "-g.i"), "status": "10",
	})
	oldest := b.id(runIDs, fmt.Sprint(b.sizes.runs))
	for table, of := range map[string]string{"run_members": "t.execution = " + b.literal(b.member.ID), "run_results": "t.run = " + run} {
		b.copies(table, of, 1, b.sizes.items, map[string]string{"run": oldest, "execution": b.id(itemIDs, "g.i"), "place": place})
	}
	b.copies("run_members", "t.execution = "+b.literal(b.member.ID), 1, b.sizes.marks, map[string]string{"execution": b.id(markIDs, "g.i"), "place": place})
	b.copies("run_marks", "t.run = "+run, 1, b.sizes.marks, map[string]string{
		"execution": b.id(markIDs, "g.i"), "place": place, "finished_at": b.after("t.finished_at", "-2000000 - g.i"),
	})
	// Items of another node run.
	b.copies("run_members", "t.execution = "+b.literal(b.member.ID), 1, liveItems, map[string]string{
		"execution": b.id(leasedIDs, "g.i + 64"), "place": fmt.Sprintf("%d + g.i", engine.PlaceOf(7, -1)), "status": "0",
	})
	b.copies("run_waits", "t.run = "+run, 1, b.sizes.waits, map[string]string{"run": b.id(runIDs, "g.i"), "event": "CASE WHEN t.kind = 3 THEN 'paid' ELSE t.event END"})
	b.copies("run_events", "t.event = 'shipped'", 1, b.sizes.events, map[string]string{"id": b.id(eventIDs, "g.i"), "at": b.after("t.at", "-g.i")})
	b.copies("run_events", "t.id = "+b.id(eventIDs, "1"), 1, b.sizes.events, map[string]string{"id": b.id(oldEventIDs, "g.i"), "at": b.after("t.at", "-g.i - 2 * 24 * 3600000000")})
	must(0, b.exec("INSERT INTO workflow_uses (job, workflow, tenant) SELECT "+b.literal(b.backlog.ID)+", id, tenant FROM jobs WHERE state <> 5"))
}

// runCalls are the calls over runs of workflows.
var runCalls = []call{
	{method: "WorkflowRuns", what: "all", do: findRuns(engine.RunFilter{})},
	{method: "WorkflowRuns", what: "with a status that none has", do: findRuns(engine.RunFilter{Statuses: []int{5}})},
	{method: "WorkflowRuns", what: "of a workflow", do: func(b *bench) (bool, error) { return findRuns(engine.RunFilter{Workflow: b.run.Workflow})(b) }},
	{method: "WorkflowRuns", what: "of a workflow, with a status that none has", do: func(b *bench) (bool, error) {
		return findRuns(engine.RunFilter{Workflow: b.run.Workflow, Statuses: []int{5}})(b)
	}},
	{method: "WorkflowRun", do: once(func(b *bench) (engine.WorkflowRun, error) {
		return b.WorkflowRun(b.ctx, tenant.Default, copyOf(runIDs, b.sizes.runs))
	})},
	{method: "Members", what: "1000 items of a map", do: once(func(b *bench) ([]engine.Member, error) {
		return b.Members(b.ctx, tenant.Default, copyOf(runIDs, b.sizes.runs), engine.PlaceOf(0, b.sizes.items/2), engine.PlaceOf(1, -1), 1000)
	})},
	{method: "NodeMembers", what: "of a map's first item and of nodes that there are not", do: once(func(b *bench) ([]engine.Member, error) {
		return b.NodeMembers(b.ctx, tenant.Default, copyOf(runIDs, b.sizes.runs), []int{0, 1, 2})
	})},
	{method: "MemberOf", do: once(func(b *bench) (engine.Member, error) { return b.MemberOf(b.ctx, tenant.Default, copyOf(itemIDs, 1)) })},
	{method: "RunResults", what: "of a map", do: func(b *bench) (bool, error) {
		rs, err := b.RunResults(b.ctx, tenant.Default, copyOf(runIDs, b.sizes.runs), engine.PlaceOf(0, -1), engine.PlaceOf(1, -1))
		return true, want(err, len(rs), b.sizes.items, "results")
	}},
	{method: "NodeSpans", do: once(func(b *bench) ([]engine.NodeSpan, error) { return b.NodeSpans(b.ctx, tenant.Default, b.run.ID) })},
	{method: "RunWaits", do: once(func(b *bench) ([]engine.RunWait, error) { return b.RunWaits(b.ctx, tenant.Default, b.run.ID) })},
	{method: "Approvals", what: "1000", do: once(func(b *bench) ([]engine.OpenApproval, error) { return b.Approvals(b.ctx, tenant.Default, 1000) })},
	{method: "NewApprovals", what: "1000", do: once(func(b *bench) ([]engine.RunWait, error) {
		return b.NewApprovals(b.ctx, tenant.Default, engine.RunWait{BegunAt: b.run.BegunAt}, 1000)
	})},
	{method: "WorkflowUsers", what: "of a job that all workflows use", do: func(b *bench) (bool, error) {
		users, err := b.WorkflowUsers(b.ctx, tenant.Default, b.backlog.ID)
		must(0, b.exec("DELETE FROM workflow_uses")) // it is deleted below
		return true, want(err, len(users), 2+len(b.held)+len(b.behind)+len(b.lanes), "workflows")
	}},
	{method: "WakeRuns", times: 3, do: once(func(b *bench) ([]job.ExecutionID, error) { due, _, err := b.WakeRuns(b.ctx, 500); return due, err })},
	{method: "EventWaits", do: once(func(b *bench) ([]job.ExecutionID, error) {
		return b.EventWaits(b.ctx, tenant.Default, "paid", []byte(`"order 1"`), 1000)
	})},
	{method: "SendEvent", what: "for which one run waits, among very many that wait for others", times: 3, do: once(func(b *bench) ([]job.ExecutionID, error) {
		sent, err := b.SendEvent(b.ctx, engine.RunEvent{ID: newID(), Tenant: tenant.Default, Name: "paid", Match: []byte(`"order 1"`), At: b.now()}, engine.EventOnce{}, nil)
		return sent.Runs, err
	})},
	{method: "SendEvent", what: "for which very many runs wait", pieces: true, do: func(b *bench) (bool, error) {
		sent, err := b.SendEvent(b.ctx, engine.RunEvent{ID: newID(), Tenant: tenant.Default, Name: "paid", Match: []byte(`"order 0"`), At: b.now()}, engine.EventOnce{}, nil)
		return true, want(err, len(sent.Runs), b.sizes.waits+1, "runs")
	}},
	{method: "ChangeRuns", what: "the marks of a run that has very many, a thousand at a time", times: 5, do: goes(func(b *bench) (n int, err error) {
		_, err = changeRun(b, func(v engine.RunView) (*engine.RunChange, error) {
			n = len(v.Marks)
			c := b.sameRun()
			return &c, nil
		})
		return n, err
	})},
	{method: "ChangeRuns", what: "looks for an event, among very many", do: func(b *bench) (bool, error) {
		return changeRun(b, func(v engine.RunView) (*engine.RunChange, error) {
			none, err := v.Reader.Event(tenant.Default, "shipped", []byte(`"order 2"`), v.Now.Add(-engine.EventAge))
			if err == nil && none != nil {
				err = errors.New("an event that nobody sent")
			}
			return nil, err
		})
	}},
	{method: "ChangeRuns", what: "cancels as many items as one commit may", do: func(b *bench) (bool, error) {
		return changeRun(b, func(v engine.RunView) (*engine.RunChange, error) {
			c := b.sameRun()
			c.Cancel = []engine.NodeStop{{Node: 7}}
			return &c, nil
		})
	}},
	{method: "ForgetRuns", what: "2000 rows, of a run with very many items", times: 5, do: goes(func(b *bench) (int, error) {
		got, err := b.ForgetRuns(b.ctx, tenant.Default, b.run.BegunAt.Add(-time.Duration(b.sizes.runs-1)*time.Microsecond), engine.Place{}, 2000)
		return got.N, err
	})},
	{method: "ForgetRuns", what: "50 runs", times: 5, do: func(b *bench) (bool, error) {
		must(0, b.exec("DELETE FROM run_members WHERE run = "+b.literal(copyOf(runIDs, b.sizes.runs))))
		got, err := b.ForgetRuns(b.ctx, tenant.Default, b.run.BegunAt, engine.Place{}, 2000)
		return got.N > 0, err
	}},
	{method: "ForgetEvents", what: "2000 of very many", times: 5, do: goes(func(b *bench) (int, error) { return b.ForgetEvents(b.ctx, 2000) })},
}

func findRuns(f engine.RunFilter) func(*bench) (bool, error) {
	f.Tenant = tenant.Default
	return once(func(b *bench) (engine.Listed[engine.WorkflowRun], error) { return b.WorkflowRuns(b.ctx, f, page) })
}

// changeRun has something decide about the run.
func changeRun(b *bench, decide engine.Decide) (bool, error) {
	out, err := b.ChangeRuns(b.ctx, []job.ExecutionID{b.run.ID}, decide)
	if err == nil && len(out) == 1 {
		err = out[0].Err
	}
	return true, err
}
