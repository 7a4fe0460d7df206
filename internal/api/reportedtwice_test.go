package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/feed"
	"github.com/carillon-jobs/carillon/internal/notify"
	"github.com/carillon-jobs/carillon/internal/service"
)

// A worker whose report was accepted, and who did not hear of it, reports again: at once, in the same request, and when the next
// attempt is already running. The failure is told of once: in the attempts, the events, the stream, the counts, the dead letters
// and the notifications.
func TestAFailureThatIsReportedTwiceIsToldOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		var svc *service.Service
		var hub *feed.Hub
		f := open(func(c *api.Config, _ engine.Store) { svc, hub = c.Service, c.Feed })
		want[client.NotificationRule](f, 200, "PUT", "/api/v1/notification-rules/on-call", `{"events": ["failed"], "callback_url": "https://example.com/hook"}`)
		watch, _ := hub.Watch(tenant.Default, "")
		defer watch.Close()
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob) // two attempts
		s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "capacity": 5}`)
		path, mine := "/api/v1/workers/"+s.WorkerID, []string{"X-Worker-Session", s.Session}
		claim := func() string {
			t.Helper()
			got := want[client.Claimed](f, 200, "POST", path+"/claim", `{"max": 5, "wait_seconds": 10}`, mine...)
			if len(got.Attempts) != 1 {
				t.Fatalf("claimed %+v", got)
			}
			return fmt.Sprintf(`{"execution_id": %q, "fencing_token": %d, "status": "FAILED", "retryable": true, "error": {"type": "HANDLER_ERROR", "message": "smtp is away"}}`,
				got.Attempts[0].ExecutionID, got.Attempts[0].FencingToken)
		}
		report := func(outcomes ...string) {
			t.Helper()
			vs := want[client.Verdicts](f, 200, "POST", path+"/complete", `{"outcomes": [`+strings.Join(outcomes, ",")+`]}`, mine...).Verdicts
			if len(vs) != len(outcomes) {
				t.Fatalf("verdicts: %+v", vs)
			}
			for _, v := range vs {
				if v.Verdict != "accepted" {
					t.Errorf("verdict: %+v", v)
				}
			}
		}
		first := claim()
		report(first, first)
		report(first)
		second := claim()
		report(first) // while the second attempt is running
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID, ""); e.Status != "RUNNING" || e.AttemptNumber != 2 {
			t.Errorf("after the repeats: %s, attempt %d", e.Status, e.AttemptNumber)
		}
		report(second, second)
		report(second)
		report(first)

		if as := want[client.ExecutionAttempts](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/attempts", "").Attempts; len(as) != 2 {
			t.Errorf("attempts: %+v", as)
		}
		var kinds []string
		for _, e := range want[client.Events](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/events", "").Events {
			kinds = append(kinds, e.Type)
		}
		if !slices.Equal(kinds, []string{"created", "started", "attempt_failed", "started", "attempt_failed", "finished"}) {
			t.Errorf("events: %v", kinds)
		}
		if dead := want[client.DeadLetters](f, 200, "GET", "/api/v1/dead-letters", "").DeadLetters; len(dead) != 1 {
			t.Errorf("dead letters: %+v", dead)
		}

		var told []string
		changes, _, _ := watch.Read(100)
		for _, c := range changes {
			if c.Execution == j.ExecutionID {
				told = append(told, c.Type)
			}
		}
		if !slices.Equal(told, []string{"execution.created", "execution.started", "execution.retrying", "execution.started", "execution.finished"}) {
			t.Errorf("the stream: %v", told)
		}
		f.kept()
		if got := want[client.Series](f, 200, "GET", "/api/v1/series?hours=1&step=300", "").Total; got.Started != 2 || got.Retried != 1 || got.Failed != 1 || got.Dead != 1 {
			t.Errorf("counts: %+v", got)
		}
		if got := want[client.Failures](f, 200, "GET", "/api/v1/failures", ""); got.Failed != 1 || got.Retried != 1 {
			t.Errorf("failures: %+v", got)
		}
		minutes, err := f.store.Minutes(t.Context(), time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var all engine.Minute
		for _, m := range minutes {
			all.Add(m)
		}
		if all.Again != 1 || all.Failed != 1 || all.Started != 2 {
			t.Errorf("the installation's counts: %+v", all)
		}

		n := &notify.Notifier{Store: f.store, Send: svc.Notify, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)}
		for range 2 {
			if _, err := n.Tick(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if sent := want[client.Jobs](f, 200, "GET", "/api/v1/jobs?tag="+notice.Tag, "").Jobs; len(sent) != 1 {
			t.Errorf("%d notifications, want 1", len(sent))
		}
	})
}
