package api

import (
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
)

// The sentence says no more than is known.
func TestJudged(t *testing.T) {
	for _, c := range []struct {
		of       client.Overview
		health   string
		sentence string
	}{
		{client.Overview{Schedules: 12}, "ok", "All 12 schedules on time; nothing failing."},
		{client.Overview{Schedules: 873_221, SchedulesIsEstimate: true}, "ok", "All of about 873,221 schedules on time; nothing failing."},
		{client.Overview{Schedules: 20_000, SchedulesIsEstimate: true, LateJobs: 3, LateJobsIsMinimum: true}, "warning", "At least 3 of about 20,000 schedules late; nothing failing."},
		{client.Overview{Schedules: 12, LateJobsIsMinimum: true}, "warning", "So many schedules of all tenants are late that not all of the 12 schedules here were looked at; nothing failing."},
		{client.Overview{Schedules: 12, FailingJobs: 1, FailingIsMinimum: true}, "warning", "All 12 schedules on time; at least 1 job failing."},
		{client.Overview{Schedules: 12, FailingIsMinimum: true}, "ok", "All 12 schedules on time; nothing failing of what was looked at."},
		{client.Overview{Schedules: 5, Delay: client.DelayTotal{Fired: 40, Within5s: 39, P99Seconds: new(7.0)}, FailingJobs: 9}, "critical", "All 5 schedules on time now; p99 delay 7.0 s, 1 of the last hour's fires more than 5 s late; 9 jobs failing."},
		{client.Overview{Schedules: 5, Delay: client.DelayTotal{Fired: 4000, Within5s: 3999, P99Seconds: new(0.2)}}, "ok", "All 5 schedules on time now; p99 delay 200 ms; nothing failing."},
		{client.Overview{Queued: 60_000}, "critical", "No schedules; nothing failing; no worker for the 60,000 executions waiting."},
	} {
		health, sentence, findings := judged(&c.of)
		if health != c.health || sentence != c.sentence {
			t.Errorf("got %s, %q, want %s, %q", health, sentence, c.health, c.sentence)
		}
		if worst := slices.ContainsFunc(findings, func(f client.Finding) bool { return f.Health == c.health }); !worst {
			t.Errorf("%s, which no part is: %+v", health, findings)
		}
	}
}

// What changed is listed in order, credentials that are hidden among the rest.
func TestRevisedInOrder(t *testing.T) {
	made := func(v, name string) (j job.Job) {
		j.Name, j.Target.Kind = name, job.HTTP
		j.Target.Headers = map[string]string{"X-B": v, "Authorization": v, "Cookie": v, "X-Api-Key": v, "Proxy-Authorization": v}
		j.Target.Env = map[string]string{"A_PASSWORD": v, "B_TOKEN": v, "C": v}
		return j
	}
	for range 20 {
		var got []string
		for _, c := range revised(made("1", "was"), made("2", "is")) {
			got = append(got, c.Field)
		}
		if len(got) != 9 || !slices.IsSorted(got) {
			t.Fatalf("got %q", got)
		}
	}
}
