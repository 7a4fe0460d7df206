package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// job is a body whose one part is wrong.
func job(part string) string {
	return `{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}, ` + part + `}`
}

func execution(part string) string { return `{"name": "n", "execution": {` + part + `}}` }

// Every kind of bad input gets a 4xx that names the field and what would be right, and nothing is stored.
func TestBadJobsAreRefused(t *testing.T) {
	f := newFace(t)
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for _, c := range []struct {
		name, body string
		code       int
		field      string
	}{
		// not JSON
		{"empty", ``, 400, ""},
		{"blank", "  \n", 400, ""},
		{"half", `{"name": "n"`, 400, ""},
		{"a comma too many", `{"name": "n",}`, 400, ""},
		{"a comment", `{"name": "n" /* x */}`, 400, ""},
		{"text behind", noop + `x`, 400, ""},
		{"two values", noop + noop, 400, ""},
		{"NaN", job(`"priority": NaN`), 400, "priority"},
		{"leading zero", job(`"priority": 01`), 400, ""},
		{"single quotes", `{'name': 'n'}`, 400, ""},
		{"a bare line break in a string", "{\"name\": \"a\nb\"}", 400, "name"},
		{"broken UTF-8", "{\"name\": \"a\xff\"}", 400, "name"},
		{"a byte order mark", "\xef\xbb\xbf" + noop, 400, ""},
		{"half a surrogate", `{"name": "\ud800"}`, 400, "name"},
		{"a bad escape", `{"name": "\q"}`, 400, "name"},
		// the wrong form
		{"a list", `[]`, 400, ""},
		{"a string", `"job"`, 400, ""},
		{"null", `null`, 400, ""},
		{"unknown field", job(`"prioritty": 1`), 400, "prioritty"},
		{"unknown field, other case", job(`"Priority": 1`), 400, "Priority"},
		{"unknown nested field", job(`"schedule": {"typ": "IMMEDIATE"}`), 400, "schedule.typ"},
		{"a key twice", job(`"priority": 1, "priority": 2`), 400, "priority"},
		{"a key twice in the payload", execution(`"target": "simulate", "work_kind": "noop", "payload": {"a": 1, "a": 2}`), 400, "execution.payload.a"},
		{"name is a number", `{"name": 5, "execution": {}}`, 400, "name"},
		{"priority is a string", job(`"priority": "5"`), 400, "priority"},
		{"priority is a fraction", job(`"priority": 5.5`), 400, "priority"},
		{"priority is huge", job(`"priority": 99999999999999999999`), 400, "priority"},
		{"tags is a string", job(`"tags": "a"`), 400, "tags"},
		{"a tag is a number", job(`"tags": [1]`), 400, "tags[0]"},
		{"a tag is null", job(`"tags": [null]`), 400, "tags[0]"},
		{"headers is a list", execution(`"headers": []`), 400, "execution.headers"},
		{"a header is a number", execution(`"headers": {"X": 1}`), 400, "execution.headers.X"},
		{"schedule is a string", job(`"schedule": "daily"`), 400, "schedule"},
		{"execution is a list", `{"name": "n", "execution": []}`, 400, "execution"},
		{"a time without a zone", job(`"schedule": {"type": "ONE_TIME", "scheduled_time": "2030-01-01T00:00:00"}`), 400, "schedule.scheduled_time"},
		{"a time in words", job(`"schedule": {"type": "ONE_TIME", "scheduled_time": "tomorrow"}`), 400, "schedule.scheduled_time"},
		{"a time as a number", job(`"schedule": {"type": "ONE_TIME", "scheduled_time": 1700000000}`), 400, "schedule.scheduled_time"},
		{"the 30th of February", job(`"schedule": {"type": "ONE_TIME", "scheduled_time": "2030-02-30T00:00:00Z"}`), 400, "schedule.scheduled_time"},
		{"too deep", execution(`"target": "simulate", "work_kind": "noop", "payload": ` + deep), 400, ""},
		// the wrong meaning
		{"no name", `{"execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "name"},
		{"an empty name", `{"name": "", "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "name"},
		{"control characters", `{"name": "a\u0000b", "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "name"},
		{"an escape sequence", `{"name": "\u001b[31m", "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "name"},
		{"a long name", `{"name": "` + strings.Repeat("n", 256) + `", "execution": {"target": "simulate", "work_kind": "noop"}}`, 422, "name"},
		{"a bad key", job(`"key": "Bad Key"`), 422, "key"},
		{"an empty key", job(`"key": ""`), 422, "key"},
		{"priority 0", job(`"priority": 0`), 422, "priority"},
		{"priority 11", job(`"priority": 11`), 422, "priority"},
		{"an unknown type", job(`"schedule": {"type": "WEEKLY"}`), 422, "schedule.type"},
		{"cron without an expression", job(`"schedule": {"type": "CRON"}`), 422, "schedule.cron_expression"},
		{"an expression that cannot be read", job(`"schedule": {"type": "CRON", "cron_expression": "0 25 * * *"}`), 422, "schedule.cron_expression"},
		{"an expression that is empty", job(`"schedule": {"type": "CRON", "cron_expression": ""}`), 422, "schedule.cron_expression"},
		{"an expression with escapes", job(`"schedule": {"type": "CRON", "cron_expression": "\u001b[31m * * * *"}`), 422, "schedule.cron_expression"},
		{"a day that never comes", job(`"schedule": {"type": "CRON", "cron_expression": "0 0 30 2 *"}`), 422, "schedule.cron_expression"},
		{"a long expression", job(`"schedule": {"type": "CRON", "cron_expression": "` + strings.Repeat("1,", 200) + `1 * * * *"}`), 422, "schedule.cron_expression"},
		{"an expression without a type", job(`"schedule": {"cron_expression": "* * * * *"}`), 422, "schedule.cron_expression"},
		{"an abbreviated zone", job(`"schedule": {"type": "CRON", "cron_expression": "* * * * *", "timezone": "CEST"}`), 422, "schedule.timezone"},
		{"a zone that leads elsewhere", job(`"schedule": {"type": "CRON", "cron_expression": "* * * * *", "timezone": "../../etc/passwd"}`), 422, "schedule.timezone"},
		{"an empty zone", job(`"schedule": {"type": "CRON", "cron_expression": "* * * * *", "timezone": ""}`), 422, "schedule.timezone"},
		{"a day mode", job(`"schedule": {"type": "CRON", "cron_expression": "* * * * *", "day": "xor"}`), 422, "schedule.day"},
		{"a day mode for an interval", job(`"schedule": {"type": "INTERVAL", "every": "1m", "day": "and"}`), 422, "schedule.day"},
		{"an interval of nothing", job(`"schedule": {"type": "INTERVAL", "every": "0s"}`), 422, "schedule.every"},
		{"an interval below a second", job(`"schedule": {"type": "INTERVAL", "every": "500ms"}`), 422, "schedule.every"},
		{"an interval in words", job(`"schedule": {"type": "INTERVAL", "every": "daily"}`), 422, "schedule.every"},
		{"an interval as a number", job(`"schedule": {"type": "INTERVAL", "every": 60}`), 400, "schedule.every"},
		{"an interval with an expression", job(`"schedule": {"type": "INTERVAL", "every": "1m", "cron_expression": "* * * * *"}`), 422, "schedule.cron_expression"},
		{"the end before the start", job(`"schedule": {"type": "INTERVAL", "every": "1m", "start_at": "2030-01-02T00:00:00Z", "end_at": "2030-01-01T00:00:00Z"}`), 422, "schedule.end_at"},
		{"an end in the past", job(`"schedule": {"type": "INTERVAL", "every": "1m", "end_at": "2020-01-01T00:00:00Z"}`), 422, "schedule.end_at"},
		{"the end before the first instant", job(`"schedule": {"type": "CRON", "cron_expression": "0 0 1 1 *", "start_at": "2030-01-02T00:00:00Z", "end_at": "2030-12-31T00:00:00Z"}`), 422, "schedule.end_at"},
		{"no runs", job(`"schedule": {"type": "INTERVAL", "every": "1m", "max_runs": 0}`), 422, "schedule.max_runs"},
		{"fewer than no runs", job(`"schedule": {"type": "INTERVAL", "every": "1m", "max_runs": -5}`), 422, "schedule.max_runs"},
		{"an unknown calendar", job(`"schedule": {"type": "INTERVAL", "every": "1m", "calendar": "nope"}`), 422, "schedule.calendar"},
		{"an odd calendar", job(`"schedule": {"type": "INTERVAL", "every": "1m", "calendar": "A B"}`), 422, "schedule.calendar"},
		{"jitter of two days", job(`"schedule": {"type": "INTERVAL", "every": "1m", "jitter_ms": 172800000}`), 422, "schedule.jitter_ms"},
		{"negative jitter", job(`"schedule": {"type": "INTERVAL", "every": "1m", "jitter_ms": -1}`), 422, "schedule.jitter_ms"},
		{"one time without an instant", job(`"schedule": {"type": "ONE_TIME"}`), 422, "schedule.scheduled_time"},
		{"the year 1999", job(`"schedule": {"type": "ONE_TIME", "scheduled_time": "1999-12-31T23:59:59Z"}`), 422, "schedule.scheduled_time"},
		{"the year 0001", job(`"schedule": {"type": "ONE_TIME", "scheduled_time": "0001-01-01T00:00:00Z"}`), 422, "schedule.scheduled_time"},
		{"an instant for at once", job(`"schedule": {"type": "IMMEDIATE", "scheduled_time": "2030-01-01T00:00:00Z"}`), 422, "schedule.scheduled_time"},
		{"no target", execution(`"target": "carrier-pigeon"`), 422, "execution.target"},
		{"command", execution(`"target": "command"`), 422, "execution.target"},
		{"http without a URL", execution(``), 422, "execution.callback_url"},
		{"a relative URL", execution(`"callback_url": "/x"`), 422, "execution.callback_url"},
		{"file", execution(`"callback_url": "file:///etc/passwd"`), 422, "execution.callback_url"},
		{"javascript", execution(`"callback_url": "javascript:alert(1)"`), 422, "execution.callback_url"},
		{"no host", execution(`"callback_url": "http://"`), 422, "execution.callback_url"},
		{"a bad port", execution(`"callback_url": "http://h:99999/"`), 422, "execution.callback_url"},
		{"a password", execution(`"callback_url": "http://user:pw@h/"`), 422, "execution.callback_url"},
		{"a blank in the URL", execution(`"callback_url": "http://h/a b"`), 422, "execution.callback_url"},
		{"line breaks in the URL", execution(`"callback_url": "http://h/\r\nX: y"`), 422, "execution.callback_url"},
		{"a bad escape in the URL", execution(`"callback_url": "http://h/%zz"`), 422, "execution.callback_url"},
		{"a method", execution(`"callback_url": "http://h", "method": "TRACE"`), 422, "execution.method"},
		{"header injection", execution(`"callback_url": "http://h", "headers": {"X-A": "a\r\nX-B: b"}`), 422, `execution.headers["X-A"]`},
		{"a header with a blank", execution(`"callback_url": "http://h", "headers": {"X A": "a"}`), 422, `execution.headers["X A"]`},
		{"our own header", execution(`"callback_url": "http://h", "headers": {"x-fencing-token": "1"}`), 422, `execution.headers["x-fencing-token"]`},
		{"no time", execution(`"callback_url": "http://h", "timeout_seconds": 0`), 422, "execution.timeout_seconds"},
		{"negative time", execution(`"callback_url": "http://h", "timeout_seconds": -1`), 422, "execution.timeout_seconds"},
		{"time that overflows", execution(`"callback_url": "http://h", "timeout_seconds": 9223372036854775807`), 422, "execution.timeout_seconds"},
		{"a status to expect", execution(`"callback_url": "http://h", "expect": {"status": [99]}`), 422, "execution.expect.status[0]"},
		{"a work kind", execution(`"target": "simulate", "work_kind": "dance"`), 422, "execution.work_kind"},
		{"no work kind", execution(`"target": "simulate"`), 422, "execution.work_kind"},
		{"a negative duration", execution(`"target": "simulate", "work_kind": "sleep", "duration_ms": -5`), 422, "execution.duration_ms"},
		{"a duration that overflows", execution(`"target": "simulate", "work_kind": "sleep", "duration_ms": 9223372036854775807`), 422, "execution.duration_ms"},
		{"a URL with simulate", execution(`"target": "simulate", "work_kind": "noop", "callback_url": "http://h"`), 422, "execution.callback_url"},
		{"retries", job(`"retry_policy": {"max_retries": -1}`), 422, "retry_policy.max_retries"},
		{"a backoff", job(`"retry_policy": {"backoff": "RANDOM"}`), 422, "retry_policy.backoff"},
		{"a delay", job(`"retry_policy": {"initial_delay_ms": -1}`), 422, "retry_policy.initial_delay_ms"},
		{"a delay that overflows", job(`"retry_policy": {"max_delay_ms": 9223372036854775807}`), 422, "retry_policy.max_delay_ms"},
		{"a cap below the start", job(`"retry_policy": {"initial_delay_ms": 100, "max_delay_ms": 10}`), 422, "retry_policy.max_delay_ms"},
		{"an empty tag", job(`"tags": [""]`), 422, "tags[0]"},
		{"a tag twice", job(`"tags": ["a", "a"]`), 422, "tags[1]"},
		{"no executions at once", job(`"max_concurrent": 0`), 422, "max_concurrent"},
		{"fewer than none at once", job(`"max_concurrent": -1`), 422, "max_concurrent"},
		{"too many at once", job(`"max_concurrent": 1000001`), 422, "max_concurrent"},
		{"at once as a text", job(`"max_concurrent": "5"`), 400, "max_concurrent"},
		{"an empty expression", job(`"concurrency_key": ""`), 422, "concurrency_key"},
		{"an expression that cannot be read", job(`"concurrency_key": "payload."`), 422, "concurrency_key"},
		{"an expression with a loop", job(`"concurrency_key": "map(payload, #)"`), 422, "concurrency_key"},
		{"an expression too long", job(`"concurrency_key": "` + strings.Repeat("p", 513) + `"`), 422, "concurrency_key"},
		{"an expression over something else", job(`"concurrency_key": "customer"`), 422, "concurrency_key"},
		{"a key that is an object", `{"name": "n", "concurrency_key": "payload.a", "execution": {"target": "simulate", "work_kind": "noop", "payload": {"a": {}}}}`, 422, "concurrency_key"},
		{"a rate of nothing", job(`"rate_limit": {"count": 0, "per": "1s"}`), 422, "rate_limit.count"},
		{"a rate without a time", job(`"rate_limit": {"count": 5}`), 422, "rate_limit.per"},
		{"a rate per nothing", job(`"rate_limit": {"count": 5, "per": "0s"}`), 422, "rate_limit.per"},
		{"a rate per week", job(`"rate_limit": {"count": 5, "per": "168h"}`), 422, "rate_limit.per"},
		{"a rate in words", job(`"rate_limit": {"count": 5, "per": "second"}`), 422, "rate_limit.per"},
		{"a rate as a text", job(`"rate_limit": "5/s"`), 400, "rate_limit"},
		{"no burst", job(`"rate_limit": {"count": 5, "per": "1s", "burst": 0}`), 422, "rate_limit.burst"},
		{"an unknown part of a rate", job(`"rate_limit": {"count": 5, "per": "1s", "brust": 1}`), 400, "rate_limit.brust"},
		{"an empty unique key", job(`"unique_key": ""`), 422, "unique_key"},
		{"a long unique key", job(`"unique_key": "` + strings.Repeat("k", 256) + `"`), 422, "unique_key"},
		{"control characters in a unique key", job(`"unique_key": "a\u0000"`), 422, "unique_key"},
		{"expiry at once", job(`"expires_after": "0s"`), 422, "expires_after"},
		{"expiry in the past", job(`"expires_after": "-1h"`), 422, "expires_after"},
		{"expiry in a year", job(`"expires_after": "8760h"`), 422, "expires_after"},
		{"expiry in words", job(`"expires_after": "an hour"`), 422, "expires_after"},
		{"expiry as a number", job(`"expires_after": 60`), 400, "expires_after"},
		{"expiry that overflows", job(`"expires_after": "99999999999h"`), 422, "expires_after"},
		{"no retention", job(`"retention": {}`), 422, "retention.days"},
		{"a retention of no days", job(`"retention": {"days": 0}`), 422, "retention.days"},
		{"a retention for ever", job(`"retention": {"days": -1}`), 422, "retention.days"},
		{"a retention of centuries", job(`"retention": {"days": 36501}`), 422, "retention.days"},
		{"a retention of failures alone", job(`"retention": {"failed_days": 90}`), 422, "retention.days"},
		{"failures kept for no days", job(`"retention": {"days": 7, "failed_days": 0}`), 422, "retention.failed_days"},
		{"a retention in words", job(`"retention": {"days": "a week"}`), 400, "retention.days"},
		{"a retention as a number", job(`"retention": 7`), 400, "retention"},
		{"redrive in days", job(`"auto_redrive_after": "1d"`), 422, "auto_redrive_after"},
		{"no stall timeout", execution(`"callback_url": "http://h", "stall_timeout_seconds": 0`), 422, "execution.stall_timeout_seconds"},
		{"a stall timeout beyond the timeout", execution(`"callback_url": "http://h", "stall_timeout_seconds": 301`), 422, "execution.stall_timeout_seconds"},
		{"no total timeout", execution(`"callback_url": "http://h", "total_timeout_seconds": 0`), 422, "execution.total_timeout_seconds"},
		{"a total timeout that overflows", execution(`"callback_url": "http://h", "total_timeout_seconds": 9223372036854775807`), 422, "execution.total_timeout_seconds"},
		{"overlap", job(`"overlap": "pile"`), 422, "overlap"},
		{"catch up", job(`"catch_up": "some"`), 422, "catch_up"},
		{"no catch up limit", job(`"catch_up_limit": 0`), 422, "catch_up_limit"},
		{"catch up limit", job(`"catch_up_limit": 1001`), 422, "catch_up_limit"},
		{"overlap beside a key", job(`"overlap": "queue", "concurrency_key": "payload.x"`), 422, "overlap"},
		{"a label", job(`"labels": ["a,b"]`), 422, "labels[0]"},
		{"a queue", job(`"queue": "Slow One"`), 422, "queue"},
		{"an empty queue", job(`"queue": ""`), 422, "queue"},
		{"a handler without a kind", execution(`"target": "worker"`), 422, "execution.kind"},
		{"a kind", execution(`"target": "worker", "kind": "a b"`), 422, "execution.kind"},
		{"a kind with simulate", execution(`"target": "simulate", "work_kind": "noop", "kind": "x"`), 422, "execution.kind"},
		{"a zone", job(`"schedule": {"timezone": "Europe/Rome"}`), 422, "schedule.timezone"},
		{"jitter", job(`"schedule": {"jitter_ms": 5}`), 422, "schedule.jitter_ms"},
		// too large
		{"a payload over the limit", execution(`"target": "simulate", "work_kind": "noop", "payload": "` + strings.Repeat("x", 1<<20) + `"`), 413, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := want[client.Problem](f, c.code, "POST", "/api/v1/jobs", c.body)
			if p.Status != c.code || p.Code == "" || p.Detail == "" || p.Title == "" || p.RequestID == "" || !strings.HasPrefix(p.Type, "urn:carillon:problem:") {
				t.Errorf("incomplete: %+v", p)
			}
			found := c.field == ""
			for _, e := range p.Errors {
				found = found || e.Field == c.field && e.Want != ""
			}
			if !found {
				t.Errorf("got %+v, want a complaint about %q", p.Errors, c.field)
			}
			if strings.ContainsAny(p.Detail, "\x00\x1b\r\n") {
				t.Errorf("the detail is not safe to print: %q", p.Detail)
			}
		})
	}
	if jobs := want[client.Jobs](f, 200, "GET", "/api/v1/jobs", ""); jobs.Pagination.Total != 0 {
		t.Errorf("%d jobs were stored", jobs.Pagination.Total)
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	id := "/api/v1/jobs/" + j.JobID
	const unknown = "/api/v1/jobs/0190a6c8-7b3e-7cc0-8a1b-0123456789ab"
	for _, c := range []struct {
		method, path, body string
		code               int
		problem            string
		headers            []string
	}{
		{"GET", "/nowhere", "", 404, "not_found", nil},
		{"GET", "/api/v1/nothing", "", 404, "not_found", nil},
		{"GET", "/api/v2/jobs", "", 404, "not_found", nil},
		{"PUT", "/api/v1/jobs", "", 405, "method_not_allowed", nil},
		{"POST", "/healthz", "", 405, "method_not_allowed", nil},
		{"GET", id + "/trigger", "", 405, "method_not_allowed", nil},
		{"GET", unknown, "", 404, "not_found", nil},
		{"GET", "//api/v1/jobs", "", 404, "not_found", nil},
		{"GET", "/api/v1/../v1/jobs", "", 404, "not_found", nil},
		{"GET", "/api/v1/jobs/", "", 404, "not_found", nil},
		{"GET", "/api/v1/jobs/nope", "", 404, "not_found", nil},
		{"GET", "/api/v1/jobs/%00", "", 404, "not_found", nil},
		{"GET", "/api/v1/jobs/key:", "", 404, "not_found", nil},
		{"GET", "/api/v1/jobs/key:NOPE", "", 404, "not_found", nil},
		{"GET", "/api/v1/jobs/..%2f..%2fetc", "", 404, "not_found", nil},
		{"DELETE", unknown, "", 404, "not_found", nil},
		{"POST", unknown + "/trigger", "not even JSON", 404, "not_found", nil},
		{"GET", unknown + "/executions", "", 404, "not_found", nil},
		{"GET", "/api/v1/executions/0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "", 404, "not_found", nil},
		{"GET", "/api/v1/executions/x", "", 404, "not_found", nil},
		{"POST", id + "/trigger", `{"payload": 1}`, 400, "invalid_body", nil},
		{"POST", id + "/trigger", `{`, 400, "malformed_json", nil},
		{"POST", id + "/trigger", `[]`, 400, "invalid_body", nil},
		{"POST", "/api/v1/jobs", noop, 415, "unsupported_media_type", []string{"Content-Type", "text/xml"}},
		{"POST", "/api/v1/jobs:batch", noop, 400, "invalid_body", nil},
		{"GET", "/api/v1/jobs?limit=0", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?limit=1001", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?limit=x", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?limit=1&limit=2", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?status=RUNNING", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?schedule_type=x", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?cursor=x", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?q=%ff", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?q=%00", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?name=" + strings.Repeat("x", 501), "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?colour=red", "", 400, "invalid_parameter", nil},
		{"GET", "/api/v1/jobs?a=%zz", "", 400, "invalid_parameter", nil},
		{"GET", id + "/executions?status=NOPE", "", 400, "invalid_parameter", nil},
		{"GET", id + "/executions?status=RUNNING,NOPE", "", 400, "invalid_parameter", nil},
		{"GET", id + "/executions?start_date=yesterday", "", 400, "invalid_parameter", nil},
		{"GET", id + "/executions?end_date=2026-13-01", "", 400, "invalid_parameter", nil},
	} {
		t.Run(fmt.Sprintf("%s %.60s", c.method, c.path), func(t *testing.T) {
			w := f.ask(c.method, c.path, c.body, c.headers...)
			if w.Code != c.code || !strings.Contains(w.Body.String(), `"code":"`+c.problem+`"`) || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, c.code, c.problem)
			}
			if c.code == 405 && w.Header().Get("Allow") == "" {
				t.Error("no Allow header")
			}
		})
	}
	for _, path := range []string{
		"/api/v1/jobs?status=active&tag=a&name=hello&schedule_type=immediate&q=h&limit=1000", id + "/executions?status=pending,running&start_date=2020-01-01&end_date=2100-01-01T00:00:00Z",
	} {
		if w := f.ask("GET", path, ""); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// Whatever is sent, the answer is never a 5xx.
func FuzzCreateJob(f *testing.F) {
	for _, s := range []string{noop, `{}`, `[]`, job(`"tags": ["a"]`), execution(`"callback_url": "http://h", "headers": {"A": "b"}`), job(`"schedule": {"type": "ONE_TIME", "scheduled_time": "2030-01-01T00:00:00Z"}`), policied(1, `, "rate_limit": {"count": 1, "per": "1s"}, "unique_key": "u", "expires_after": "1h"`)} {
		f.Add(s)
	}
	of := newFace(f)
	f.Fuzz(func(t *testing.T, body string) {
		x := of
		x.TB = t
		if w := x.ask("POST", "/api/v1/jobs", body); w.Code >= 500 || w.Code < 200 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
}

// A rate that is wrong in one way is told of once, and not of what was never written.
func TestARateIsRefusedOnce(t *testing.T) {
	f := newFace(t)
	for _, rate := range []string{`{"count": 5}`, `{"per": "1s"}`, `{"count": 5, "per": "second"}`, `{"count": 0, "per": "1s"}`, `{"count": 5, "per": "1s", "burst": 0}`} {
		p := want[client.Problem](f, 422, "POST", "/api/v1/jobs", `{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}, "rate_limit": `+rate+`}`)
		if len(p.Errors) != 1 {
			t.Errorf("%s: %+v", rate, p.Errors)
		}
	}
}

// A 404 names the one thing that was asked for.
func TestNotFoundNamesTheThing(t *testing.T) {
	f := newFace(t)
	const id = "0190a6c8-7b3e-7cc0-8a1b-0123456789ab"
	for path, says := range map[string]string{
		"/api/v1/jobs/" + id:                   `No job with id "` + id + `".`,
		"/api/v1/jobs/nope":                    `No job with id "nope".`,
		"/api/v1/jobs/key:nope":                `No job with key "nope".`,
		"/api/v1/jobs/" + id + "/executions":   `No job with id "` + id + `".`,
		"/api/v1/executions/" + id + "/events": `No execution with id "` + id + `".`,
		"/api/v1/operations/" + id:             `No operation with id "` + id + `".`,
		"/api/v1/calendars/nope":               `No calendar named "nope".`,
		"/api/v1/secrets/nope":                 `No secret named "nope".`,
		"/api/v1/notification-rules/nope":      `No notification rule named "nope".`,
		"/api/v1/artifacts/nope":               `No artifact with id "nope".`,
	} {
		if p := want[client.Problem](f, 404, "GET", path, ""); p.Detail != says {
			t.Errorf("%s: %q; want %q", path, p.Detail, says)
		}
	}
}
