package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/explain"
	"github.com/carillon-jobs/carillon/internal/core/job"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// waiting is an execution that has been due for a minute.
func waiting(change ...func(*explain.Situation)) explain.Situation {
	s := explain.Situation{
		Execution: job.Execution{
			ID: job.ExecutionID{1}, Status: job.Pending, DueAt: now.Add(-time.Minute), ScheduledAt: now.Add(-time.Minute), MaxAttempts: 4,
			Class: job.Needs{Target: job.HTTP, Queue: "mail", Labels: []string{"eu", "gpu"}}.Class(),
		},
		Workers: []job.Worker{worker(func(w *job.Worker) {})}, Now: now,
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func worker(change func(*job.Worker)) job.Worker {
	w := job.Worker{Targets: []string{"http"}, Labels: []string{"eu", "gpu"}, Capacity: 4, ExpiresAt: now.Add(time.Minute)}
	change(&w)
	return w
}

func finished(status job.Status, e *job.Error, change ...func(*explain.Situation)) explain.Situation {
	return waiting(append([]func(*explain.Situation){func(s *explain.Situation) {
		x := &s.Execution
		x.Status, x.Error, x.FinishedAt, x.StartedAt, x.LeasedAt, x.Attempt = status, e, now, now.Add(-30*time.Second), now.Add(-30*time.Second), 4
		x.Tries = 4
	}}, change...)...)
}

func TestExplain(t *testing.T) {
	failed := job.PastAttempt{Number: 1, Token: 7, EndedAt: now.Add(-time.Second), Error: job.Error{Type: job.HTTPError, Message: "answered 503", HTTPStatus: 503}}
	retry := func(s *explain.Situation) {
		s.Execution.Status, s.Execution.Tries, s.Execution.Attempt = job.Retrying, 1, 1
		s.Execution.DueAt, s.Attempts = now.Add(8*time.Second), []job.PastAttempt{failed}
	}
	for name, c := range map[string]struct {
		s     explain.Situation
		code  explain.Code
		says  []string
		start time.Time
	}{
		"not due": {
			waiting(func(s *explain.Situation) { s.Execution.DueAt = now.Add(90 * time.Minute) }), explain.NotDue,
			[]string{"not due until 2026-03-04 13:30:00Z", "in 90 min"}, now.Add(90 * time.Minute),
		},
		"a paused queue, and no worker": {
			waiting(func(s *explain.Situation) {
				s.Workers, s.Pause = nil, job.Pause{At: now.Add(-time.Hour), Until: now.Add(time.Hour), By: "ann", Reason: "the mail server is moved."}
			}), explain.QueuePaused,
			[]string{`Its queue "mail" is paused since 2026-03-04 11:00:00Z, by ann, until 2026-03-04 13:00:00Z, because: the mail server is moved.`}, time.Time{},
		},
		"a queue whose pause is over": {
			waiting(func(s *explain.Situation) { s.Pause = job.Pause{At: now.Add(-time.Hour), Until: now} }), explain.Ready, nil, now,
		},
		"retry": {waiting(retry), explain.Backoff, []string{"Attempt 1 of 4 failed (HTTP_ERROR: answered 503)", "12:00:08Z"}, now.Add(8 * time.Second)},
		"breaker": {
			waiting(retry, func(s *explain.Situation) {
				s.Events = []job.Event{{Kind: job.EventSnoozed, Token: 8, At: now, Note: "https://x.example is taken to be down after 5 failures in a row, and calls to it are put off; the last failure: answered 503"}}
			}), explain.Breaker, []string{"put off until 2026-03-04 12:00:08Z", "x.example"}, now.Add(8 * time.Second),
		},
		"a host at its limit": {
			waiting(retry, func(s *explain.Situation) {
				s.Events = []job.Event{{Kind: job.EventSnoozed, Token: 8, At: now, Note: "calls to x.example:443 are put off: this process starts at most 5 a second"}}
			}), explain.Snoozed, []string{"Calls to its target's host are limited, and this one is put off until 2026-03-04 12:00:08Z", "x.example:443"}, now.Add(8 * time.Second),
		},
		"an older snooze": {
			waiting(retry, func(s *explain.Situation) {
				s.Events = []job.Event{{Kind: job.EventSnoozed, Token: 6, At: now, Note: "later"}}
			}),
			explain.Backoff, []string{"Attempt 1 of 4"}, now.Add(8 * time.Second),
		},
		"snoozed": {
			waiting(func(s *explain.Situation) {
				s.Execution.DueAt, s.Events = now.Add(time.Hour), []job.Event{{Kind: job.EventSnoozed, Token: 6, At: now, Note: "the quota is used up"}}
			}), explain.Snoozed, []string{"asked for it again at 2026-03-04 13:00:00Z", "quota"}, now.Add(time.Hour),
		},
		"paused": {
			waiting(func(s *explain.Situation) {
				s.Execution.Status = job.Waiting
				s.Job = job.Job{State: job.Paused, PausedAt: now.Add(-time.Hour), PausedTill: now.Add(time.Hour), PauseNote: "maintenance"}
			}), explain.Paused, []string{"since 2026-03-04 11:00:00Z until 2026-03-04 13:00:00Z (maintenance)"}, now.Add(time.Hour),
		},
		"paused, and not held yet": {
			waiting(func(s *explain.Situation) {
				s.Execution.Trigger, s.Job = job.BySchedule, job.Job{State: job.Paused, PausedAt: now.Add(-time.Hour)}
			}), explain.Paused, []string{"Its job is paused since 2026-03-04 11:00:00Z"}, time.Time{},
		},
		"triggered during a pause": {
			waiting(func(s *explain.Situation) { s.Execution.Trigger, s.Job = job.ByHand, job.Job{State: job.Paused} }), explain.Ready, nil, now,
		},
		"a run": {
			waiting(func(s *explain.Situation) {
				s.Workers, s.Execution.Class = nil, job.Needs{Target: job.Workflow, Queue: "mail"}.Class()
			}), explain.Ready, []string{"begin at any moment"}, time.Time{},
		},
		"no worker":     {waiting(func(s *explain.Situation) { s.Workers = nil }), explain.NoWorkers, []string{"no worker"}, time.Time{}},
		"a dead worker": {waiting(func(s *explain.Situation) { s.Workers[0].ExpiresAt = now.Add(-time.Second) }), explain.NoWorkers, []string{"no worker"}, time.Time{}},
		"all drain":     {waiting(func(s *explain.Situation) { s.Workers[0].Draining = true }), explain.NoWorkers, []string{"no worker"}, time.Time{}},
		"one drains": {waiting(func(s *explain.Situation) {
			s.Workers[0].Draining = true
			s.Workers = append(s.Workers, worker(func(w *job.Worker) { w.Targets = []string{"command"} }))
		}), explain.NoMatch, []string{"1 worker that could run it takes nothing new (draining or cordoned)"}, time.Time{}},
		"another target": {waiting(func(s *explain.Situation) { s.Workers[0].Targets = []string{"command"} }), explain.NoMatch, []string{`the target "http"`, "workers (1)"}, time.Time{}},
		"another label":  {waiting(func(s *explain.Situation) { s.Workers[0].Labels = []string{"eu"} }), explain.NoMatch, []string{`the label "gpu"`}, time.Time{}},
		"another queue":  {waiting(func(s *explain.Situation) { s.Workers[0].Queues = []string{"default"} }), explain.NoMatch, []string{`the queue "mail"`}, time.Time{}},
		"not in one": {
			waiting(func(s *explain.Situation) {
				s.Workers = []job.Worker{worker(func(w *job.Worker) { w.Labels = []string{"eu"} }), worker(func(w *job.Worker) { w.Labels = []string{"gpu"} })}
			}), explain.NoMatch, []string{"workers (2)", "together"}, time.Time{},
		},
		"another kind": {
			waiting(func(s *explain.Situation) {
				s.Execution.Class = job.Needs{Target: job.Handler, Kind: "mail"}.Class()
				s.Workers[0].Targets = []string{"worker"}
			}),
			explain.NoMatch, []string{`the kind "mail"`}, time.Time{},
		},
		"tenant's limit": {
			waiting(func(s *explain.Situation) {
				s.Limits = []explain.Limit{{Scope: "tenant", Max: 3, Running: 3}, {Scope: "queue", Queue: "mail", Max: 9, Running: 3}}
			}),
			explain.Concurrency, []string{"its tenant is 3, and 3 run"}, time.Time{},
		},
		"key's limit": {
			waiting(func(s *explain.Situation) {
				s.Limits = []explain.Limit{{Scope: "tenant", Max: 30, Running: 3}, {Scope: "key", Key: "payload.customer", Max: 1, Running: 1}}
			}),
			explain.Concurrency, []string{`"payload.customer"`, "is 1, and 1 run"}, time.Time{},
		},
		"overlap": {
			waiting(func(s *explain.Situation) {
				s.Job.Overlap = job.OverlapQueue
				s.Limits = []explain.Limit{{Scope: "job", Max: 1, Running: 1}}
			}),
			explain.Overlap, []string{"earlier execution", `"queue"`}, time.Time{},
		},
		"rate": {
			waiting(func(s *explain.Situation) {
				s.Limits = []explain.Limit{{Scope: "queue", Queue: "mail", Rate: job.Rate{Count: 5, Per: time.Second, Burst: 1}, Wait: 200 * time.Millisecond}}
			}), explain.RateLimit, []string{`its queue "mail"`, "5 in 1s", "in 200 ms"}, now.Add(200 * time.Millisecond),
		},
		"busy": {
			waiting(func(s *explain.Situation) { s.Workers[0].Running, s.Ahead, s.Average = 4, 9, 10*time.Second }),
			explain.Busy, []string{"All 4 slots of the 1 worker", "9 of the tenant's"}, now.Add(30 * time.Second),
		},
		"busy, and nobody knows for how long": {
			waiting(func(s *explain.Situation) {
				s.Workers[0].Running, s.Ahead, s.More, s.Average = 4, 9, true, 10*time.Second
			}),
			explain.Busy, []string{"more than 9"}, time.Time{},
		},
		"ready":         {waiting(), explain.Ready, []string{"due for 60 s", "4 of 4 slots are free"}, now},
		"behind others": {waiting(func(s *explain.Situation) { s.Ahead = 9 }), explain.Ready, []string{"9 of the tenant's"}, time.Time{}},
		"runs": {
			waiting(func(s *explain.Situation) {
				s.Execution.Status, s.Execution.LeasedAt, s.Execution.Attempt, s.Execution.Progress = job.Running, now.Add(-12*time.Second), 2, &job.Progress{Percent: 40}
			}), explain.Running, []string{"Attempt 2 of 4 has run for 12 s", "40 %"}, time.Time{},
		},
		"parked": {
			waiting(func(s *explain.Situation) {
				s.Execution.Status, s.Execution.LeasedAt, s.Execution.Attempt, s.Execution.Token, s.Execution.Timeout = job.Running, now.Add(-12*time.Second), 1, 5, time.Minute
				s.Events = []job.Event{{Kind: job.EventParked, Token: 5, At: now.Add(-10 * time.Second)}}
			}), explain.Async, []string{"took attempt 1 over", "until 2026-03-04 12:00:48Z"}, time.Time{},
		},
		"cancelling": {
			waiting(func(s *explain.Situation) {
				s.Execution.Status, s.Execution.CancelAt = job.Cancelling, now.Add(-time.Second)
				s.Events = []job.Event{{Kind: job.EventAsked, Note: "cancelled by ann"}}
			}), explain.Cancelling, []string{"asked to stop at 2026-03-04 11:59:59Z (cancelled by ann)"}, time.Time{},
		},
		"succeeded":     {finished(job.Succeeded, nil), explain.Succeeded, []string{"attempt 4 of 4", "30 s"}, time.Time{}},
		"exhausted":     {finished(job.Failed, &failed.Error), explain.Exhausted, []string{"All of its 4 attempts failed", "HTTP_ERROR: answered 503."}, time.Time{}},
		"not retryable": {finished(job.Failed, &job.Error{Type: job.HTTPError, Message: "no", HTTPStatus: 404}, func(s *explain.Situation) { s.Execution.Tries = 1 }), explain.ForGood, []string{"not tried again", "404"}, time.Time{}},
		"timed out":     {finished(job.TimedOut, &job.Error{Type: job.TimeoutError, Message: "it took longer than 5m0s"}), explain.TimedOut, []string{"ran out of time: TIMEOUT"}, time.Time{}},
		"stalled":       {finished(job.Failed, &job.Error{Type: job.Stalled, Message: "no progress"}), explain.Stalled, []string{"stood still"}, time.Time{}},
		"poison":        {finished(job.Failed, &job.Error{Type: job.Poison, Message: "lost"}, func(s *explain.Situation) { s.Execution.Lost = 3 }), explain.Poison, []string{"3 times"}, time.Time{}},
		"cancelled":     {finished(job.Cancelled, &job.Error{Type: job.CancelledError, Message: "cancelled by ann"}), explain.Cancelled, []string{"while it ran", "(cancelled by ann)"}, time.Time{}},
		"by force":      {finished(job.Cancelled, nil, func(s *explain.Situation) { s.Events = []job.Event{{Kind: job.EventForced}} }), explain.Cancelled, []string{"by force"}, time.Time{}},
		"nothing to do": {finished(job.Skipped, &job.Error{Message: "no new files"}, func(*explain.Situation) {}), explain.Skipped, []string{"found nothing to do", "(no new files)"}, time.Time{}},
		"skipped": {finished(job.Skipped, nil, func(s *explain.Situation) {
			s.Execution.Metadata, s.Execution.StartedAt = map[string]string{"reason": "overlap"}, time.Time{}
		}), explain.Skipped, []string{"did not fire (overlap)"}, time.Time{}},
		"expired": {finished(job.Expired, nil), explain.Expired, []string{"was due at 2026-03-04 11:59:00Z"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := explain.Of(c.s)
			if got.Code != c.code || !got.Start.Equal(c.start) {
				t.Errorf("got %s, start %v; want %s, %v: %s", got.Code, got.Start, c.code, c.start, got.Text)
			}
			for _, part := range c.says {
				if !strings.Contains(got.Text, part) {
					t.Errorf("%q does not say %q", got.Text, part)
				}
			}
			if !strings.HasSuffix(got.Text, ".") || strings.Contains(got.Text, "%!") || strings.Contains(got.Text, "..") {
				t.Errorf("no sentence: %q", got.Text)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	got := explain.Of(finished(job.Failed, &job.Error{Type: job.ExitCode, Message: "the command ended with exit code 3: no such file"}))
	if got.Facts.ExitCode == nil || *got.Facts.ExitCode != 3 {
		t.Errorf("got %v", got.Facts.ExitCode)
	}
}
