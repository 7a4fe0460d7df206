package telemetry_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

// What was to be retried and ended, since its job was deleted or it was asked to stop, is counted as it ended.
func TestWhatIsOverruled(t *testing.T) {
	m := telemetry.NewMetrics("test")
	inner := &instant{}
	var fs []job.Finish
	for i, ended := range []job.Status{job.Failed, job.Cancelled, 0} {
		l := job.Lease{Execution: job.ExecutionID{byte(i)}, Token: 1}
		inner.vs = append(inner.vs, job.Verdict{Execution: l.Execution, Accepted: true, Ended: ended})
		fs = append(fs, job.Finish{
			Outcome: job.Outcome{Lease: l, Status: job.OutcomeFailed, Error: &job.Error{Type: job.HandlerError}}, Then: job.Transition{Move: job.Again, Status: job.Retrying},
		})
	}
	if _, err := telemetry.Over(inner, clock.System{}, m, nil).Finish(t.Context(), fs); err != nil {
		t.Fatal(err)
	}
	got := counters(t, m)
	for name, want := range map[string]float64{
		"carillon_executions_total FAILED": 1, "carillon_executions_total CANCELLED": 1, "carillon_dead_lettered_total": 1, "carillon_retries_total": 1,
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}

// A job that was created for an instant in the past counts from when it could first fire.
func TestEndToEndOfAJobInThePast(t *testing.T) {
	m := telemetry.NewMetrics("test")
	now := time.Now()
	id := uuid.Must(uuid.NewV7())
	a := job.Attempt{
		Lease: job.Lease{Execution: job.ExecutionID(id), Token: 1}, Job: job.ID(id), Trigger: job.BySchedule,
		ScheduledAt: now.AddDate(-3, 0, 0), DueAt: now, LeasedAt: now, StartedAt: now,
	}
	inner := &instant{as: []job.Attempt{a}, vs: []job.Verdict{{Execution: a.Execution, Accepted: true}}}
	s := telemetry.Over(inner, clock.System{}, m, nil)
	if _, err := s.Lease(t.Context(), nil, engine.Fence{}); err != nil {
		t.Fatal(err)
	}
	done := job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}
	if _, err := s.Finish(t.Context(), []job.Finish{done}); err != nil {
		t.Fatal(err)
	}
	fs, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if f.GetName() == "carillon_end_to_end_seconds" {
			if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() > 60 {
				t.Errorf("%d took %v s in all", h.GetSampleCount(), h.GetSampleSum())
			}
			return
		}
	}
	t.Error("there is no such metric")
}

// counters are the counters of a server, by name and the value of their label.
func counters(t *testing.T, m *telemetry.Metrics) map[string]float64 {
	t.Helper()
	fs, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range fs {
		for _, x := range f.GetMetric() {
			name := f.GetName()
			for _, l := range x.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = x.GetCounter().GetValue()
		}
	}
	return out
}

// ender is a store in which every call ends something of a job that is gone.
type ender struct {
	engine.Store
	ended []engine.Ended
}

func (e ender) Cancel(context.Context, tenantID, job.ExecutionID, string, *audit.Entry) (engine.Cancelled, error) {
	return engine.Cancelled{Status: job.Cancelled, Ended: e.ended}, nil
}

func (e ender) DeleteJob(context.Context, tenantID, engine.Deletion) (engine.Deleted, error) {
	return engine.Deleted{Ended: e.ended}, nil
}

func (e ender) CancelWaiting(context.Context, tenantID, job.ID, int) ([]engine.Ended, error) {
	return e.ended, nil
}

func (e ender) Fire(context.Context, []engine.Firing, engine.Fence) (engine.Fired, error) {
	return engine.Fired{Ended: e.ended}, nil
}

func (e ender) Release(context.Context, job.WorkerID, []job.Lease) (engine.Requeued, error) {
	return engine.Requeued{Ended: e.ended}, nil
}

func (e ender) Disown(context.Context, job.WorkerID, []job.Token, time.Time) (engine.Requeued, error) {
	return engine.Requeued{Ended: e.ended}, nil
}

func (e ender) Leave(context.Context, job.WorkerID) (engine.Requeued, error) {
	return engine.Requeued{Ended: e.ended}, nil
}

// What is cancelled is counted however it is, once, and answered to the caller.
func TestEveryCancelIsCounted(t *testing.T) {
	ways := map[string]func(context.Context, *telemetry.Store) ([]engine.Ended, error){
		"Cancel": func(ctx context.Context, s *telemetry.Store) ([]engine.Ended, error) {
			got, err := s.Cancel(ctx, "", job.ExecutionID{}, "", nil)
			return got.Ended, err
		},
		"DeleteJob": func(ctx context.Context, s *telemetry.Store) ([]engine.Ended, error) {
			got, err := s.DeleteJob(ctx, "", engine.Deletion{})
			return got.Ended, err
		},
		"CancelWaiting": func(ctx context.Context, s *telemetry.Store) ([]engine.Ended, error) {
			got, err := s.CancelWaiting(ctx, "", job.ID{}, 1)
			return got, err
		},
		"Fire": func(ctx context.Context, s *telemetry.Store) ([]engine.Ended, error) {
			got, err := s.Fire(ctx, nil, engine.Fence{})
			return got.Ended, err
		},
		"Release": func(ctx context.Context, s *telemetry.Store) ([]engine.Ended, error) {
			got, err := s.Release(ctx, job.WorkerID{}, nil)
			return got.Ended, err
		},
		"Disown": func(ctx context.Context, s *telemetry.Store) ([]engine.Ended, error) {
			got, err := s.Disown(ctx, job.WorkerID{}, nil, time.Time{})
			return got.Ended, err
		},
		"Leave": func(ctx context.Context, s *telemetry.Store) ([]engine.Ended, error) {
			got, err := s.Leave(ctx, job.WorkerID{})
			return got.Ended, err
		},
	}
	for name, way := range ways {
		m := telemetry.NewMetrics("test")
		told, err := way(t.Context(), telemetry.Over(ender{ended: []engine.Ended{{Status: job.Cancelled}, {Status: job.Skipped}}}, clock.System{}, m, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := way(t.Context(), telemetry.Over(ender{}, clock.System{}, m, nil)); err != nil { // as when it has ended before
			t.Fatal(err)
		}
		if got := counters(t, m); got["carillon_executions_total CANCELLED"] != 1 || got["carillon_executions_total SKIPPED"] != 0 || len(told) != 2 {
			t.Errorf("%s: %v cancelled, %v skipped, told of %d", name, got["carillon_executions_total CANCELLED"], got["carillon_executions_total SKIPPED"], len(told))
		}
	}
}
