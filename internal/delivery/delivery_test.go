package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
)

// taken records what a desk gave back.
type taken struct {
	failed []job.Outcome
	back   []job.Lease
}

func (t *taken) Report(_ context.Context, _ job.WorkerID, os []job.Outcome) ([]job.Verdict, error) {
	t.failed = append(t.failed, os...)
	return nil, nil
}

func (t *taken) Release(_ context.Context, _ job.WorkerID, ls []job.Lease) error {
	t.back = append(t.back, ls...)
	return nil
}

func TestGive(t *testing.T) {
	var got taken
	step := func(_ context.Context, a job.Attempt, out *client.Attempt) error {
		switch a.JobName {
		case "unknown secret":
			return &delivery.Refusal{Cause: job.Error{Type: "INTERNAL", Message: "no such secret"}}
		case "store away":
			return errors.New("the store is away")
		}
		out.Kind = "completed"
		return nil
	}
	desk := delivery.New(&got, slog.New(slog.DiscardHandler), step)
	as := []job.Attempt{{JobName: "unknown secret", Lease: job.Lease{Token: 1}}, {JobName: "whole", Lease: job.Lease{Token: 2}}, {JobName: "store away", Lease: job.Lease{Token: 3}}}
	given := desk.Give(t.Context(), job.WorkerID{}, as, nil)
	if len(given) != 1 || given[0].JobName != "whole" || given[0].Kind != "completed" || given[0].FencingToken != 2 {
		t.Errorf("given: %+v; want the whole one, completed", given)
	}
	want := []job.Outcome{{Lease: as[0].Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: "INTERNAL", Message: "no such secret"}}}
	if d := cmp.Diff(want, got.failed); d != "" {
		t.Errorf("failed (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]job.Lease{as[2].Lease}, got.back); d != "" {
		t.Errorf("given back (-want +got):\n%s", d)
	}
}

// away is a store that cannot be reached for a while.
type away struct {
	taken
	until time.Time
}

func (a *away) Report(ctx context.Context, w job.WorkerID, os []job.Outcome) ([]job.Verdict, error) {
	if time.Now().Before(a.until) {
		return nil, errors.New("away")
	}
	return a.taken.Report(ctx, w, os)
}

func (a *away) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) error {
	if time.Now().Before(a.until) {
		return errors.New("away")
	}
	return a.taken.Release(ctx, w, ls)
}

// What could not be given back, since the store was away, is given back when it has returned, once.
func TestWhatCannotBeGivenBackIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &away{until: time.Now().Add(30 * time.Second)}
		step := func(_ context.Context, a job.Attempt, _ *client.Attempt) error {
			if a.JobName == "refused" {
				return &delivery.Refusal{}
			}
			return errors.New("the store is away")
		}
		desk := delivery.New(store, slog.New(slog.DiscardHandler), step)
		desk.Give(t.Context(), job.WorkerID{}, []job.Attempt{{JobName: "refused", Lease: job.Lease{Token: 1}}, {Lease: job.Lease{Token: 2}}}, nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(store.failed) != 1 || len(store.back) != 1 {
			t.Errorf("ended %v, gave back %v", store.failed, store.back)
		}
	})
}

// What is retried ends with the desk, and nothing is begun after that.
func TestTryingAgainEndsWithTheDesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &away{until: time.Now().Add(30 * time.Minute)}
		desk := delivery.New(store, slog.New(slog.DiscardHandler), func(context.Context, job.Attempt, *client.Attempt) error { return errors.New("the store is away") })
		desk.Give(t.Context(), job.WorkerID{}, []job.Attempt{{Lease: job.Lease{Token: 1}}}, nil)
		time.Sleep(time.Minute)
		desk.Close()
		desk.Give(t.Context(), job.WorkerID{}, []job.Attempt{{Lease: job.Lease{Token: 2}}}, nil)
		desk.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(store.back) != 0 {
			t.Errorf("gave back %v after it was closed", store.back)
		}
	})
}
