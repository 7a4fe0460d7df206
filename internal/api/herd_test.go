package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/scheduler"
)

// herd makes jobs that are due at 12:01:00, in such numbers that they are staged early, and lets half a minute pass.
func herd(t *testing.T, schedule string) (*clockwork, []string) {
	c := newClockwork(t)
	c.sched = scheduler.New(c.store, c.clock, scheduler.Config{LookAhead: 5 * time.Second, Rate: 30})
	var ids []string
	for range 2 {
		made := want[client.CreatedJobs](c.face, 201, "POST", "/api/v1/jobs:batch", "["+strings.Join(slices.Repeat([]string{recurs(schedule, "")}, 600), ",")+"]")
		for _, j := range made.Jobs {
			ids = append(ids, j.JobID)
		}
	}
	c.pass(30*time.Second, time.Second)
	for _, id := range []string{ids[0], ids[599], ids[1199]} {
		if got := c.fired(id); !slices.Equal(got, []string{"12:01:00"}) {
			t.Fatalf("staged half a minute before: %v", got)
		}
	}
	return c, ids
}

const eachMinute = `{"type": "CRON", "cron_expression": "* * * * *"}`

// What is staged far ahead is as good as planned: whoever asks sees what is next, and changes take it back.
func TestAHerdThatIsStagedMayChange(t *testing.T) {
	c, ids := herd(t, eachMinute)
	instant := time.Date(2030, 4, 1, 12, 1, 0, 0, time.UTC)
	path := func(i int) string { return "/api/v1/jobs/" + ids[i] }
	if j := want[client.Job](c.face, 200, "GET", path(0), ""); j.Schedule.NextRunAt == nil || !j.Schedule.NextRunAt.Equal(instant) {
		t.Errorf("next run at %v", j.Schedule.NextRunAt)
	}
	if n := want[client.Preview](c.face, 200, "GET", path(0)+"/next?n=1", ""); len(n.Next) != 1 || !n.Next[0].UTC.Equal(instant) {
		t.Errorf("next: %+v", n.Next)
	}
	o := want[client.Occurrences](c.face, 200, "GET", path(0)+"/occurrences?from=2030-04-01T12:00:30Z&to=2030-04-01T12:02:30Z", "").Occurrences
	if len(o) != 2 || o[0].Outcome != "planned" && o[0].Outcome != "ran" || o[1].Outcome != "planned" {
		t.Errorf("occurrences: %+v", o)
	}
	f := want[client.Forecast](c.face, 200, "GET", "/api/v1/forecast?hours=1", "")
	if len(f.Minutes) == 0 || !f.Minutes[0].At.Equal(instant) || f.Minutes[0].Count != 1200 {
		t.Errorf("forecast: %+v", f.Minutes[:min(2, len(f.Minutes))])
	}

	for i := range 100 {
		want[client.Job](c.face, 200, "PATCH", path(i), `{"schedule": {"cron_expression": "30 * * * * *"}}`)
	}
	want[client.Job](c.face, 200, "PATCH", path(100), `{"name": "another"}`)
	want[client.Job](c.face, 200, "POST", path(101)+"/pause", `{}`)
	want[client.Job](c.face, 200, "DELETE", path(102), "")
	for i, say := range map[int][]string{0: nil, 99: nil, 100: nil, 101: nil, 103: {"12:01:00"}} {
		if got := c.fired(ids[i]); !slices.Equal(got, say) {
			t.Errorf("%d, after the change: %v", i, got)
		}
	}
	c.pass(time.Minute, time.Second) // until 12:01:30
	for i, say := range map[int][]string{0: {"12:01:30"}, 99: {"12:01:30"}, 100: {"12:01:00"}, 101: nil, 103: {"12:01:00"}, 1199: {"12:01:00"}} {
		got := slices.DeleteFunc(c.fired(ids[i]), func(at string) bool { return at > "12:01:30" })
		if !slices.Equal(got, say) {
			t.Errorf("%d fired %v, want %v", i, got, say)
		}
	}
	gone := want[client.Executions](c.face, 200, "GET", path(102)+"/executions", "").Executions
	if len(gone) != 1 || gone[0].Status != "CANCELLED" {
		t.Errorf("of the deleted one: %+v", gone)
	}
}

// A calendar that changes before a herd reaches all of it: what follows one is not staged that early, beside a herd either.
func TestACalendarReachesAHerd(t *testing.T) {
	c, ids := herd(t, eachMinute)
	want[client.Calendar](c.face, 200, "PUT", "/api/v1/calendars/c", `{}`)
	var with []string
	for range 250 {
		with = append(with, recurs(`{"type": "CRON", "cron_expression": "* * * * *", "calendar": "c"}`, ""))
	}
	made := want[client.CreatedJobs](c.face, 201, "POST", "/api/v1/jobs:batch", "["+strings.Join(with, ",")+"]").Jobs
	c.pass(20*time.Second, time.Second)
	want[client.Calendar](c.face, 200, "PUT", "/api/v1/calendars/c", `{"windows": [{"from": "2030-04-01T12:01:00", "to": "2030-04-01T12:02:00"}]}`)
	c.pass(15*time.Second, time.Second)
	for _, j := range made {
		if got := c.fired(j.JobID); len(got) != 0 {
			t.Fatalf("fired %v", got)
		}
	}
	if got := c.fired(ids[0]); len(got) == 0 || got[0] != "12:01:00" {
		t.Errorf("the herd: %v", got)
	}
}

// The last instant before the end of a schedule is told of although it is staged; what has a number of runs is not staged early.
func TestTheEndOfAHerd(t *testing.T) {
	c, ids := herd(t, `{"type": "CRON", "cron_expression": "* * * * *", "end_at": "2030-04-01T12:01:30Z"}`)
	j := want[client.Job](c.face, 200, "GET", "/api/v1/jobs/"+ids[0], "")
	if j.Status != "ACTIVE" || j.Schedule.NextRunAt == nil || j.Schedule.NextRunAt.Format(time.TimeOnly) != "12:01:00" {
		t.Errorf("it is %s, next run at %v", j.Status, j.Schedule.NextRunAt)
	}
	few := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * *", "max_runs": 1}`, ""))
	c.pass(20*time.Second, time.Second)
	if got := c.fired(few.JobID); len(got) != 0 {
		t.Errorf("fired %v", got)
	}
	c.pass(30*time.Second, time.Second)
	if got := c.fired(few.JobID); !slices.Equal(got, []string{"12:01:00"}) {
		t.Errorf("fired %v", got)
	}
}
