package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

const plans = "/api/v1/jobs:plan"

func declared(body string) string { return `{"jobs": [{"job": ` + body + `}]}` }

func changed(p client.JobPlan) string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, fmt.Sprintf("%s: %s → %s", c.Field, c.From, c.To))
	}
	return strings.Join(out, "\n")
}

func TestPlanOfJobs(t *testing.T) {
	f := newFace(t)
	const hourly = `{"key": "k", "name": "n", "schedule": {"type": "CRON", "cron_expression": "0 * * * *"}, "execution": {"target": "simulate", "work_kind": "noop", "payload": {"a": 1.0, "b": "x"}}%s}`
	one := func(body string) client.JobPlan {
		t.Helper()
		return want[client.JobPlans](f, 200, "POST", plans, body).Jobs[0]
	}
	p := one(declared(fmt.Sprintf(hourly, "")))
	if p.Action != client.ActionCreate || p.JobID != nil || p.Revision != 0 || p.Appear.Count != 24 || len(p.Appear.First) != 10 || p.Vanish.Count != 0 || p.Timezone != "UTC" {
		t.Errorf("a new one: %+v", p)
	}
	if w := f.ask("GET", "/api/v1/jobs/key:k", ""); w.Code != 404 {
		t.Errorf("a plan has made a job: %d", w.Code)
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(hourly, ""))
	same := strings.ReplaceAll(fmt.Sprintf(hourly, `, "priority": 5, "overlap": "allow"`), `{"a": 1.0, "b": "x"}`, `{"b":"x", "a":1.0}`)
	if p := one(declared(same)); p.Action != client.ActionUnchanged || *p.JobID != j.JobID || p.Revision != 1 || p.Appear.Count+p.Vanish.Count != 0 {
		t.Errorf("the same in other words: %+v", p)
	}
	p = one(declared(strings.Replace(fmt.Sprintf(hourly, `, "tags": ["t"]`), "0 * * * *", "0,30 */2 * * *", 1)))
	if got := changed(p); p.Action != client.ActionChange || got != "schedule.cron_expression: \"0 * * * *\" → \"0,30 */2 * * *\"\ntags: null → [\"t\"]" || p.Appear.Count != 12 || p.Vanish.Count != 12 {
		t.Errorf("another schedule: %s, %+v", got, p)
	}
	p = one(`{"jobs": [{"job": ` + fmt.Sprintf(hourly, "") + `, "paused": true}]}`)
	if got := changed(p); got != "paused: false → true" || p.Vanish.Count != 24 || p.Appear.Count != 0 {
		t.Errorf("paused: %s, %+v", got, p)
	}
	for body, field := range map[string]string{
		strings.Replace(fmt.Sprintf(hourly, ""), `"key": "k", `, "", 1):                               "key",
		strings.Replace(fmt.Sprintf(hourly, ""), "0 * * * *", "0 25 * * *", 1):                        "schedule.cron_expression",
		fmt.Sprintf(hourly, `, "priority": 11`):                                                       "priority",
		strings.Replace(fmt.Sprintf(hourly, ""), `"0 * * * *"`, `"0 * * * *", "calendar": "none"`, 1): "schedule.calendar",
	} {
		p := one(declared(body))
		if p.Action != client.ActionInvalid || len(p.Problems) != 1 || p.Problems[0].Field != field || p.Problems[0].Want == "" {
			t.Errorf("%s: %+v", body, p)
		}
	}
	twice := want[client.JobPlans](f, 200, "POST", plans, `{"jobs": [{"job": `+fmt.Sprintf(hourly, "")+`}, {"job": `+fmt.Sprintf(hourly, "")+`}]}`)
	if twice.Jobs[1].Action != client.ActionInvalid || twice.Jobs[1].Problems[0].Field != "key" {
		t.Errorf("twice: %+v", twice.Jobs[1])
	}
	want[client.Problem](f, 400, "POST", plans, `{"jobs": [{"job": {"nam": "x"}}]}`)
	want[client.Job](f, 200, "DELETE", "/api/v1/jobs/key:k", "")
	if p := one(declared(fmt.Sprintf(hourly, ""))); p.Action != client.ActionCreate {
		t.Errorf("a deleted one's key: %+v", p)
	}
}

// What is fired so often that nobody wants to see it all is compared as far as was looked.
func TestPlanOfABusyJob(t *testing.T) {
	f := newFace(t)
	const every = `{"key": "k", "name": "n", "schedule": {"type": "INTERVAL", "every": %q, "start_at": "2020-01-01T00:00:00Z"}, "execution": {"target": "simulate", "work_kind": "noop"}}`
	want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(every, "1s"))
	p := want[client.JobPlans](f, 200, "POST", plans, declared(fmt.Sprintf(every, "2s"))).Jobs[0]
	if p.Appear.Count != 0 || p.Vanish.Count != 1000 || !p.Vanish.Truncated {
		t.Errorf("half as often: %+v", p)
	}
	if p.Vanish.First[1].Sub(p.Vanish.First[0]) != 2*time.Second {
		t.Errorf("what vanishes: %v", p.Vanish.First)
	}
	p = want[client.JobPlans](f, 200, "POST", plans, declared(strings.Replace(fmt.Sprintf(every, "1s"), `"every"`, `"max_runs": 5, "every"`, 1))).Jobs[0]
	if got := changed(p); got != "schedule.max_runs: null → 5" || p.Appear.Count != 0 || p.Vanish.Count < 1990 {
		t.Errorf("five more: %s, %+v", got, p)
	}
}
