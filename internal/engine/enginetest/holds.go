package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// hold returns a hold of a job; of the whole tenant, if the job is zero.
func (f fixture) hold(of job.ID, reason string) tenant.Hold {
	f.Helper()
	return tenant.Hold{ID: uuid.UUID(newID()).String(), Tenant: tenant.Default, Job: of, Reason: reason, By: "ann", At: f.now()}
}

func (f fixture) has(id job.ExecutionID) bool {
	f.Helper()
	_, err := f.Execution(f.ctx, tenant.Default, id)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		f.Fatal(err)
	}
	return err == nil
}

func holds(t *testing.T, h Harness) {
	f := open(t, h)
	a, ofA := f.done("a")
	b, ofB := f.done("b")
	run := f.begin(1)
	run.over()
	first := f.hold(a.ID, "one case")
	add := func(x tenant.Hold) tenant.Hold {
		t.Helper()
		e := f.anEntry("hold.add")
		e.Object = x.ID
		return must(f.AddHold(f.ctx, x, 4, &e))
	}
	add(first)
	again := first
	again.ID = uuid.UUID(newID()).String()
	if d := cmp.Diff(first, add(again)); d != "" {
		t.Errorf("the same again (-want +got):\n%s", d)
	}
	second, third := add(f.hold(a.ID, "another case")), add(f.hold(run.run.Workflow, "one case"))
	if got := must(f.Holds(f.ctx, tenant.Default)); len(got) != 3 || got[0] != first || got[1] != second || got[2] != third {
		t.Errorf("listed: %+v", got)
	}
	if got := must(f.Holds(f.ctx, "other")); len(got) != 0 {
		t.Errorf("of another tenant: %+v", got)
	}
	if got := must(f.Holds(f.ctx, "")); len(got) != 3 {
		t.Errorf("of all: %+v", got)
	}
	if _, err := f.AddHold(f.ctx, f.hold(newID(), "x"), 4, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("of an unknown job: %v", err)
	}
	if _, err := f.AddHold(f.ctx, f.hold(b.ID, "x"), 3, nil); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := f.DeleteHold(f.ctx, "other", first.ID, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("ended by another tenant: %v", err)
	}
	var held *engine.Held
	if _, err := f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: a.ID, AsOf: f.now()}); !errors.As(err, &held) || held.Hold != first {
		t.Errorf("a job on hold is deleted: %v", err)
	}

	later := f.now().Add(time.Hour)
	f.forget(tenant.Default, later)
	if !f.has(ofA.ID) || !f.knows(a.ID) || f.has(ofB.ID) || f.knows(b.ID) {
		t.Errorf("on hold: %v %v, not on hold: %v %v", f.has(ofA.ID), f.knows(a.ID), f.has(ofB.ID), f.knows(b.ID))
	}
	if !f.has(run.run.ID) || !f.has(run.members[0].ID) {
		t.Errorf("of a workflow on hold: its run %v, a node %v", f.has(run.run.ID), f.has(run.members[0].ID))
	}
	if got := must(f.DeleteHold(f.ctx, tenant.Default, first.ID, nil)); got != first {
		t.Errorf("ended: %+v", got)
	}
	if _, err := f.DeleteHold(f.ctx, tenant.Default, first.ID, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("ended again: %v", err)
	}
	if f.forget(tenant.Default, later); !f.has(ofA.ID) {
		t.Error("it is gone while the other hold lasts")
	}
	must(f.DeleteHold(f.ctx, tenant.Default, second.ID, nil))
	must(f.DeleteHold(f.ctx, tenant.Default, third.ID, nil))
	whole := must(f.AddHold(f.ctx, f.hold(job.ID{}, "all of it"), 4, nil))
	if n := f.forget(tenant.Default, later); n != 0 || !whole.OfTenant() {
		t.Errorf("of a tenant on hold %d are gone", n)
	}
	must(f.DeleteHold(f.ctx, tenant.Default, whole.ID, nil))
	f.forget(tenant.Default, later)
	if f.has(ofA.ID) || f.knows(a.ID) || f.has(run.run.ID) || f.has(run.members[0].ID) {
		t.Error("what no hold keeps is left")
	}
}

// What is there when the hold is answered stays, however the purge and the hold come together.
func holdBesidePurge(t *testing.T, h Harness) {
	f := open(t, h)
	const n = 40
	var es []job.ExecutionID
	j := f.manual("often")
	for range n {
		es = append(es, f.ends(j).ID)
	}
	later := f.now().Add(time.Hour)
	done := make(chan error, 1)
	go func() {
		for from, more := (engine.Place{}), true; more; {
			got, err := f.ForgetHistory(f.ctx, tenant.Default, later, from, 1)
			if err != nil {
				done <- err
				return
			}
			from, more = got.Next, got.More
		}
		done <- nil
	}()
	must(f.AddHold(f.ctx, f.hold(j.ID, "now"), 9, nil))
	var there []job.ExecutionID
	for _, id := range es {
		if f.has(id) {
			there = append(there, id)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, id := range there {
		if !f.has(id) {
			t.Errorf("%v was purged after its job was on hold", id)
		}
	}
}
