package enginetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func tallies(t *testing.T, h Harness) {
	f := open(t, h)
	one, two := engine.ServerID(newID()), engine.ServerID(newID())
	keep := func(s engine.ServerID, number int64, x engine.Tally) {
		t.Helper()
		if err := f.KeepTally(f.ctx, s, number, x); err != nil {
			t.Fatal(err)
		}
	}
	now := f.now().Truncate(time.Minute)

	t.Run("minutes", func(t *testing.T) {
		a := engine.TenantMinute{
			Tenant: "acme", At: now, Started: 9, Succeeded: 5, Failed: 1, TimedOut: 2, Cancelled: 3, Dead: 3, Skipped: 4, Retried: 1, Waited: 8,
			Wait: time.Second, MaxWait: 300 * time.Millisecond, MaxDelay: 2 * time.Second,
		}
		a.Delays[0], a.Delays[7] = 5, 1
		keep(one, 1, engine.Tally{Minutes: []engine.TenantMinute{{Tenant: "acme", At: now, Started: 1}}})
		keep(one, 2, engine.Tally{Minutes: []engine.TenantMinute{a, {Tenant: "acme", At: now.Add(-time.Minute), Started: 1}, {At: now, Started: 7}}})
		keep(one, 2, engine.Tally{Minutes: []engine.TenantMinute{{Tenant: "acme", At: now, Started: 1000}}}) // it is there
		keep(two, 1, engine.Tally{Minutes: []engine.TenantMinute{{Tenant: "acme", At: now.Add(10 * time.Second), Started: 1, MaxWait: time.Second}, {Tenant: "acme", At: now.Add(-27 * time.Hour), Started: 3}}})
		sum := a
		sum.Add(engine.TenantMinute{Started: 1, MaxWait: time.Second})
		if d := cmp.Diff([]engine.TenantMinute{{Tenant: "acme", At: now.Add(-time.Minute), Started: 1}, sum}, must(f.TenantMinutes(f.ctx, "acme", now.Add(-time.Hour)))); d != "" {
			t.Errorf("minutes (-want +got):\n%s", d)
		}
		if got := must(f.TenantMinutes(f.ctx, "", now.Add(30*time.Second))); len(got) != 1 || got[0].Started != 7 {
			t.Errorf("of all: %+v", got)
		}
		if got := must(f.TenantMinutes(f.ctx, "other", now.Add(-time.Hour))); len(got) != 0 {
			t.Errorf("of another: %+v", got)
		}
		must(f.Tidy(f.ctx))
		if got := must(f.TenantMinutes(f.ctx, "acme", now.Add(-100*time.Hour))); len(got) != 2 {
			t.Errorf("%d minutes are left, want 2", len(got))
		}
	})

	t.Run("depths", func(t *testing.T) {
		ds := []engine.TenantDepths{
			{Queues: []engine.QueueDepth{{Queue: "default", Waiting: 3, Running: 1, Oldest: time.Second}, {Queue: "é", Waiting: 1, Oldest: time.Microsecond}, {Queue: "full", Waiting: 10_000, Running: 2}}},
			{Tenant: "acme", Queues: []engine.QueueDepth{{Queue: "default", Running: 1}}},
			{Tenant: "idle"},
		}
		if !must(f.KeepDepths(f.ctx, now.Add(7*time.Second), ds)) {
			t.Error("the first is not kept")
		}
		if must(f.KeepDepths(f.ctx, now, []engine.TenantDepths{{Queues: []engine.QueueDepth{{Queue: "x", Waiting: 1}}}})) {
			t.Error("the second is kept")
		}
		if !must(f.KeepDepths(f.ctx, now.Add(time.Minute), nil)) || must(f.KeepDepths(f.ctx, now.Add(time.Minute), ds)) {
			t.Error("a minute in which nothing waits is not taken for looked at")
		}
		for of, want := range map[tenant.ID][]engine.DepthMinute{"": {{At: now, Queues: ds[0].Queues}}, "acme": {{At: now, Queues: ds[1].Queues}}, "idle": nil} {
			if d := cmp.Diff(want, must(f.Depths(f.ctx, of, now.Add(-time.Minute)))); d != "" {
				t.Errorf("%q (-want +got):\n%s", of, d)
			}
		}
	})

	t.Run("days", func(t *testing.T) {
		j, other := job.ID(newID()), job.ID(newID())
		day := func(s string) time.Time { return must(time.Parse(time.DateOnly, s)) }
		c := engine.DayCounts{Succeeded: 300, Failed: 2, TimedOut: 3, Cancelled: 4, Skipped: 5, Late: 6}
		keep(one, 10, engine.Tally{Days: []engine.JobDay{
			{Tenant: "acme", Job: j, Day: day("2026-03-31"), DayCounts: c}, {Tenant: "acme", Job: j, Day: day("2026-04-01"), DayCounts: c},
			{Tenant: "acme", Job: other, Day: day("2026-04-01"), DayCounts: c},
		}})
		keep(two, 10, engine.Tally{Days: []engine.JobDay{{Tenant: "acme", Job: j, Day: day("2026-04-01"), DayCounts: engine.DayCounts{Failed: 1}}, {Tenant: "acme", Job: j, Day: day("2026-04-01"), DayCounts: engine.DayCounts{Failed: 1}}}})
		twice := c
		twice.Failed += 2
		want := []engine.JobDay{{Tenant: "acme", Job: j, Day: day("2026-03-31"), DayCounts: c}, {Tenant: "acme", Job: j, Day: day("2026-04-01"), DayCounts: twice}}
		if d := cmp.Diff(want, must(f.JobDays(f.ctx, "acme", j, day("2026-01-01"), day("2026-04-02")))); d != "" {
			t.Errorf("days (-want +got):\n%s", d)
		}
		if got := must(f.JobDays(f.ctx, "acme", j, day("2026-03-31"), day("2026-04-01"))); len(got) != 1 {
			t.Errorf("one day: %+v", got)
		}
		if got := must(f.JobDays(f.ctx, "other", j, day("2026-01-01"), day("2026-12-01"))); len(got) != 0 {
			t.Errorf("of another tenant: %+v", got)
		}
		keep(one, 11, engine.Tally{Days: []engine.JobDay{{Tenant: "acme", Job: j, Day: day("2027-04-01"), DayCounts: c}}})
		if got := must(f.JobDays(f.ctx, "acme", j, day("2026-01-01"), day("2028-01-01"))); len(got) != 2 || !got[0].Day.Equal(day("2026-04-01")) {
			t.Errorf("after a year: %+v", got)
		}
		idle, first := job.ID(newID()), time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		keep(one, 12, engine.Tally{Days: []engine.JobDay{{Tenant: "acme", Job: idle, Day: first.AddDate(0, -engine.MonthsKept, 0), DayCounts: c}}})
		keep(one, 13, engine.Tally{Days: []engine.JobDay{{Tenant: "acme", Job: other, Day: first.AddDate(0, 1-engine.MonthsKept, 0), DayCounts: c}}})
		must(f.Tidy(f.ctx))
		if got := must(f.JobDays(f.ctx, "acme", idle, day("2000-01-01"), day("2100-01-01"))); len(got) != 0 {
			t.Errorf("of a job that rests: %+v", got)
		}
		if got := must(f.JobDays(f.ctx, "acme", other, first.AddDate(0, 1-engine.MonthsKept, 0), first.AddDate(0, 1-engine.MonthsKept, 1))); len(got) != 1 {
			t.Errorf("of the oldest month: %+v", got)
		}
	})

	t.Run("failures", func(t *testing.T) {
		a, b := job.ID(newID()), job.ID(newID())
		hour := now.Truncate(time.Hour)
		x := engine.Failure{
			Tenant: "acme", Hour: hour, Fingerprint: job.Fingerprint{1, 2}, Job: a, Failed: 2, Retried: 1, First: now.Add(-time.Second), Last: now, Execution: newID(),
			Type: job.HTTPError, Message: "answered <n>", Sample: "answered 500",
		}
		y := x
		y.Job, y.Failed, y.Hour, y.First, y.Last = b, 1, hour.Add(-time.Hour), now.Add(-time.Hour), now.Add(-time.Hour)
		keep(one, 20, engine.Tally{Failures: []engine.Failure{x, y}})
		again := x
		again.Failed, again.Retried, again.First, again.Last, again.Execution = 1, 0, now.Add(-time.Minute), now.Add(time.Second), newID()
		keep(one, 21, engine.Tally{Failures: []engine.Failure{again, {Tenant: "acme", Hour: hour.Add(-300 * time.Hour), Fingerprint: job.Fingerprint{9}, Failed: 1, First: now, Last: now}}})
		sum := x
		sum.Failed, sum.First, sum.Last, sum.Execution = 3, again.First, again.Last, again.Execution
		if d := cmp.Diff([]engine.Failure{sum, y}, must(f.Failures(f.ctx, engine.FailureFilter{Tenant: "acme", From: now.Add(-2 * time.Hour)}, 10))); d != "" {
			t.Errorf("failures (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]engine.Failure{y}, must(f.Failures(f.ctx, engine.FailureFilter{Tenant: "acme", Job: b, From: now.Add(-2 * time.Hour)}, 10))); d != "" {
			t.Errorf("of a job (-want +got):\n%s", d)
		}
		others := engine.Failure{Tenant: "acme", Hour: hour, Failed: 7, First: now, Last: now, Execution: newID()}
		keep(one, 22, engine.Tally{Failures: []engine.Failure{others}})
		if d := cmp.Diff([]engine.Failure{others, y}, must(f.Failures(f.ctx, engine.FailureFilter{Tenant: "acme", Job: b, From: now.Add(-2 * time.Hour)}, 10))); d != "" {
			t.Errorf("of a job, beside what is not told apart (-want +got):\n%s", d)
		}
		if got := must(f.Failures(f.ctx, engine.FailureFilter{Tenant: "acme", From: now.Add(-2 * time.Hour)}, 1)); len(got) != 1 || got[0].Job != a && got[0].Job != (job.ID{}) {
			t.Errorf("one: %+v", got)
		}
		if got := must(f.Failures(f.ctx, engine.FailureFilter{Tenant: "acme", From: now.Add(2 * time.Hour)}, 10)); len(got) != 0 {
			t.Errorf("later: %+v", got)
		}
		must(f.Tidy(f.ctx))
		if got := must(f.Failures(f.ctx, engine.FailureFilter{Tenant: "acme", From: now.Add(-1000 * time.Hour)}, 10)); len(got) != 3 {
			t.Errorf("after a week %d are left, want 3", len(got))
		}
	})

	t.Run("the last execution that failed", func(t *testing.T) {
		x := engine.Failure{Tenant: "beta", Hour: now.Truncate(time.Hour), Fingerprint: job.Fingerprint{7}, Job: job.ID(newID()), First: now, Last: now}
		number := int64(29)
		add := func(failed, retried int64, after time.Duration) job.ExecutionID {
			y := x
			y.Failed, y.Retried, y.Last, y.Execution = failed, retried, now.Add(after), newID()
			number++
			keep(one, number, engine.Tally{Failures: []engine.Failure{y}})
			return y.Execution
		}
		last := func(what string, want job.ExecutionID) {
			t.Helper()
			if got := must(f.Failures(f.ctx, engine.FailureFilter{Tenant: "beta", Job: x.Job, From: now.Add(-time.Hour)}, 10)); len(got) != 1 || got[0].Execution != want {
				t.Errorf("%s: %+v, want %v", what, got, want)
			}
		}
		last("the first is tried again", add(0, 1, 3*time.Second))
		dead := add(1, 0, 2*time.Second)
		last("one fails for good", dead)
		add(0, 1, 4*time.Second)
		last("another is tried again", dead)
		dead = add(1, 1, 5*time.Second)
		last("another fails for good", dead)
		add(1, 0, time.Second)
		last("one is told of late", dead)
	})
}

func glances(t *testing.T, h Harness) {
	t.Run("recent", func(t *testing.T) {
		f := open(t, h)
		j, first := f.add("often")
		_, lone := f.add("lone")
		_, as := f.take(first.ID, lone.ID)
		f.report(succeed(as[0]), succeed(as[1]))
		var ids []job.ExecutionID
		for i := range 4 {
			e := f.due(j)
			e.Trigger, e.ScheduledAt = job.ByHand, first.ScheduledAt.Add(time.Duration(i+1)*time.Microsecond)
			must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
			ids = append(ids, e.ID)
		}
		_, as = f.take(ids[0], ids[1])
		for _, a := range as {
			if a.Execution == ids[0] {
				f.report(die(a, 1))
			}
		}
		got := must(f.Recent(f.ctx, tenant.Default, []job.ID{j.ID, newID(), lone.Job}, 4, first.ScheduledAt.Add(-time.Hour)))
		var statuses []job.Status
		for _, r := range got[0] {
			statuses = append(statuses, r.Status)
		}
		if len(got) != 3 || !slices.Equal(statuses, []job.Status{job.Pending, job.Pending, job.Running, job.Failed}) || len(got[1]) != 0 || len(got[2]) != 1 {
			t.Fatalf("got %+v", got)
		}
		if r := got[0][3]; r.ID != ids[0] || r.StartedAt.IsZero() || r.FinishedAt.IsZero() || !got[0][2].FinishedAt.IsZero() {
			t.Errorf("%+v", r)
		}
		if all := must(f.Recent(f.ctx, tenant.Default, []job.ID{j.ID}, 10, first.ScheduledAt.Add(-time.Hour))); len(all[0]) != 5 || all[0][4].ID != first.ID {
			t.Errorf("all: %+v", all)
		}
		if none := must(f.Recent(f.ctx, "other", []job.ID{j.ID}, 10, first.ScheduledAt.Add(-time.Hour))); len(none[0]) != 0 {
			t.Errorf("of another tenant: %+v", none)
		}
		if none := must(f.Recent(f.ctx, tenant.Default, []job.ID{j.ID}, 10, first.ScheduledAt.Add(time.Hour))); len(none[0]) != 0 {
			t.Errorf("later: %+v", none)
		}

		whose := must(f.Whose(f.ctx, []job.ExecutionID{ids[0], ids[3], newID()}, first.ScheduledAt.Add(-time.Hour)))
		slices.SortFunc(whose, func(a, b engine.Owned) int { return a.ScheduledAt.Compare(b.ScheduledAt) })
		if len(whose) != 2 || whose[0].Execution != ids[0] || whose[1].Execution != ids[3] || whose[0].Job != j.ID || whose[0].Tenant != tenant.Default || whose[0].Trigger != job.ByHand {
			t.Errorf("whose: %+v", whose)
		}
		if whose := must(f.Whose(f.ctx, ids, f.now().Add(time.Hour))); len(whose) != 3 {
			t.Errorf("whose, of what lives: %+v", whose)
		}
		early := f.due(j)
		early.Trigger, early.ScheduledAt = job.ByHand, f.now().Add(2*time.Hour)
		must(f.Trigger(f.ctx, tenant.Default, early, engine.Idempotency{}, nil))
		must(f.Cancel(f.ctx, tenant.Default, early.ID, "", nil))
		if none := must(f.Recent(f.ctx, tenant.Default, []job.ID{j.ID}, 10, f.now().Add(time.Hour))); len(none[0]) != 0 {
			t.Errorf("finished before: %+v", none)
		}
		if got := must(f.Names(f.ctx, tenant.Default, []job.ID{j.ID, newID()})); len(got) != 1 || got[j.ID] != "often" {
			t.Errorf("names: %v", got)
		}
		if got := must(f.Names(f.ctx, "other", []job.ID{j.ID})); len(got) != 0 {
			t.Errorf("names for another tenant: %v", got)
		}
		ds := must(f.DeadErrors(f.ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, engine.Page{Limit: 10})).Rows
		if len(ds) != 1 || ds[0].Execution != ids[0] || ds[0].Job != j.ID || ds[0].Error == nil || ds[0].Error.Type == "" || ds[0].At.IsZero() || ds[0].Reason == "" {
			t.Errorf("dead: %+v", ds)
		}
		if ds := must(f.DeadErrors(f.ctx, engine.DeadLetterFilter{Tenant: tenant.Default, Job: lone.Job}, engine.Page{Limit: 10})).Rows; len(ds) != 0 {
			t.Errorf("dead of another job: %+v", ds)
		}
	})

	t.Run("what died, page by page", func(t *testing.T) {
		f := open(t, h)
		var want []job.ExecutionID
		for range 5 {
			_, e := f.add("dies")
			_, as := f.take(e.ID)
			f.report(die(as[0], 1))
			want = append(want, e.ID)
		}
		var got []job.ExecutionID
		for p := (engine.Page{Limit: 2}); ; {
			ds := must(f.DeadErrors(f.ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, p))
			for _, d := range ds.Rows {
				got = append(got, d.Execution)
			}
			if ds.Next == "" || len(got) > len(want) {
				break
			}
			p.Cursor = ds.Next
		}
		slices.Reverse(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if _, err := f.DeadErrors(f.ctx, engine.DeadLetterFilter{Tenant: tenant.Default}, engine.Page{Limit: 2, Cursor: "x"}); err == nil {
			t.Error("a cursor that is none is taken")
		}
	})

	t.Run("late", func(t *testing.T) {
		f := open(t, h)
		for i, name := range []string{"a", "b", "c"} {
			j := f.sample(name)
			j.Schedule = job.Schedule{Type: job.Interval, Every: time.Hour}
			j.NextRunAt = f.now().Add(-time.Duration(i) * time.Minute)
			f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
		}
		got := must(f.LateJobs(f.ctx, tenant.Default, f.now().Add(-30*time.Second), 1))
		if len(got.Jobs) != 1 || got.Jobs[0].Name != "c" || got.Jobs[0].NextRunAt.IsZero() || got.Total != (engine.Total{Count: 2}) {
			t.Errorf("got %+v", got)
		}
		if got := must(f.LateJobs(f.ctx, "other", f.now(), 10)); len(got.Jobs) != 0 || got.Total.Count != 0 {
			t.Errorf("of another tenant: %+v", got)
		}
	})

	t.Run("ends are told", func(t *testing.T) { endsAreTold(t, h) })
}

// endsAreTold checks that a method that ends executions without a result returns them, once, with their tenants.
func endsAreTold(t *testing.T, h Harness) {
	f := open(t, h)
	told := map[job.ExecutionID]engine.Ended{}
	tell := func(es []engine.Ended) {
		for _, e := range es {
			if _, twice := told[e.Execution]; twice {
				t.Errorf("told twice: %+v", e)
			}
			told[e.Execution] = e
		}
	}
	reap := func() engine.Reaped {
		got := must(f.Reap(f.ctx, 10, 2))
		tell(got.Ended)
		return got
	}
	wants := func(e job.Execution, s job.Status) {
		t.Helper()
		x, ok := told[e.ID]
		want := engine.Owned{Execution: e.ID, Tenant: tenant.Default, Job: e.Job, Trigger: e.Trigger, ScheduledAt: e.ScheduledAt}
		if d := cmp.Diff(engine.Ended{Owned: want, Status: s, Error: x.Error}, x); !ok || d != "" {
			t.Errorf("told of one that is %v (-want +got):\n%s", s, d)
		}
		if (s == job.Failed) != (x.Error != nil && x.Error.Type == job.Poison) {
			t.Errorf("why: %+v", x.Error)
		}
		delete(told, e.ID)
	}

	_, kills := f.add("kills")
	_, late := f.add("late", func(_ *job.Job, e *job.Execution) { e.ExpiresAt = f.now().Add(-time.Second) })
	w, _ := f.take(kills.ID)
	f.expire(w)
	if back := reap(); len(back.Ready) != 1 || len(told) != 0 {
		t.Fatalf("lost once: %+v, told %v", back, told)
	}
	w, _ = f.take(kills.ID)
	f.expire(w)
	if back := reap(); len(back.Ready) != 0 || back.Poisoned != 1 {
		t.Errorf("lost twice: %+v", back)
	}
	wants(kills, job.Failed)
	tell(must(f.Expire(f.ctx, 10)))
	wants(late, job.Expired)

	_, waits := f.add("waits")
	for range 2 { // the second finds it set
		tell(must(f.Cancel(f.ctx, tenant.Default, waits.ID, "enough", nil)).Ended)
	}
	wants(waits, job.Cancelled)
	_, runs := f.add("runs")
	_, goes := f.add("goes")
	f.take(runs.ID)
	w, _ = f.take(goes.ID)
	for _, e := range []job.Execution{runs, goes} {
		tell(must(f.Cancel(f.ctx, tenant.Default, e.ID, "enough", nil)).Ended)
	}
	f.expire(w)
	if back := reap(); back.Cancelled != 1 {
		t.Errorf("lost, and asked to stop: %+v", back)
	}
	wants(goes, job.Cancelled)
	tell(must(f.Force(f.ctx, -time.Second, 10)))
	wants(runs, job.Cancelled)

	gone, own := f.add("deleted")
	more := f.due(gone)
	more.Trigger = job.ByHand
	if c := must(f.Trigger(f.ctx, tenant.Default, more, engine.Idempotency{}, nil)); c.Unique != nil {
		t.Fatalf("got %+v", c)
	}
	for range 2 {
		tell(must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: gone.ID, AsOf: f.now()})).Ended)
	}
	wants(own, job.Cancelled)
	wants(more, job.Cancelled)
	// Released executions that must not run again, in each way of releasing them.
	for _, back := range []func(w job.WorkerID, l job.Lease) (engine.Requeued, error){
		func(w job.WorkerID, l job.Lease) (engine.Requeued, error) { return f.Release(f.ctx, w, []job.Lease{l}) },
		func(w job.WorkerID, _ job.Lease) (engine.Requeued, error) {
			return f.Disown(f.ctx, w, nil, time.Time{})
		},
		func(w job.WorkerID, _ job.Lease) (engine.Requeued, error) { return f.Leave(f.ctx, w) },
	} {
		j, e := f.add("handed back")
		w, as := f.take(e.ID)
		tell(must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()})).Ended)
		if len(told) != 0 {
			t.Errorf("what runs is told as ended: %+v", told)
		}
		for range 2 {
			got := must(back(w, as[0].Lease))
			if len(got.Ready) != 0 {
				t.Errorf("of a deleted job came back: %+v", got.Ready)
			}
			tell(got.Ended)
		}
		wants(e, job.Cancelled)
	}

	at := f.now().Truncate(time.Second)
	fire := func(j job.Job, overlap job.Overlap, n int) engine.Firing {
		t.Helper()
		x := f.firing(j, at.Add(time.Duration(n)*time.Minute), at.Add(time.Duration(n+1)*time.Minute), 1)
		x.Overlap = overlap
		tell(must(f.Fire(f.ctx, []engine.Firing{x}, engine.Fence{})).Ended)
		return x
	}
	skips := f.recurring("skips", at)
	first := fire(skips, job.OverlapSkip, 0)
	second := fire(skips, job.OverlapSkip, 1)
	second.Executions[0].Job = skips.ID
	wants(second.Executions[0], job.Skipped)
	tell(must(f.Fire(f.ctx, []engine.Firing{second}, engine.Fence{})).Ended) // the job has changed: nothing is returned
	third := f.firing(skips, at.Add(2*time.Minute), at.Add(3*time.Minute), 0)
	record := first.Executions[0]
	record.ID, record.Job, record.Status, record.ScheduledAt, record.FinishedAt = newID(), skips.ID, job.Skipped, at.Add(90*time.Second), f.now()
	third.Skips = []job.Execution{record}
	for range 2 {
		tell(must(f.Fire(f.ctx, []engine.Firing{third}, engine.Fence{})).Ended)
	}
	wants(record, job.Skipped)
	replaces := f.recurring("replaces", at)
	old := fire(replaces, job.OverlapReplace, 0)
	fire(replaces, job.OverlapReplace, 1)
	old.Executions[0].Job = replaces.ID
	wants(old.Executions[0], job.Cancelled)
	if len(told) != 0 {
		t.Errorf("told as well: %+v", told)
	}
}

func revisions(t *testing.T, h Harness) {
	f := open(t, h)
	j, _ := f.add("v1", func(j *job.Job, _ *job.Execution) { j.Payload = []byte(`{"n":1}`) })
	as := func(by string) engine.Update {
		u := engine.Update{Job: f.job(j.ID), AsOf: f.now()}
		u.Job.Name = by
		return u
	}
	if got := must(f.Revisions(f.ctx, f.job(j.ID), 0, 10)); len(got) != 0 {
		t.Errorf("of one that is new: %+v", got)
	}
	u := as("v2")
	u.Entry = &audit.Entry{Tenant: tenant.Default, At: f.now(), By: "ann", Role: tenant.Operator, Action: "job.update", Object: j.ID.String(), Count: 1}
	u.Job.Tags = []string{"x"}
	must(f.UpdateJob(f.ctx, tenant.Default, u))
	u = as("v3")
	u.Job.Payload = []byte(`{"n":3}`)
	must(f.UpdateJob(f.ctx, tenant.Default, u))
	u = as("v4")
	u.Job.State, u.Job.PauseNote = job.Paused, "why"
	must(f.UpdateJob(f.ctx, tenant.Default, u))
	got := must(f.Revisions(f.ctx, f.job(j.ID), 0, 10))
	if len(got) != 3 {
		t.Fatalf("%d revisions, want 3", len(got))
	}
	for i, want := range []struct {
		name, payload, by string
	}{{"v3", `{"n":3}`, ""}, {"v2", `{"n":1}`, ""}, {"v1", `{"n":1}`, "ann"}} {
		r := got[i]
		if r.Job.Name != want.name || string(r.Job.Payload) != want.payload || r.By != want.by || r.Job.Revision != 3-i || r.Job.State == job.Paused || r.ReplacedAt.IsZero() || r.Job.ID != j.ID {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if r := got[2]; r.Role != tenant.Operator || r.Action != "job.update" || !slices.Equal(r.Job.Tags, j.Tags) || !slices.Equal(got[1].Job.Tags, []string{"x"}) || r.Job.Target.Kind != j.Target.Kind {
		t.Errorf("%+v", r)
	}
	if some := must(f.Revisions(f.ctx, f.job(j.ID), 3, 1)); len(some) != 1 || some[0].Job.Revision != 2 {
		t.Errorf("before the third: %+v", some)
	}
	stranger := f.job(j.ID)
	if stranger.Tenant = "other"; len(must(f.Revisions(f.ctx, stranger, 0, 10))) != 0 {
		t.Error("another tenant sees revisions")
	}
	for range engine.RevisionsKept + 5 {
		must(f.UpdateJob(f.ctx, tenant.Default, as("more")))
	}
	if all := must(f.Revisions(f.ctx, f.job(j.ID), 0, 1000)); len(all) != engine.RevisionsKept {
		t.Errorf("%d are kept, want %d", len(all), engine.RevisionsKept)
	}
	other, _ := f.add("other")
	lives, _ := f.add("lives")
	for _, x := range []job.Job{other, lives} {
		u := engine.Update{Job: f.job(x.ID), AsOf: f.now()}
		u.Job.Name = "changed"
		must(f.UpdateJob(f.ctx, tenant.Default, u))
	}
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now().Add(-engine.RevisionsOutlive - time.Hour)}))
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: other.ID, AsOf: f.now()}))
	must(f.Tidy(f.ctx))
	for id, want := range map[job.ID]int{j.ID: 0, other.ID: 1, lives.ID: 1} {
		if left := must(f.Revisions(f.ctx, f.job(id), 0, 1000)); len(left) != want {
			t.Errorf("%d revisions are left, want %d", len(left), want)
		}
	}
}
