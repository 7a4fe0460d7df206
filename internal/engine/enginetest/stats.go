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
	read := func(ids ...job.ID) []job.Stats { return must(f.Stats(f.ctx, tenant.Default, ids)) }
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
	})
	t.Run("of many executions", func(t *testing.T) {
		j, first := f.add("many")
		b, _ := f.add("beside")
		ids := []job.ExecutionID{first.ID}
		for range 30 {
			e := f.due(j)
			e.Trigger = job.ByHand
			must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}))
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
		must(f.Trigger(f.ctx, tenant.Default, last, engine.Idempotency{}))
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
		must(f.DeleteJob(f.ctx, tenant.Default, j.ID, f.now()))
		if got := read(j.ID)[0]; got.Total != 1 || got.Succeeded != 0 || got.LastStatus != job.Cancelled || got.AvgDuration != 0 || got.P95Duration != 0 || !got.LastRunAt.IsZero() {
			t.Errorf("got %+v", got)
		}
	})
}

func near(got, want time.Duration) bool {
	return (got - want).Abs() <= max(want/10, 2*time.Microsecond)
}

func (f fixture) took(id job.ExecutionID) job.Attempt {
	f.Helper()
	_, as := f.take(id)
	return as[0]
}
