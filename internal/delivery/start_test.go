package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
)

// What starts late is handed out without what the steps add, and without what may name secrets.
func TestGiveLeavesOutWhatStartsLate(t *testing.T) {
	var got taken
	var completed []string
	desk := delivery.New(&got, slog.New(slog.DiscardHandler), func(_ context.Context, a job.Attempt, out *client.Attempt) error {
		completed = append(completed, a.JobName)
		out.Execution.Headers = map[string]string{"X": "value"}
		return nil
	})
	target := job.Target{Kind: job.HTTP, URL: "https://example.com/", Headers: map[string]string{"X": "${secret:x}"}, Env: map[string]string{"Y": "${secret:y}"}}
	as := []job.Attempt{
		{JobName: "late", Lease: job.Lease{Token: 1}, Target: target, Payload: []byte(`"${secret:z}"`)},
		{JobName: "at once", Lease: job.Lease{Token: 2}, Target: target, Payload: []byte(`1`)},
	}
	given := desk.Give(t.Context(), job.WorkerID{}, as, func(a *job.Attempt) bool { return a.JobName == "late" })
	if len(given) != 2 || len(got.failed)+len(got.back) != 0 {
		t.Fatalf("given %+v, ended %v, gave back %v", given, got.failed, got.back)
	}
	if late := given[0]; !late.LateSecrets || late.FencingToken != 1 || late.Payload != nil || late.Execution.Headers != nil || late.Execution.Env != nil || late.Execution.CallbackURL != target.URL {
		t.Errorf("the late one: %+v", late)
	}
	if whole := given[1]; whole.LateSecrets || string(whole.Payload) != "1" || whole.Execution.Headers["X"] != "value" {
		t.Errorf("the other: %+v", whole)
	}
	if d := cmp.Diff([]string{"at once"}, completed); d != "" {
		t.Errorf("completed (-want +got):\n%s", d)
	}
	whole, err := desk.Start(t.Context(), job.WorkerID{}, &as[0])
	if err != nil || whole.LateSecrets || whole.FencingToken != 1 || whole.Execution.Headers["X"] != "value" || string(whole.Payload) != `"${secret:z}"` {
		t.Errorf("started: %+v, %v", whole, err)
	}
}

// An attempt that may not start fails; one that cannot start now stays with its worker, which asks again.
func TestStartThatFails(t *testing.T) {
	var got taken
	no := &delivery.Refusal{Cause: job.Error{Type: job.InternalError, Message: "no such secret"}}
	away := errors.New("the store is away")
	desk := delivery.New(&got, slog.New(slog.DiscardHandler), func(_ context.Context, a job.Attempt, _ *client.Attempt) error {
		if a.JobName == "away" {
			return away
		}
		return no
	})
	if _, err := desk.Start(t.Context(), job.WorkerID{}, &job.Attempt{JobName: "away", Lease: job.Lease{Token: 1}}); !errors.Is(err, away) || len(got.failed)+len(got.back) != 0 {
		t.Errorf("away: %v; ended %v, gave back %v", err, got.failed, got.back)
	}
	refused := job.Attempt{Lease: job.Lease{Token: 2}}
	if _, err := desk.Start(t.Context(), job.WorkerID{}, &refused); !errors.Is(err, no) {
		t.Errorf("refused: %v", err)
	}
	want := []job.Outcome{{Lease: refused.Lease, Status: job.OutcomeFailed, Error: &no.Cause}}
	if d := cmp.Diff(want, got.failed); d != "" || len(got.back) != 0 {
		t.Errorf("gave back %v, failed (-want +got):\n%s", got.back, d)
	}
}
