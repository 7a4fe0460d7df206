package enginetest

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// due tests the filter of due jobs, and that a job may move part of the way.
func due(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	if err := f.CreateTenant(f.ctx, tenant.Tenant{ID: "other", Name: "other", Tier: tenant.Pro, CreatedAt: now}, nil); err != nil {
		t.Fatal(err)
	}
	minute := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	names := func(q engine.DueFilter) (out []string) {
		t.Helper()
		if q.Until.IsZero() {
			q.Until = minute(60)
		}
		if q.Limit == 0 {
			q.Limit = 100
		}
		for _, d := range must(f.Due(f.ctx, q)) {
			out = append(out, d.Job.Name)
		}
		return out
	}
	for i, name := range []string{"a", "b", "c", "d"} {
		f.recurring(name, minute(i))
	}
	theirs := f.sample("theirs")
	theirs.Tenant, theirs.NextRunAt, theirs.Schedule = "other", minute(-1), job.Schedule{Type: job.Interval, Every: time.Minute}
	f.store(engine.Creation{Tenant: "other", Jobs: []job.Job{theirs}})
	for what, c := range map[string]struct {
		q    engine.DueFilter
		want []string
	}{
		"all, the earliest first":   {engine.DueFilter{}, []string{"theirs", "a", "b", "c", "d"}},
		"until, which is included":  {engine.DueFilter{Until: minute(1)}, []string{"theirs", "a", "b"}},
		"from, which is included":   {engine.DueFilter{From: minute(1)}, []string{"b", "c", "d"}},
		"from and until":            {engine.DueFilter{From: minute(1), Until: minute(2)}, []string{"b", "c"}},
		"some are skipped":          {engine.DueFilter{From: minute(0), Skip: 2}, []string{"c", "d"}},
		"a page behind others":      {engine.DueFilter{Skip: 1, Limit: 2}, []string{"a", "b"}},
		"more are skipped than are": {engine.DueFilter{Skip: 9}, nil},
		"without a tenant":          {engine.DueFilter{Without: []tenant.ID{"other"}}, []string{"a", "b", "c", "d"}},
		"without another":           {engine.DueFilter{Without: []tenant.ID{"nobody", tenant.Default}, Limit: 1}, []string{"theirs"}},
	} {
		if got := names(c.q); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	t.Run("a job moves part of the way", func(t *testing.T) {
		j := f.recurring("parts", minute(-100), func(j *job.Job) { j.Overlap, j.Schedule.MaxRuns = job.OverlapAllow, 0 })
		first := f.firing(j, minute(-100), minute(-98), 2)
		first.Skips = []job.Execution{j.Skip(newID(), job.Stretch{From: minute(-120), To: minute(-101), Count: 20}, job.SkipMissed, now)}
		again := f.firing(j, minute(-100), minute(-97), 3) // by another scheduler, which had not seen the first
		second := f.firing(j, minute(-98), minute(1), 3)
		for i, c := range []struct {
			g    engine.Firing
			want int
		}{{first, 2}, {again, 0}, {first, 0}, {second, 3}, {second, 0}} {
			if got := must(f.Fire(f.ctx, []engine.Firing{c.g}, engine.Fence{})).Ready; len(got) != c.want {
				t.Errorf("step %d: %d fired, want %d", i, len(got), c.want)
			}
		}
		if got := f.job(j.ID); got.Runs != 5 || !got.NextRunAt.Equal(minute(1)) {
			t.Errorf("runs %d, next %v", got.Runs, got.NextRunAt)
		}
		all := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: j.Tenant, Job: j.ID}, engine.Page{Limit: 100})).Executions
		if len(all) != 6 {
			t.Errorf("%d executions and records, want 6", len(all))
		}
	})
}
