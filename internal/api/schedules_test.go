package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// recurs is the body of a job with a schedule.
func recurs(schedule, more string) string {
	return fmt.Sprintf(`{"name": "again", "schedule": %s, "execution": {"target": "simulate", "work_kind": "noop"}%s}`, schedule, more)
}

const berlin = `{"type": "cron", "cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "day": "AND", "jitter_ms": 500, "start_at": "2030-03-30T00:00:00+01:00", "end_at": "2031-01-01T00:00:00Z", "max_runs": 7}`

func TestRecurringJobs(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(berlin, `, "overlap": "SKIP", "catch_up": "all", "catch_up_limit": 5`))
	s := j.Schedule
	if j.ExecutionID != "" || s.Type != "CRON" || *s.CronExpression != "30 2 * * *" || *s.Timezone != "Europe/Berlin" || *s.Day != "and" || *s.JitterMS != 500 || *s.MaxRuns != 7 ||
		s.NextRunAt.Format(time.RFC3339) != "2030-03-30T01:30:00Z" || s.StartAt.Format(time.RFC3339) != "2030-03-29T23:00:00Z" || j.Overlap != "skip" || j.CatchUp != "all" || j.CatchUpLimit != 5 {
		t.Errorf("made: %+v", j)
	}
	got := want[client.Job](f, 200, "GET", "/api/v1/jobs/"+j.JobID, "")
	if !got.Schedule.NextRunAt.Equal(*s.NextRunAt) || *got.Schedule.CronExpression != *s.CronExpression || got.Overlap != "skip" {
		t.Errorf("read: %+v", got.Schedule)
	}
	e := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(`{"type": "INTERVAL", "every": "90s"}`, ""))
	if after := e.Schedule.NextRunAt.Sub(e.CreatedAt); *e.Schedule.Every != "1m30s" || *e.Schedule.Timezone != "UTC" || after < 88*time.Second || after > 90*time.Second || e.Overlap != "allow" || e.CatchUp != "latest" || e.CatchUpLimit != 100 {
		t.Errorf("an interval: %+v", e)
	}
	list := want[client.Jobs](f, 200, "GET", "/api/v1/jobs?schedule_type=CRON", "")
	if len(list.Jobs) != 1 || list.Jobs[0].JobID != j.JobID {
		t.Errorf("listed: %+v", list)
	}
	batch := want[client.CreatedJobs](f, 201, "POST", "/api/v1/jobs:batch", "["+recurs(berlin, "")+","+noop+"]")
	if len(batch.Jobs) != 2 || batch.Jobs[0].ExecutionID != "" || batch.Jobs[1].ExecutionID == "" {
		t.Errorf("a batch: %+v", batch)
	}
	p := want[client.Problem](f, 422, "POST", "/api/v1/jobs:batch", "["+noop+","+recurs(`{"type": "CRON", "cron_expression": "0 0 * * L"}`, "")+"]")
	if p.Errors[0].Field != "[1].schedule.cron_expression" || !strings.Contains(p.Errors[0].Want, "position 9") || !strings.Contains(p.Errors[0].Want, "5L") {
		t.Errorf("a bad batch: %+v", p.Errors)
	}
}

// What a job's schedule is by default is no change of it.
func TestAPatchBesideTheScheduleLeavesItAlone(t *testing.T) {
	f := newFace(t)
	for _, s := range []string{`{"type": "CRON", "cron_expression": "0 0 1 1 *"}`, `{"type": "INTERVAL", "every": "1000h"}`, `{"type": "CRON", "cron_expression": "0 0 1 1 *", "max_runs": 1, "timezone": "UTC"}`} {
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "plain", "schedule": `+s+`, "execution": {"target": "simulate", "work_kind": "noop"}}`)
		got := want[client.Job](f, 200, "PATCH", "/api/v1/jobs/"+j.JobID, `{"description": "x"}`)
		if got.Revision != 2 || !got.Schedule.NextRunAt.Equal(*j.Schedule.NextRunAt) || *got.Schedule.Timezone != "UTC" {
			t.Errorf("%s: revision %d, next %v, want %v", s, got.Revision, got.Schedule.NextRunAt, j.Schedule.NextRunAt)
		}
		if same := want[client.Job](f, 200, "PATCH", "/api/v1/jobs/"+j.JobID, `{"schedule": {"timezone": "utc"}}`); same.Revision != 2 {
			t.Errorf("%s: revision %d", s, same.Revision)
		}
	}
}

func TestPatch(t *testing.T) {
	f := newFace(t)
	body := `{"name": "before", "key": "k", "description": "d", "tags": ["a"], "priority": 2, "schedule": {"type": "CRON", "cron_expression": "0 4 * * *", "timezone": "Europe/Berlin"},
		"execution": {"callback_url": "https://example.com/1", "headers": {"X-A": "1", "Authorization": "Bearer s3cret"}, "payload": {"a":  1}, "expect": {"status": [200], "body_contains": "ok"}},
		"retry_policy": {"max_retries": 1, "initial_delay_ms": 7}}`
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", body)
	path := "/api/v1/jobs/" + j.JobID
	if same := want[client.Job](f, 200, "PATCH", path, `{}`); same.Revision != 1 {
		t.Errorf("nothing changed, but the revision is %d", same.Revision)
	}
	got := want[client.Job](f, 200, "PATCH", path, `{"name": "after", "priority": null, "tags": null, "retry_policy": {"max_retries": 5}, "execution": {"timeout_seconds": 9, "expect": {"body_contains": null}}}`)
	if got.Name != "after" || got.Priority != 5 || len(got.Tags) != 0 || got.RetryPolicy.MaxRetries != 5 || got.RetryPolicy.InitialDelayMS != 7 || got.Execution.TimeoutSeconds != 9 ||
		got.Execution.CallbackURL != "https://example.com/1" || got.Execution.Expect.BodyContains != nil || got.Execution.Expect.Status[0] != 200 || string(got.Execution.Payload) != `{"a":1}` ||
		got.Revision != 2 || *got.Schedule.Timezone != "Europe/Berlin" || got.Description != "d" || *got.Key != "k" || !got.Schedule.NextRunAt.Equal(*j.Schedule.NextRunAt) {
		t.Errorf("merged: %+v", got)
	}
	if stored := must(f.store.Job(t.Context(), "default", ref(j.JobID))); string(stored.Payload) != `{"a":  1}` || stored.Target.Headers["Authorization"] != "${secret:~"+j.JobID+"/authorization}" {
		t.Errorf("the payload is %s, the headers %v", stored.Payload, stored.Target.Headers)
	}
	got = want[client.Job](f, 200, "PATCH", path, `{"execution": {"headers": {"Authorization": "[redacted]", "X-B": "2"}, "payload": null}}`)
	if stored := must(f.store.Job(t.Context(), "default", ref(j.JobID))); stored.Payload != nil || len(stored.Target.Headers) != 2 || stored.Target.Headers["Authorization"] != "${secret:~"+j.JobID+"/authorization}" {
		t.Errorf("the payload is %s, the headers %v", stored.Payload, stored.Target.Headers)
	}
	got = want[client.Job](f, 200, "PATCH", path, `{"schedule": {"cron_expression": "0 0 1 1 *", "timezone": null}}`)
	if *got.Schedule.Timezone != "UTC" || got.Schedule.NextRunAt.Format("01-02 15:04") != "01-01 00:00" {
		t.Errorf("another expression: %+v", got.Schedule)
	}
	got = want[client.Job](f, 200, "PATCH", path, `{"schedule": {"type": "INTERVAL", "every": "1h"}}`)
	if got.Schedule.CronExpression != nil || *got.Schedule.Every != "1h" || got.Schedule.NextRunAt.After(time.Now().Add(time.Hour)) {
		t.Errorf("another type: %+v", got.Schedule)
	}
	got = want[client.Job](f, 200, "PATCH", path, `{"execution": {"target": "simulate", "work_kind": "noop"}}`)
	if got.Execution.CallbackURL != "" || got.Execution.TimeoutSeconds != 9 || got.Revision != 6 {
		t.Errorf("another target: %+v", got.Execution)
	}
	for _, c := range []struct {
		patch string
		code  int
		field string
	}{
		{`{"nmae": "x"}`, 400, "nmae"}, {`[]`, 400, ""}, {`{"name": 1}`, 400, "name"}, {`{"name": null}`, 422, "name"}, {`{"key": "other"}`, 422, "key"}, {`{"key": null}`, 422, "key"},
		{`{"schedule": {"every": "0s"}}`, 422, "schedule.every"}, {`{"schedule": null, "priority": 11}`, 422, "priority"}, {`{"schedule": {"calendar": "nope"}}`, 422, "schedule.calendar"},
		{``, 400, ""}, {`{"schedule": {"type": "CRON"}}`, 422, "schedule.cron_expression"},
	} {
		p := want[client.Problem](f, c.code, "PATCH", path, c.patch)
		if c.field != "" && !slices.ContainsFunc(p.Errors, func(e client.FieldProblem) bool { return e.Field == c.field }) {
			t.Errorf("%s: %+v", c.patch, p.Errors)
		}
	}
	for header, code := range map[string]int{"5": 412, `"5"`: 412, "x": 400, "0": 400, "*": 200, `"7"`: 200} {
		if code == 200 && header != "*" {
			continue
		}
		if w := f.ask("PATCH", path, `{"description": "x"}`, "If-Match", header); w.Code != code {
			t.Errorf("If-Match %s: %d %s", header, w.Code, w.Body)
		}
	}
	if w := f.ask("PATCH", path, `{"description": "y"}`, "If-Match", `"7"`); w.Code != 200 {
		t.Errorf("If-Match 7: %d %s", w.Code, w.Body)
	}
	want[client.Problem](f, 404, "PATCH", "/api/v1/jobs/key:nope", `{"nmae": "x"}`)
	want[client.Job](f, 200, "DELETE", path, "")
	want[client.Problem](f, 404, "PATCH", path, `{"name": "x"}`)
}

func TestPauseAndResume(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "@daily"}`, ""))
	path := "/api/v1/jobs/" + j.JobID
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	p := want[client.Job](f, 200, "PATCH", path+"/pause", fmt.Sprintf(`{"reason": "holiday", "until": %q}`, until.Format(time.RFC3339)))
	if p.Status != "PAUSED" || *p.PauseReason != "holiday" || !p.PausedUntil.Equal(until) || p.Schedule.NextRunAt != nil || p.Revision != 2 {
		t.Errorf("paused: %+v", p)
	}
	if p = want[client.Job](f, 200, "POST", path+"/pause", ""); p.PauseReason != nil || p.PausedUntil != nil || p.Revision != 3 {
		t.Errorf("paused again: %+v", p)
	}
	if p = want[client.Job](f, 200, "POST", path+"/pause", "{}"); p.Revision != 3 {
		t.Errorf("paused once more: %+v", p)
	}
	if p = want[client.Job](f, 200, "PATCH", path, `{"description": "x"}`); p.Status != "PAUSED" {
		t.Errorf("a change resumed it")
	}
	for _, body := range []string{`{"until": "2020-01-01T00:00:00Z"}`, `{"reason": "` + strings.Repeat("r", 1001) + `"}`} {
		want[client.Problem](f, 422, "POST", path+"/pause", body)
	}
	want[client.Problem](f, 400, "POST", path+"/pause", `{"untill": null}`)
	for range 2 {
		if r := want[client.Job](f, 200, "POST", path+"/resume", ""); r.Status != "ACTIVE" || r.Revision != 5 || !r.Schedule.NextRunAt.Equal(*j.Schedule.NextRunAt) {
			t.Errorf("resumed: %+v", r)
		}
	}
	want[client.Problem](f, 404, "PATCH", "/api/v1/jobs/key:nope/pause", "{")
}

func TestPreviews(t *testing.T) {
	f := newFace(t)
	answers := map[string]string{}
	ask := func(name, method, path, body string, code int) {
		t.Helper()
		w := f.ask(method, path, body)
		if w.Code != code {
			t.Fatalf("%s: %d %s", name, w.Code, w.Body)
		}
		answers[name] = strings.NewReplacer("T", " ", "Z\"", "\"").Replace(w.Body.String()) // so that they are compared
	}
	const preview = "/api/v1/schedules/preview"
	ask("preview_dst.json", "POST", preview, `{"cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "from": "2026-03-28T00:00:00Z", "n": 3}`, 200)
	ask("preview_every.json", "POST", preview, `{"every": "1h30m", "from": "2026-03-28T00:00:00Z", "n": 2}`, 200)
	ask("preview_bad.json", "POST", preview, `{"cron_expression": "0 0 * * L"}`, 422)
	delete(answers, "preview_bad.json")
	for _, c := range []struct{ body, field string }{
		{`{}`, "cron_expression"}, {`{"cron_expression": "* * * * *", "every": "1m"}`, "every"}, {`{"cron_expression": "* * * * *", "n": 0}`, "n"}, {`{"cron_expression": "* * * * *", "n": 1001}`, "n"},
		{`{"cron_expression": "* * * * *", "timezone": "Mars/Base"}`, "timezone"}, {`{"every": "1ms"}`, "every"}, {`{"cron_expression": "* * * * *", "day": "x"}`, "day"},
	} {
		if p := want[client.Problem](f, 422, "POST", preview, c.body); p.Errors[0].Field != c.field {
			t.Errorf("%s: %+v", c.body, p.Errors)
		}
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(berlin, ""))
	ask("next.json", "GET", "/api/v1/jobs/"+j.JobID+"/next?n=9", "", 200)
	if n := strings.Count(answers["next.json"], `"utc"`); n != 7 {
		t.Errorf("%d instants of 7 runs", n)
	}
	once := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(`{"type": "ONE_TIME", "scheduled_time": "2040-01-02T03:04:05Z"}`, ""))
	if n := want[client.Preview](f, 200, "GET", "/api/v1/jobs/"+once.JobID+"/next", ""); len(n.Next) != 1 || n.Description == "" || n.Warnings == nil {
		t.Errorf("a single one: %+v", n)
	}
	want[client.Problem](f, 400, "GET", "/api/v1/jobs/"+j.JobID+"/next?n=0", "")
	want[client.Problem](f, 404, "GET", "/api/v1/jobs/key:nope/next?n=0", "")
	goldens(t, answers)
}

func TestCalendarsOverHTTP(t *testing.T) {
	f := newFace(t)
	const path = "/api/v1/calendars/holidays"
	want[client.Problem](f, 404, "GET", path, "")
	c := want[client.Calendar](f, 200, "PUT", path, `{"dates": ["2026-12-28"], "yearly": ["12-25"], "weekdays": ["SAT"], "windows": [{"from": "2026-05-01", "to": "2026-05-02T12:00"}], "timezone": "Europe/Berlin"}`)
	got := want[client.Calendar](f, 200, "GET", path, "")
	if c.Name != "holidays" || len(got.Windows) != 1 || *got.Timezone != "Europe/Berlin" || !slices.Equal(got.Weekdays, []string{"SAT"}) || !slices.Equal(got.Yearly, []string{"12-25"}) {
		t.Errorf("got %+v", got)
	}
	if all := want[client.Calendars](f, 200, "GET", "/api/v1/calendars", ""); len(all.Calendars) != 1 || all.Pagination.Total != 1 {
		t.Errorf("all: %+v", all)
	}
	for body, field := range map[string]string{
		`{"dates": ["2026-02-30"]}`: "dates[0]", `{"weekdays": ["CAT"]}`: "weekdays[0]", `{"timezone": ""}`: "timezone", `{"timezone": "CET+1"}`: "timezone",
		`{"windows": [{"from": "2026-01-02", "to": "2026-01-01"}]}`: "windows[0].to",
	} {
		if p := want[client.Problem](f, 422, "PUT", path, body); p.Errors[0].Field != field {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	want[client.Problem](f, 422, "PUT", "/api/v1/calendars/Bad%20One", `{}`)
	// A job that uses it follows its changes, and keeps it from being deleted.
	day := time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly)
	want[client.Calendar](f, 200, "PUT", path, fmt.Sprintf(`{"dates": [%q]}`, day))
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(fmt.Sprintf(`{"type": "CRON", "cron_expression": "0 12 * * *", "start_at": "%sT00:00:00Z", "calendar": "holidays"}`, day), ""))
	if got := j.Schedule.NextRunAt.Format(time.DateOnly); got == day {
		t.Errorf("an excluded day is planned: %s", got)
	}
	want[client.Calendar](f, 200, "PUT", path, `{}`)
	if got := want[client.Job](f, 200, "GET", "/api/v1/jobs/"+j.JobID, "").Schedule.NextRunAt.Format(time.DateOnly); got != day {
		t.Errorf("after the change the next is %s, want %s", got, day)
	}
	if p := want[client.Problem](f, 409, "DELETE", path, ""); p.Code != "cannot_delete" || !strings.Contains(p.Detail, "again") {
		t.Errorf("in use: %+v", p)
	}
	want[client.Job](f, 200, "DELETE", "/api/v1/jobs/"+j.JobID, "")
	want[client.Calendar](f, 200, "DELETE", path, "")
	want[client.Problem](f, 404, "DELETE", path, "")
}

func TestForecast(t *testing.T) {
	f := newFace(t)
	at := time.Now().UTC().Truncate(time.Hour).Add(3 * time.Hour)
	expression := fmt.Sprintf("0 %d * * *", at.Hour())
	for range 20 {
		want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(fmt.Sprintf(`{"type": "CRON", "cron_expression": %q}`, expression), ""))
	}
	paused := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(`{"type": "INTERVAL", "every": "1s"}`, ""))
	want[client.Job](f, 200, "POST", "/api/v1/jobs/"+paused.JobID+"/pause", "")
	want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(fmt.Sprintf(`{"type": "ONE_TIME", "scheduled_time": %q}`, at.Add(30*time.Second).Format(time.RFC3339)), ""))
	got := want[client.Forecast](f, 200, "GET", "/api/v1/forecast?hours=23", "")
	if len(got.Minutes) != 1 || got.Minutes[0].Count != 21 || !got.Minutes[0].At.Equal(at) || got.Truncated || len(got.Herds) != 1 || len(got.Herds[0].Jobs) != 5 || got.Herds[0].Jobs[0].Count != 1 {
		t.Errorf("got %+v", got)
	}
	want[client.Job](f, 200, "POST", "/api/v1/jobs/"+paused.JobID+"/resume", "")
	got = want[client.Forecast](f, 200, "GET", "/api/v1/forecast?hours=1", "")
	if n := len(got.Minutes); n < 60 || n > 61 || got.Minutes[30].Count != 60 || got.Truncated {
		t.Errorf("%d minutes, %+v", n, got.Herds)
	}
	if got = want[client.Forecast](f, 200, "GET", "/api/v1/forecast?hours=720", ""); got.Truncated || len(got.Herds) != 0 || len(got.Minutes) < 720*60 {
		t.Errorf("30 days: truncated %v, herds %+v", got.Truncated, got.Herds)
	}
	want[client.Problem](f, 400, "GET", "/api/v1/forecast?hours=721", "")
}

func TestOccurrencesOverHTTP(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(`{"type": "INTERVAL", "every": "1h"}`, ""))
	path := "/api/v1/jobs/" + j.JobID + "/occurrences"
	got := want[client.Occurrences](f, 200, "GET", path, "")
	if n := len(got.Occurrences); n < 22 || n > 24 || got.Occurrences[0].Outcome != "planned" || !got.Occurrences[0].ScheduledTime.Equal(*j.Schedule.NextRunAt) || got.Pagination.NextCursor != nil {
		t.Errorf("%d: %+v", n, got.Occurrences[:1])
	}
	page := want[client.Occurrences](f, 200, "GET", path+"?limit=10", "")
	rest := want[client.Occurrences](f, 200, "GET", path+"?limit=1000&cursor="+*page.Pagination.NextCursor, "")
	if len(page.Occurrences) != 10 || len(page.Occurrences)+len(rest.Occurrences) != len(got.Occurrences) || rest.Pagination.NextCursor != nil {
		t.Errorf("%d and %d of %d", len(page.Occurrences), len(rest.Occurrences), len(got.Occurrences))
	}
	want[client.Job](f, 200, "POST", "/api/v1/jobs/"+j.JobID+"/pause", `{"reason": "why not"}`)
	if got = want[client.Occurrences](f, 200, "GET", path+"?limit=1", ""); got.Occurrences[0].Outcome != "paused" || *got.Occurrences[0].Reason != "why not" {
		t.Errorf("paused: %+v", got.Occurrences)
	}
	for _, q := range []string{"?from=x", "?from=2026-01-02&to=2026-01-01", "?limit=0", "?cursor=x", "?form=1"} {
		want[client.Problem](f, 400, "GET", path+q, "")
	}
}

func TestBackfillOverHTTP(t *testing.T) {
	f := newFace(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "@hourly"}`, ""))
	path := "/api/v1/jobs/" + j.JobID + "/backfill"
	const day = `"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"`
	if n := want[client.Begun](f, 200, "POST", path, `{`+day+`, "dry_run": true}`); n.Count != 24 || n.OperationID != "" {
		t.Errorf("a dry run: %+v", n)
	}
	first := f.ask("POST", path, `{`+day+`, "rate_per_s": 0.5}`, "X-Idempotency-Key", "k")
	again := f.ask("POST", path, `{`+day+`, "rate_per_s": 0.5}`, "X-Idempotency-Key", "k")
	if first.Code != 202 || first.Body.String() != again.Body.String() || first.Header().Get("Location") == "" {
		t.Errorf("begun: %d %s, again %s", first.Code, first.Body, again.Body)
	}
	for body, field := range map[string]string{
		`{}`: "from", `{"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}`: "from", `{` + day + `, "rate_per_s": 0}`: "rate_per_s",
		`{"from": "2001-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}`: "from", `{"from": "2199-01-01T00:00:00Z", "to": "2200-01-01T00:00:00Z"}`: "from",
	} {
		if p := want[client.Problem](f, 422, "POST", path, body); p.Errors[0].Field != field {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	want[client.Problem](f, 400, "POST", path, `{"form": 1}`)
	once := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	want[client.Problem](f, 409, "POST", "/api/v1/jobs/"+once.JobID+"/backfill", `{`+day+`}`)
	want[client.Problem](f, 404, "POST", "/api/v1/jobs/key:nope/backfill", `{`)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ref(id string) engine.Ref { return engine.Ref{ID: must(core.ParseID(id))} }
