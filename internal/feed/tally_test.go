package feed_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/feed"
)

func (l *ledger) Fire(context.Context, []engine.Firing, engine.Fence) (engine.Fired, error) {
	return engine.Fired{Ended: l.ended}, nil
}

func (l *ledger) Cancel(context.Context, tenant.ID, job.ExecutionID, string, *audit.Entry) (engine.Cancelled, error) {
	return engine.Cancelled{Status: job.Cancelled, Ended: l.ended}, nil
}

func (l *ledger) DeleteJob(context.Context, tenant.ID, engine.Deletion) (engine.Deleted, error) {
	return engine.Deleted{Ended: l.ended}, nil
}

func (l *ledger) CancelWaiting(context.Context, tenant.ID, job.ID, int) ([]engine.Ended, error) {
	return l.ended, nil
}

func (l *ledger) Release(context.Context, job.WorkerID, []job.Lease) (engine.Requeued, error) {
	return engine.Requeued{Ended: l.ended}, nil
}

func (l *ledger) Disown(context.Context, job.WorkerID, []job.Token, time.Time) (engine.Requeued, error) {
	return engine.Requeued{Ended: l.ended}, nil
}

func (l *ledger) Leave(context.Context, job.WorkerID) (engine.Requeued, error) {
	return engine.Requeued{Ended: l.ended}, nil
}

// firedAt is an execution's id as it is made at an instant.
func firedAt(t time.Time) job.ExecutionID {
	id := uuid.Must(uuid.NewV7())
	ms := t.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return job.ExecutionID(id)
}

type watched struct {
	*testing.T
	l   *ledger
	c   *feed.Counter
	s   *feed.Store
	clk *clockAt
}

func watch(t *testing.T) watched {
	w := watched{T: t, l: &ledger{kept: map[time.Time]engine.Minute{}, owned: map[job.ExecutionID]engine.Owned{}}, clk: &clockAt{time.Date(2026, 3, 4, 12, 0, 30, 0, time.UTC)}}
	w.c = feed.NewCounter(w.l, w.clk)
	w.s = feed.Over(w.l, w.c, feed.NewHub())
	return w
}

func (w watched) lease(as ...job.Attempt) {
	w.Helper()
	w.l.as = as
	if _, err := w.s.Lease(w.Context(), nil, engine.Fence{}); err != nil {
		w.Fatal(err)
	}
}

func (w watched) finish(id job.ExecutionID, m job.Move, s job.Status, why *job.Error) {
	w.Helper()
	f := job.Finish{Outcome: job.Outcome{Lease: job.Lease{Execution: id}, Error: why}, Then: job.Transition{Move: m, Status: s}}
	if _, err := w.s.Finish(w.Context(), []job.Finish{f}); err != nil {
		w.Fatal(err)
	}
}

// all sums up what was kept, each number once.
func (w watched) all() (minutes map[tenant.ID]engine.TenantMinute, days map[time.Time]engine.DayCounts, failures []engine.Failure) {
	w.Helper()
	for range 3 {
		_, _ = w.c.Tick(w.Context())
	}
	minutes, days = map[tenant.ID]engine.TenantMinute{}, map[time.Time]engine.DayCounts{}
	seen := map[int64]bool{}
	for i, t := range w.l.tallies {
		if seen[w.l.numbers[i]] {
			continue
		}
		seen[w.l.numbers[i]] = true
		for _, m := range t.Minutes {
			minutes[m.Tenant] = m
		}
		for _, d := range t.Days {
			c := days[d.Day]
			c.Add(d.DayCounts)
			days[d.Day] = c
		}
		failures = append(failures, t.Failures...)
	}
	return minutes, days, failures
}

func TestTallies(t *testing.T) {
	w := watch(t)
	now := w.clk.at
	j := job.ID(uuid.New())
	at := func(late time.Duration, by job.Trigger) job.Attempt {
		id := firedAt(now)
		return job.Attempt{Lease: job.Lease{Execution: id}, Job: j, Tenant: "acme", Trigger: by, ScheduledAt: now.Add(-late), DueAt: now, LeasedAt: now, StartedAt: now}
	}
	onTime, late, yesterday, once := at(0, job.BySchedule), at(7*time.Second, job.BySchedule), at(13*time.Hour, job.ByCatchUp), at(0, job.ByHand)
	once.Job = job.ID(once.Execution) // a one-off job's own fire
	w.lease(onTime, late, yesterday, once)
	w.finish(onTime.Execution, job.Done, job.Succeeded, nil)
	why := &job.Error{Type: job.HTTPError, HTTPStatus: 503, Message: "answered 503 after 12 ms"}
	w.finish(late.Execution, job.Died, job.Failed, why)
	w.finish(yesterday.Execution, job.Again, job.Retrying, &job.Error{Type: job.HTTPError, HTTPStatus: 503, Message: "answered 503 after 999 ms"})
	w.finish(once.Execution, job.Done, job.Succeeded, nil)
	elsewhere := firedAt(now)
	w.l.owned[elsewhere] = engine.Owned{Execution: elsewhere, Tenant: "acme", Job: j, Trigger: job.BySchedule, ScheduledAt: now}
	w.finish(elsewhere, job.Late, job.TimedOut, nil)

	minutes, days, failures := w.all()
	m := minutes["acme"]
	if m.Started != 4 || m.Succeeded != 2 || m.Failed != 1 || m.TimedOut != 1 || m.Dead != 2 || m.Retried != 1 || m.Fired() != 2 || m.Within(time.Second) != 1 || m.Within(5*time.Second) != 1 || m.MaxDelay != 7*time.Second {
		t.Errorf("the tenant's minute: %+v", m)
	}
	if a := minutes[""]; a.Started != 4 || a.TimedOut != 1 || a.Delays != m.Delays {
		t.Errorf("that of all: %+v", a)
	}
	today := now.Truncate(24 * time.Hour)
	if got, want := days[today], (engine.DayCounts{Succeeded: 1, Failed: 1, TimedOut: 1, Late: 1}); got != want || len(days) != 1 {
		t.Errorf("days: %+v, want %+v of today", days, want)
	}
	var http *engine.Failure
	for i := range failures {
		if failures[i].Type == job.HTTPError {
			http = &failures[i]
		}
	}
	if len(failures) != 2 || http == nil || http.Failed != 1 || http.Retried != 1 || http.Message != "answered <n> after <n> ms" || http.Sample != why.Message || http.Execution != late.Execution || http.Job != j {
		t.Errorf("failures: %+v", failures)
	}
}

// What the store has kept, but did not answer, is sent again under the same number, and nothing else with it.
func TestTalliesAreSentAgainAsTheyWere(t *testing.T) {
	w := watch(t)
	now := w.clk.at
	run := func() {
		a := job.Attempt{Lease: job.Lease{Execution: firedAt(now)}, Job: job.ID(uuid.New()), Tenant: "acme", Trigger: job.BySchedule, ScheduledAt: now, DueAt: now, LeasedAt: now, StartedAt: now}
		w.lease(a)
		w.finish(a.Execution, job.Done, job.Succeeded, nil)
	}
	run()
	w.l.answerLost = true
	if _, err := w.c.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
	run()
	if _, err := w.c.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
	w.l.answerLost = false
	minutes, days, _ := w.all()
	if !slices.Equal(w.l.numbers, []int64{1, 1, 1, 2}) || minutes["acme"].Succeeded != 2 || days[now.Truncate(24*time.Hour)].Succeeded != 2 {
		t.Errorf("numbers %v, %+v, %+v", w.l.numbers, minutes["acme"], days)
	}
}

func TestTalliesOfWhatIsSkipped(t *testing.T) {
	w := watch(t)
	now := w.clk.at
	j := job.ID(uuid.New())
	e, missed := job.Execution{ID: firedAt(now), ScheduledAt: now}, job.Execution{ID: firedAt(now), ScheduledAt: now, Metadata: map[string]string{"count": "8"}}
	told := func(id job.ExecutionID, s job.Status) engine.Ended {
		return engine.Ended{Owned: engine.Owned{Execution: id, Tenant: "acme", Job: j, Trigger: job.BySchedule, ScheduledAt: now}, Status: s}
	}
	fire := func(f engine.Firing, ended ...engine.Ended) {
		f.Tenant, f.Job, w.l.ended = "acme", j, ended
		if _, err := w.s.Fire(t.Context(), []engine.Firing{f}, engine.Fence{}); err != nil {
			t.Fatal(err)
		}
	}
	fire(engine.Firing{Overlap: job.OverlapSkip, Executions: []job.Execution{e}}, told(e.ID, job.Skipped))
	fire(engine.Firing{Overlap: job.OverlapSkip, Executions: []job.Execution{e}, Skips: []job.Execution{missed}}) // another server fired it
	fire(engine.Firing{Overlap: job.OverlapAllow, Executions: []job.Execution{e}})                                // likewise
	fire(engine.Firing{Skips: []job.Execution{missed}}, told(missed.ID, job.Skipped))
	fire(engine.Firing{Overlap: job.OverlapReplace, Executions: []job.Execution{e}}, told(firedAt(now), job.Cancelled))
	minutes, days, _ := w.all()
	day := days[now.Truncate(24*time.Hour)]
	if minutes["acme"].Skipped != 9 || minutes[""].Skipped != 9 || day.Skipped != 9 || day.Cancelled != 1 || minutes["acme"].Cancelled != 1 {
		t.Errorf("%+v, %+v", minutes, days)
	}
}

// What is cancelled is counted when it ended, and not when it had before.
func TestTalliesOfCancels(t *testing.T) {
	w := watch(t)
	id, j := firedAt(w.clk.at), job.ID(uuid.New())
	w.l.ended = []engine.Ended{{Owned: engine.Owned{Execution: id, Tenant: "acme", Job: j, ScheduledAt: w.clk.at}, Status: job.Cancelled}}
	for range 2 {
		if _, err := w.s.Cancel(t.Context(), "acme", id, "", nil); err != nil {
			t.Fatal(err)
		}
		w.l.ended = nil
	}
	if minutes, days, _ := w.all(); minutes["acme"].Cancelled != 1 || days[w.clk.at.Truncate(24*time.Hour)].Cancelled != 1 {
		t.Errorf("%+v, %+v", minutes, days)
	}
}

// What ends because its job was deleted is counted, whether it waited or was handed back.
func TestTalliesOfWhatIsOfADeletedJob(t *testing.T) {
	w := watch(t)
	ways := []func() error{
		func() error { _, err := w.s.DeleteJob(t.Context(), "acme", engine.Deletion{}); return err },
		func() error { _, err := w.s.CancelWaiting(t.Context(), "acme", job.ID{}, 1); return err },
		func() error { _, err := w.s.Release(t.Context(), job.WorkerID{}, nil); return err },
		func() error { _, err := w.s.Disown(t.Context(), job.WorkerID{}, nil, time.Time{}); return err },
		func() error { _, err := w.s.Leave(t.Context(), job.WorkerID{}); return err },
	}
	for _, way := range ways {
		w.l.ended = []engine.Ended{{Owned: engine.Owned{Execution: firedAt(w.clk.at), Tenant: "acme", Job: job.ID(uuid.New()), ScheduledAt: w.clk.at}, Status: job.Cancelled}}
		if err := way(); err != nil {
			t.Fatal(err)
		}
	}
	if minutes, _, _ := w.all(); minutes["acme"].Cancelled != 5 || minutes[""].Cancelled != 5 {
		t.Errorf("%+v", minutes)
	}
}

// What was to be retried and ended, since its job was deleted or it was asked to stop, is counted and told as it ended.
func TestTalliesOfWhatIsOverruled(t *testing.T) {
	hub := feed.NewHub()
	w := watch(t)
	w.s = feed.Over(w.l, w.c, hub)
	on, _ := hub.Watch("acme", "")
	on.Read(0)
	why := &job.Error{Type: job.HandlerError, Message: "broken"}
	var told []string
	for _, w.l.came = range []job.Status{job.Failed, job.TimedOut, job.Cancelled} {
		a := job.Attempt{Lease: job.Lease{Execution: firedAt(w.clk.at)}, Job: job.ID(uuid.New()), Tenant: "acme", ScheduledAt: w.clk.at, DueAt: w.clk.at, LeasedAt: w.clk.at, StartedAt: w.clk.at}
		w.lease(a)
		w.finish(a.Execution, job.Again, job.Retrying, why)
		cs, _, _ := on.Read(10)
		for _, c := range cs {
			told = append(told, c.Type+" "+c.Status)
		}
	}
	want := []string{"execution.started RUNNING", "execution.finished FAILED", "execution.started RUNNING", "execution.finished TIMED_OUT", "execution.started RUNNING", "execution.finished CANCELLED"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	minutes, days, failures := w.all()
	if m := minutes["acme"]; m.Retried != 0 || m.Failed != 1 || m.TimedOut != 1 || m.Cancelled != 1 || m.Dead != 2 {
		t.Errorf("the tenant's minute: %+v", m)
	}
	if got, want := days[w.clk.at.Truncate(24*time.Hour)], (engine.DayCounts{Failed: 1, TimedOut: 1, Cancelled: 1}); got != want {
		t.Errorf("the day: %+v, want %+v", got, want)
	}
	if m := w.l.kept[w.clk.at.Truncate(time.Minute)]; m.Again != 0 || m.Failed != 2 {
		t.Errorf("the minute of all: %+v", m)
	}
	var failed, retried int64
	for _, f := range failures {
		failed, retried = failed+f.Failed, retried+f.Retried
	}
	if failed != 2 || retried != 0 {
		t.Errorf("failures: %+v", failures)
	}
}

// elsewhere finishes executions that another server leased.
func (w watched) elsewhere(n int) {
	j := job.ID(uuid.New())
	for range n {
		id := firedAt(w.clk.at)
		w.l.owned[id] = engine.Owned{Execution: id, Tenant: "acme", Job: j, Trigger: job.BySchedule, ScheduledAt: w.clk.at}
		w.finish(id, job.Done, job.Succeeded, nil)
	}
}

// However much ends here that was leased elsewhere, its tenant is found out, at once or soon.
func TestTalliesOfWhatWasLeasedElsewhere(t *testing.T) {
	w := watch(t)
	w.l.clk = w.clk
	w.elsewhere(20_000)
	from := w.clk.at
	if next, err := w.c.Tick(t.Context()); err != nil || next < 5*time.Second {
		t.Errorf("next in %v: %v", next, err)
	}
	if minutes, _, _ := w.all(); minutes["acme"].Succeeded != 20_000 || w.c.Lost() != 0 {
		t.Errorf("%d are counted, %d lost", minutes["acme"].Succeeded, w.c.Lost())
	}
	if w.l.since.After(from) || w.l.since.Before(from.Add(-2*time.Hour)) {
		t.Errorf("asked from %v on", w.l.since)
	}
	w.l.slow = 400 * time.Millisecond
	w.elsewhere(5000)
	if next, err := w.c.Tick(t.Context()); err != nil || next > time.Second {
		t.Errorf("next in %v: %v", next, err)
	}
	w.elsewhere(1)
	for id := range w.l.owned {
		delete(w.l.owned, id)
	}
	w.all()
	if w.c.Lost() == 0 {
		t.Error("nothing is lost")
	}
}

// What is known is written also while nobody says whose the rest is, and that is added to it later.
func TestTalliesWhileNobodyKnows(t *testing.T) {
	w := watch(t)
	first := w.clk.at.Truncate(time.Minute)
	a := job.Attempt{Lease: job.Lease{Execution: firedAt(w.clk.at)}, Job: job.ID(uuid.New()), Tenant: "acme", ScheduledAt: w.clk.at, DueAt: w.clk.at, LeasedAt: w.clk.at, StartedAt: w.clk.at}
	w.lease(a)
	w.finish(a.Execution, job.Done, job.Succeeded, nil)
	w.elsewhere(1200)
	w.l.unsure = true
	if _, err := w.c.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
	succeeded := func() (n int64) {
		for _, t := range w.l.tallies {
			for _, m := range t.Minutes {
				if m.Tenant == "acme" && m.At.Equal(first) {
					n = m.Succeeded
				}
			}
		}
		return n
	}
	if n := succeeded(); n != 1 {
		t.Errorf("%d are counted, want 1", n)
	}
	for range 3 { // minutes that nothing changes any more are forgotten
		w.clk.at = w.clk.at.Add(5 * time.Minute)
		_, _ = w.c.Tick(t.Context())
	}
	w.l.unsure, w.l.clk, w.l.slow = false, w.clk, 2*time.Second // one look a time
	for range 4 {
		_, _ = w.c.Tick(t.Context())
	}
	if n := succeeded(); n != 1201 {
		t.Errorf("%d are counted, want 1201", n)
	}
}

// However many different failures there are, few are distinguished.
func TestTalliesOfManyFailures(t *testing.T) {
	w := watch(t)
	now := w.clk.at
	for i := range 1500 {
		a := job.Attempt{Lease: job.Lease{Execution: firedAt(now)}, Job: job.ID(uuid.New()), Tenant: "acme", ScheduledAt: now, DueAt: now, LeasedAt: now, StartedAt: now}
		w.lease(a)
		w.finish(a.Execution, job.Died, job.Failed, &job.Error{Type: job.HandlerError, Message: "broken " + string(rune('a'+i%26))})
	}
	_, _, failures := w.all()
	others := int64(0)
	for _, f := range failures {
		if f.Fingerprint == (job.Fingerprint{}) {
			others += f.Failed
		}
	}
	if len(failures) != 1001 || others != 500 {
		t.Errorf("%d failures, of which %d are others", len(failures), others)
	}
}

// A result that is reported again was counted before, unless the answer to the first was lost here.
func TestARepeatedResultIsCountedOnce(t *testing.T) {
	w := watch(t)
	now := w.clk.at
	why := &job.Error{Type: job.HTTPError, HTTPStatus: 503, Message: "answered 503"}
	a := job.Attempt{Lease: job.Lease{Execution: firedAt(now)}, Job: job.ID(uuid.New()), Tenant: "acme", Trigger: job.BySchedule, ScheduledAt: now, DueAt: now, LeasedAt: now, StartedAt: now}
	w.lease(a)
	w.finish(a.Execution, job.Again, job.Retrying, why)
	w.l.again = true
	w.finish(a.Execution, job.Again, job.Retrying, why)
	lost := a
	lost.Execution = firedAt(now.Add(time.Millisecond))
	w.lease(lost)
	w.finish(lost.Execution, job.Again, job.Retrying, why) // the store says so, and nobody here had heard of it
	if _, err := w.c.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if minutes, _, _ := w.all(); minutes["acme"].Retried != 2 {
		t.Errorf("%d retries were counted, want 2", minutes["acme"].Retried)
	}
}
