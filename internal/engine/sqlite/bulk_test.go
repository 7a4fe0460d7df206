package sqlite

import (
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Among many that go in one statement each has its own verdict, and what is to be tallied is.
func TestManyAtOnce(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 2*bulk+few+3)
	c.Executions[5].ID = newID() // not the job's own fire
	store(t, b.Store, c)
	wishes := slices.Concat(ids(c), ids(c)[:3]) // some twice
	as := b.take(wishes...)
	if len(as) != len(c.Jobs) {
		t.Fatalf("leased %d of %d", len(as), len(c.Jobs))
	}
	var fs []job.Finish
	for i, a := range as {
		if a.Execution != wishes[i] {
			t.Fatalf("%d is not in the order asked for", i)
		}
		fs = append(fs, job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}})
	}
	fs[bulk+1].Outcome.Token += 1 << 20 // a lease that does not hold
	fs = slices.Insert(fs, 10, fs[9])   // a repeat
	vs, err := b.Finish(t.Context(), fs)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vs {
		if want := i != bulk+2; v.Accepted != want || v.Execution != fs[i].Outcome.Execution {
			t.Errorf("%d: %+v", i, v)
		}
	}
	if n := b.count("SELECT count(*) FROM executions"); n != len(as)-1 {
		t.Errorf("%d have ended, want %d", n, len(as)-1)
	}
	if n := b.count("SELECT count(*) FROM live"); n != 1 {
		t.Errorf("%d are live, want the one whose lease did not hold", n)
	}
	if n := b.count("SELECT total FROM job_stats"); n != 1 {
		t.Errorf("%d are tallied, want the one that is no job's own fire", n)
	}
	got, err := b.Stats(t.Context(), tenant.Default, []job.ID{c.Jobs[0].ID, c.Jobs[5].ID})
	if err != nil || got[0].Total != 1 || got[1].Total != 1 {
		t.Errorf("statistics %+v, %v", got, err)
	}
	if out, err := b.CreateJobs(t.Context(), []engine.Creation{c}); err != nil || out[0].Taken != "" {
		t.Errorf("the same again: %+v, %v", out, err)
	}
}
