package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// kept has the counter write down what it counted.
func (f face) kept() {
	f.Helper()
	if _, err := f.counter.Tick(f.Context()); err != nil {
		f.Fatal(err)
	}
}

func (f face) triggers(job string) string {
	f.Helper()
	return want[client.Triggered](f, 202, "POST", "/api/v1/jobs/"+job+"/trigger", "").ExecutionID
}

// A job that is created for an instant in the past is not late by years: it could not fire before it was there.
func TestAJobInThePastIsNotLate(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "past", "schedule": {"type": "ONE_TIME", "scheduled_time": "2024-01-16T00:00:00Z"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
		es := want[client.Executions](f, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions", "").Executions
		if len(es) != 1 || es[0].TriggerDelayMS > 60_000 {
			t.Fatalf("executions: %+v", es)
		}
		f.fails(es[0].ExecutionID)
		f.kept()
		o := want[client.Overview](f, 200, "GET", "/api/v1/overview", "")
		if o.Delay.Fired != 1 || o.Delay.Within5s != 1 || o.Delay.MaxSeconds > 60 || o.Health == "critical" {
			t.Errorf("overview: %+v", o)
		}
		if d := want[client.DelaySeries](f, 200, "GET", "/api/v1/series/delays", ""); d.Total.Within5s != 1 || d.Total.MaxSeconds > 60 {
			t.Errorf("delays: %+v", d.Total)
		}
		if r := want[client.Report](f, 200, "GET", "/api/v1/executions/"+es[0].ExecutionID+"/report", ""); r.TriggerDelayMS > 60_000 || r.QueueWaitMS > 60_000 {
			t.Errorf("report: %+v", r)
		}
	})
}

func TestScreens(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		empty := want[client.Overview](f, 200, "GET", "/api/v1/overview", "")
		if empty.Sentence != "No schedules; nothing failing." || empty.Health != "ok" || empty.Late == nil || empty.Failing == nil {
			t.Errorf("of nothing: %+v", empty)
		}
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "hourly", "schedule": {"type": "CRON", "cron_expression": "0 * * * *"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
		one, two := f.triggers(j.JobID), f.triggers(j.JobID)
		f.fails(one)
		f.fails(two)
		waits := f.triggers(j.JobID)
		f.kept()

		s := want[client.Series](f, 200, "GET", "/api/v1/series?hours=1&step=300", "")
		if s.StepSeconds != 300 || len(s.Points) == 0 || s.Total.Failed != 2 || s.Total.Dead != 2 || s.Total.Started != 2 || *s.Total.SuccessRate != 0 {
			t.Errorf("series: %+v", s)
		}
		if all := want[client.Series](f, 200, "GET", "/api/v1/series?scope=installation", ""); all.Total.Failed != 2 || all.StepSeconds != 60 {
			t.Errorf("of all: %+v", all)
		}
		d := want[client.DelaySeries](f, 200, "GET", "/api/v1/series/delays", "")
		if len(d.BoundsSeconds) != 16 || len(d.Columns) != 0 || d.Total.P99Seconds != nil { // triggered by hand, nothing was fired
			t.Errorf("delays: %+v", d)
		}
		g := want[client.Failures](f, 200, "GET", "/api/v1/failures", "")
		if len(g.Groups) != 1 || g.Failed != 2 || g.Partial {
			t.Fatalf("failures: %+v", g)
		}
		x := g.Groups[0]
		if x.Type != "HTTP_ERROR" || x.Message != "answered <n>" || x.SampleMessage != "answered 500" || x.Failed != 2 || x.SampleExecutionID != two || *x.SampleJobID != j.JobID ||
			x.JobsTotal != 1 || x.Jobs[0] != (client.FailingJob{JobID: j.JobID, Name: "hourly", Failed: 2}) || *x.Text != "answered" {
			t.Errorf("group: %+v", x)
		}
		if of := want[client.Failures](f, 200, "GET", "/api/v1/failures?hours=168&limit=1&job_id="+j.JobID, ""); len(of.Groups) != 1 {
			t.Errorf("of the job: %+v", of)
		}
		dead := want[client.DeadLetterGroups](f, 200, "GET", "/api/v1/dead-letters:groups?job_id="+j.JobID, "")
		if dead.Total != 2 || dead.LookedAt != 2 || len(dead.Groups) != 1 || dead.Groups[0].Fingerprint != x.Fingerprint || dead.Groups[0].Count != 2 || dead.Groups[0].Reasons["NOT_RETRYABLE"] != 2 {
			t.Errorf("dead letters: %+v", dead)
		}
		for print, n := range map[string]int64{x.Fingerprint: 2, "00000000000000ff": 0} {
			if got := want[client.Begun](f, 200, "POST", "/api/v1/dead-letters:redrive", fmt.Sprintf(`{"filter": {"fingerprint": %q}, "dry_run": true}`, print)); got.Count != n {
				t.Errorf("%s: %+v", print, got)
			}
		}
		c := want[client.JobCalendar](f, 200, "GET", "/api/v1/jobs/"+j.JobID+"/calendar", "")
		today := time.Now().UTC().Format(time.DateOnly)
		if len(c.Days) != 1 || c.Days[0] != (client.CalendarDay{Date: today, DayCounts: client.DayCounts{Failed: 2}}) && c.Total.Failed != 2 {
			t.Errorf("calendar: %+v", c)
		}
		once := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
		f.fails(once.ExecutionID)
		f.kept()
		if c := want[client.JobCalendar](f, 200, "GET", "/api/v1/jobs/"+once.JobID+"/calendar", ""); c.Total.Failed != 1 {
			t.Errorf("of a one-off job: %+v", c)
		}
		r := want[client.JobRuns](f, 200, "GET", "/api/v1/jobs:runs?n=2&ids="+once.JobID+","+uuid.NewString()+","+j.JobID, "")
		if len(r.Jobs) != 2 || r.Jobs[0].JobID != once.JobID || len(r.Jobs[0].Runs) != 1 || len(r.Jobs[1].Runs) != 2 || r.Jobs[1].Runs[0].ExecutionID != waits || r.Jobs[1].Runs[0].Status != "PENDING" ||
			r.Jobs[1].Runs[0].DurationMS != nil || r.Jobs[1].Runs[1].DurationMS == nil || r.Jobs[1].TotalRuns != 2 || *r.Jobs[1].LastStatus != "FAILED" {
			t.Errorf("runs: %+v", r)
		}
		o := want[client.Overview](f, 200, "GET", "/api/v1/overview", "")
		if o.Schedules != 1 || o.FailingJobs != 2 || o.Failing[0].JobID != once.JobID || o.Failing[1].Failed24h != 2 || o.Failing[1].Name != "hourly" || o.DeadLetters != 3 ||
			o.Health != "warning" || !strings.HasPrefix(o.Sentence, "The one schedule is on time; ") || !strings.Contains(o.Sentence, "2 jobs failing") {
			t.Errorf("overview: %+v", o)
		}
		if _, err := f.store.KeepDepths(t.Context(), time.Now(), []engine.TenantDepths{{Tenant: tenant.Default, Queues: []engine.QueueDepth{{Queue: "default", Waiting: 3, Running: 1, Oldest: 1500 * time.Millisecond}}}}); err != nil {
			t.Fatal(err)
		}
		q := want[client.QueueSeries](f, 200, "GET", "/api/v1/series/queues", "")
		if !slices.Equal(q.Queues, []string{"default"}) || len(q.Columns) != 1 || q.Columns[0].Waiting != 3 || *q.Columns[0].OldestSeconds != 1.5 {
			t.Errorf("queues: %+v", q)
		}
		if _, err := f.store.KeepDepths(t.Context(), time.Now().Add(time.Minute), []engine.TenantDepths{{Tenant: tenant.Default, Queues: []engine.QueueDepth{{Queue: "default", Waiting: 5000}, {Queue: "mail", Waiting: 1}}}}); err != nil {
			t.Fatal(err)
		}
		q = want[client.QueueSeries](f, 200, "GET", "/api/v1/series/queues?step=60", "")
		if c := q.Columns[len(q.Columns)-1]; c.Waiting != 5001 || len(c.Queues) != 2 {
			t.Errorf("two queues: %+v", c)
		}
		for path, field := range map[string]string{
			"/api/v1/series?hours=25": "hours", "/api/v1/series?step=61": "step", "/api/v1/series?scope=x": "scope", "/api/v1/series/delays?minutes=1": "minutes", "/api/v1/failures?hours=169": "hours",
			"/api/v1/failures?limit=0": "limit", "/api/v1/failures?job_id=x": "job_id", "/api/v1/dead-letters:groups?reason=x": "reason", "/api/v1/dead-letters:groups?limit=101": "limit",
			"/api/v1/jobs/" + j.JobID + "/calendar?from=x": "from", "/api/v1/jobs/" + j.JobID + "/calendar?from=2024-01-01&to=2026-01-01": "from", "/api/v1/jobs/" + j.JobID + "/calendar?from=2026-01-01&to=2026-01-01": "from",
			"/api/v1/jobs:runs": "ids", "/api/v1/jobs:runs?ids=1": "ids", "/api/v1/jobs:runs?ids=" + j.JobID + "&n=51": "n", "/api/v1/jobs:runs?ids=" + strings.Repeat(j.JobID+",", 100) + j.JobID: "ids",
			"/api/v1/overview?x=1": "x", "/api/v1/forecast?spread=maybe": "spread", "/api/v1/jobs/" + j.JobID + "/revisions?limit=0": "limit",
		} {
			if p := want[client.Problem](f, 400, "GET", path, ""); len(p.Errors) != 1 || p.Errors[0].Field != field {
				t.Errorf("%s: %+v", path, p)
			}
		}
		for _, path := range []string{"calendar", "revisions"} {
			want[client.Problem](f, 404, "GET", "/api/v1/jobs/"+uuid.NewString()+"/"+path, "")
		}
		want[client.Problem](f, 404, "GET", "/api/v1/failures?job_id="+uuid.NewString(), "")
		want[client.Problem](f, 422, "POST", "/api/v1/dead-letters:redrive", `{"filter": {"fingerprint": "x"}}`)
	})
}

// A history that becomes shorter is hidden at once, and dropped only a week later.
func TestAShorterHistoryIsCutLater(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		acme := want[client.Tenant](f, 201, "POST", "/api/v1/tenants", `{"name": "acme", "tier": "pro"}`)
		cut := func() time.Time {
			all, err := f.store.Tenants(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return all[slices.IndexFunc(all, func(x tenant.Tenant) bool { return string(x.ID) == acme.TenantID })].CutAt
		}
		path := "/api/v1/tenants/" + acme.TenantID
		for _, c := range []struct {
			body string
			cuts bool
		}{
			{`{"name": "Acme"}`, false}, {`{"tier": "enterprise"}`, false}, {`{"quotas": {"history_days": 400}}`, false}, {`{"quotas": {"history_days": -1}}`, false},
			{`{"quotas": {"history_days": 366}}`, true}, {`{"quotas": {"history_days": null}}`, true}, {`{"name": "acme"}`, false}, {`{"tier": "free"}`, true},
		} {
			was := cut()
			want[client.Tenant](f, 200, "PATCH", path, c.body)
			if now := cut(); now.After(was) != c.cuts {
				t.Errorf("%s: cut at %v, before at %v", c.body, now, was)
			}
		}
	})
}

func TestDelaysOfSchedules(t *testing.T) {
	f := newFace(t)
	server := engine.ServerID(uuid.New())
	m := engine.TenantMinute{Tenant: tenant.Default, At: time.Now(), MaxDelay: 7 * time.Second}
	m.Delays[0], m.Delays[6], m.Delays[9] = 95, 3, 2
	if err := f.store.KeepTally(t.Context(), server, 1, engine.Tally{Minutes: []engine.TenantMinute{m}}); err != nil {
		t.Fatal(err)
	}
	d := want[client.DelaySeries](f, 200, "GET", "/api/v1/series/delays?step=3600", "")
	if len(d.Columns) != 1 || d.Columns[0].Fired != 100 || d.Columns[0].Within1s != 98 || d.Columns[0].Within5s != 98 || len(d.Columns[0].Counts) != 17 || *d.Total.P50Seconds != 0.01 || *d.Total.P95Seconds != 0.01 || *d.Total.P99Seconds != 7 {
		t.Errorf("%+v", d)
	}
	want[client.Job](f, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "0 6 * * *"}`, ""))
	if o := want[client.Overview](f, 200, "GET", "/api/v1/overview", ""); o.Health != "critical" || !strings.Contains(o.Sentence, "p99 delay 7.0 s") || !strings.Contains(o.Sentence, "2 of the last hour's fires more than 5 s late") {
		t.Errorf("%+v", o)
	}
}

func TestRevisions(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "report", "schedule": {"type": "CRON", "cron_expression": "0 6 * * *"},
			"execution": {"callback_url": "https://example.com/x", "headers": {"X-A": "b", "Authorization": "Bearer one"}, "payload": {"z": 1, "a": 12345678901234567890}}}`)
		path := "/api/v1/jobs/" + j.JobID
		want[client.Job](f, 200, "PATCH", path, `{"schedule": {"cron_expression": "5 6 * * *"}, "execution": {"payload": {"z": 2}}}`)
		want[client.Job](f, 200, "POST", path+"/pause", `{"reason": "moving"}`)
		all := want[client.JobRevisions](f, 200, "GET", path+"/revisions", "")
		if len(all.Revisions) != 3 || all.Pagination.Total != 3 {
			t.Fatalf("%+v", all)
		}
		now, second, first := all.Revisions[0], all.Revisions[1], all.Revisions[2]
		changes := func(r client.JobRevision) (out []string) {
			for _, c := range r.Changes {
				out = append(out, fmt.Sprintf("%s: %s → %s", c.Field, c.Before, c.After))
			}
			return out
		}
		if !now.Current || now.Revision != 3 || *now.By != "local" || *now.Role != "system" || *now.Action != "job.pause" || now.Status != "PAUSED" ||
			!slices.Equal(changes(now), []string{`pause.reason: null → "moving"`, `status: "ACTIVE" → "PAUSED"`}) {
			t.Errorf("now: %+v %q", now, changes(now))
		}
		if second.Current || *second.Action != "job.update" || !slices.Equal(changes(second), []string{`execution.payload: {"z":1,"a":12345678901234567890} → {"z":2}`, `schedule.cron_expression: "0 6 * * *" → "5 6 * * *"`}) &&
			!slices.Equal(changes(second), []string{`execution.payload: {"z": 1, "a": 12345678901234567890} → {"z": 2}`, `schedule.cron_expression: "0 6 * * *" → "5 6 * * *"`}) {
			t.Errorf("the second: %+v %q", second, changes(second))
		}
		if first.Revision != 1 || first.Changes != nil || first.By != nil || strings.Contains(string(first.Spec), "Bearer") || !strings.Contains(string(first.Spec), "12345678901234567890") {
			t.Errorf("the first: %+v %s", first, first.Spec)
		}
		var spec client.JobRequest
		if err := json.Unmarshal(first.Spec, &spec); err != nil || spec.Name != "report" || spec.Schedule.CronExpression == nil && spec.Schedule.Type != "CRON" {
			t.Errorf("spec: %v, %+v", err, spec)
		}
		var paged []int
		for cursor := ""; ; {
			p := want[client.JobRevisions](f, 200, "GET", path+"/revisions?limit=1&cursor="+url.QueryEscape(cursor), "")
			paged = append(paged, p.Revisions[0].Revision)
			if p.Pagination.NextCursor == nil {
				break
			}
			cursor = *p.Pagination.NextCursor
		}
		if !slices.Equal(paged, []int{3, 2, 1}) {
			t.Errorf("page by page: %v", paged)
		}
		want[client.Problem](f, 412, "POST", path+"/revisions/1/restore", "", "If-Match", "2")
		back := want[client.Job](f, 200, "POST", path+"/revisions/1/restore", "", "If-Match", "3")
		if back.Revision != 4 || back.Status != "PAUSED" || !strings.Contains(string(back.Execution.Payload), "12345678901234567890") {
			t.Errorf("restored: %+v", back)
		}
		if again := want[client.Job](f, 200, "POST", path+"/revisions/1/restore", ""); again.Revision != 4 {
			t.Errorf("restored again: %+v", again)
		}
		want[client.Job](f, 200, "PATCH", path, `{"execution": {"headers": {"X-A": "c"}}}`)
		want[client.Job](f, 200, "PATCH", path, `{"execution": {"headers": {"X-A": "c"}}}`)
		if p := want[client.Problem](f, 409, "POST", path+"/revisions/1/restore", ""); !strings.Contains(p.Detail, "Authorization") {
			t.Errorf("without its credential: %+v", p)
		}
		for _, none := range []string{"0", "9", "x", "-1"} {
			want[client.Problem](f, 404, "POST", path+"/revisions/"+none+"/restore", "")
		}
	})
}

func TestSpreadOfHerds(t *testing.T) {
	f := newFace(t)
	var bodies []string
	for i := range 60 {
		bodies = append(bodies, recurs(fmt.Sprintf(`{"type": "CRON", "cron_expression": %q}`, []string{"0 * * * *", "*/30 * * * *", "@hourly"}[i%3]), ""))
	}
	want[client.CreatedJobs](f, 201, "POST", "/api/v1/jobs:batch", "["+strings.Join(bodies, ",")+"]")
	plain := want[client.Forecast](f, 200, "GET", "/api/v1/forecast?hours=6", "")
	if plain.Spread != nil || len(plain.Herds) == 0 {
		t.Fatalf("%+v", plain)
	}
	got := want[client.Forecast](f, 200, "GET", "/api/v1/forecast?hours=6&spread=true", "")
	s := got.Spread
	if s == nil || s.PeakBefore != 60 || s.PeakAfter >= 20 || s.JobsTotal < 50 || len(s.Jobs) != s.JobsTotal || s.Jobs[0].Before == s.Jobs[0].After || s.Jobs[0].Moved < s.Jobs[len(s.Jobs)-1].Moved {
		t.Fatalf("%+v", s)
	}
	sum := func(ms []client.ForecastMinute) (n int64) {
		for _, m := range ms {
			n += m.Count
		}
		return n
	}
	if a, b := sum(got.Minutes), sum(s.Minutes); b < a-80 || b > a+80 {
		t.Errorf("%d instants before, %d after", a, b)
	}
	for _, j := range s.Jobs[:3] {
		want[client.Job](f, 200, "PATCH", "/api/v1/jobs/"+j.JobID, fmt.Sprintf(`{"schedule": {"cron_expression": %q}}`, j.After))
	}
}
