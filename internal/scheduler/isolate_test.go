package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// names reports whether firings are of a job, among others.
func names(fs []engine.Firing, id job.ID) bool {
	return slices.ContainsFunc(fs, func(f engine.Firing) bool { return f.Job == id })
}

// A job that the store refuses for ever, or gives up on, is set aside for longer and longer; all others fire in time.
func TestOneJobThatAlwaysFails(t *testing.T) {
	for name, refusal := range map[string]error{"refused": errors.New("no"), "given up": fmt.Errorf("fire: %w", engine.ErrTooSlow)} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			w := newWorld(t, noon.Add(-3*time.Second), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			w.herd(700, noon)
			bad := w.store.jobs[350]
			tries := 0
			w.store.refuse = func(fs []engine.Firing) error {
				if names(fs, bad.ID) {
					tries++
					return refusal
				}
				return nil
			}
			w.run(4*time.Second, time.Millisecond) // a store that gives up takes seconds, which this clock does not count
			if n := len(w.store.fired); n != 699 {
				t.Fatalf("%d of the others fired", n)
			}
			before := tries
			brisk := w.add(job.Schedule{Type: job.Interval, Every: 5 * time.Second})
			w.run(time.Hour, time.Millisecond)
			if brisk.Runs < 700 {
				t.Errorf("another job fired %d times in an hour", brisk.Runs)
			}
			if n := tries - before; n < 10 || n > 40 {
				t.Errorf("it was tried %d times in an hour", n)
			}
			if !strings.Contains(log.String(), bad.ID.String()) {
				t.Error("the log does not name it")
			}
			w.store.refuse = nil
			w.run(longAside+time.Second, time.Second)
			if bad.NextRunAt.Before(w.clock.Now()) || len(w.s.stuck) != 0 {
				t.Errorf("it fires again: next %v; %v is remembered", bad.NextRunAt, w.s.stuck)
			}
		})
	}
}

// A store that gives up what has many rows is asked for fewer and fewer, and a job that owes many fires them in smaller steps.
func TestAStoreThatGivesUp(t *testing.T) {
	const bearable = 7
	w := newWorld(t, noon)
	w.herd(100, noon.Add(-3*time.Hour), func(j *job.Job) { j.CatchUp, j.Schedule = job.CatchUpAll, cron("* * * * *") })
	w.store.refuse = func(fs []engine.Firing) error {
		rows := 0
		for i := range fs {
			rows += rowsOf(&fs[i])
		}
		if rows > bearable {
			return engine.ErrTooSlow
		}
		return nil
	}
	failed, passes := 0, 0
	for ; passes < 20_000 && slices.ContainsFunc(w.store.jobs, func(j *job.Job) bool { return !j.NextRunAt.After(noon) }); passes++ {
		if _, err := w.s.Tick(t.Context()); err != nil {
			failed++
		}
	}
	if refused := failed; refused > passes/5 {
		t.Errorf("%d of %d passes failed", failed, passes)
	}
	for _, j := range w.store.jobs {
		if j.Runs != job.DefaultCatchUpLimit {
			t.Fatalf("%d runs, next %v, after %d passes that failed", j.Runs, j.NextRunAt, failed)
		}
	}
}

// Where the store is away nothing is tried in halves.
func TestAStoreThatIsAway(t *testing.T) {
	w := newWorld(t, noon)
	w.herd(500, noon)
	w.store.refuse = func([]engine.Firing) error { return engine.ErrUnavailable }
	if _, err := w.s.Tick(t.Context()); !errors.Is(err, engine.ErrUnavailable) || w.store.calls != 1 || len(w.s.stuck) != 0 {
		t.Errorf("%v, %d calls, %d suspects", err, w.store.calls, len(w.s.stuck))
	}
	w.store.refuse = nil
	if w.tick(); len(w.store.fired) != 500 {
		t.Errorf("%d fired when it is back", len(w.store.fired))
	}
}

// What a pass writes in one statement is bounded, whatever jobs owe.
func TestStatementsAreBounded(t *testing.T) {
	w := newWorld(t, noon)
	w.herd(3000, noon.Add(-20*time.Hour), func(j *job.Job) { j.CatchUp, j.CatchUpLimit, j.Schedule = job.CatchUpAll, 1000, cron("* * * * *") })
	for range 10 {
		w.tick()
	}
	if w.store.most > rowsAtOnce+mostAtOnce+2 {
		t.Errorf("one statement wrote %d rows", w.store.most)
	}
	if n := len(w.instants("", time.UTC)); n < 9*rowsAtOnce*9/10 {
		t.Errorf("%d fired in 10 passes", n)
	}
}

// A tenant with very much to catch up delays neither another's that is late nor one of its own jobs that owes little.
func TestCatchUpByTurns(t *testing.T) {
	w := newWorld(t, noon)
	huge := func(of tenant.ID) func(*job.Job) {
		return func(j *job.Job) {
			j.Tenant, j.CatchUp, j.CatchUpLimit, j.Schedule = of, job.CatchUpAll, 1000, cron("* * * * *")
		}
	}
	for _, of := range []tenant.ID{"a", "b", "c"} {
		w.herd(4000, noon.Add(-20*time.Hour), huge(of))
	}
	other := w.herd(5, noon.Add(-time.Hour), func(j *job.Job) { j.Tenant = "z" })
	own := w.herd(1, noon.Add(-2*time.Hour), func(j *job.Job) { j.Tenant = "a" })
	soon := w.herd(5, noon.Add(-time.Second), func(j *job.Job) { j.Tenant = "a" })
	left := func(js []*job.Job) (n int) {
		for _, j := range js {
			if j.NextRunAt.Before(noon) {
				n++
			}
		}
		return n
	}
	pass := func() {
		w.tick()
	}
	pass()
	if n := left(soon); n != 0 {
		t.Errorf("%d that are in time wait", n)
	}
	if n := left(other); n != 0 {
		t.Errorf("%d of a tenant with little to catch up wait for the others", n)
	}
	for range 40 {
		pass()
	}
	if n := left(own); n != 0 {
		t.Errorf("a job with one instant waits for its tenant's others")
	}
	rows := map[tenant.ID]int{}
	for _, f := range w.store.fired {
		rows[f.Tenant] += len(f.Executions)
	}
	if rows["a"] < 10_000 || rows["b"] < rows["a"]*9/10 || rows["c"] < rows["a"]*9/10 {
		t.Errorf("fired of each: %v", rows)
	}
}

// It rests as long as it worked, also when it is woken.
func TestCatchUpRests(t *testing.T) {
	w := newWorld(t, noon, func(c *Config) { c.Part = Behind })
	w.herd(3000, noon.Add(-20*time.Hour), func(j *job.Job) { j.CatchUp, j.Schedule = job.CatchUpAll, cron("* * * * *") })
	w.tick()
	before := w.store.calls
	w.s.back.rest = noon.Add(time.Second) // as if that had taken a second
	w.clock.Advance(200 * time.Millisecond)
	if d := w.tick(); d != 800*time.Millisecond || w.store.calls != before {
		t.Errorf("woken, it works: look again in %v", d)
	}
	w.clock.Advance(-time.Hour) // set back
	if w.tick(); w.store.calls == before {
		t.Error("it rests for an hour")
	}
}

// Any number of schedules that cannot be worked out hide neither jobs that are in time nor jobs that are late.
func TestManySchedulesThatCannotBeRead(t *testing.T) {
	w := newWorld(t, noon)
	bad := func(j *job.Job) { j.Schedule = cron("0 0 * *") }
	w.herd(2*maxSuspects+500, noon.Add(-2*time.Hour), bad)
	w.herd(2*maxSuspects+500, noon, bad)
	late := w.herd(3, noon.Add(-time.Hour))
	same := w.herd(3, noon.Add(-2*time.Hour))
	soon := w.herd(3, noon)
	w.run(2*time.Minute, time.Second)
	for what, js := range map[string][]*job.Job{"late": late, "of the same instant": same, "in time": soon} {
		for _, j := range js {
			if j.Runs != 1 {
				t.Errorf("%s: %d runs", what, j.Runs)
			}
		}
	}
	if len(w.s.stuck) > maxSuspects {
		t.Errorf("%d are remembered", len(w.s.stuck))
	}
}
