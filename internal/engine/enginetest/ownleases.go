package enginetest

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// ownLeases makes workers report on leases that others hold: a worker of the same tenant, one that serves all, and
// one of another tenant that guessed execution and token.
func ownLeases(t *testing.T, f fixture) {
	by := func(w job.WorkerID, x job.Finish) job.Finish {
		x.Worker = w
		return x
	}
	snooze := func(a job.Attempt) job.Finish {
		return job.Finish{
			Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSnoozed, RetryAfter: time.Minute, Error: boom},
			Then:    job.Transition{Move: job.Snoozed, Status: job.Pending, DueAt: f.now().Add(time.Minute)},
		}
	}
	stop := func(a job.Attempt) job.Finish {
		return job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeCancelled}, Then: job.Transition{Move: job.Stopped, Status: job.Cancelled}}
	}
	unknown := func(what string, vs ...job.Verdict) {
		t.Helper()
		for _, v := range vs {
			if v.Accepted || v.Reason != job.RefusedUnknown {
				t.Errorf("%s: %+v, want it unknown", what, v)
			}
		}
	}
	thieves := map[string]job.WorkerID{"one that serves all": f.worker()}
	for name, of := range map[string]tenant.ID{"one of the tenant's": tenant.Default, "another tenant's": "thieves"} {
		w := job.Worker{ID: newID(), Tenant: of, Host: "host", Version: "v", Capacity: 10, StartedAt: f.now()}
		if err := f.Register(f.ctx, w, time.Hour); err != nil {
			t.Fatal(err)
		}
		thieves[name] = w.ID
	}
	for name, thief := range thieves {
		_, e := f.add("held by another")
		_, neighbour := f.add("beside it")
		owner, as := f.take(e.ID, neighbour.ID)
		a := as[0]
		for _, x := range []job.Finish{succeed(a), again(a, f.now(), 1), die(a, 1), snooze(a), stop(a)} {
			unknown(name, f.report(by(thief, x))...)
		}
		unknown(name, must(f.Park(f.ctx, []engine.Parking{{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeParked}, Worker: thief, Until: f.now().Add(time.Hour)}}))...)
		if rs := must(f.Release(f.ctx, thief, []job.Lease{a.Lease})).Ready; len(rs) != 0 {
			t.Errorf("%s released %+v", name, rs)
		}
		got := must(f.Renew(f.ctx, []engine.Renewal{
			{Worker: owner, Advances: []job.Advance{{Lease: a.Lease, Percent: 10, Message: "its own"}}},
			{Worker: thief, Advances: []job.Advance{{Lease: a.Lease, Percent: 90, Message: "stolen"}}},
		}, time.Hour))
		if len(got.Orders) != 1 || got.Orders[0] != (job.Order{Worker: thief, Lease: a.Lease, Kind: job.OrderLost}) {
			t.Errorf("%s: orders %+v", name, got.Orders)
		}
		if x := f.execution(e.ID); x.Status != job.Running || x.Token != a.Token || x.Attempt != 1 || x.Progress == nil || x.Progress.Percent != 10 {
			t.Errorf("%s: it is %+v", name, x)
		}
		if es := must(f.Events(f.ctx, tenant.Default, e.ID)); len(es) != 0 {
			t.Errorf("%s left %+v", name, es)
		}
		// In one batch with its owner's reports, before and after, and in one of successes.
		vs := f.report(by(thief, die(a, 1)), by(thief, succeed(as[1])), by(owner, succeed(as[1])), by(owner, succeed(a)), by(thief, stop(a)))
		unknown(name+" before its owner", vs[0], vs[1])
		if !vs[2].Accepted || !vs[3].Accepted {
			t.Errorf("the owner beside %s: %+v", name, vs)
		}
		if vs[4].Accepted {
			t.Errorf("%s behind the owner: %+v", name, vs[4])
		}
		if x, y := f.execution(e.ID), f.execution(neighbour.ID); x.Status != job.Succeeded || y.Status != job.Succeeded {
			t.Errorf("beside %s they are %v and %v", name, x.Status, y.Status)
		}
	}
	// Another tenant's worker is given nothing, even beside its own.
	_, free := f.add("free")
	_, theirs := f.add("theirs", func(j *job.Job, e *job.Execution) { j.Tenant, e.Tenant = "thieves", "thieves" })
	got := must(f.Lease(f.ctx, []engine.Grant{{Worker: thieves["another tenant's"], Executions: []job.ExecutionID{free.ID, theirs.ID}}}, engine.Fence{}))
	if len(got) != 1 || got[0].Execution != theirs.ID {
		t.Errorf("a worker of another tenant was given %+v", got)
	}
	if x := f.execution(free.ID); x.Status != job.Pending || x.Attempt != 0 {
		t.Errorf("what it asked for is %+v", x)
	}
	// Another tenant's worker learns nothing of finished executions, either, and leaves no trace there.
	_, e := f.add("over")
	owner, as := f.take(e.ID)
	if vs := f.report(by(owner, succeed(as[0]))); !vs[0].Accepted {
		t.Fatalf("its owner: %+v", vs)
	}
	unknown("what is over", f.report(by(thieves["another tenant's"], succeed(as[0])), by(thieves["another tenant's"], die(as[0], 1)))...)
	if es := must(f.Events(f.ctx, tenant.Default, e.ID)); len(es) != 0 {
		t.Errorf("events: %+v", es)
	}
	if vs := f.report(by(owner, succeed(as[0]))); !vs[0].Accepted {
		t.Errorf("its owner again: %+v", vs)
	}
}
