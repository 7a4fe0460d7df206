package api_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

// TestCreatedPaused: what is created paused does not fire before it is resumed, not even what is due at once.
func TestCreatedPaused(t *testing.T) {
	c := newClockwork(t)
	cron := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * *"}`, `, "paused": true, "catch_up": "none"`))
	soon := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "ONE_TIME", "scheduled_time": "2030-04-01T12:00:01Z"}`, `, "paused": true`))
	awake := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * *"}`, `, "paused": false`))
	if cron.Status != "PAUSED" || cron.Schedule.NextRunAt != nil || cron.Revision != 1 || soon.Status != "PAUSED" || soon.ExecutionID != "" || awake.Status != "ACTIVE" {
		t.Errorf("made %+v\n%+v\n%+v", cron, soon, awake)
	}
	c.pass(150*time.Second, time.Second)
	if got := c.fired(cron.JobID); len(got) > 0 {
		t.Errorf("the paused one fired %v", got)
	}
	if got := c.fired(soon.JobID); len(got) > 0 {
		t.Errorf("the paused one-off fired %v", got)
	}
	if got := c.fired(awake.JobID); len(got) != 2 {
		t.Errorf("the other fired %v", got)
	}
	for _, id := range []string{cron.JobID, soon.JobID} {
		want[client.Job](c.face, 200, "POST", "/api/v1/jobs/"+id+"/resume", "")
	}
	c.pass(time.Minute, time.Second)
	if got := c.fired(cron.JobID); !slices.Equal(got, []string{"12:03:00"}) {
		t.Errorf("resumed, it fired %v", got)
	}
	if got := c.fired(soon.JobID); !slices.Equal(got, []string{"12:00:01"}) {
		t.Errorf("resumed, the one-off fired %v", got)
	}
}

func TestPausedIsRefused(t *testing.T) {
	c := newClockwork(t)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * *"}`, ""))
	for name, p := range map[string]client.Problem{
		"an immediate job": want[client.Problem](c.face, 422, "POST", "/api/v1/jobs", `{"name": "n", "paused": true, "execution": {"target": "simulate", "work_kind": "noop"}}`),
		"a change":         want[client.Problem](c.face, 422, "PATCH", "/api/v1/jobs/"+j.JobID, `{"paused": true}`),
	} {
		if len(p.Errors) != 1 || p.Errors[0].Field != "paused" || p.Errors[0].Want == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	p := want[client.JobPlans](c.face, 200, "POST", plans, `{"jobs": [{"job": {"key": "k", "name": "n", "execution": {"target": "simulate", "work_kind": "noop"}}, "paused": true}]}`).Jobs[0]
	if p.Action != client.ActionInvalid || p.Problems[0].Field != "paused" {
		t.Errorf("a plan: %+v", p)
	}
}
