package api_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/notify"
	"github.com/carillon-jobs/carillon/internal/service"
)

func TestNotificationsOverHTTP(t *testing.T) {
	var svc *service.Service
	f := newFace(t, func(c *api.Config, _ engine.Store) { svc = c.Service })
	const at = "/api/v1/notification-rules"
	watched := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "billing run", "key": "billing", "owner": "finance", "runbook": "https://wiki/billing",
		"execution": {"target": "simulate", "work_kind": "fail_permanent"}, "schedule": {"type": "CRON", "cron_expression": "0 0 1 1 *"}}`)
	rule := want[client.NotificationRule](f, 200, "PUT", at+"/on-call", `{"events": ["failed", "recovered"], "jobs": ["key:billing"], "callback_url": "https://example.com/hook"}`)
	if rule.Name != "on-call" || len(rule.Jobs) != 1 || rule.Jobs[0] != watched.JobID || rule.LateAfterSeconds != 60 || rule.SilenceUntil != nil || rule.CreatedAt.IsZero() {
		t.Errorf("rule: %+v", rule)
	}
	if list := want[client.NotificationRules](f, 200, "GET", at, ""); len(list.NotificationRules) != 1 || list.Pagination.Total != 1 {
		t.Errorf("list: %+v", list)
	}
	changed := want[client.NotificationRule](f, 200, "PUT", at+"/on-call", `{"events": ["failed"], "callback_url": "https://example.com/other"}`)
	if !changed.CreatedAt.Equal(rule.CreatedAt) || changed.CallbackURL != "https://example.com/other" || len(changed.Jobs) != 0 {
		t.Errorf("changed: %+v", changed)
	}
	for body, field := range map[string]string{
		`{"events": ["exploded"], "callback_url": "https://example.com"}`:                                                         "events[0]",
		`{"events": ["failed"], "callback_url": "gopher://x"}`:                                                                    "callback_url",
		`{"events": ["failed"], "callback_url": "https://example.com", "jobs": ["key:none"]}`:                                     "jobs[0]",
		`{"events": ["failed"], "callback_url": "https://example.com", "jobs": ["nonsense"]}`:                                     "jobs[0]",
		`{"events": ["failed"], "callback_url": "https://example.com", "late_after_seconds": 1}`:                                  "late_after_seconds",
		`{"events": ["failed"], "callback_url": "https://example.com", "jobs": [` + strings.Repeat(`"key:a",`, 100) + `"key:a"]}`: "jobs",
	} {
		p := want[client.Problem](f, 422, "PUT", at+"/bad", body)
		if len(p.Errors) != 1 || p.Errors[0].Field != field || p.Errors[0].Want == "" {
			t.Errorf("%.80s: %+v", body, p.Errors)
		}
	}
	want[client.Problem](f, 404, "GET", at+"/none", "")
	want[client.Problem](f, 404, "DELETE", at+"/No%20Key", "")
	want[client.Problem](f, 404, "POST", at+"/none/test", "")

	tested := want[client.Triggered](f, 202, "POST", at+"/on-call/test", "")
	if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+tested.ExecutionID, ""); e.JobName != "notification: on-call" {
		t.Errorf("test: %+v", e)
	}

	// The job fails for good, and the notice of it is a job like any other, made once.
	run := want[client.Triggered](f, 202, "POST", "/api/v1/jobs/"+watched.JobID+"/trigger", "")
	failOnce(f, run.ExecutionID)
	n := &notify.Notifier{Store: f.store, Send: svc.Notify, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)}
	for range 2 {
		if _, err := n.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		n = &notify.Notifier{Store: f.store, Send: svc.Notify, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)}
	}
	for _, j := range want[client.Jobs](f, 200, "GET", "/api/v1/jobs?without_tag="+client.NotificationTag, "").Jobs {
		if slices.Contains(j.Tags, notice.Tag) {
			t.Errorf("%s is listed, which sends a notification", j.Name)
		}
	}
	jobs := want[client.Jobs](f, 200, "GET", "/api/v1/jobs?tag="+client.NotificationTag, "").Jobs
	if len(jobs) != 2 {
		t.Fatalf("%d notices, want the test and the failure", len(jobs))
	}
	sent := jobs[0]
	if p := string(sent.Execution.Payload); sent.Execution.CallbackURL != "https://example.com/other" || !strings.Contains(p, `"event":"failed"`) ||
		!strings.Contains(p, `"owner":"finance"`) || !strings.Contains(p, run.ExecutionID) {
		t.Errorf("the notice: %s", p)
	}
	want[client.NotificationRule](f, 200, "DELETE", at+"/on-call", "")
	want[client.Problem](f, 404, "DELETE", at+"/on-call", "")
}

// A rule keeps the jobs that it has, also those that were deleted: it is changed and silenced as before. A deleted job is no reason
// to take it up again, nor into another rule.
func TestRulesOfDeletedJobs(t *testing.T) {
	f := newFace(t)
	const at = "/api/v1/notification-rules"
	made := func(key string) string {
		return want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": %q, "key": %q, "execution": {"target": "simulate", "work_kind": "noop"}, "schedule": {"type": "CRON", "cron_expression": "0 0 1 1 *"}}`, key, key)).JobID
	}
	gone, there := made("gone"), made("there")
	body := func(more string, jobs ...string) string {
		list, _ := json.Marshal(jobs)
		return fmt.Sprintf(`{"events": ["failed"], "callback_url": "https://example.com/", "jobs": %s%s}`, list, more)
	}
	want[client.NotificationRule](f, 200, "PUT", at+"/r", body("", gone, "key:there"))
	want[client.NotificationRule](f, 200, "PUT", at+"/other", body("", there))
	f.ask("DELETE", "/api/v1/jobs/"+gone, "")

	silent := want[client.NotificationRule](f, 200, "PUT", at+"/r", body(`, "silence_until": "2099-01-01T00:00:00Z"`, gone, there))
	if silent.SilenceUntil == nil || len(silent.Jobs) != 2 || silent.Jobs[0] != gone || silent.Jobs[1] != there {
		t.Errorf("silenced: %+v", silent)
	}
	refused := func(name, field string, jobs ...string) {
		t.Helper()
		if p := want[client.Problem](f, 422, "PUT", at+"/"+name, body("", jobs...)); len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s of %v: %+v", name, jobs, p.Errors)
		}
	}
	refused("r", "jobs[1]", gone, "key:gone") // a key names what is there, or what comes
	refused("other", "jobs[1]", there, gone)
	refused("new", "jobs[0]", gone)
	want[client.NotificationRule](f, 200, "PUT", at+"/r", body("", there))
	refused("r", "jobs[0]", gone) // once it is out, it stays out
	want[client.NotificationRule](f, 200, "DELETE", at+"/r", "")
	refused("r", "jobs[0]", gone)
}

// A target, a worker or a job's name may hold what looks like a reference to a secret. A notice repeats it as it is: it is
// neither filled in, nor refused if there is no such secret.
func TestNoticesNameNoSecrets(t *testing.T) {
	var svc *service.Service
	f := newFace(t, func(c *api.Config, _ engine.Store) { svc = c.Service })
	const name = "pays $${secret:tok}, ${secret:tok} and ${secret:none}"
	want[client.Secret](f, 200, "PUT", "/api/v1/secrets/tok", `{"value": "the canary"}`)
	want[client.NotificationRule](f, 200, "PUT", "/api/v1/notification-rules/r", `{"events": ["failed"], "callback_url": "https://example.com/hook"}`)
	made := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "`+name+`", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`)
	failOnce(f, made.ExecutionID)
	n := &notify.Notifier{Store: f.store, Send: svc.Notify, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)}
	if _, err := n.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"targets": ["http"]}`)
	got := want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 1, "wait_seconds": 10}`, "X-Worker-Session", s.Session)
	if len(got.Attempts) != 1 {
		t.Fatal("no notice")
	}
	var told client.Notification
	if err := json.Unmarshal(got.Attempts[0].Payload, &told); err != nil || told.Job.Name != name || !strings.HasPrefix(told.Summary, name) {
		t.Errorf("the notice: %s, %v", got.Attempts[0].Payload, err)
	}
}

// failOnce lets a worker take what waits and fail the named execution for good.
func failOnce(f face, execution string) {
	f.Helper()
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"targets": ["simulate", "http"], "capacity": 10}`)
	for {
		got := want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 1, "wait_seconds": 10}`, "X-Worker-Session", s.Session)
		if len(got.Attempts) == 0 {
			f.Fatal("nothing to claim")
		}
		a := got.Attempts[0]
		if a.ExecutionID != execution {
			continue
		}
		body := fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, "status": "FAILED", "error": {"type": "HANDLER_ERROR", "message": "no"}}]}`, a.ExecutionID, a.FencingToken)
		want[client.Verdicts](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/complete", body, "X-Worker-Session", s.Session)
		return
	}
}
