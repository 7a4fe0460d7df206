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

// A job that the store refuses forever, or gives up on, is set aside for longer and longer; all others fire in time.
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

// Each statement that the store gives up takes seconds. One bad job among a few is found by halving what failed, not what a statement
// may hold at most.
func TestAJobAmongAFewIsFoundInFewStatements(t *testing.T) {
	for n, most := range map[int]int{2: 2, 5: 4, 40: 7} {
		w := newWorld(t, noon, func(c *Config) { c.Part = Behind })
		w.herd(n, noon.Add(-time.Hour))
		bad, given := w.store.jobs[n/2], 0
		w.store.refuse = func(fs []engine.Firing) error {
			if names(fs, bad.ID) {
				given++
				return engine.ErrTooSlow
			}
			return nil
		}
		for len(w.store.fired) < n-1 && given < 50 {
			_, _ = w.s.Tick(t.Context()) // which says what was given up
			w.clock.Advance(longestRest)
		}
		if given > most || len(w.store.fired) != n-1 {
			t.Errorf("of %d jobs %d fired, and %d statements were given up before; want %d at the most", n, len(w.store.fired), given, most)
		}
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

// What a catch-up reads grows with what is behind, not with its square: other tenants, for whom all of it is read, are looked for once in
// a while, and a store that gives that up holds up nothing.
func TestCatchUpIsLinear(t *testing.T) {
	const all, step = 20_000, 50 * time.Millisecond
	for name, c := range map[string]struct {
		tenants []tenant.ID
		at      time.Duration // between two jobs
		err     error
		passes  int
	}{
		"one tenant":               {[]tenant.ID{"a"}, time.Millisecond, nil, all/lateJobs + 2},
		"one tenant, one instant":  {[]tenant.ID{"a"}, 0, nil, all/lateJobs + 2},
		"one tenant, given up":     {[]tenant.ID{"a"}, time.Millisecond, engine.ErrTooSlow, all/lateJobs + 2},
		"two tenants":              {[]tenant.ID{"a", "b"}, time.Millisecond, nil, 2*all/rowsAtOnce + 10},
		"two tenants, one instant": {[]tenant.ID{"a", "b"}, 0, nil, 2*all/rowsAtOnce + 10},
		"two tenants, given up":    {[]tenant.ID{"a", "b"}, time.Millisecond, engine.ErrTooSlow, 2*all/rowsAtOnce + 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, noon, func(c *Config) { c.Part = Behind })
			w.store.othersErr = c.err
			for _, of := range c.tenants {
				for i, j := range w.herd(all/len(c.tenants), noon.Add(-time.Hour), once) {
					j.Tenant, j.NextRunAt = of, j.NextRunAt.Add(time.Duration(i)*c.at)
				}
			}
			passes := 0
			for ; len(w.store.fired) < all && passes < 10*c.passes; passes++ {
				w.tick()
				w.clock.Advance(step)
			}
			if passes > c.passes || len(w.store.fired) != all {
				t.Errorf("%d fired in %d passes", len(w.store.fired), passes)
			}
			if most := lateReads * (1 + int(time.Duration(passes)*step/othersEvery)); w.store.others > most {
				t.Errorf("other tenants were looked for with %d reads in %d passes", w.store.others, passes)
			}
			if n := w.store.lateLooks - w.store.others; n > passes {
				t.Errorf("%d other reads in %d passes", n, passes)
			}
		})
	}
}

// A tenant that is found behind another's backlog has its turn in every pass, also while others are not looked for.
func TestWhoIsBehindAnotherIsRemembered(t *testing.T) {
	w := newWorld(t, noon, func(c *Config) { c.Part = Behind })
	w.herd(20_000, noon.Add(-2*time.Hour), once, func(j *job.Job) { j.Tenant = "a" })
	late := w.herd(2, noon.Add(-time.Hour), func(j *job.Job) {
		j.Tenant, j.CatchUp, j.CatchUpLimit, j.Schedule = "b", job.CatchUpAll, 1000, cron("* * * * *")
		j.NextRunAt = noon.Add(-time.Hour)
	})
	w.herd(3000, noon.Add(-30*time.Minute), once, func(j *job.Job) { j.Tenant = "c" })
	for range 3 {
		w.tick()
	}
	for _, j := range late {
		if j.Runs != 61 {
			t.Errorf("%d of 61 instants fired", j.Runs)
		}
	}
	of := map[tenant.ID]int{}
	for _, f := range w.store.fired {
		of[f.Tenant]++
	}
	if of["c"] < 300 || of["a"] < 300 || w.store.others > lateReads {
		t.Errorf("fired of each: %v; %d reads", of, w.store.others)
	}
	w.clock.Advance(othersEvery)
	w.herd(1, noon.Add(-time.Minute), once, func(j *job.Job) { j.Tenant = "d" })
	if w.tick(); !slices.ContainsFunc(w.store.fired, func(f engine.Firing) bool { return f.Tenant == "d" }) {
		t.Error("who comes later is not found")
	}
	for range 60 {
		w.tick()
	}
	fired := map[job.ID]bool{}
	for _, f := range w.store.fired {
		fired[f.Job] = true
	}
	if len(fired) != 20_000+2+3000+1 {
		t.Errorf("%d jobs fired", len(fired))
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

// More tenants are behind than one pass reads jobs of, each with more jobs than one read returns. All that is in time fires in
// time, every tenant gets its turns, and one with a single job that is late does not wait for the thousands of the others.
func TestManyTenantsAreBehind(t *testing.T) {
	const tenants, each = 11, lateJobs + 1
	if tenants <= lateReads+1 {
		t.Fatal("one pass reads some of all")
	}
	w := newWorld(t, noon)
	for i := range tenants {
		w.herd(each, noon.Add(-20*time.Hour), func(j *job.Job) {
			j.Tenant, j.CatchUp, j.CatchUpLimit, j.Schedule = tenant.ID(fmt.Sprintf("t%02d", i)), job.CatchUpAll, 100, cron("* * * * *")
		})
	}
	small := w.herd(1, noon.Add(-time.Hour), func(j *job.Job) { j.Tenant = "z" })[0]
	brisk := w.add(job.Schedule{Type: job.Interval, Every: 5 * time.Second}, func(j *job.Job) { j.Tenant = "prompt" })
	waited := time.Duration(-1)
	for since := time.Duration(0); since < 10*time.Second; since += 100 * time.Millisecond {
		w.tick()
		w.clock.Advance(100 * time.Millisecond)
		if late := w.clock.Now().Sub(brisk.NextRunAt); late > time.Second {
			t.Fatalf("after %v a job that was in time is late by %v", since, late)
		}
		if waited < 0 && !small.NextRunAt.Before(noon) {
			waited = since
		}
	}
	if waited < 0 || waited > 10*time.Second {
		t.Errorf("the only late job of a tenant waited for %v", waited)
	}
	rows := map[tenant.ID]int{}
	for _, f := range w.store.fired {
		rows[f.Tenant] += len(f.Executions)
	}
	least, most := 1<<30, 0
	for i := range tenants {
		n := rows[tenant.ID(fmt.Sprintf("t%02d", i))]
		least, most = min(least, n), max(most, n)
	}
	t.Logf("the small tenant waited for %v; of each of the others %d to %d fired", waited, least, most)
	if least < most/2 {
		t.Errorf("fired of each: %v", rows)
	}
}
