package enginetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// leased reads again what was leased: only for its holder, only while it may start, and with the definition as it is
// now.
func leased(t *testing.T, h Harness) {
	f := open(t, h)
	read := func(w job.WorkerID, as ...job.Attempt) []*job.Attempt {
		t.Helper()
		hs := make([]engine.HeldBy, len(as))
		for i, a := range as {
			hs[i] = engine.HeldBy{Worker: w, Lease: a.Lease}
		}
		got := must(f.Leased(f.ctx, hs))
		if len(got) != len(as) {
			t.Fatalf("read %d of %d", len(got), len(as))
		}
		return got
	}
	gone := func(when string, w job.WorkerID, a job.Attempt) {
		t.Helper()
		if got := read(w, a); got[0] != nil {
			t.Errorf("%s: read %+v, want nothing", when, got[0])
		}
	}
	add := func(name string) job.ExecutionID { _, e := f.add(name); return e.ID }

	if got := read(f.worker()); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
	w, as := f.take(add("one"), add("two"))
	if d := cmp.Diff([]*job.Attempt{&as[1], &as[0], &as[1]}, read(w, as[1], as[0], as[1])); d != "" {
		t.Errorf("it differs from what was leased (-leased +read):\n%s", d)
	}

	gone("another worker's", f.worker(), as[0])
	stale := as[0]
	stale.Token--
	gone("an older token", w, stale)
	stale.Token = -as[0].Token
	gone("a negative token", w, stale)
	gone("an unknown execution", w, job.Attempt{Lease: job.Lease{Execution: newID(), Token: as[0].Token}})
	if got := read(w, stale, as[0]); got[0] != nil || got[1] == nil || got[1].Lease != as[0].Lease {
		t.Errorf("beside one that is gone: %+v", got)
	}
	thief := engine.HeldBy{Worker: f.worker(), Lease: as[0].Lease}
	if got := must(f.Leased(f.ctx, []engine.HeldBy{thief, {Worker: w, Lease: as[0].Lease}, thief})); got[0] != nil || got[1] == nil || got[2] != nil {
		t.Errorf("others than its holder, beside it: %+v", got)
	}

	for name, end := range map[string]func(w job.WorkerID, a job.Attempt){
		"released":  func(w job.WorkerID, a job.Attempt) { must(f.Release(f.ctx, w, []job.Lease{a.Lease})) },
		"finished":  func(_ job.WorkerID, a job.Attempt) { f.report(succeed(a)) },
		"parked":    func(_ job.WorkerID, a job.Attempt) { f.park(a, f.now().Add(time.Hour)) },
		"cancelled": func(_ job.WorkerID, a job.Attempt) { must(f.Cancel(f.ctx, tenant.Default, a.Execution, "enough", nil)) },
		"left":      func(w job.WorkerID, _ job.Attempt) { must(f.Leave(f.ctx, w)) },
		"reaped": func(w job.WorkerID, _ job.Attempt) {
			f.expire(w)
			must(f.Reap(f.ctx, 10, 3))
		},
		"of a deleted job": func(_ job.WorkerID, a job.Attempt) {
			must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: a.Job, AsOf: f.now()}))
		},
	} {
		w, as := f.take(add(name), add(name+", its neighbour"))
		end(w, as[0])
		gone(name, w, as[0])
	}

	// A payload of its own stays; the rest is as the job is now.
	j, e := f.add("changed", func(_ *job.Job, e *job.Execution) { e.Payload = []byte(`{"own":1}`) })
	w, as = f.take(e.ID)
	j.Target.URL, j.Target.Headers, j.Payload = "https://example.org/new", map[string]string{"X-B": "${secret:b}"}, []byte(`{}`)
	must(f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, AsOf: f.now()}))
	want := as[0]
	want.Target.URL, want.Target.Headers = j.Target.URL, j.Target.Headers
	if d := cmp.Diff([]*job.Attempt{&want}, read(w, as[0])); d != "" {
		t.Errorf("after a change of its job (-want +read):\n%s", d)
	}
}
