package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// TestValidation checks what each call refuses: with which status, which field is named, and what of the answer helps. @job and the
// like stand for things that there are. What jobs themselves refuse has a table of its own.
func TestValidation(t *testing.T) {
	m := newMatrix(t)
	cron := want[client.Job](m.face, 201, "POST", "/api/v1/jobs", `{"name": "n", "key": "cron", "schedule": {"type": "CRON", "cron_expression": "0 10 * * *"}, "execution": {"target": "simulate", "work_kind": "noop"}}`,
		"Authorization", m.keys[mine][tenant.Admin])
	names := strings.NewReplacer("@cron", cron.JobID, "@job", m.things["/api/v1/jobs/"], "@execution", m.things["/api/v1/executions/"], "@worker", m.worker.WorkerID, "@key", m.things["/api/v1/api-keys/"])
	many := func(n int, one string) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	const unknown = "0190a6c8-7b3e-7cc0-8a1b-0123456789ab"
	for _, c := range []struct {
		method, path, body string
		status             int
		field              string // "": none is at fault
		hint               string // of the answer
	}{
		// paths and methods
		{"GET", "/nowhere", "", 404, "", "/docs lists what there is"},
		{"GET", "/jobs/@job/", "", 404, "", "nothing at this path"},
		{"PUT", "/jobs", "", 405, "", "it takes GET, POST"},
		{"DELETE", "/executions/@execution", "", 405, "", "it takes GET"},
		{"GET", "/jobs/" + unknown, "", 404, "", "No job with "},
		{"GET", "/jobs/nonsense", "", 404, "", "No job with "},
		{"GET", "/jobs/key:nobody", "", 404, "", "No job with "},
		{"GET", "/executions/" + unknown, "", 404, "", "execution"},
		{"GET", "/operations/" + unknown, "", 404, "", "operation"},
		{"GET", "/calendars/nobody", "", 404, "", "calendar"},
		{"GET", "/secrets/nobody", "", 404, "", "secret"},
		{"GET", "/api-keys/nobody", "", 404, "", "key"},
		{"DELETE", "/sign-ins/nobody", "", 404, "", "sign-in"},
		{"GET", "/sign-ins?cursor=x", "", 400, "cursor", "next_cursor"},
		{"GET", "/notification-rules/nobody", "", 404, "", "rule"},
		{"GET", "/artifacts/nonsense", "", 404, "", "artifact"},
		// lists
		{"GET", "/jobs?limit=0", "", 400, "limit", "from 1 to 1000"},
		{"GET", "/jobs?limit=1001", "", 400, "limit", "from 1 to 1000"},
		{"GET", "/jobs?limit=ten", "", 400, "limit", "a whole number"},
		{"GET", "/jobs?limit=5&limit=6", "", 400, "limit", "only once"},
		{"GET", "/jobs?cursor=x", "", 400, "cursor", "next_cursor of the page before"},
		{"GET", "/jobs?cursor=AAAA", "", 400, "cursor", "next_cursor"},
		{"GET", "/jobs?status=gone", "", 400, "status", "ACTIVE, PAUSED, COMPLETED, DELETED"},
		{"GET", "/jobs?schedule_type=weekly", "", 400, "schedule_type", "IMMEDIATE, ONE_TIME, CRON, INTERVAL"},
		{"GET", "/jobs?staus=ACTIVE", "", 400, "staus", "one of the parameters status"},
		{"GET", "/jobs?q=" + strings.Repeat("x", 501), "", 400, "q", "at most 500"},
		{"GET", "/jobs?q=%00", "", 400, "q", "without NUL"},
		{"GET", "/jobs?q=%ff", "", 400, "q", "valid UTF-8"},
		{"GET", "/jobs?q=%zz", "", 400, "", "cannot be read"},
		{"GET", "/executions?status=DONE", "", 400, "status", "SUCCEEDED"},
		{"GET", "/executions?trigger=cron", "", 400, "trigger", "schedule"},
		{"GET", "/executions?start_date=yesterday", "", 400, "start_date", "2026-01-31"},
		{"GET", "/executions?end_date=2026-02-30", "", 400, "end_date", "a date such as"},
		{"GET", "/executions?job_id=nonsense", "", 400, "job_id", "id"},
		{"GET", "/executions?worker_id=nonsense", "", 400, "worker_id", "id"},
		{"GET", "/executions:export?format=xml", "", 400, "format", "csv, jsonl or parquet"},
		{"GET", "/executions/@execution/logs?attempt=zero", "", 400, "attempt", "the number of an attempt"},
		{"GET", "/executions/@execution/logs?after=x", "", 400, "after", "id"},
		{"GET", "/executions/@execution/logs?follow=maybe", "", 400, "follow", "true or false"},
		{"GET", "/executions/@execution/explain?x=1", "", 400, "x", "no parameters"},
		{"GET", "/dead-letters?limit=-1", "", 400, "limit", "from 1 to 1000"},
		{"GET", "/dead-letters?reason=bored", "", 400, "reason", "one of"},
		{"GET", "/jobs/@cron/next?n=0", "", 400, "n", "1 to 1000"},
		{"GET", "/jobs/@cron/occurrences?from=2026-02-01&to=2026-01-01", "", 400, "to", "after"},
		{"GET", "/forecast?hours=721", "", 400, "hours", "1 to 720"},
		{"GET", "/audit?from=then", "", 400, "from", "a date such as"},
		{"GET", "/audit/verify?cursor=x", "", 400, "cursor", "next_cursor"},
		{"GET", "/admin/queue/status?minutes=1441", "", 400, "minutes", "1440"},
		{"GET", "/events/stream?last_event_id=x", "", 400, "last_event_id", "the id of an event"},
		{"DELETE", "/secrets/things?force=yes", "", 400, "force", "true or false"},
		// jobs
		{"POST", "/jobs", `{"name": "n", "execution": {"target": "ftp"}}`, 422, "execution.target", "http"},
		{"POST", "/jobs", `{"name": "n", "execution": {"callback_url": "ftp://x"}}`, 422, "execution.callback_url", "http"},
		{"POST", "/jobs", `{"name": "n", "execution": {"callback_url": "https://u:p@example.com"}}`, 422, "execution.callback_url", "without"},
		{"POST", "/jobs", `{"name": "n", "execution": {"callback_url": "https://example.com", "headers": {"X": "a\r\nb"}}}`, 422, `execution.headers["X"]`, "without line breaks"},
		{"POST", "/jobs", `{"name": "n", "execution": {"target": "simulate", "work_kind": "dance"}}`, 422, "execution.work_kind", "noop"},
		{"POST", "/jobs", `{"name": "n", "execution": {"target": "worker"}}`, 422, "execution.kind", ""},
		{"POST", "/jobs", `{"name": "n", "execution": {"target": "command"}}`, 422, "execution.command", ""},
		{"POST", "/jobs", `{"name": "n", "schedule": {"type": "CRON"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "schedule.cron_expression", ""},
		{"POST", "/jobs", `{"name": "n", "schedule": {"type": "CRON", "cron_expression": "0 0 30 2 *"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "schedule.cron_expression", "never"},
		{"POST", "/jobs", `{"name": "n", "schedule": {"type": "CRON", "cron_expression": "61 * * * *"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "schedule.cron_expression", "0"},
		{"POST", "/jobs", `{"name": "n", "schedule": {"type": "CRON", "cron_expression": "0 10 * * *", "timezone": "Mars/Olympus"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "schedule.timezone", "Europe/Berlin"},
		{"POST", "/jobs", `{"name": "n", "schedule": {"type": "INTERVAL", "every": "soon"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "schedule.every", "90s"},
		{"POST", "/jobs", `{"name": "n", "schedule": {"type": "ONE_TIME"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "schedule.scheduled_time", ""},
		{"POST", "/jobs:batch", `{}`, 400, "", "a JSON array"},
		{"POST", "/jobs:batch", `[]`, 422, "", "1"},
		{"POST", "/jobs:batch", many(2, `{"name": "", "execution": {"target": "simulate", "work_kind": "noop"}}`), 422, "[0].name", "1 to 255"},
		{"PATCH", "/jobs/@job", `{"priority": 11}`, 422, "priority", "1"},
		{"PATCH", "/jobs/@job", `{"key": "other"}`, 422, "key", "cannot"},
		{"PATCH", "/jobs/@job", `{"nmae": "x"}`, 400, "nmae", "name"},
		{"PATCH", "/jobs/@cron", `{"schedule": {"cron_expression": "x"}}`, 422, "schedule.cron_expression", ""},
		{"POST", "/jobs/@job/pause", `{"until": "2001-01-01T00:00:00Z"}`, 422, "until", "in the future"},
		{"POST", "/jobs/@job/pause", `{"reason": "` + strings.Repeat("x", 1001) + `"}`, 422, "reason", "1000"},
		{"POST", "/jobs/@job/trigger", `{"payload": 1}`, 400, "payload", "payload_override"},
		{"POST", "/jobs/@cron/backfill", `{"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}`, 422, "from", "before to"},
		{"POST", "/jobs/@cron/backfill", `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "rate_per_s": 0}`, 422, "rate_per_s", "greater than 0"},
		{"POST", "/jobs/@job/backfill", `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}`, 409, "", "Trigger it instead"},
		{"POST", "/jobs:bulk", `{"action": "pause"}`, 422, "ids", "or a filter"},
		{"POST", "/jobs:bulk", `{"action": "dance", "filter": {}}`, 422, "action", "pause"},
		{"POST", "/jobs:bulk", `{"action": "tag", "filter": {}}`, 422, "tags", ""},
		{"POST", "/jobs:bulk", `{"action": "pause", "filter": {"status": "x"}}`, 422, "filter.status", "ACTIVE"},
		{"POST", "/jobs:bulk", `{"action": "pause", "ids": ["x"]}`, 422, "ids[0]", "id"},
		{"POST", "/jobs:bulk", `{"action": "pause", "ids": ["@job"], "filter": {}}`, 422, "filter", "not both"},
		{"POST", "/jobs:plan", `{"jobs": "x"}`, 400, "jobs", "a JSON array"},
		// schedules and calendars
		{"POST", "/schedules/preview", `{}`, 422, "cron_expression", "or every with a duration"},
		{"POST", "/schedules/preview", `{"cron_expression": "* * * * *", "every": "5s"}`, 422, "every", "not both"},
		{"POST", "/schedules/preview", `{"cron_expression": "* * * * *", "n": 0}`, 422, "n", "1 to 1000"},
		{"POST", "/schedules/preview", `{"cron_expression": "* * * * *", "timezone": "Nowhere"}`, 422, "timezone", ""},
		{"POST", "/schedules/preview", `{"cron_expression": "* * * * *", "calendar": "nobody"}`, 422, "calendar", ""},
		{"PUT", "/calendars/c", `{"dates": ["2026-02-30"]}`, 422, "dates[0]", "2026"},
		{"PUT", "/calendars/c", `{"yearly": ["13-01"]}`, 422, "yearly[0]", "12-25"},
		{"PUT", "/calendars/c", `{"weekdays": ["FUNDAY"]}`, 422, "weekdays[0]", "MON"},
		{"PUT", "/calendars/c", `{"windows": [{"from": "2026-12-24T18:00", "to": "2026-12-24"}]}`, 422, "windows[0].to", "after"},
		{"PUT", "/calendars/c", `{"dates": "2026-12-25"}`, 400, "dates", "a JSON array"},
		{"PUT", "/calendars/B%20AD", `{"weekdays": ["SAT"]}`, 422, "name", ""},
		// executions, dead letters, operations
		{"POST", "/executions/@execution/retry", "", 409, "", "finished"},
		{"POST", "/executions/@execution/cancel", `{"reason": 5}`, 400, "reason", "string"},
		{"POST", "/executions/@execution/complete", `{"status": "SUCCEEDED"}`, 401, "", "Carillon-Callback-Token"},
		{"POST", "/dead-letters:redrive", `{}`, 422, "ids", "or a filter"},
		{"POST", "/dead-letters:redrive", `{"ids": ["x"]}`, 422, "ids[0]", "id"},
		{"POST", "/dead-letters:redrive", `{"filter": {"reason": "bored"}}`, 422, "filter.reason", ""},
		{"POST", "/dead-letters:redrive", `{"filter": {}, "rate_per_s": -1}`, 422, "rate_per_s", "0.001"},
		{"POST", "/dead-letters:discard", `{"ids": ` + many(1001, `"`+unknown+`"`) + `}`, 422, "ids", "1000"},
		{"POST", "/dead-letters/@execution/redrive", "", 409, "", "no dead letter"},
		// settings
		{"PUT", "/secrets/s", `{"value": ""}`, 422, "value", "1"},
		{"PUT", "/secrets/s", `{"value": "` + strings.Repeat("x", 65537) + `"}`, 422, "value", "65536"},
		{"PUT", "/secrets/s", `{"vaule": "x"}`, 400, "vaule", "value"},
		{"PUT", "/secrets/B%20AD", `{"value": "x"}`, 422, "name", ""},
		{"PUT", "/limits/tenant", `{"max_concurrent": 0}`, 422, "max_concurrent", "1"},
		{"PUT", "/limits/tenant", `{"rate_limit": {"count": 5}}`, 422, "rate_limit.per", ""},
		{"PUT", "/limits/queues/q", `{"rate_limit": {"count": 0, "per": "1s"}}`, 422, "rate_limit.count", "1"},
		{"PUT", "/limits/queues/B%20AD", `{"max_concurrent": 1}`, 422, "queue", ""},
		{"PUT", "/notification-rules/r", `{"events": [], "callback_url": "https://example.com"}`, 422, "events", "failed"},
		{"PUT", "/notification-rules/r", `{"events": ["sneezed"], "callback_url": "https://example.com"}`, 422, "events[0]", "failed"},
		{"PUT", "/notification-rules/r", `{"events": ["failed"], "callback_url": "mailto:x"}`, 422, "callback_url", "http"},
		{"PUT", "/notification-rules/r", `{"events": ["failed"], "callback_url": "https://example.com", "jobs": ["x"]}`, 422, "jobs[0]", ""},
		{"PUT", "/notification-rules/r", `{"events": ["late"], "callback_url": "https://example.com", "late_after_seconds": 0}`, 422, "late_after_seconds", ""},
		{"POST", "/signing-secrets", `{"algorithm": "rot13"}`, 422, "algorithm", "ed25519"},
		{"POST", "/signing-secrets", `{"overlap_seconds": -1}`, 422, "overlap_seconds", "2592000"},
		{"POST", "/api-keys", `{"name": "", "role": "viewer"}`, 422, "name", "1 to 255"},
		{"POST", "/api-keys", `{"name": "k", "role": "king"}`, 422, "role", "viewer, operator, admin"},
		{"POST", "/api-keys", `{"name": "k", "role": "system"}`, 422, "role", "more rights"},
		{"POST", "/api-keys", `{"name": "k", "role": "viewer", "expires_at": "2001-01-01T00:00:00Z"}`, 422, "expires_at", "to come"},
		{"POST", "/api-keys/@key/rotate", `{"overlap_seconds": 2592001}`, 422, "overlap_seconds", "30 days"},
		{"POST", "/sign-in", `{"credential": ""}`, 422, "credential", "an API key or a token"},
		{"POST", "/sign-in", `{"credential": "guess"}`, 401, "", "unknown"},
		// the installation's
		{"POST", "/tenants", `{"name": ""}`, 422, "name", "1 to 255"},
		{"POST", "/tenants", `{"name": "x", "tier": "gold"}`, 422, "tier", "free"},
		{"PATCH", "/tenants/mine", `{"quotas": {"weight": 0}}`, 422, "quotas.weight", ""},
		{"PATCH", "/tenants/mine", `{"quotas": {"max_retries": -2}}`, 422, "quotas.max_retries", "-1"},
		{"PATCH", "/tenants/mine", `{"callbacks_allow": ["10.0.0.0/40"]}`, 422, "callbacks_allow[0]", "10.0.0.0/8"},
		{"PATCH", "/tenants/nobody", `{}`, 404, "", "tenant"},
		// the worker protocol
		{"POST", "/workers", `{"targets": ["dance"]}`, 422, "targets[0]", "http"},
		{"POST", "/workers", `{"capacity": -1}`, 422, "capacity", ""},
		{"POST", "/workers", `{"labels": ["A B"]}`, 422, "labels[0]", ""},
		{"POST", "/workers/@worker/claim", `{"max": -1}`, 422, "max", "1000"},
		{"POST", "/workers/@worker/claim", `{"max": 1, "wait_seconds": 1000}`, 422, "wait_seconds", ""},
		{"POST", "/workers/@worker/beat", `{"executions": [{"execution_id": "x", "fencing_token": 1}]}`, 422, "executions[0].execution_id", "id"},
		{"POST", "/workers/@worker/complete", `{"outcomes": [{"execution_id": "` + unknown + `", "fencing_token": 1, "status": "WON"}]}`, 422, "outcomes[0].status", "SUCCEEDED"},
		{"POST", "/workers/@worker/complete", `{"outcomes": [{"execution_id": "x", "fencing_token": 1, "status": "SUCCEEDED"}]}`, 422, "outcomes[0].execution_id", "id"},
		{"POST", "/workers/@worker/logs", `{"execution_id": "` + unknown + `", "fencing_token": 1, "lines": [{"text": "x", "stream": "river"}]}`, 422, "lines[0].stream", "stdout"},
		{"POST", "/workers/@worker/logs", `{"execution_id": "` + unknown + `", "fencing_token": 1, "lines": [{"text": "x"}]}`, 409, "", "does not hold the lease"},
		{"POST", "/workers/@worker/release", `{"executions": [{"execution_id": 5}]}`, 400, "executions[0].execution_id", "string"},
		{"POST", "/workers/" + unknown + "/claim", `{}`, 404, "", "No worker with id"},
	} {
		path, body := "/api/v1"+names.Replace(c.path), names.Replace(c.body)
		role := tenant.Admin
		switch {
		case strings.HasPrefix(c.path, "/workers"):
			role = tenant.Worker
		case strings.HasPrefix(c.path, "/tenants"), strings.HasPrefix(c.path, "/admin"):
			role = tenant.System
		}
		headers := []string{"Authorization", m.keys[mine][role], "X-Worker-Session", m.worker.Session}
		if strings.HasSuffix(c.path, "/complete") && role == tenant.Admin {
			headers = nil
		}
		w := m.ask(c.method, path, body, headers...)
		var p client.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%s %s %.80s: %d %s", c.method, c.path, c.body, w.Code, w.Body)
			continue
		}
		field := ""
		if len(p.Errors) > 0 {
			field = p.Errors[0].Field
		}
		if w.Code != c.status || field != c.field || !strings.Contains(p.Detail+fmt.Sprint(p.Errors), c.hint) {
			t.Errorf("%s %s %.80s: %d %q %s %+v; want %d %q …%s…", c.method, c.path, c.body, w.Code, field, p.Detail, p.Errors, c.status, c.field, c.hint)
		}
	}
}
