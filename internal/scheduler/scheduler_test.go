package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// fakeStore keeps jobs in memory and fires as a store does.
type fakeStore struct {
	mu        sync.Mutex // guards the rest
	until     time.Time
	asked     []job.Partition
	clock     clock.Clock
	lateLooks int
	others    int               // how often it was asked for jobs without some tenants
	othersErr error             // what it says to that
	looks     [][]job.Partition // all that it was asked for
	counted   int               // how often it was asked what is ahead
	panics    job.Partition     // whoever fires in it does, once
	jobs      []*job.Job
	fired     []engine.Firing
	fence     engine.Fence
	calendars map[string]string
	err       error
	refuse    func([]engine.Firing) error // of what is fired together; nil: nothing
	calls     int                         // of Fire
	most      int                         // rows that one call of Fire was to write
}

func (f *fakeStore) Due(_ context.Context, q engine.DueFilter) ([]engine.Due, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ps := q.Partitions; q.Until.After(f.clock.Now().Add(-lateAfter)) {
		f.until, f.asked, f.looks = q.Until, ps, append(f.looks, ps)
	} else {
		f.lateLooks++
	}
	if len(q.Without) > 0 {
		if f.others++; f.othersErr != nil {
			return nil, f.othersErr
		}
	}
	var found []*job.Job
	for _, j := range f.jobs {
		if at := j.NextRunAt; !at.IsZero() && !at.Before(q.From) && !at.After(q.Until) && !slices.Contains(q.Without, j.Tenant) && (len(q.Partitions) == 0 || slices.Contains(q.Partitions, job.PartitionOf(j.ID))) {
			found = append(found, j)
		}
	}
	slices.SortStableFunc(found, func(a, b *job.Job) int { return a.NextRunAt.Compare(b.NextRunAt) })
	found = found[min(q.Skip, len(found)):]
	var due []engine.Due
	for _, j := range found[:min(q.Limit, len(found))] {
		due = append(due, engine.Due{Job: *j, Revision: j.Revision})
	}
	return due, f.err
}

func (f *fakeStore) Ahead(_ context.Context, _ []job.Partition, from time.Time, seconds, limit int) ([]int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted++
	counts := make([]int, seconds)
	for _, j := range f.jobs {
		if second := int(j.NextRunAt.Sub(from) / time.Second); j.NextRunAt.After(from) && second < seconds && limit > 0 {
			counts[second]++
			limit--
		}
	}
	return counts, f.err
}

func (f *fakeStore) Fire(_ context.Context, fs []engine.Firing, x engine.Fence) (engine.Fired, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fence = x
	f.calls++
	rows := 0
	for i := range fs {
		rows += rowsOf(&fs[i])
	}
	f.most = max(f.most, rows)
	if f.refuse != nil {
		if err := f.refuse(fs); err != nil {
			return engine.Fired{}, err
		}
	}
	var out engine.Fired
	at := map[job.ID]int{}
	for i, j := range f.jobs {
		at[j.ID] = i
	}
	for _, g := range fs {
		i := at[g.Job]
		if f.panics > 0 && job.PartitionOf(g.Job) == f.panics {
			f.panics = 0
			panic("oops")
		}
		if j := f.jobs[i]; !j.NextRunAt.Equal(g.Was) || j.Revision != g.Revision {
			continue
		}
		f.jobs[i].NextRunAt = g.Next
		f.jobs[i].Runs += g.Runs
		f.fired = append(f.fired, g)
		for _, e := range g.Executions {
			out.Ready = append(out.Ready, e.Ready())
		}
	}
	return out, nil
}

func (f *fakeStore) Calendar(_ context.Context, t tenant.ID, name string) (engine.Calendar, error) {
	spec, ok := f.calendars[name]
	if !ok {
		return engine.Calendar{}, engine.ErrNotFound
	}
	return engine.Calendar{Tenant: t, Name: name, Spec: []byte(spec)}, nil
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const ahead = 5 * time.Second

// world is a scheduler over a fake store, by a clock that the test moves.
type world struct {
	*testing.T
	store *fakeStore
	clock *clock.Manual
	s     *Scheduler
}

func newWorld(t *testing.T, at time.Time, change ...func(*Config)) *world {
	w := &world{T: t, store: &fakeStore{}, clock: clock.NewManual(at)}
	w.store.clock = w.clock
	cfg := Config{LookAhead: ahead, Schedules: schedule.NewCache(time.LoadLocation)}
	for _, c := range change {
		c(&cfg)
	}
	w.s = New(w.store, w.clock, cfg)
	return w
}

// add adds a job that was created now, with its first instant planned.
func (w *world) add(s job.Schedule, change ...func(*job.Job)) *job.Job {
	w.Helper()
	j := &job.Job{ID: job.ID{byte(len(w.store.jobs)), 7}, Tenant: "t", Revision: 1, State: job.Active, CreatedAt: w.clock.Now(), Definition: job.Definition{Schedule: s, Priority: 5}}
	plan, err := w.s.cfg.Schedules.Plan(s, j.CreatedAt, nil)
	if err != nil {
		w.Fatal(err)
	}
	j.NextRunAt, _ = plan.Next(j.CreatedAt)
	for _, c := range change {
		c(j)
	}
	w.store.jobs = append(w.store.jobs, j)
	return j
}

func (w *world) tick() time.Duration {
	w.Helper()
	next, err := w.s.Tick(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return next
}

// run ticks as the loop would, but not more often than each step, for so long.
func (w *world) run(d, step time.Duration) {
	w.Helper()
	end := w.clock.Now().Add(d)
	for n := 0; w.clock.Now().Before(end); n++ {
		if n > 100_000 {
			w.Fatal("it spins")
		}
		w.clock.Advance(max(w.tick(), step))
	}
}

// instants returns what fired, in order, as local times of a layout.
func (w *world) instants(layout string, loc *time.Location) []string {
	var out []string
	for _, g := range w.store.fired {
		for _, e := range g.Executions {
			out = append(out, e.ScheduledAt.In(loc).Format(layout))
		}
	}
	return out
}

func cron(expression string) job.Schedule { return job.Schedule{Type: job.Cron, Cron: expression} }

func TestTickOneTime(t *testing.T) {
	hinted := 0
	w := newWorld(t, noon, func(c *Config) { c.Hint = func(rs []job.Ready) { hinted += len(rs) } })
	if next := w.tick(); next != between || !w.store.until.Equal(noon.Add(ahead)) || w.store.asked != nil {
		t.Errorf("nothing due: %v, asked until %v, of %v", next, w.store.until, w.store.asked)
	}
	for i := range batch + 1 {
		at := noon.Add(time.Duration(i%7-3) * time.Second)
		w.store.jobs = append(w.store.jobs, &job.Job{
			ID: job.ID{byte(i >> 8), byte(i)}, Revision: 4, NextRunAt: at,
			Definition: job.Definition{Priority: 3, Schedule: job.Schedule{Type: job.OneTime, At: at}, Retry: job.RetryPolicy{MaxRetries: 2}},
		})
	}
	if next := w.tick(); next != 0 {
		t.Errorf("a full batch: %v", next)
	}
	if next := w.tick(); next != between {
		t.Errorf("the rest: %v", next)
	}
	if len(w.store.fired) != batch+1 || hinted != batch+1 {
		t.Fatalf("%d fired, %d hinted", len(w.store.fired), hinted)
	}
	seen := map[job.ExecutionID]bool{}
	for _, x := range w.store.fired {
		e := x.Executions[0]
		if seen[e.ID] || x.Revision != 4 || !x.Next.IsZero() || !e.ScheduledAt.Equal(x.Was) || e.DueAt.Before(noon) || e.DueAt.Before(x.Was) || e.MaxAttempts != 3 || e.Trigger != job.BySchedule {
			t.Fatalf("fired %+v", x)
		}
		seen[e.ID] = true
	}
	w.store.err = errors.New("away")
	if _, err := w.s.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestEverySecond(t *testing.T) {
	for _, o := range job.Overlaps() {
		w := newWorld(t, noon.Add(300*time.Millisecond))
		j := w.add(cron("* * * * * *"), func(j *job.Job) { j.Overlap = o })
		w.run(time.Minute, time.Millisecond)
		var want []string
		for at := noon.Add(time.Second); at.Before(j.NextRunAt); at = at.Add(time.Second) {
			want = append(want, at.Format(time.TimeOnly))
		}
		if got := w.instants(time.TimeOnly, time.UTC); !slices.Equal(got, want) || len(got) < 60 || int64(len(got)) != j.Runs {
			t.Errorf("%s: fired %v", o, got)
		}
		for _, g := range w.store.fired {
			if len(g.Skips) > 0 || g.Overlap != o || g.Executions[0].Trigger != job.BySchedule {
				t.Fatalf("%s: %+v", o, g)
			}
		}
	}
}

// A policy other than allow judges at the instant, so nothing is fired before it.
func TestNothingIsStagedUnderAPolicy(t *testing.T) {
	w := newWorld(t, noon)
	w.add(cron("0 */5 * * * *"), func(j *job.Job) { j.Overlap = job.OverlapSkip })
	w.add(cron("0 */5 * * * *"))
	w.clock.Advance(5*time.Minute - 400*time.Millisecond)
	if next := w.tick(); next != 400*time.Millisecond || len(w.store.fired) != 1 || w.store.fired[0].Overlap != job.OverlapAllow {
		t.Fatalf("look again in %v; fired %+v", next, w.store.fired)
	}
	w.clock.Advance(400*time.Millisecond - 1)
	if w.tick(); len(w.store.fired) != 1 {
		t.Error("it fired a nanosecond early")
	}
	w.clock.Advance(1)
	if w.tick(); len(w.store.fired) != 2 {
		t.Error("it did not fire in time")
	}
}

// jumped is a world with a job each five minutes that has fired at 12:10, and whose clock then jumps.
func jumped(t *testing.T, by time.Duration) *world {
	w := newWorld(t, noon)
	w.add(cron("*/5 * * * *"), func(j *job.Job) { j.NextRunAt = noon.Add(10 * time.Minute) })
	w.clock.Advance(10 * time.Minute)
	w.tick()
	w.clock.Advance(by)
	w.tick()
	return w
}

func TestAClockThatJumpsForward(t *testing.T) {
	w := jumped(t, 45*time.Minute)
	if got := w.instants("15:04", time.UTC); !slices.Equal(got, []string{"12:10", "12:55"}) {
		t.Errorf("fired %v", got)
	}
	if g := w.store.fired[1]; len(g.Skips) != 1 || g.Skips[0].Metadata["count"] != "8" || g.Executions[0].Trigger != job.ByCatchUp {
		t.Errorf("skipped %+v", g.Skips)
	}
}

func TestAClockThatJumpsBack(t *testing.T) {
	w := jumped(t, -25*time.Minute)
	if w.run(24*time.Minute, time.Second); len(w.store.fired) != 1 {
		t.Errorf("fired twice, or early: %v", w.instants("15:04", time.UTC))
	}
	w.run(12*time.Minute, time.Second)
	if got := w.instants("15:04", time.UTC); !slices.Equal(got, []string{"12:10", "12:15", "12:20"}) {
		t.Errorf("fired %v", got)
	}
}

func TestCatchUp(t *testing.T) {
	for name, c := range map[string]struct {
		policy       job.CatchUp
		limit        int
		fired, count int
	}{
		"none":            {job.CatchUpNone, 0, 0, 12},
		"latest":          {"", 0, 1, 11},
		"all":             {job.CatchUpAll, 0, 12, 0},
		"all, to a limit": {job.CatchUpAll, 5, 5, 7},
	} {
		w := newWorld(t, noon)
		j := w.add(cron("0 * * * *"), func(j *job.Job) { j.CatchUp, j.CatchUpLimit = c.policy, c.limit })
		w.clock.Advance(12*time.Hour + 30*time.Minute) // the job was paused, or nobody was there
		w.tick()
		g := w.store.fired[0]
		if len(g.Executions) != c.fired || g.Runs != int64(c.fired) || !j.NextRunAt.Equal(noon.Add(13*time.Hour)) {
			t.Errorf("%s: %d fired, next %v", name, len(g.Executions), j.NextRunAt)
		}
		for i, e := range g.Executions {
			if e.Trigger != job.ByCatchUp || !e.DueAt.Equal(w.clock.Now()) || !e.ScheduledAt.Equal(noon.Add(time.Duration(13-c.fired+i)*time.Hour)) {
				t.Errorf("%s: %v, due %v, by %v", name, e.ScheduledAt, e.DueAt, e.Trigger)
			}
		}
		if (c.count > 0) != (len(g.Skips) == 1) || c.count > 0 && g.Skips[0].Metadata["count"] != fmt.Sprint(c.count) {
			t.Errorf("%s: skips %+v", name, g.Skips)
		}
	}
}

func TestDaysOnWhichTheClocksChange(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		day        time.Time
		expression string
		want       []string
	}{
		"forward, a fixed time": {time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), "30 2 * * *", []string{"03:00 +0200"}},
		"forward, a pace":       {time.Date(2026, 3, 29, 0, 59, 0, 0, berlin), "30 * * * *", []string{"01:30 +0100", "03:30 +0200", "04:30 +0200"}},
		"back, a fixed time":    {time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), "30 2 * * *", []string{"02:30 +0200"}},
		"back, a pace":          {time.Date(2026, 10, 25, 0, 59, 0, 0, berlin), "30 * * * *", []string{"01:30 +0200", "02:30 +0200", "02:30 +0100", "03:30 +0100"}},
	} {
		w := newWorld(t, c.day.UTC())
		s := cron(c.expression)
		s.Zone = "Europe/Berlin"
		w.add(s)
		w.run(time.Date(c.day.Year(), c.day.Month(), c.day.Day(), 4, 31, 0, 0, berlin).Sub(c.day), 30*time.Second)
		got := w.instants("15:04 -0700", berlin)
		if len(got) > len(c.want) && got[len(got)-1] == "04:30 +0100" {
			got = got[:len(got)-1]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMaxRunsAndJitter(t *testing.T) {
	w := newWorld(t, noon)
	j := w.add(job.Schedule{Type: job.Interval, Every: time.Second, MaxRuns: 9, Jitter: 900 * time.Millisecond})
	w.run(30*time.Second, time.Millisecond)
	if got := w.instants("05", time.UTC); len(got) != 9 || got[8] != "09" || !j.NextRunAt.IsZero() || j.Runs != 9 {
		t.Errorf("fired %v, next %v, runs %d", got, j.NextRunAt, j.Runs)
	}
	delays := map[time.Duration]bool{}
	for _, g := range w.store.fired {
		for _, e := range g.Executions {
			d := e.DueAt.Sub(e.ScheduledAt)
			if d < 0 || d >= 900*time.Millisecond || d != schedule.Jitter(j.ID, e.ScheduledAt, 900*time.Millisecond) {
				t.Errorf("%v after its instant", d)
			}
			delays[d] = true
		}
	}
	if len(delays) < 5 {
		t.Errorf("delays: %v", delays)
	}
}

func TestReplace(t *testing.T) {
	nudged := 0
	w := newWorld(t, noon, func(c *Config) { c.Nudge = func() { nudged++ } })
	w.add(cron("* * * * *"), func(j *job.Job) { j.Overlap, j.CatchUp = job.OverlapReplace, job.CatchUpAll })
	now := noon.Add(3 * time.Minute)
	w.clock.Advance(3 * time.Minute)
	w.tick()
	if nudged != 1 {
		t.Errorf("nudged %d times", nudged)
	}
	g := w.store.fired[0]
	if g.Overlap != job.OverlapReplace || len(g.Executions) != 1 || !g.Executions[0].ScheduledAt.Equal(now) || g.Runs != 1 || len(g.Skips) != 1 || g.Skips[0].Metadata["reason"] != "overlap" || g.Skips[0].Metadata["count"] != "2" {
		t.Errorf("fired %+v", g)
	}
}

// The last runs of a job name the instant that has its turn where one of them is skipped.
func TestTheInstantAfterTheLastRun(t *testing.T) {
	for _, o := range []job.Overlap{job.OverlapAllow, job.OverlapSkip} {
		w := newWorld(t, noon)
		s := cron("* * * * * *")
		s.MaxRuns = 2
		w.add(s, func(j *job.Job) { j.Overlap, j.CatchUp = o, job.CatchUpAll })
		w.run(5*time.Second, time.Second)
		last := w.store.fired[len(w.store.fired)-1]
		if want := noon.Add(3 * time.Second); !last.Next.IsZero() || !last.Spare.Equal(want) {
			t.Errorf("%s: next %v, spare %v, want %v", o, last.Next, last.Spare, want)
		}
	}
}

func TestCalendars(t *testing.T) {
	w := newWorld(t, noon)
	w.store.calendars = map[string]string{"c": `{"dates": ["2026-01-03"]}`}
	s := cron("0 0 * * *")
	s.Calendar = "c"
	j := w.add(s)
	w.run(36*time.Hour, 30*time.Second)
	w.store.calendars["c"] = `{"dates": ["2026-01-04"]}` // the planned instant is no instant any more
	w.run(60*time.Hour, 30*time.Second)
	if got := w.instants("02", time.UTC); !slices.Equal(got, []string{"02", "05"}) || j.Runs != 2 {
		t.Errorf("fired %v", got)
	}
}

func TestAScheduleThatCannotBeRead(t *testing.T) {
	w := newWorld(t, noon)
	for range batch + 5 {
		w.store.jobs = append(w.store.jobs, &job.Job{ID: job.ID{9, byte(len(w.store.jobs)), byte(len(w.store.jobs) >> 8)}, NextRunAt: noon.Add(-time.Hour), Definition: job.Definition{Schedule: cron("0 0 * *")}})
	}
	j := w.add(cron("0 * * * *"))
	w.run(61*time.Minute, 50*time.Second)
	if j.Runs != 1 {
		t.Errorf("the others held it up: %d runs", j.Runs)
	}
	bad := w.store.jobs[0]
	bad.Schedule, bad.Revision = cron("0 0 * * *"), 2
	w.tick()
	w.tick()
	if !bad.NextRunAt.After(w.clock.Now()) {
		t.Error("once it was mended it is still passed over")
	}
}

func TestPartitions(t *testing.T) {
	var held engine.Holding
	w := newWorld(t, noon, func(c *Config) { c.Owner = func() engine.Holding { return held } })
	j := w.add(cron("* * * * * *"))
	w.clock.Advance(time.Second)
	if next := w.tick(); next != between || len(w.store.fired) != 0 || w.store.asked != nil {
		t.Error("it fired what it does not own")
	}
	held = engine.Holding{Fence: engine.Fence{Server: engine.ServerID{1}, Epochs: map[job.Partition]int64{job.PartitionOf(j.ID): 3, 1: 2}}}
	if w.tick(); len(w.store.fired) != 1 || w.store.fence.Epochs[1] != 2 || len(w.store.asked) < 1 {
		t.Errorf("fired %d under %v, of %v", len(w.store.fired), w.store.fence, w.store.asked)
	}
}
