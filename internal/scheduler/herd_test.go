package scheduler

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
)

// herd adds n jobs that are due at an instant.
func (w *world) herd(n int, at time.Time, change ...func(*job.Job)) (all []*job.Job) {
	for range n {
		j := &job.Job{Tenant: "t", Revision: 1, State: job.Active, NextRunAt: at, CreatedAt: noon, Definition: job.Definition{Schedule: cron("0 * * * *"), Priority: 5}}
		binary.BigEndian.PutUint32(j.ID[12:], uint32(len(w.store.jobs)+1))
		for _, c := range change {
			c(j)
		}
		w.store.jobs = append(w.store.jobs, j)
		all = append(all, j)
	}
	return all
}

// once makes a job fire once, when it is next.
func once(j *job.Job) { j.Schedule = job.Schedule{Type: job.OneTime, At: j.NextRunAt} }

// More is due at one instant than can be fired within the look-ahead: it is staged before, what is due earlier first, and
// whoever leases is told of it when it is due soon.
func TestAHerdIsStagedEarly(t *testing.T) {
	var told []time.Time
	w := newWorld(t, noon.Add(30*time.Minute), func(c *Config) {
		c.Rate = 100
		c.Hint = func(rs []job.Ready) {
			for _, r := range rs {
				told = append(told, r.DueAt)
			}
		}
	})
	at := noon.Add(time.Hour)
	const size = 3000
	w.herd(size, at)
	w.herd(5, at.Add(-10*time.Second), once)
	w.run(28*time.Minute, time.Second)
	if len(w.store.fired) != 0 {
		t.Fatalf("%d are staged two minutes before", len(w.store.fired))
	}
	w.run(80*time.Second, time.Millisecond)
	if len(w.store.fired) != size+5 {
		t.Fatalf("%d are staged 40 s before", len(w.store.fired))
	}
	for i, f := range w.store.fired {
		if first := i < 5; first != f.Was.Before(at) || len(f.Executions) != 1 || !f.Executions[0].DueAt.Equal(f.Was) {
			t.Fatalf("the %d-th is %+v", i, f)
		}
	}
	if len(told) != 0 || len(w.s.out.hints) != size+5 {
		t.Errorf("told of %d, %d in mind", len(told), len(w.s.out.hints))
	}
	w.run(30*time.Second, 100*time.Millisecond)
	if len(told) != 5 {
		t.Errorf("told of %d, 10 s before", len(told))
	}
	w.run(6*time.Second, 100*time.Millisecond)
	if len(told) != size+5 || !slices.IsSortedFunc(told, time.Time.Compare) {
		t.Errorf("told of %d, 5 s before", len(told))
	}
	if len(w.store.fired) != size+5 {
		t.Errorf("%d are staged in the end", len(w.store.fired))
	}
}

// What is due second by second, and can be fired in time, is not staged any earlier for it.
func TestASteadyLoadIsNotStagedEarly(t *testing.T) {
	w := newWorld(t, noon, func(c *Config) { c.Rate = 100 })
	for i := range 60 {
		w.herd(60, noon.Add(time.Duration(i)*time.Second), func(j *job.Job) {
			j.Schedule = job.Schedule{Type: job.Interval, Every: time.Minute, Start: j.NextRunAt.Add(-time.Minute)}
		})
	}
	w.run(50*time.Second, 100*time.Millisecond)
	for _, f := range w.store.fired {
		for _, e := range f.Executions {
			if ahead := e.ScheduledAt.Sub(w.clock.Now()); ahead > ahead5 {
				t.Fatalf("%v early", ahead)
			}
		}
	}
	if w.store.counted < 20 || w.store.counted > 30 {
		t.Errorf("it looked ahead %d times in 50 s", w.store.counted)
	}
}

const ahead5 = ahead + time.Second

// What may not be staged early is not, in a herd either, and does not hide what may.
func TestWhatIsNotStagedInAHerd(t *testing.T) {
	w := newWorld(t, noon.Add(30*time.Minute), func(c *Config) { c.Rate = 100 })
	at := w.clock.Now().Add(40 * time.Second)
	w.herd(1500, at, func(j *job.Job) { j.Overlap = job.OverlapSkip })
	w.herd(1500, at, func(j *job.Job) { j.UniqueKey = "k" })
	w.herd(1500, at, func(j *job.Job) { j.Schedule.MaxRuns = 3 })
	w.store.calendars = map[string]string{"c": `{}`}
	w.herd(100, at, func(j *job.Job) { j.Schedule.Calendar = "c" })
	const plain = 9000
	w.herd(plain, at)
	for _, j := range w.store.jobs {
		j.Schedule.Cron = "40 30 * * * *"
	}
	w.run(20*time.Second, 10*time.Millisecond)
	if len(w.store.fired) != plain {
		t.Errorf("%d of %d are staged", len(w.store.fired), plain)
	}
	w.run(21*time.Second, 100*time.Millisecond)
	if len(w.store.fired) != plain+4600 {
		t.Errorf("%d in the end", len(w.store.fired))
	}
}

// A herd of which nothing may be staged is looked at seldom.
func TestAHerdThatMayNotBeStaged(t *testing.T) {
	w := newWorld(t, noon.Add(30*time.Minute), func(c *Config) { c.Rate = 100 })
	at := w.clock.Now().Add(50 * time.Second)
	w.herd(5000, at, func(j *job.Job) { j.Overlap, j.Schedule.Cron = job.OverlapSkip, "50 30 * * * *" })
	w.run(45*time.Second, 10*time.Millisecond)
	if len(w.store.fired) != 0 || w.store.counted > 5 {
		t.Errorf("%d fired, %d looks", len(w.store.fired), w.store.counted)
	}
	w.run(6*time.Second, 10*time.Millisecond)
	if len(w.store.fired) != 5000 {
		t.Errorf("%d fired", len(w.store.fired))
	}
}

// Where there is much the partitions are fired in lanes, each of which is fired by one; one that fails keeps no other back.
func TestLanes(t *testing.T) {
	w := newWorld(t, noon, func(c *Config) { c.Lanes = 4 })
	const size = 20_000
	w.herd(size, noon.Add(-time.Second), once)
	w.tick()
	if len(w.store.looks) != 1 || len(w.store.fired) > batch {
		t.Fatalf("it began with %d lanes, and %d", len(w.store.looks), len(w.store.fired))
	}
	w.store.looks, w.store.panics = nil, 10
	if _, err := w.s.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
	seen := map[job.Partition]int{}
	for _, ps := range w.store.looks {
		for _, p := range ps {
			seen[p]++
		}
	}
	if len(w.store.looks) != 4 || len(seen) != job.Partitions || len(w.store.fired) < batch+3*herdBatch*9/10 {
		t.Errorf("%d lanes, %d partitions, %d fired", len(w.store.looks), len(seen), len(w.store.fired))
	}
	for range 8 {
		w.tick()
	}
	w.store.looks = nil
	w.tick()
	if len(w.store.fired) != size || len(w.store.looks) != 1 {
		t.Errorf("%d fired, %d lanes in the end", len(w.store.fired), len(w.store.looks))
	}
}

// However much is staged far ahead, little of it is kept in mind.
func TestHintsAreBounded(t *testing.T) {
	w := newWorld(t, noon)
	w.s.out.far = true
	rs := make([]job.Ready, maxHints+1000)
	for i := range rs {
		rs[i].DueAt = noon.Add(schedule.HerdAhead)
	}
	if w.s.hint(rs, noon); len(w.s.out.hints) != maxHints {
		t.Errorf("%d in mind", len(w.s.out.hints))
	}
}
