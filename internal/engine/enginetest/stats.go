package enginetest

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func stats(t *testing.T, h Harness) {
	f := open(t, h)
	read := func(ids ...job.ID) []job.Stats {
		all := must(f.Stats(f.ctx, tenant.Default, ids))
		lasts := must(f.LastStatus(f.ctx, tenant.Default, ids, time.Time{}))
		if len(lasts) != len(ids) {
			t.Fatalf("the last status of %d of %d jobs", len(lasts), len(ids))
		}
		for i, last := range lasts {
			if last != all[i].LastStatus {
				t.Errorf("the last status is %v, in the statistics it is %v", last, all[i].LastStatus)
			}
		}
		return all
	}
	t.Run("none", func(t *testing.T) {
		j, _ := f.add("waits")
		got := read(j.ID, newID())
		if len(got) != 2 || got[0] != (job.Stats{}) || got[1] != (job.Stats{}) {
			t.Errorf("got %+v", got)
		}
		if got := read(); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("of a one-off job", func(t *testing.T) {
		j, e := f.add("once")
		_, as := f.take(e.ID)
		if got := read(j.ID)[0]; got.Total != 0 || !got.LastRunAt.Equal(as[0].LeasedAt) {
			t.Errorf("while it runs: %+v", got)
		}
		f.report(succeed(as[0]))
		end := f.execution(e.ID)
		took := end.Duration()
		got := read(j.ID)[0]
		if got.Total != 1 || got.Succeeded != 1 || got.LastStatus != job.Succeeded || !got.LastRunAt.Equal(as[0].LeasedAt) || got.AvgDuration != took || !near(got.P95Duration, took) {
			t.Errorf("after %v: %+v", took, got)
		}
		if other := must(f.Stats(f.ctx, "other", []job.ID{j.ID})); other[0] != (job.Stats{}) {
			t.Errorf("another tenant sees %+v", other)
		}
		if other := must(f.LastStatus(f.ctx, "other", []job.ID{j.ID}, time.Time{})); other[0] != 0 {
			t.Errorf("another tenant sees %v", other)
		}
		at := end.FinishedAt
		if since, after := must(f.LastStatus(f.ctx, tenant.Default, []job.ID{newID(), j.ID}, at)), must(f.LastStatus(f.ctx, tenant.Default, []job.ID{j.ID}, at.Add(time.Microsecond))); since[0] != 0 || since[1] != job.Succeeded || after[0] != 0 {
			t.Errorf("since it finished %v, after that %v", since, after)
		}
		e = f.due(j) // one more, which is tallied: the latest counts
		e.Trigger = job.ByHand
		must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
		f.report(die(f.took(e.ID), 1))
		if got := read(j.ID)[0]; got.Total != 2 || got.LastStatus != job.Failed {
			t.Errorf("after another: %+v", got)
		}
	})
	t.Run("of many executions", func(t *testing.T) {
		j, first := f.add("many")
		b, _ := f.add("beside")
		ids := []job.ExecutionID{first.ID}
		for range 30 {
			e := f.due(j)
			e.Trigger = job.ByHand
			must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
			ids = append(ids, e.ID)
		}
		_, as := f.take(ids...)
		var fs []job.Finish
		for i, a := range as {
			if i%3 == 0 {
				fs = append(fs, die(a, 1))
			} else {
				fs = append(fs, succeed(a))
			}
		}
		f.report(fs[:10]...)
		f.report(fs[:20]...) // ten of them again
		f.report(fs[20:]...)
		last := f.due(j)
		last.Trigger = job.ByHand
		must(f.Trigger(f.ctx, tenant.Default, last, engine.Idempotency{}, nil))
		f.report(again(f.took(last.ID), f.now(), 1))
		f.report(succeed(f.took(last.ID)))
		var sum time.Duration
		var all []time.Duration
		for _, id := range append(ids, last.ID) {
			d := f.execution(id).Duration()
			sum += d
			all = append(all, d)
		}
		slices.Sort(all)
		got := read(b.ID, j.ID)[1]
		if got.Total != 32 || got.Succeeded != 21 || got.LastStatus != job.Succeeded || !got.LastRunAt.Equal(f.execution(last.ID).StartedAt) {
			t.Errorf("got %+v", got)
		}
		if want := sum / 32; (got.AvgDuration - want).Abs() > time.Microsecond {
			t.Errorf("average %v, want %v", got.AvgDuration, want)
		}
		if want := all[30]; !near(got.P95Duration, want) {
			t.Errorf("95th percentile %v, want %v of %v", got.P95Duration, want, all)
		}
	})
	t.Run("what never started counts, without a duration", func(t *testing.T) {
		j, _ := f.add("cancelled")
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
		if got := read(j.ID)[0]; got.Total != 1 || got.Succeeded != 0 || got.LastStatus != job.Cancelled || got.AvgDuration != 0 || got.P95Duration != 0 || !got.LastRunAt.IsZero() {
			t.Errorf("got %+v", got)
		}
	})
}

// statsOfMany tests a job with more waiting executions than are examined: running ones are found at both ends.
func statsOfMany(t *testing.T, h Harness) {
	f := open(t, h)
	j, _ := f.add("a job")
	var es []job.Execution
	for i := range 2*engine.StatsLook + 10 {
		e := f.due(j)
		e.Trigger, e.ScheduledAt = job.ByBackfill, e.ScheduledAt.Add(time.Duration(i-5000)*time.Minute)
		es = append(es, e)
	}
	must(f.Backfill(f.ctx, tenant.Default, j.ID, es))
	ran := func() time.Time { return must(f.Stats(f.ctx, tenant.Default, []job.ID{j.ID}))[0].LastRunAt }
	if at := ran(); !at.IsZero() {
		t.Errorf("nothing ran, and yet at %v", at)
	}
	for _, i := range []int{0, len(es) - 1, engine.StatsLook - 1} {
		if a := f.took(es[i].ID); !ran().Equal(a.LeasedAt) {
			t.Errorf("number %d started at %v, the last run is of %v", i, a.LeasedAt, ran())
		}
	}
}

func near(got, want time.Duration) bool {
	return (got - want).Abs() <= max(want/10, 2*time.Microsecond)
}

func (f fixture) took(id job.ExecutionID) job.Attempt {
	f.Helper()
	_, as := f.take(id)
	return as[0]
}
