package api_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/scheduler"
)

// While the last of a job's runs continues, nothing else is planned, forecast or missed.
func TestNothingComesAfterTheLastRun(t *testing.T) {
	c := newClockwork(t)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "INTERVAL", "every": "1s", "max_runs": 3}`, ""))
	look := func(when string, left int) {
		t.Helper()
		got := want[client.Job](c.face, 200, "GET", "/api/v1/jobs/"+j.JobID, "")
		listed := want[client.Jobs](c.face, 200, "GET", "/api/v1/jobs", "").Jobs[0]
		for _, x := range []client.Job{got, listed} {
			if is := x.Schedule.NextRunAt; x.Status != "ACTIVE" || (is == nil) != (left == 0) {
				t.Errorf("%s: it is %s, next %v", when, x.Status, is)
			}
		}
		if next := want[client.Preview](c.face, 200, "GET", "/api/v1/jobs/"+j.JobID+"/next", "").Next; len(next) != left {
			t.Errorf("%s: next %v, want %d", when, next, left)
		}
		n := int64(0)
		for _, m := range want[client.Forecast](c.face, 200, "GET", "/api/v1/forecast?hours=1", "").Minutes {
			n += m.Count
		}
		if n != int64(left) {
			t.Errorf("%s: %d in the forecast, want %d", when, n, left)
		}
		all := want[client.Occurrences](c.face, 200, "GET", "/api/v1/jobs/"+j.JobID+"/occurrences", "")
		if len(all.Occurrences) != 3 || all.Pagination.Total != 3 {
			t.Errorf("%s: occurrences %+v", when, all)
		}
		for _, o := range all.Occurrences {
			if o.Outcome == "missed" {
				t.Errorf("%s: missed: %+v", when, o)
			}
		}
	}
	look("before", 3)
	c.pass(0, 0) // all are staged
	look("staged", 3)
	c.clock.Advance(1500 * time.Millisecond)
	look("one has come", 2)
	c.pass(20*time.Second, time.Second)
	look("all wait for a worker", 0)
}

// What is asked of a job that is over, or of the far future, is answered in one page and at once.
func TestOccurrencesOfWhatIsOver(t *testing.T) {
	c := newClockwork(t)
	ask := func(id, query string, n int) {
		t.Helper()
		got := want[client.Occurrences](c.face, 200, "GET", "/api/v1/jobs/"+id+"/occurrences"+query, "")
		if len(got.Occurrences) != n || got.Pagination.Total != int64(n) || got.Pagination.TotalIsEstimate || got.Pagination.NextCursor != nil {
			t.Errorf("%s: %d occurrences, %+v, want %d", query, len(got.Occurrences), got.Pagination, n)
		}
	}
	every := func(more string) string {
		t.Helper()
		return want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "INTERVAL", "every": "1s"`+more+`}`, "")).JobID
	}
	deleted, ended := every(""), every(`, "end_at": "2030-04-01T12:00:03Z"`)
	c.pass(0, 0)
	want[client.Job](c.face, 200, "DELETE", "/api/v1/jobs/"+deleted, "")
	c.pass(time.Hour, time.Minute)
	ask(deleted, "", 5)
	ask(ended, "", 2)
	// So many runs that nobody can count up to the last.
	many := every(`, "max_runs": 1000000000000`)
	got := want[client.Occurrences](c.face, 200, "GET", "/api/v1/jobs/"+many+"/occurrences?from=9000-01-01T00:00:00Z&limit=2", "")
	if len(got.Occurrences) != 2 {
		t.Errorf("in the year 9000: %+v", got)
	}
	// Another schedule: what it would have fired before was never planned.
	changed := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "0 0 * * *"}`, "")).JobID
	c.clock.Advance(4 * time.Hour)
	want[client.Job](c.face, 200, "PATCH", "/api/v1/jobs/"+changed, `{"schedule": {"cron_expression": "* * * * * *"}}`)
	page := want[client.Occurrences](c.face, 200, "GET", "/api/v1/jobs/"+changed+"/occurrences?limit=3", "")
	if len(page.Occurrences) != 3 || !page.Occurrences[0].ScheduledTime.After(c.clock.Now()) {
		t.Errorf("after a change: %+v", page.Occurrences)
	}
}

// meanwhile is a store in which something happens after a calendar was read.
type meanwhile struct {
	scheduler.Store
	do func()
}

func (m *meanwhile) Calendar(ctx context.Context, t tenant.ID, name string) (engine.Calendar, error) {
	c, err := m.Store.Calendar(ctx, t, name)
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return c, err
}

// A scheduler that is late has read a calendar and is about to fire what is owed, and to stage what follows, when the calendar changes.
func TestACalendarChangesWhileALateSchedulerFires(t *testing.T) {
	c := newClockwork(t)
	const path = "/api/v1/calendars/c"
	want[client.Calendar](c.face, 200, "PUT", path, `{}`)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * * *", "calendar": "c"}`, ""))
	c.clock.Advance(2 * time.Second) // two have come
	store := &meanwhile{Store: c.store, do: func() {
		want[client.Calendar](c.face, 200, "PUT", path, `{"windows": [{"from": "2030-04-01T12:00:03", "to": "2030-04-01T13:00"}]}`)
	}}
	c.sched = scheduler.New(store, c.clock, scheduler.Config{LookAhead: 5 * time.Second})
	c.pass(20*time.Second, time.Second)
	if got := c.fired(j.JobID); !slices.Equal(got, []string{"12:00:02"}) {
		t.Errorf("fired %v", got)
	}
}

// What a late scheduler owes of the time before a pause has not passed in the pause, also where the job is paused again.
func TestWhatCameBeforeAPause(t *testing.T) {
	for again, late := range map[bool][]string{false: {"12:00:04", "12:00:12"}, true: {"12:00:12"}} {
		c := newClockwork(t)
		j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "*/4 * * * * *"}`, `, "catch_up": "none"`))
		path := "/api/v1/jobs/" + j.JobID
		pause := func() {
			t.Helper()
			want[client.Job](c.face, 200, "POST", path+"/pause", "")
			c.clock.Advance(2 * time.Second)
			want[client.Job](c.face, 200, "POST", path+"/resume", "")
		}
		if again {
			c.clock.Advance(3 * time.Second)
			pause() // over 12:00:04
			c.clock.Advance(2 * time.Second)
		} else {
			c.clock.Advance(7 * time.Second)
		}
		pause() // over 12:00:08
		c.pass(4*time.Second, time.Second)
		if got := c.fired(j.JobID); len(got) == 0 || !slices.Equal(got[:len(late)], late) {
			t.Errorf("paused again %v: fired %v", again, got)
		}
	}
}
