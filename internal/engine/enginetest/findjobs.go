package enginetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func findJobsByOwner(t *testing.T, h Harness) {
	f := open(t, h)
	owners := []string{"alice", "Alice", "al", `"o":"alice"`, "Größe & <Söhne>", "", "nobody\\"}
	for i, who := range owners {
		f.add(fmt.Sprintf("job %d", i), func(j *job.Job, _ *job.Execution) {
			j.Owner, j.Description, j.Runbook, j.Labels = who, `{"o":"alice"}`, `"o":"alice"`, []string{"o"}
		})
	}
	for i, who := range owners {
		if who == "" {
			continue
		}
		page := must(f.FindJobs(f.ctx, engine.JobFilter{Tenant: tenant.Default, Owner: who}, engine.Page{Limit: 10}))
		if len(page.Jobs) != 1 || page.Jobs[0].Name != fmt.Sprintf("job %d", i) || page.Total.Count != 1 {
			t.Errorf("of %s: %+v", who, page)
		}
	}
	for _, who := range []string{"lice", "alice\",\"l", "bob"} {
		if page := must(f.FindJobs(f.ctx, engine.JobFilter{Tenant: tenant.Default, Owner: who}, engine.Page{Limit: 10})); len(page.Jobs) != 0 {
			t.Errorf("of %s: %+v", who, page)
		}
	}
}

func findJobsThatAreLate(t *testing.T, h Harness) {
	f := open(t, h)
	late := func(tn tenant.ID, name string, by time.Duration) job.Job {
		j := f.sample(name)
		j.Tenant, j.Schedule, j.NextRunAt = tn, job.Schedule{Type: job.Interval, Every: time.Hour}, f.now().Add(-by)
		return j
	}
	var jobs []job.Job
	for i := range 6 {
		jobs = append(jobs, late(tenant.Default, fmt.Sprintf("late %d", i), time.Duration(i)*time.Minute))
	}
	paused := late(tenant.Default, "paused", time.Hour)
	paused.State = job.Paused
	ahead := late(tenant.Default, "ahead", -time.Hour)
	f.store(engine.Creation{Tenant: tenant.Default, Jobs: append(jobs, paused, ahead)})
	f.store(engine.Creation{Tenant: "other", Jobs: []job.Job{late("other", "other's", time.Hour)}})
	f.add("at once")

	check := func(when string, bounded bool) {
		t.Helper()
		q := engine.JobFilter{Tenant: tenant.Default, LateBefore: f.now().Add(-90 * time.Second)}
		var got []string
		for p := (engine.Page{Limit: 3, Bounded: bounded}); ; {
			page := must(f.FindJobs(f.ctx, q, p))
			if page.Total != (engine.Total{Count: 4}) {
				t.Errorf("%s: a total of %+v", when, page.Total)
			}
			for _, j := range page.Jobs {
				got = append(got, j.Name)
			}
			if p.Cursor = page.Next; page.Next == "" {
				break
			}
		}
		if want := []string{"late 5", "late 4", "late 3", "late 2"}; !slices.Equal(got, want) {
			t.Errorf("%s: %v are late, want %v", when, got, want)
		}
		for state, n := range map[job.State]int{job.Active: 4, job.Paused: 0, job.Completed: 0} {
			q.State = state
			if page := must(f.FindJobs(f.ctx, q, engine.Page{Limit: 10})); len(page.Jobs) != n {
				t.Errorf("%s: %d that are %v are late, want %d", when, len(page.Jobs), state, n)
			}
		}
	}
	check("few", false)
	check("few", true)
	crowd := make([]job.Job, engine.TotalExact)
	for i := range crowd {
		crowd[i] = late("crowd", fmt.Sprint("crowd ", i), time.Hour)
	}
	f.store(engine.Creation{Tenant: "crowd", Jobs: crowd})
	check("many", false)
	check("many", true)
}
