package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var (
	failureParams = []param{
		{"hours", "integer", "How far back, 1 to 168; default 24. Starts at a full hour."},
		{"job_id", "string", "The job's id, or its key as key:…"},
		{"limit", "integer", "How many groups, 1 to 100; default 20."},
	}
	deadGroupParams = append(append([]param{}, deadLetterParams[:len(deadLetterParams)-len(pageParams)]...), param{"limit", "integer", "How many groups, 1 to 100; default 20."})
	calendarParams  = []param{
		{"from", "string", "The first day, such as 2026-01-31, in UTC; default: a year ago."},
		{"to", "string", "The day after the last; default: tomorrow. At most 366 days."},
	}
	runsParams = []param{
		{"ids", "string", "1 to 100 job ids, separated by commas."},
		{"n", "integer", "Executions per job, 1 to 50; default 30."},
	}
)

// screenRoutes returns the routes that summarise a tenant or a job.
func (s viewAPI) screenRoutes() []route {
	return []route{
		{
			method: "POST", path: "/api/v1/executions:bulk", needs: tenant.Write, group: "Executions", summary: "Cancel or retry many executions, by ids or by a filter",
			detail: "With dry_run the response is 200 with their number and the first of them. Otherwise it is 202 with an operation that does it in the background. Executions scheduled after the request are not included.",
			body:   of[client.ExecutionBulkRequest](), sample: `{"action": "retry", "filter": {"status": "FAILED", "tag": "reporting"}, "dry_run": true}`, status: 202, also: 200, answer: of[client.ExecutionBulkBegun](), handle: executionAPI{s.Server}.bulkExecutions,
		},
		{
			method: "GET", path: "/api/v1/overview", needs: tenant.Read, group: "Overview", summary: "Read the tenant's health, in one sentence and in numbers",
			status: 200, answer: of[client.Overview](), handle: s.overview,
		},
		{
			method: "GET", path: "/api/v1/series", needs: tenant.Read, group: "Overview", summary: "Read execution counts by minute, for 24 hours",
			detail: "Each server counts, and stores its counts every five seconds.", params: seriesParams, status: 200, answer: of[client.Series](), handle: s.series,
		},
		{
			method: "GET", path: "/api/v1/series/delays", needs: tenant.Read, group: "Overview", summary: "Read how late schedules fired, by time and delay",
			params: seriesParams, status: 200, answer: of[client.DelaySeries](), handle: s.delaySeries,
		},
		{
			method: "GET", path: "/api/v1/series/queues", needs: tenant.Read, group: "Overview", summary: "Read how much waited and ran in each queue",
			detail: "Sampled once a minute; a longer step shows its maximum.", params: seriesParams, status: 200, answer: of[client.QueueSeries](), handle: s.queueSeries,
		},
		{
			method: "GET", path: "/api/v1/failures", needs: tenant.Read, group: "Overview", summary: "List failures, grouped by fingerprint",
			detail: "Errors that differ only in numbers, ids and quoted text are one group. Kept for a week.",
			params: failureParams, status: 200, answer: of[client.Failures](), handle: s.listFailures,
		},
		{
			method: "GET", path: "/api/v1/dead-letters:groups", needs: tenant.Read, group: "Dead letters", summary: "Group dead letters by the fingerprint of their error",
			detail: "Covers the newest 2000 that match the filter.", params: deadGroupParams, status: 200, answer: of[client.DeadLetterGroups](), handle: s.deadLetterGroups,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/calendar", needs: tenant.Read, group: "Jobs", summary: "Read the outcomes of a job's executions, by day",
			params: calendarParams, status: 200, answer: of[client.JobCalendar](), handle: s.jobCalendar,
		},
		{
			method: "GET", path: "/api/v1/jobs:runs", needs: tenant.Read, group: "Jobs", summary: "List the last executions of several jobs, in brief",
			params: runsParams, status: 200, answer: of[client.JobRuns](), handle: s.jobRuns,
		},
		{
			method: "GET", path: "/api/v1/jobs/{id}/revisions", needs: tenant.Read, group: "Jobs", summary: "List the revisions of a job: who changed it, when and how",
			detail: "Latest first, starting with the current one. The last 50 replaced revisions are kept.", params: pageParams, status: 200, answer: of[client.JobRevisions](), handle: jobAPI{s.Server}.jobRevisions,
		},
		{
			method: "POST", path: "/api/v1/jobs/{id}/revisions/{revision}/restore", needs: tenant.Write, group: "Jobs", summary: "Restore an earlier revision of a job",
			detail: "Creates a new revision; If-Match works as in a change. The job keeps its current credentials; you get 409 if it no longer has one that the revision needs.",
			status: 200, answer: of[client.Job](), handle: jobAPI{s.Server}.restoreJob,
		},
	}
}

func (s viewAPI) listFailures(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, failureParams)
	if err != nil {
		return err
	}
	hours, limit := q.number("hours", 24, 1, 168), q.number("limit", 20, 1, 100)
	var of *engine.Ref
	if text := q.text("job_id"); text != "" {
		ref, err := parseRef(text)
		if err != nil {
			q.wrong("job_id", text, "a job's id, or its key as key:…")
		}
		of = &ref
	}
	if err := q.err(); err != nil {
		return err
	}
	got, err := s.service.Failures(r.Context(), p, of, time.Duration(hours)*time.Hour, limit)
	if err != nil {
		return err
	}
	out := client.Failures{From: got.From, To: got.To, Failed: got.Failed, Retried: got.Retried, Partial: got.Partial, Groups: make([]client.FailureGroup, len(got.Groups))}
	for i, g := range got.Groups {
		x := client.FailureGroup{
			Fingerprint: g.Fingerprint.String(), Type: string(g.Type), Message: g.Message, SampleMessage: g.Sample, Failed: g.Failed, Retried: g.Retried,
			FirstSeen: g.First, LastSeen: g.Last, SampleExecutionID: g.Execution.String(), Jobs: make([]client.FailingJob, len(g.Jobs)), JobsTotal: g.JobsTotal,
			Text: optional(job.Literal(g.Message)),
		}
		if !g.Job.IsZero() {
			x.SampleJobID = new(g.Job.String())
		}
		if g.Fingerprint == (job.Fingerprint{}) {
			x.Message, x.Text = "others", nil
		}
		for k, j := range g.Jobs {
			x.Jobs[k] = client.FailingJob{JobID: j.ID.String(), Name: j.Name, Failed: j.Failed, Retried: j.Retried}
		}
		out.Groups[i] = x
	}
	return reply(w, 200, out)
}

func (s viewAPI) deadLetterGroups(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, deadGroupParams)
	if err != nil {
		return err
	}
	f, limit := q.deadLetters(), q.number("limit", 20, 1, 100)
	if err := q.err(); err != nil {
		return err
	}
	got, err := s.service.DeadGroups(r.Context(), p, f, limit)
	if err != nil {
		return err
	}
	out := client.DeadLetterGroups{
		Total: got.Total.Count, TotalIsEstimate: got.Total.Estimate, LookedAt: got.Looked, Partial: got.Partial, Groups: make([]client.DeadLetterGroup, len(got.Groups)),
	}
	for i, g := range got.Groups {
		x := client.DeadLetterGroup{
			Fingerprint: g.Fingerprint.String(), Type: string(g.Type), Message: g.Message, SampleMessage: g.Sample, Count: g.Failed,
			FirstSeen: g.First, LastSeen: g.Last, SampleExecutionID: g.Execution.String(), SampleJobID: g.Job.String(),
			Jobs: make([]client.DeadLetterJob, len(g.Jobs)), JobsTotal: g.JobsTotal, Reasons: map[string]int64{}, Text: optional(job.Literal(g.Message)),
		}
		for why, n := range g.Reasons {
			x.Reasons[string(why)] = n
		}
		for k, j := range g.Jobs {
			x.Jobs[k] = client.DeadLetterJob{JobID: j.ID.String(), Name: j.Name, Count: j.Failed}
		}
		out.Groups[i] = x
	}
	return reply(w, 200, out)
}

const calendarDays = 366

func (s viewAPI) jobCalendar(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return err
	}
	q, err := parseQuery(r, calendarParams)
	if err != nil {
		return err
	}
	day := func(name string, otherwise time.Time) time.Time {
		text := q.values.Get(name)
		if text == "" {
			return otherwise
		}
		t, err := time.Parse(time.DateOnly, text)
		if err != nil || t.Year() < 2000 || t.Year() > 9998 {
			q.wrong(name, text, "a date, such as 2026-01-31")
			return otherwise
		}
		return t
	}
	to := day("to", s.service.Today().AddDate(0, 0, 1))
	from := day("from", to.AddDate(0, 0, -calendarDays))
	if q.err() == nil && (!from.Before(to) || to.Sub(from) > calendarDays*24*time.Hour) {
		q.wrong("from", from.Format(time.DateOnly), fmt.Sprintf("a day before %s, by at most %d days", to.Format(time.DateOnly), calendarDays))
	}
	if err := q.err(); err != nil {
		return err
	}
	got, err := s.service.JobCalendar(r.Context(), p, ref, from, to)
	if err != nil {
		return err
	}
	out := client.JobCalendar{
		JobID: got.Job.String(), From: from.Format(time.DateOnly), To: to.Format(time.DateOnly), Total: client.DayCounts(got.Total), Days: make([]client.CalendarDay, len(got.Days)),
	}
	for i, d := range got.Days {
		out.Days[i] = client.CalendarDay{Date: d.Day.Format(time.DateOnly), DayCounts: client.DayCounts(d.DayCounts)}
	}
	return reply(w, 200, out)
}

const maxRunsOf = 100

func (s viewAPI) jobRuns(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, runsParams)
	if err != nil {
		return err
	}
	n := q.number("n", 30, 1, 50)
	texts := strings.Split(q.values.Get("ids"), ",")
	var ids []job.ID
	if len(texts) > maxRunsOf {
		q.wrong("ids", fmt.Sprintf("%d ids", len(texts)), fmt.Sprintf("1 to %d job ids, separated by commas", maxRunsOf))
		texts = nil
	}
	for _, text := range texts {
		id, err := job.ParseID(text)
		if err != nil {
			q.wrong("ids", text, fmt.Sprintf("1 to %d job ids, separated by commas", maxRunsOf))
			break
		}
		ids = append(ids, id)
	}
	if err := q.err(); err != nil {
		return err
	}
	got, err := s.service.LastRuns(r.Context(), p, ids, n)
	if err != nil {
		return err
	}
	out := client.JobRuns{Jobs: make([]client.LastRuns, len(got))}
	for i, x := range got {
		j := client.LastRuns{JobID: x.Job.String(), Runs: make([]client.Run, len(x.Runs)), Stats: wireStats(x.Stats)}
		for k, e := range x.Runs {
			j.Runs[k] = client.Run{ExecutionID: e.ID.String(), Status: e.Status.String(), ScheduledTime: e.ScheduledAt, StartedAt: instant(e.StartedAt)}
			if !e.StartedAt.IsZero() && !e.FinishedAt.IsZero() {
				j.Runs[k].DurationMS = new(max(0, e.FinishedAt.Sub(e.StartedAt)).Milliseconds())
			}
		}
		out.Jobs[i] = j
	}
	return reply(w, 200, out)
}

func (s viewAPI) overview(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if err := noParams(r); err != nil {
		return err
	}
	o, err := s.service.Overview(r.Context(), p)
	if err != nil {
		return err
	}
	load, err := s.cfg.Dispatch.LoadOf(engine.Unconfined(r.Context()), p.Tenant)
	if err != nil {
		return err
	}
	out := client.Overview{
		Schedules: o.Schedules.Count, SchedulesIsEstimate: o.Schedules.Estimate, Paused: o.Paused.Count, LateJobs: o.Late.Count, LateJobsIsMinimum: o.Late.Estimate,
		Late: make([]client.LateJob, len(o.LateJobs)), Delay: wireDelays(&o.Hour), FailingJobs: o.Failing.Count, FailingIsMinimum: o.Failing.Estimate,
		Failing: make([]client.FailingSummary, len(o.FailingJobs)), Running: load.Running,
		Queued: load.Waiting + load.Paused, QueuedPaused: load.Paused,
		OldestQueuedSeconds: age(load.Oldest, o.Now), DeadLetters: o.DeadLetters.Count, DeadLettersIsEstimate: o.DeadLetters.Estimate, Workers: o.Workers, LastHour: wireTotal(&o.Hour),
	}
	for i, j := range o.LateJobs {
		out.Late[i] = client.LateJob{JobID: j.ID.String(), Name: j.Name, NextRunAt: j.NextRunAt, LateSeconds: inSeconds(o.Now.Sub(j.NextRunAt))}
	}
	for i, f := range o.FailingJobs {
		out.Failing[i] = client.FailingSummary{
			JobID: f.ID.String(), Name: f.Name, LastStatus: f.Last.String(), Failed24h: f.Failed, LastFailedAt: f.At, Type: string(f.Type), Message: f.Message,
		}
		if f.Execution != (job.ExecutionID{}) {
			out.Failing[i].LastExecutionID = new(f.Execution.String())
		}
	}
	out.Health, out.Sentence, out.Findings = judged(&out)
	return reply(w, 200, out)
}

// judged returns the verdict on a tenant: each part in a word and in a sentence. Screens and commands repeat it and
// judge nothing themselves.
func judged(o *client.Overview) (health, sentence string, findings []client.Finding) {
	find := func(about, health, text string) {
		findings = append(findings, client.Finding{About: about, Health: health, Text: text})
	}
	about := ""
	if o.SchedulesIsEstimate {
		about = "about "
	}
	were := o.Delay.Fired - o.Delay.Within5s // fired late within the last hour
	onTime := "on time"
	if were > 0 {
		onTime = "on time now"
	}
	switch {
	case o.Schedules == 0:
		find("schedules", "ok", "no schedules")
	case o.LateJobs == 0 && o.LateJobsIsMinimum:
		find("schedules", "warning", fmt.Sprintf("so many schedules of all tenants are late that not all of the %s%s here were looked at", about, countOf(o.Schedules, "schedule")))
	case o.LateJobs == 0 && o.Schedules == 1:
		find("schedules", "ok", "the one schedule is "+onTime)
	case o.LateJobs == 0 && o.SchedulesIsEstimate:
		find("schedules", "ok", fmt.Sprintf("all of about %s schedules %s", grouped(o.Schedules), onTime))
	case o.LateJobs == 0:
		find("schedules", "ok", fmt.Sprintf("all %s schedules %s", grouped(o.Schedules), onTime))
	default:
		find("schedules", "warning", fmt.Sprintf("%s of %s%s late", atLeast(o.LateJobsIsMinimum, grouped(o.LateJobs)), about, countOf(o.Schedules, "schedule")))
	}
	if o.Delay.P99Seconds != nil {
		text, health := "p99 delay "+shortly(*o.Delay.P99Seconds), "ok"
		if were > 0 && were*100 >= o.Delay.Fired {
			health = "critical"
			text += fmt.Sprintf(", %s of the last hour's fires more than 5 s late", grouped(were))
		}
		find("delays", health, text)
	}
	switch {
	case o.FailingJobs > 0:
		find("failures", "warning", atLeast(o.FailingIsMinimum, countOf(o.FailingJobs, "job"))+" failing")
	case o.FailingIsMinimum:
		find("failures", "ok", "nothing failing of what was looked at")
	default:
		find("failures", "ok", "nothing failing")
	}
	if could := o.Queued - o.QueuedPaused; o.Workers == 0 && could > 0 {
		find("workers", "critical", "no worker for the "+countOf(int64(could), "execution")+" waiting")
	}
	if o.QueuedPaused > 0 {
		find("queues", "ok", countOf(int64(o.QueuedPaused), "execution")+" in paused queues")
	}
	says := make([]string, len(findings))
	health = "ok"
	for i, f := range findings {
		says[i] = f.Text
		if f.Health == "critical" || f.Health == "warning" && health == "ok" {
			health = f.Health
		}
	}
	sentence = strings.Join(says, "; ") + "."
	return health, strings.ToUpper(sentence[:1]) + sentence[1:], findings
}

// atLeast formats a number that is a lower bound.
func atLeast(more bool, text string) string {
	if more {
		return "at least " + text
	}
	return text
}

// countOf formats a number of things.
func countOf(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return grouped(n) + " " + thing
}

// shortly formats a duration in seconds for people.
func shortly(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.0f ms", s*1000)
	}
	return fmt.Sprintf("%.1f s", s)
}

// grouped formats a number with commas.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
