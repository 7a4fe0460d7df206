package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/scheduler"
	"github.com/carillon-jobs/carillon/internal/service"
)

// clockwork is the API and a scheduler over a fresh store, by a clock that the test moves.
type clockwork struct {
	face
	clock   *clock.Manual
	service *service.Service
	sched   *scheduler.Scheduler
}

// monday is a Monday at noon.
var monday = time.Date(2030, 4, 1, 12, 0, 0, 0, time.UTC)

func newClockwork(t *testing.T) *clockwork {
	t.Helper()
	clk := clock.NewManual(monday)
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "c.db"), Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	svc := service.New(store, clk, service.Config{LookAhead: 5 * time.Second})
	h := api.New(api.Config{Ready: store.Ping, Version: "test", Logger: log, Service: svc, Dispatch: dispatch.New(store, clk, log, dispatch.Config{LeaseTTL: 30 * time.Second})})
	return &clockwork{face{t, store, h, nil}, clk, svc, scheduler.New(store, clk, scheduler.Config{LookAhead: 5 * time.Second})}
}

// pass moves the clock on, and ticks as the loop would, at most once each step.
func (c *clockwork) pass(d, step time.Duration) {
	c.Helper()
	for end := c.clock.Now().Add(d); ; {
		wait, err := c.sched.Tick(c.Context())
		if err != nil {
			c.Fatal(err)
		}
		left := end.Sub(c.clock.Now())
		if left <= 0 && wait > 0 {
			return
		}
		c.clock.Advance(max(0, min(left, max(wait, step))))
	}
}

// fired is the instants of a job's executions that are not skipped, earliest first.
func (c *clockwork) fired(id string) (out []string) {
	c.Helper()
	for _, e := range want[client.Executions](c.face, 200, "GET", "/api/v1/jobs/"+id+"/executions?limit=1000", "").Executions {
		if e.Status != "SKIPPED" {
			out = append(out, e.ScheduledTime.Format("15:04:05"))
		}
	}
	slices.Reverse(out)
	return out
}

const noDay = `{"weekdays": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]}`

func TestACalendarThatExcludesEverything(t *testing.T) {
	c := newClockwork(t)
	const path = "/api/v1/calendars/c"
	want[client.Calendar](c.face, 200, "PUT", path, `{}`)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * *", "calendar": "c"}`, ""))
	c.pass(90*time.Second, time.Second)
	if got := c.fired(j.JobID); !slices.Equal(got, []string{"12:01:00"}) {
		t.Fatalf("fired %v", got)
	}
	want[client.Calendar](c.face, 200, "PUT", path, noDay)
	c.pass(3*24*time.Hour, 10*time.Minute)
	got := want[client.Job](c.face, 200, "GET", "/api/v1/jobs/"+j.JobID, "")
	if got.Status != "ACTIVE" || got.Schedule.NextRunAt != nil || len(c.fired(j.JobID)) != 1 {
		t.Errorf("it is %s, next %v, fired %v", got.Status, got.Schedule.NextRunAt, c.fired(j.JobID))
	}
	next := want[client.Preview](c.face, 200, "GET", "/api/v1/jobs/"+j.JobID+"/next?n=2", "")
	if len(next.Warnings) != 1 || next.Warnings[0].Code != "all-excluded" || *next.Next[0].Flag != "excluded" {
		t.Errorf("next: %+v", next)
	}
	if f := want[client.Forecast](c.face, 200, "GET", "/api/v1/forecast?hours=24", ""); len(f.Minutes) != 0 {
		t.Errorf("forecast: %+v", f.Minutes)
	}
	// A job may be made with it, and changed, meanwhile.
	made := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "INTERVAL", "every": "1h", "calendar": "c"}`, ""))
	if made.Status != "ACTIVE" || made.Schedule.NextRunAt != nil {
		t.Errorf("made: %s, %v", made.Status, made.Schedule.NextRunAt)
	}
	want[client.Job](c.face, 200, "PATCH", "/api/v1/jobs/"+made.JobID, `{"schedule": {"every": "2h"}}`)
	want[client.Calendar](c.face, 200, "PUT", path, `{}`)
	for _, id := range []string{j.JobID, made.JobID} {
		if got := want[client.Job](c.face, 200, "GET", "/api/v1/jobs/"+id, ""); got.Schedule.NextRunAt == nil || got.Schedule.NextRunAt.Sub(c.clock.Now()) > 2*time.Hour {
			t.Errorf("with another calendar the next is %v", got.Schedule.NextRunAt)
		}
	}
	c.pass(2*time.Minute, time.Second)
	if n := len(c.fired(j.JobID)); n != 3 {
		t.Errorf("%d fired when it may again", n)
	}
}

func TestAChangedCalendarReachesWhatIsStaged(t *testing.T) {
	c := newClockwork(t)
	const path = "/api/v1/calendars/c"
	want[client.Calendar](c.face, 200, "PUT", path, `{}`)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * * *", "calendar": "c", "max_runs": 9}`, ""))
	c.pass(0, 0)
	if n := len(c.fired(j.JobID)); n != 5 {
		t.Fatalf("%d staged", n)
	}
	c.clock.Advance(2 * time.Second) // two have come
	want[client.Calendar](c.face, 200, "PUT", path, `{"windows": [{"from": "2030-04-01T12:00:03", "to": "2030-04-01T12:00:10"}]}`)
	if got := c.fired(j.JobID); !slices.Equal(got, []string{"12:00:01", "12:00:02"}) {
		t.Errorf("left: %v", got)
	}
	c.pass(15*time.Second, time.Second)
	want9 := []string{"12:00:01", "12:00:02", "12:00:10", "12:00:11", "12:00:12", "12:00:13", "12:00:14", "12:00:15", "12:00:16"}
	if got := c.fired(j.JobID); !slices.Equal(got, want9) {
		t.Errorf("fired %v", got)
	}
}

// A change of a calendar is answered at once; who uses it follows in the background, and on another server from where it was.
func TestManyFollowACalendar(t *testing.T) {
	c := newClockwork(t)
	const path = "/api/v1/calendars/c"
	want[client.Calendar](c.face, 200, "PUT", path, `{"dates": ["2030-04-02"]}`)
	var batch []string
	for range 350 {
		batch = append(batch, recurs(`{"type": "CRON", "cron_expression": "0 6 * * *", "calendar": "c"}`, ""))
	}
	want[client.CreatedJobs](c.face, 201, "POST", "/api/v1/jobs:batch", "["+strings.Join(batch, ",")+"]")
	want[client.Calendar](c.face, 200, "PUT", path, `{}`)
	follow := func() (n int) {
		for _, j := range must(c.store.FindJobs(t.Context(), engine.JobFilter{Tenant: tenant.Default}, engine.Page{Limit: 1000})).Jobs {
			if j.NextRunAt.Day() == 2 {
				n++
			}
		}
		return n
	}
	if n := follow(); n != 100 {
		t.Errorf("%d follow at once", n)
	}
	first := c.service.Runner(slog.New(slog.DiscardHandler))
	if _, err := first.Tick(t.Context()); err != nil || follow() != 200 {
		t.Fatalf("%d follow after a piece, %v", follow(), err)
	}
	c.clock.Advance(time.Minute) // it died
	second := c.service.Runner(slog.New(slog.DiscardHandler))
	for range 4 {
		if _, err := second.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ops := want[client.Operations](c.face, 200, "GET", "/api/v1/operations", "").Operations
	if n := follow(); n != 350 || len(ops) != 1 || ops[0].State != "SUCCEEDED" || ops[0].Done != 250 {
		t.Errorf("%d follow; %+v", n, ops)
	}
}

func TestWithoutCatchUpAPauseLeavesNothing(t *testing.T) {
	c := newClockwork(t)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "*/10 * * * * *"}`, `, "catch_up": "none"`))
	path := "/api/v1/jobs/" + j.JobID
	want[client.Job](c.face, 200, "POST", path+"/pause", "")
	c.pass(35*time.Second, time.Second)
	want[client.Job](c.face, 200, "POST", path+"/resume", "")
	c.pass(10*time.Second, time.Second)
	if got := c.fired(j.JobID); !slices.Equal(got, []string{"12:00:40", "12:00:50"}) {
		t.Errorf("fired %v", got)
	}
	got := want[client.Occurrences](c.face, 200, "GET", path+"/occurrences?to=2030-04-01T12:00:35Z", "").Occurrences
	if len(got) != 3 || got[1].Outcome != "skipped" || *got[1].Reason != "pause" {
		t.Errorf("occurrences: %+v", got)
	}
	// A pause that ends by itself ends at its instant, which fires.
	want[client.Job](c.face, 200, "POST", path+"/pause", `{"until": "2030-04-01T12:01:20Z"}`)
	c.clock.Advance(36 * time.Second)
	for _, x := range must(c.store.Resumable(t.Context(), 10)) {
		if err := c.service.AutoResume(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	c.pass(0, 0)
	if got := c.fired(j.JobID); !slices.Equal(got, []string{"12:00:40", "12:01:20"}) && !slices.Equal(got, []string{"12:00:40", "12:00:50", "12:01:20"}) {
		t.Errorf("fired %v", got)
	}
}

func TestAForecastIsWhatFires(t *testing.T) {
	c := newClockwork(t)
	want[client.Calendar](c.face, 200, "PUT", "/api/v1/calendars/evening", `{"windows": [{"from": "2030-04-01T13:00", "to": "2030-04-01T14:00"}]}`)
	var ids []string
	for _, x := range []struct{ schedule, more, pause string }{
		{`{"type": "CRON", "cron_expression": "*/20 * * * *", "max_runs": 4}`, "", ""},
		{`{"type": "CRON", "cron_expression": "*/30 * * * *", "end_at": "2030-04-01T14:00:00Z"}`, "", ""},
		{`{"type": "CRON", "cron_expression": "*/15 * * * *", "calendar": "evening"}`, "", ""},
		{`{"type": "CRON", "cron_expression": "*/10 * * * *"}`, "", `{}`},
		{`{"type": "CRON", "cron_expression": "5/10 * * * *"}`, "", `{"until": "2030-04-01T13:31:00Z"}`},
		{`{"type": "CRON", "cron_expression": "7/10 * * * *", "max_runs": 6}`, `, "catch_up": "all"`, `{"until": "2030-04-01T12:34:00Z"}`},
		{`{"type": "CRON", "cron_expression": "8/10 * * * *"}`, `, "catch_up": "none"`, `{"until": "2030-04-01T12:38:00Z"}`},
		{`{"type": "ONE_TIME", "scheduled_time": "2030-04-01T14:00:00Z"}`, "", ""},
		{`{"type": "ONE_TIME", "scheduled_time": "2030-04-01T13:00:00Z"}`, "", `{"until": "2030-04-01T13:30:00Z"}`},
	} {
		j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(x.schedule, x.more))
		if x.pause != "" {
			want[client.Job](c.face, 200, "POST", "/api/v1/jobs/"+j.JobID+"/pause", x.pause)
		}
		ids = append(ids, j.JobID)
	}
	said := map[string]int64{}
	for _, m := range want[client.Forecast](c.face, 200, "GET", "/api/v1/forecast?hours=3", "").Minutes {
		said[m.At.Format("15:04")] = m.Count
	}
	is := map[string]int64{}
	for range 3 * 60 * 6 {
		for _, x := range must(c.store.Resumable(t.Context(), 10)) {
			if err := c.service.AutoResume(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
		c.pass(10*time.Second, 10*time.Second)
	}
	for _, id := range ids {
		for _, e := range want[client.Executions](c.face, 200, "GET", "/api/v1/jobs/"+id+"/executions?limit=1000", "").Executions {
			at := e.ScheduledTime
			if e.Trigger == "catch_up" || e.Trigger == "schedule" && e.DueAt.Sub(at) > time.Minute {
				at = e.DueAt
			}
			if e.Status != "SKIPPED" && at.Before(monday.Add(3*time.Hour)) {
				is[at.Format("15:04")]++
			}
		}
	}
	for _, minute := range append(keysOf(said), keysOf(is)...) {
		if said[minute] != is[minute] {
			t.Errorf("%s: %d were said, %d fired", minute, said[minute], is[minute])
		}
	}
	if len(said) < 20 {
		t.Errorf("too few: %v", said)
	}
}

func keysOf(m map[string]int64) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestAnotherTypeKeepsWhatItHas(t *testing.T) {
	c := newClockwork(t)
	want[client.Calendar](c.face, 200, "PUT", "/api/v1/calendars/c", `{}`)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(
		`{"type": "CRON", "cron_expression": "0 4 * * *", "timezone": "Europe/Berlin", "day": "or", "jitter_ms": 900, "start_at": "2030-05-01T00:00:00Z", "end_at": "2031-01-01T00:00:00Z", "max_runs": 7, "calendar": "c"}`, ""))
	patch := func(body string) client.JobSchedule {
		t.Helper()
		return want[client.Job](c.face, 200, "PATCH", "/api/v1/jobs/"+j.JobID, `{"schedule": `+body+`}`).Schedule
	}
	s := patch(`{"max_runs": 8}`)
	if *s.MaxRuns != 8 || *s.CronExpression != "0 4 * * *" || *s.Calendar != "c" || *s.Day != "or" || *s.Timezone != "Europe/Berlin" || *s.JitterMS != 900 || s.StartAt == nil || s.EndAt == nil {
		t.Errorf("one member: %+v", s)
	}
	s = patch(`{"type": "interval", "every": "1h"}`)
	if *s.Every != "1h" || s.CronExpression != nil || s.Day != nil || *s.MaxRuns != 8 || *s.Calendar != "c" || *s.Timezone != "Europe/Berlin" || *s.JitterMS != 900 || s.StartAt == nil || s.EndAt == nil {
		t.Errorf("an interval: %+v", s)
	}
	s = patch(`{"type": "CRON", "cron_expression": "0 5 * * *", "max_runs": null, "calendar": null}`)
	if s.Every != nil || s.MaxRuns != nil || s.Calendar != nil || *s.Timezone != "Europe/Berlin" || s.StartAt == nil {
		t.Errorf("an expression again: %+v", s)
	}
	s = patch(`{"type": "ONE_TIME", "scheduled_time": "2030-06-01T00:00:00Z"}`)
	if s.CronExpression != nil || s.Timezone != nil || s.StartAt != nil || s.EndAt != nil || *s.JitterMS != 900 {
		t.Errorf("once: %+v", s)
	}
	if p := want[client.Problem](c.face, 422, "PATCH", "/api/v1/jobs/"+j.JobID, `{"schedule": {"type": "CRON"}}`); p.Errors[0].Field != "schedule.cron_expression" {
		t.Errorf("an expression is missing: %+v", p.Errors)
	}
	if p := want[client.Problem](c.face, 422, "PATCH", "/api/v1/jobs/"+j.JobID, `{"schedule": {"type": "WEEKLY"}}`); p.Errors[0].Field != "schedule.type" {
		t.Errorf("no type: %+v", p.Errors)
	}
}

func TestTotalsOfOccurrences(t *testing.T) {
	c := newClockwork(t)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * * *"}`, ""))
	path := "/api/v1/jobs/" + j.JobID + "/occurrences?limit=3&to="
	for until, total := range map[string]int64{"12:00:03": 2, "12:01:01": 60, "14:00:00": 7199} {
		page := want[client.Occurrences](c.face, 200, "GET", path+"2030-04-01T"+until+"Z", "")
		if page.Pagination.Total != total || page.Pagination.TotalIsEstimate {
			t.Errorf("to %s: %+v, want %d", until, page.Pagination, total)
		}
		if page.Pagination.NextCursor == nil {
			continue
		}
		if more := want[client.Occurrences](c.face, 200, "GET", path+"2030-04-01T"+until+"Z&cursor="+*page.Pagination.NextCursor, ""); more.Pagination.Total != total {
			t.Errorf("to %s, page 2: %+v, want %d", until, more.Pagination, total)
		}
	}
	page := want[client.Occurrences](c.face, 200, "GET", path+"2030-05-01T12:00:00Z", "")
	if n := page.Pagination.Total; !page.Pagination.TotalIsEstimate || n < 2_590_000 || n > 2_594_000 {
		t.Errorf("a month: %+v", page.Pagination)
	}
	// The runs that are left are counted over all pages.
	few := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * *", "max_runs": 5}`, ""))
	path = "/api/v1/jobs/" + few.JobID + "/occurrences?limit=2"
	var n int
	for cursor := ""; ; {
		page := want[client.Occurrences](c.face, 200, "GET", path+cursor, "")
		if n += len(page.Occurrences); page.Pagination.NextCursor == nil || n > 10 {
			break
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
	if n != 5 {
		t.Errorf("%d occurrences of 5 runs", n)
	}
}

// A backfill that another server takes up continues where it was, and says so.
func TestABackfillGoesOn(t *testing.T) {
	c := newClockwork(t)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * *"}`, ""))
	path := "/api/v1/jobs/" + j.JobID
	const range1 = `{"from": "2030-03-31T00:00:00Z", "to": "2030-04-01T00:00:00Z"}`
	o := want[client.Begun](c.face, 202, "POST", path+"/backfill", range1)
	log := slog.New(slog.DiscardHandler)
	first := c.service.Runner(log)
	for range 2 {
		if _, err := first.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	op := want[client.Operation](c.face, 200, "GET", "/api/v1/operations/"+o.OperationID, "")
	if op.Total != 1440 || op.Done != 1000 || op.State != "RUNNING" {
		t.Fatalf("after two pieces: %+v", op)
	}
	// Another one over the same instants adds none that are live.
	o2 := want[client.Begun](c.face, 202, "POST", path+"/backfill", strings.Replace(range1, "}", `, "only_missing": false}`, 1))
	c.clock.Advance(time.Minute)
	looked := &counting{Store: c.store}
	second := service.New(looked, c.clock, service.Config{LookAhead: 5 * time.Second}).Runner(log)
	for range 6 {
		if _, err := second.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if op = want[client.Operation](c.face, 200, "GET", "/api/v1/operations/"+o.OperationID, ""); op.Done != 1440 || op.State != "SUCCEEDED" || op.Error != nil {
		t.Errorf("at the end: %+v", op)
	}
	op = want[client.Operation](c.face, 200, "GET", "/api/v1/operations/"+o2.OperationID, "")
	if op.Done != 0 || op.State != "SUCCEEDED" || op.Error == nil || !strings.Contains(*op.Error, "1440 passed over") {
		t.Errorf("the other: %+v", op)
	}
	if looked.first.Before(monday.AddDate(0, 0, -1).Truncate(24 * time.Hour).Add(1000 * time.Minute)) {
		t.Errorf("it began at %v again", looked.first)
	}
	if got := must(c.store.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: tenant.Default, Job: ref(j.JobID).ID, Until: monday}, engine.Page{Limit: 1})).Total.Count; got != 1440 {
		t.Errorf("%d executions", got)
	}
	// One that is cancelled does no more.
	o = want[client.Begun](c.face, 202, "POST", path+"/backfill", `{"from": "2030-03-01T00:00:00Z", "to": "2030-03-02T00:00:00Z", "rate_per_s": 10}`)
	if _, err := second.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	want[client.Operation](c.face, 202, "POST", "/api/v1/operations/"+o.OperationID+"/cancel", "")
	for range 3 {
		c.clock.Advance(time.Second)
		if _, err := second.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if op = want[client.Operation](c.face, 200, "GET", "/api/v1/operations/"+o.OperationID, ""); op.State != "CANCELLED" || op.Done > 2 {
		t.Errorf("cancelled: %+v", op)
	}
}

// counting notes the first instant that is backfilled.
type counting struct {
	engine.Store
	first time.Time
}

func (c *counting) Backfill(ctx context.Context, t tenant.ID, of core.ID, es []core.Execution) ([]core.ExecutionID, error) {
	if c.first.IsZero() {
		c.first = es[0].ScheduledAt
	}
	return c.Store.Backfill(ctx, t, of, es)
}

// Who holds a unique key is judged when an instant comes, not when it is near.
func TestAUniqueKeyIsJudgedWhenDue(t *testing.T) {
	c := newClockwork(t)
	holder := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", `{"name": "holder", "unique_key": "u", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "*/10 * * * * *"}`, `, "unique_key": "u"`))
	c.pass(9*time.Second, time.Second) // the instant is near, and the key is held
	if got := want[client.Executions](c.face, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions", ""); len(got.Executions) != 0 {
		t.Fatalf("judged early: %+v", got.Executions)
	}
	want[client.Execution](c.face, 202, "POST", "/api/v1/executions/"+holder.ExecutionID+"/cancel", "")
	c.pass(time.Second, time.Second)
	if got := c.fired(j.JobID); !slices.Equal(got, []string{"12:00:10"}) {
		t.Errorf("free when it was due: fired %v", got)
	}
	c.pass(11*time.Second, time.Second) // now its own earlier one holds it
	if got := c.fired(j.JobID); !slices.Equal(got, []string{"12:00:10"}) {
		t.Errorf("held when it was due: fired %v", got)
	}
}

// What has come and was not fired when a schedule changes is owed, by the schedule as it is then.
func TestWhatIsOwedIsKept(t *testing.T) {
	c := newClockwork(t)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "*/10 * * * *"}`, `, "catch_up": "all"`))
	c.clock.Advance(35 * time.Minute) // nobody fired
	want[client.Job](c.face, 200, "PATCH", "/api/v1/jobs/"+j.JobID, `{"schedule": {"cron_expression": "*/5 * * * *"}}`)
	c.pass(0, 0)
	if got := c.fired(j.JobID); !slices.Equal(got, []string{"12:10:00", "12:15:00", "12:20:00", "12:25:00", "12:30:00", "12:35:00"}) {
		t.Errorf("fired %v", got)
	}
	// What is not owed is planned from now on: an earlier instant of the new schedule does not fire.
	c.pass(4*time.Minute, time.Second)
	want[client.Job](c.face, 200, "PATCH", "/api/v1/jobs/"+j.JobID, `{"schedule": {"cron_expression": "* * * * *"}}`)
	c.pass(time.Minute, time.Second)
	if got := c.fired(j.JobID); fmt.Sprint(got[6:]) != "[12:40:00]" {
		t.Errorf("fired %v", got[6:])
	}
}

func TestLimitsOfShortLists(t *testing.T) {
	c := newClockwork(t)
	j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", noop)
	for _, list := range []string{"/executions/" + j.ExecutionID + "/attempts", "/executions/" + j.ExecutionID + "/events", "/calendars"} {
		c.ask("GET", "/api/v1"+list, "")
		want[map[string]any](c.face, 200, "GET", "/api/v1"+list+"?limit=1", "")
		for _, q := range []string{"?limit=0", "?limit=1001", "?limit=x", "?lim=1", "?cursor=x"} {
			if p := want[client.Problem](c.face, 400, "GET", "/api/v1"+list+q, ""); q != "?cursor=x" && len(p.Errors) != 1 {
				t.Errorf("%s%s: %+v", list, q, p)
			}
		}
	}
}

// A preview may try a calendar, and errors say what is meant.
func TestPreviewsAsTheyAreRead(t *testing.T) {
	c := newClockwork(t)
	want[client.Calendar](c.face, 200, "PUT", "/api/v1/calendars/none", noDay)
	want[client.Calendar](c.face, 200, "PUT", "/api/v1/calendars/years", `{"windows": [{"from": "2030-01-01", "to": "2033-01-01"}]}`)
	for calendar, code := range map[string]string{"none": "all-excluded", "years": "long-excluded"} {
		p := want[client.Preview](c.face, 200, "POST", "/api/v1/schedules/preview", `{"cron_expression": "0 9 * * *", "n": 1, "calendar": "`+calendar+`"}`)
		if len(p.Warnings) != 1 || p.Warnings[0].Code != code || *p.Next[0].Flag != "excluded" {
			t.Errorf("%s: %+v", calendar, p)
		}
	}
	for body, says := range map[string]string{
		`{"cron_expression": "0 25 * * *"}`:                                   `cron_expression is "0 25 * * *", want 0-23 in the hour field, not 25 (position 3).`,
		`{"every": "0s"}`:                                                     `every is "0s", want at least 1s`,
		`{"every": "90s", "day": "or"}`:                                       `want no day with every.`,
		`{"every": "90s", "calendar": "nope"}`:                                `calendar is "nope", want the name of a calendar that exists`,
		`{"every": "2h", "from": "9999-12-31T23:00:00Z"}`:                     `want a schedule that fires after 9999-12-31T23:00:00Z`,
		`{"cron_expression": "@fortnightly"}`:                                 `cron_expression is "@fortnightly", want @yearly`,
		`{"cron_expression": "0 9 * * *", "timezone": "Europe/Berln"}`:        `timezone is "Europe/Berln", want an IANA zone name`,
		`{"cron_expression": "0 9 * * *", "timezone": "UTC", "calendar": ""}`: `calendar: want the name of a calendar`,
	} {
		if p := want[client.Problem](c.face, 422, "POST", "/api/v1/schedules/preview", body); !strings.Contains(p.Detail, says) {
			t.Errorf("%s: %s", body, p.Detail)
		}
	}
	p := want[client.Problem](c.face, 422, "POST", "/api/v1/jobs", recurs(`{"type": "CRON", "cron_expression": "* * * * *", "end_at": "2020-01-01T00:00:00Z"}`, ""))
	if len(p.Errors) != 1 || p.Errors[0].Field != "schedule.end_at" || !strings.Contains(p.Errors[0].Want, "2030-04-01T12:01:00Z") {
		t.Errorf("over: %+v", p.Errors)
	}
	for schedule, says := range map[string]string{
		`{"cron_expression": "0 9 * * *", "timezone": "Europe/Berlin"}`: "type CRON beside it",
		`{"every": "90s"}`: "type INTERVAL beside it",
		`{"type": "IMMEDIATE", "cron_expression": "0 9 * * *"}`: "; use type CRON",
	} {
		if p := want[client.Problem](c.face, 422, "POST", "/api/v1/jobs", recurs(schedule, "")); len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Want, says) {
			t.Errorf("%s: %+v; want one problem with %q", schedule, p.Errors, says)
		}
	}
}
