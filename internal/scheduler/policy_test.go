package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
)

const everyDay = `{"weekdays": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]}`

// A calendar that leaves out everything makes a job wait: it is looked at once a day, and fires again when the calendar lets it.
func TestACalendarThatLeavesNothing(t *testing.T) {
	w := newWorld(t, noon)
	w.store.calendars = map[string]string{"c": `{}`}
	j := w.add(job.Schedule{Type: job.Cron, Cron: "* * * * *", Calendar: "c"})
	w.run(2*time.Minute, time.Millisecond)
	if n := len(w.instants("", time.UTC)); n != 2 {
		t.Fatalf("%d fired before", n)
	}
	w.store.calendars["c"] = everyDay
	w.store.fired = nil
	w.run(10*24*time.Hour, time.Minute)
	if n := len(w.instants("", time.UTC)); n != 0 {
		t.Errorf("%d fired", n)
	}
	if n := len(w.store.fired); n < 9 || n > 12 {
		t.Errorf("it was looked at %d times in 10 days", n)
	}
	if j.NextRunAt.IsZero() || j.NextRunAt.Sub(w.clock.Now()) > schedule.LookAgain {
		t.Fatalf("it is over: next %v", j.NextRunAt)
	}
	w.store.calendars["c"] = `{}`
	was := j.NextRunAt
	w.run(was.Sub(w.clock.Now())+5*time.Minute, 10*time.Second)
	if n := len(w.instants("", time.UTC)); n < 4 {
		t.Errorf("%d fired when it may again", n)
	}
}

// Where the schedule itself ends meanwhile, it is over then.
func TestABarredScheduleEnds(t *testing.T) {
	w := newWorld(t, noon)
	w.store.calendars = map[string]string{"c": everyDay}
	j := w.add(job.Schedule{Type: job.Interval, Every: time.Minute, Calendar: "c", End: noon.Add(time.Hour)})
	w.run(2*time.Hour, time.Second)
	if !j.NextRunAt.IsZero() || len(w.instants("", time.UTC)) != 0 {
		t.Errorf("next %v", j.NextRunAt)
	}
}

// What passed while a job was paused is skipped where nothing is to be caught up, even if it is seconds old.
func TestAPauseWithoutCatchUp(t *testing.T) {
	w := newWorld(t, noon)
	j := w.add(cron("*/10 * * * * *"), func(j *job.Job) { j.CatchUp = job.CatchUpNone })
	w.clock.Advance(35 * time.Second) // paused meanwhile: nobody ticks
	j.ResumedAt = w.clock.Now()
	w.run(20*time.Second, time.Millisecond)
	if got := w.instants("05", time.UTC); !slices.Equal(got, []string{"40", "50"}) {
		t.Errorf("fired %v", got)
	}
	var skips []job.Execution
	for _, f := range w.store.fired {
		skips = append(skips, f.Skips...)
	}
	if len(skips) != 1 || skips[0].Metadata["reason"] != string(job.SkipPause) || skips[0].Metadata["count"] != "3" {
		t.Errorf("skipped %+v", skips)
	}
}
