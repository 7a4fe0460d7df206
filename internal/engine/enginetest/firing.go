package enginetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// runs tests what counts as a run of a job.
func runs(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	minute := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	fire := func(gs ...engine.Firing) int { return len(must(f.Fire(f.ctx, gs, engine.Fence{})).Ready) }
	expect := func(t *testing.T, id job.ID, runs int64, next time.Time) {
		t.Helper()
		if got := f.job(id); got.Runs != runs || !got.NextRunAt.Equal(next) || got.State != job.Active {
			t.Errorf("runs %d, next %v, %v; want %d, %v, ACTIVE", got.Runs, got.NextRunAt, got.State, runs, next)
		}
	}
	t.Run("what overlaps is none, and its turn comes again", func(t *testing.T) {
		j := f.recurring("overlaps", minute(0))
		first := f.firing(j, minute(0), minute(1), 1)
		fire(first)
		last := f.firing(j, minute(1), time.Time{}, 1)
		last.Spare = minute(2)
		if n := fire(last); n != 0 {
			t.Fatalf("%d fired", n)
		}
		f.report(succeed(f.took(first.Executions[0].ID)))
		expect(t, j.ID, 1, minute(2))
		some := f.firing(j, minute(2), time.Time{}, 3)
		some.Spare = minute(3)
		if n := fire(some); n != 1 {
			t.Fatalf("%d of three at once fired", n)
		}
		expect(t, j.ID, 2, minute(3))
	})
	t.Run("what lacks its unique key is none", func(t *testing.T) {
		f.add("has it", unique("runs"))
		j := f.recurring("lacks it", minute(0), func(j *job.Job) { j.Overlap, j.UniqueKey = job.OverlapAllow, "runs" })
		g := f.firing(j, minute(0), time.Time{}, 1)
		g.Spare = minute(1)
		fire(g)
		expect(t, j.ID, 0, minute(1))
		g = f.firing(j, minute(1), minute(2), 1) // not its last: there is no other instant to go to
		fire(g)
		expect(t, j.ID, 0, minute(2))
	})
	t.Run("all that fire are", func(t *testing.T) {
		j := f.recurring("ends", minute(0), func(j *job.Job) { j.Overlap = job.OverlapAllow })
		g := f.firing(j, minute(0), time.Time{}, 2)
		g.Spare = minute(1)
		fire(g)
		expect(t, j.ID, 2, time.Time{})
	})
	t.Run("what fired before is none, among many", func(t *testing.T) {
		var gs []engine.Firing
		var js []job.Job
		for i := range 70 {
			j := f.recurring(fmt.Sprint("one of many ", i), minute(0), func(j *job.Job) { j.Overlap = job.OverlapAllow })
			if i%30 == 7 {
				fire(f.firing(j, minute(0), minute(0), 1)) // its cursor stays where it is
			}
			js, gs = append(js, j), append(gs, f.firing(j, minute(0), minute(1), 1))
		}
		if n := fire(gs...); n != 67 {
			t.Errorf("%d fired, want all but the three that had", n)
		}
		for _, j := range js {
			expect(t, j.ID, 1, minute(1))
			page := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: tenant.Default, Job: j.ID}, engine.Page{Limit: 9}))
			if len(page.Executions) != 1 || page.Executions[0].Status != job.Pending {
				t.Errorf("it has %+v", page.Executions)
			}
		}
	})
	t.Run("nor is what was staged, where it is planned anew", func(t *testing.T) {
		j := f.recurring("staged", minute(5), func(j *job.Job) { j.Overlap, j.Schedule.MaxRuns = job.OverlapAllow, 3 })
		fire(f.firing(j, minute(5), time.Time{}, 3))
		expect(t, j.ID, 3, time.Time{})
		u := engine.Update{Job: f.job(j.ID), Replan: true, AsOf: now}
		u.Job.Schedule.MaxRuns, u.Job.NextRunAt = 1, minute(5)
		got, err := f.UpdateJob(f.ctx, tenant.Default, u)
		if err != nil || got.Runs != 0 || !got.NextRunAt.Equal(minute(5)) || got.Schedule.MaxRuns != 1 {
			t.Fatalf("got %+v, %v", got, err)
		}
		fire(f.firing(got, minute(5), minute(-1), 0))
		j = f.job(j.ID)
		fire(f.firing(j, minute(-1), time.Time{}, 1))
		u.Job, u.Job.NextRunAt = f.job(j.ID), minute(5)
		var spent *engine.Spent
		if _, err := f.UpdateJob(f.ctx, tenant.Default, u); !errors.As(err, &spent) || spent.Runs != 1 {
			t.Errorf("it has run as often as it may: %v", err)
		}
		expect(t, j.ID, 1, time.Time{})
	})
}

// overlapping tests queue and replace after something has started.
func overlapping(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	minute := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	fire := func(g engine.Firing) int { return len(must(f.Fire(f.ctx, []engine.Firing{g}, engine.Fence{})).Ready) }
	with := func(o job.Overlap) func(*job.Job) { return func(j *job.Job) { j.Overlap = o } }
	t.Run("what is tried again does not wait", func(t *testing.T) {
		j := f.recurring("queues", minute(0), with(job.OverlapQueue))
		g := f.firing(j, minute(0), minute(1), 1)
		fire(g)
		f.report(again(f.took(g.Executions[0].ID), minute(9), 1))
		if got := f.execution(g.Executions[0].ID).Status; got != job.Retrying {
			t.Fatalf("it is %v", got)
		}
		g2, g3 := f.firing(j, minute(1), minute(2), 1), f.firing(j, minute(2), minute(3), 1)
		if n := fire(g2); n != 1 {
			t.Errorf("%d fired, want one that waits", n)
		}
		if n := fire(g3); n != 0 {
			t.Errorf("while one waits %d fired", n)
		}
	})
	t.Run("what was handed back and never ran waits", func(t *testing.T) {
		j := f.recurring("queues, too", minute(0), with(job.OverlapQueue))
		g := f.firing(j, minute(0), minute(1), 1)
		fire(g)
		must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{f.took(g.Executions[0].ID).Lease}))
		if n := fire(f.firing(j, minute(1), minute(2), 1)); n != 0 {
			t.Errorf("%d fired", n)
		}
	})
	t.Run("replace what waits", func(t *testing.T) {
		j := f.recurring("replaces", minute(0), with(job.OverlapReplace), func(j *job.Job) { j.UniqueKey = "replaced" })
		g, g2 := f.firing(j, minute(0), minute(1), 1), f.firing(j, minute(1), minute(2), 1)
		fire(g)
		byHand := j.Fire(newID(), minute(0), now)
		byHand.Trigger, byHand.UniqueKey = job.ByHand, ""
		must(f.Trigger(f.ctx, tenant.Default, byHand, engine.Idempotency{}, nil))
		stale := g2
		stale.Revision++
		if n := fire(stale); n != 0 || f.execution(g.Executions[0].ID).Status != job.Pending {
			t.Errorf("%d fired, or something was replaced although nothing fired", n)
		}
		if n := fire(g2); n != 1 {
			t.Errorf("%d fired, want one: the unique key is free", n)
		}
		old := f.execution(g.Executions[0].ID)
		if old.Status != job.Cancelled || old.Error == nil || old.Error.Message != engine.ReplacedBy(minute(1)) {
			t.Errorf("it is %v, %+v", old.Status, old.Error)
		}
		if got := f.execution(byHand.ID).Status; got != job.Pending {
			t.Errorf("a manual one is %v", got)
		}
		if n := fire(g2); n != 0 || f.execution(g2.Executions[0].ID).Status != job.Pending {
			t.Errorf("again: %d fired", n)
		}
	})
	t.Run("replace what runs", func(t *testing.T) {
		j := f.recurring("replaces what runs", minute(0), with(job.OverlapReplace))
		g, g2 := f.firing(j, minute(0), minute(1), 1), f.firing(j, minute(1), minute(2), 1)
		fire(g)
		w, as := f.take(g.Executions[0].ID)
		if n := fire(g2); n != 1 {
			t.Errorf("%d fired", n)
		}
		orders := must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, time.Hour)).Orders
		if len(orders) != 1 || orders[0].Kind != job.OrderCancel || orders[0].Lease != as[0].Lease {
			t.Errorf("orders: %+v", orders)
		}
		if got := f.told(g.Executions[0].ID); len(got) != 1 || got[0] != job.EventAsked {
			t.Errorf("events: %v", got)
		}
		must(f.Release(f.ctx, job.WorkerID{}, []job.Lease{as[0].Lease}))
		if got := f.execution(g.Executions[0].ID); got.Status != job.Cancelled || got.Error.Message != engine.ReplacedBy(minute(1)) {
			t.Errorf("handed back, it is %v, %+v", got.Status, got.Error)
		}
	})
	t.Run("replace what is parked", func(t *testing.T) {
		j := f.recurring("replaces what is parked", minute(0), with(job.OverlapReplace))
		g, g2 := f.firing(j, minute(0), minute(1), 1), f.firing(j, minute(1), minute(2), 1)
		fire(g)
		f.park(f.took(g.Executions[0].ID), f.now().Add(time.Hour))
		if n := fire(g2); n != 1 {
			t.Errorf("%d fired", n)
		}
		if got := f.execution(g.Executions[0].ID); got.Status != job.Cancelled || got.Error.Message != engine.ReplacedBy(minute(1)) {
			t.Errorf("it is %v, %+v", got.Status, got.Error)
		}
	})
	t.Run("what runs is left where its successor cannot be", func(t *testing.T) {
		j := f.recurring("replaces nothing", minute(0), with(job.OverlapReplace), func(j *job.Job) { j.UniqueKey = "runs on" })
		g, g2 := f.firing(j, minute(0), minute(1), 1), f.firing(j, minute(1), minute(2), 1)
		fire(g)
		w, _ := f.take(g.Executions[0].ID)
		if n := fire(g2); n != 0 || f.execution(g2.Executions[0].ID).Status != job.Skipped {
			t.Errorf("%d fired", n)
		}
		if orders := must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, time.Hour)).Orders; len(orders) != 0 {
			t.Errorf("orders: %+v", orders)
		}
	})
}
