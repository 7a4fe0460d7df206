package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/declare"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// everyField is a file in which every field of a job is set by some job.
const everyField = `
calendars:
  - name: holidays
    dates: ["2030-05-01"]
    yearly: ["12-25"]
    weekdays: [SAT, SUN]
    windows: [{from: "2030-01-01T10:00", to: "2030-01-01T12:00"}]
    timezone: Europe/Berlin
jobs:
  - key: http
    name: "Übung: \"quoted\" # not a comment"
    description: |
      Two
      lines.
    paused: true
    schedule: {type: CRON, cron_expression: "30 2 1 * MON", timezone: Europe/Berlin, day: and, jitter_ms: 500, start_at: 2029-01-01T00:00:00Z, end_at: 2090-01-01T00:00:00+02:00, max_runs: 9, calendar: holidays}
    execution:
      target: http
      callback_url: https://example.com/x?a=1&b=<2>
      method: PUT
      headers: {X-Env: "true", Authorization: "Bearer geheim", X-Ref: "${secret:ref}"}
      payload: {"a": 1.50, "b": [1, 2, {"c": null}], "ü": "yes", "big": 12345678901234567890, "no": {}}
      timeout_seconds: 17
      stall_timeout_seconds: 5
      total_timeout_seconds: 99
      expect: {status: [200, 204], body_contains: ok}
      follow_redirects: true
    retry_policy: {max_retries: 2, backoff: LINEAR, initial_delay_ms: 50, max_delay_ms: 70}
    priority: 3
    tags: [a, "b c", "8080", "true"]
    owner: Ada
    runbook: https://example.com/runbook
    overlap: skip
    catch_up: all
    catch_up_limit: 7
    labels: [gpu]
    queue: slow
    max_concurrent: 4
    concurrency_key: payload.a
    rate_limit: {count: 5, per: 1m0s, burst: 2}
    unique_key: u
    expires_after: 90m
    auto_redrive_after: 2h
    retention: {days: 7, failed_days: 90}
  - key: every
    name: every
    schedule: {type: INTERVAL, every: 90s}
    execution: {target: worker, kind: resize, payload: [a, "1"]}
    retention: {days: 3}
  - key: once
    name: once
    schedule: {type: ONE_TIME, scheduled_time: 2080-01-02T03:04:05.5Z}
    execution: {target: simulate, work_kind: flaky, duration_ms: 12, fail_attempts: 2, payload: plain}
  - key: program
    name: program
    schedule: {type: CRON, cron_expression: "@daily"}
    execution: {target: command, command: [/bin/echo, "a b", "-n"], env: {PORT: "8080", API_TOKEN: geheim}}
`

// newServer is the API as a server with commands, and a client of it.
func newServer(t *testing.T) (face, *client.Client) {
	t.Helper()
	f := newFace(t, func(c *api.Config, store engine.Store) {
		c.Service = service.New(store, clock.System{}, service.Config{Hint: c.Dispatch.Offer, Secrets: c.Secrets, Commands: true})
	})
	s := httptest.NewServer(f.http)
	t.Cleanup(s.Close)
	want[client.Secret](f, 200, "PUT", "/api/v1/secrets/ref", `{"value": "v"}`)
	return f, client.New([]string{strings.Replace(s.URL, "127.0.0.1", "localhost", 1)}, "")
}

func readText(t *testing.T, text string) declare.Declared {
	t.Helper()
	d, err := declare.Read(strings.NewReader(text), "-")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func applyText(t *testing.T, c *client.Client, text, prune string) (declare.Plan, []declare.Result) {
	t.Helper()
	p, err := declare.Make(t.Context(), c, readText(t, text), prune)
	if err != nil {
		t.Fatal(err)
	}
	return p, declare.Apply(t.Context(), c, p, func(declare.Result) {})
}

func counted(p declare.Plan) string {
	n := p.Count()
	return fmt.Sprintf("%d %d %d %d", n[client.ActionCreate], n[client.ActionChange], n[declare.ActionDelete], n[client.ActionUnchanged])
}

func TestFilesRoundTrip(t *testing.T) {
	_, c := newServer(t)
	p, results := applyText(t, c, everyField, "")
	if counted(p) != "5 0 0 0" {
		t.Errorf("the first plan: %s", counted(p))
	}
	for _, r := range results {
		if !r.Done {
			t.Errorf("%s: %v", r.Key, r.Err)
		}
	}
	// A credential that is written out is not compared with the one that is kept.
	again, _ := applyText(t, c, everyField, "")
	for _, j := range again.Jobs {
		want := map[string]string{"http": `execution.headers.Authorization: "[redacted]" → "[redacted]"`, "program": `execution.env.API_TOKEN: "[redacted]" → "[redacted]"`}[j.Key]
		if got := changed(j.JobPlan); got != want {
			t.Errorf("applied again, %s: %s, want %s", j.Key, got, want)
		}
	}
	var d declare.Declared
	set := map[string]bool{}
	for j, err := range c.Jobs(t.Context(), client.JobFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		x := declare.Of(j)
		d.Jobs = append(d.Jobs, x)
		seen("", reflect.ValueOf(x.JobRequest), set)
	}
	for _, name := range []string{"execution.artifact_id", "execution.entrypoint"} { // which need an artifact
		set[name] = true
	}
	for name, is := range set {
		if !is {
			t.Errorf("no exported job says %s", name)
		}
	}
	cal, err := c.Calendar(t.Context(), "holidays")
	if err != nil {
		t.Fatal(err)
	}
	d.Calendars = []declare.Calendar{declare.OfCalendar(cal)}
	var file bytes.Buffer
	if err := declare.Write(&file, d); err != nil {
		t.Fatal(err)
	}
	back, err := declare.Make(t.Context(), c, readText(t, file.String()), "")
	if err != nil || counted(back) != "0 0 0 5" {
		var b bytes.Buffer
		back.Render(&b)
		t.Errorf("an export is applied to a change: %s, %v\n%s\n%s", counted(back), err, b.String(), file.String())
	}
	data, _ := json.Marshal(back)
	if strings.Contains(string(data)+file.String(), "geheim") {
		t.Error("a credential is shown")
	}
}

// seen notes which fields of a request are set.
func seen(path string, v reflect.Value, set map[string]bool) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		f := v.Field(i)
		set[path+name] = set[path+name] || !f.IsZero()
		if f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct && !f.IsNil() {
			f = f.Elem()
		}
		if f.Kind() == reflect.Struct && strings.HasPrefix(f.Type().PkgPath(), "github.com/carillon") {
			seen(path+name+".", f, set)
		}
	}
}

func TestFilesChangeAndPrune(t *testing.T) {
	f, c := newServer(t)
	const two = `
jobs:
  - {key: a, name: a, tags: [t], priority: 7, description: d, schedule: {type: CRON, cron_expression: "0 * * * *"}, execution: {target: simulate, work_kind: noop}}
  - {key: b, name: b, tags: [t], schedule: {type: CRON, cron_expression: "0 * * * *"}, execution: {target: simulate, work_kind: noop}}
`
	applyText(t, c, two, "")
	want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "unkeyed", "tags": ["t"], "schedule": {"type": "INTERVAL", "every": "1h"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
	want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"key": "other", "name": "other", "schedule": {"type": "INTERVAL", "every": "1h"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)

	const one = `{"jobs": [{"key": "a", "name": "a", "paused": true, "tags": ["t"], "schedule": {"type": "INTERVAL", "every": "2h"}, "execution": {"target": "simulate", "work_kind": "fail"}}]}`
	p, results := applyText(t, c, one, "t")
	if counted(p) != "0 1 2 0" || len(results) != 3 || results[0].Action != client.ActionChange {
		t.Errorf("got %s, %+v", counted(p), results)
	}
	j := want[client.Job](f, 200, "GET", "/api/v1/jobs/key:a", "")
	if j.Status != "PAUSED" || j.Priority != 5 || j.Description != "" || j.Schedule.Type != "INTERVAL" || j.Schedule.CronExpression != nil || j.Execution.WorkKind != "fail" {
		t.Errorf("what the file leaves out: %+v", j)
	}
	if p, _ := applyText(t, c, one, "t"); counted(p) != "0 0 0 1" {
		t.Errorf("again: %s", counted(p))
	}
	want[client.Job](f, 200, "GET", "/api/v1/jobs/key:other", "")
	if w := f.ask("GET", "/api/v1/jobs/key:b", ""); w.Code != 404 {
		t.Errorf("b: %d", w.Code)
	}
	if p, _ := applyText(t, c, strings.Replace(one, `"paused": true`, `"paused": false`, 1), ""); counted(p) != "0 1 0 0" {
		t.Errorf("resumed: %s", counted(p))
	}
	if j := want[client.Job](f, 200, "GET", "/api/v1/jobs/key:a", ""); j.Status != "ACTIVE" {
		t.Errorf("resumed: %s", j.Status)
	}
}

// Someone who changes a job between plan and apply is not overwritten, and the others are applied.
func TestFilesLoseNobodysChange(t *testing.T) {
	f, c := newServer(t)
	const file = `
jobs:
  - {key: a, name: a, priority: %d, execution: {target: worker, kind: k}}
  - {key: b, name: b, priority: %d, execution: {target: worker, kind: k}}
`
	applyText(t, c, fmt.Sprintf(file, 5, 5), "")
	p, err := declare.Make(t.Context(), c, readText(t, fmt.Sprintf(file, 6, 6)), "")
	if err != nil {
		t.Fatal(err)
	}
	want[client.Job](f, 200, "PATCH", "/api/v1/jobs/key:a", `{"owner": "someone"}`)
	results := declare.Apply(t.Context(), c, p, func(declare.Result) {})
	if results[0].Done || !errors.Is(results[0].Err, client.ErrConflict) || !results[1].Done {
		t.Errorf("got %+v", results)
	}
	if j := want[client.Job](f, 200, "GET", "/api/v1/jobs/key:a", ""); j.Priority != 5 || *j.Owner != "someone" {
		t.Errorf("got %+v", j)
	}
}

func TestFilesSayWhereTheyAreWrong(t *testing.T) {
	_, c := newServer(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"1.yaml": "jobs:\n  - key: a\n    nam: x\n    execution: {target: simulate, work_kind: noop}\n",
		"2.yml":  "jobs:\n  - name: no key\n    execution: {}\n",
		"3.json": `{"jobs": [{"key": "k", "name": 5, "execution": {}}]}`,
		"4.yaml": "a: [\n",
		"5.txt":  "not read",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := declare.Read(nil, dir)
	for _, say := range []string{"1.yaml:3: ", "nam", "2.yml:2: jobs[0].key", "3.json:1: ", "4.yaml:"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("it does not say %q:\n%v", say, err)
		}
	}
	_, err = declare.Make(t.Context(), c, readText(t, "jobs:\n  - key: a\n    name: a\n    schedule:\n      type: CRON\n      cron_expression: 0 25 * * *\n    execution: {target: worker, kind: k}\n    priority: 11\n"), "")
	for _, say := range []string{"standard input:6: jobs[0].schedule.cron_expression is", "standard input:8: jobs[0].priority is 11, want"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("it does not say %q:\n%v", say, err)
		}
	}
	twice := "jobs:\n  - {key: a, name: a, execution: {target: worker, kind: k}}\n  - {key: a, name: b, execution: {target: worker, kind: k}}\n"
	if _, err := declare.Read(strings.NewReader(twice), "-"); err == nil || !strings.Contains(err.Error(), "standard input:3: jobs[1].key") {
		t.Errorf("twice: %v", err)
	}
}

func TestFilesOfRules(t *testing.T) {
	f, c := newServer(t)
	const file = `
jobs:
  - {key: a, name: a, execution: {target: worker, kind: k}}
notification_rules:
  - {name: r, events: [missing, failed], jobs: ["key:a"], tags: [y, x], callback_url: "https://example.com/", late_after_seconds: 60}
`
	if p, results := applyText(t, c, file, ""); counted(p) != "2 0 0 0" || !results[1].Done || results[1].Kind != "notification rule" {
		t.Errorf("got %s, %+v", counted(p), results)
	}
	if p, _ := applyText(t, c, file, ""); counted(p) != "0 0 0 2" {
		t.Errorf("again: %s", counted(p))
	}
	if p, _ := applyText(t, c, strings.Replace(file, `tags: [y, x]`, `tags: [x]`, 1), ""); counted(p) != "0 1 0 1" {
		t.Errorf("changed: %s", counted(p))
	}
	if r := want[client.NotificationRule](f, 200, "GET", "/api/v1/notification-rules/r", ""); len(r.Tags) != 1 || len(r.Jobs) != 1 {
		t.Errorf("got %+v", r)
	}
}
