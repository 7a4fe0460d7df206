package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var (
	quiet = slog.New(slog.DiscardHandler)
	at    = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
)

// overrunning is a store with leases that last too long.
type overrunning struct {
	engine.Leases
	over     []engine.Overrun
	slack    time.Duration
	finished []job.Finish
	refuse   job.ExecutionID
	err      error
}

func (o *overrunning) Overrun(_ context.Context, slack time.Duration, limit int) ([]engine.Overrun, error) {
	o.slack = slack
	return o.over[:min(limit, len(o.over))], o.err
}

func (o *overrunning) Finish(_ context.Context, fs []job.Finish) ([]job.Verdict, error) {
	o.finished = fs
	vs := make([]job.Verdict, len(fs))
	for i, f := range fs {
		vs[i] = job.Verdict{Execution: f.Outcome.Execution, Accepted: f.Outcome.Execution != o.refuse}
	}
	return vs, o.err
}

func TestWatchdog(t *testing.T) {
	held := func(n byte, tries int, stalled bool) engine.Overrun {
		return engine.Overrun{Stalled: stalled, Held: job.Held{
			Execution: job.Execution{
				ID: job.ExecutionID{n}, Tenant: "t", Status: job.Running, Token: 9, Tries: tries, MaxAttempts: 2, Worker: job.WorkerID{7}, Timeout: time.Minute, Stall: time.Second,
				StartedAt: at.Add(-time.Hour), Group: job.Group{Key: 3, Max: 1},
			},
			Retry: job.RetryPolicy{MaxRetries: 1, Backoff: job.Fixed, InitialDelay: time.Minute}, JobState: job.Active,
		}}
	}
	s := &overrunning{over: []engine.Overrun{held(1, 0, false), held(2, 0, true), held(3, 1, false), held(4, 1, true), held(5, 0, false)}, refuse: job.ExecutionID{5}}
	var hinted []job.Ready
	w := &Watchdog{Store: s, Clock: clock.NewManual(at), Hint: func(rs []job.Ready) { hinted = append(hinted, rs...) }, Log: quiet}
	if next, err := w.Tick(t.Context()); err != nil || next != time.Second || s.slack != 5*time.Second {
		t.Errorf("%v, %v, slack %v", next, err, s.slack)
	}
	for i, want := range []struct {
		status job.Status
		kind   job.ErrorType
	}{{job.Retrying, job.TimeoutError}, {job.Retrying, job.Stalled}, {job.TimedOut, job.TimeoutError}, {job.Failed, job.Stalled}} {
		f := s.finished[i]
		if f.Then.Status != want.status || f.Outcome.Error.Type != want.kind || f.Outcome.Error.Message == "" || !f.Expel || f.Worker != (job.WorkerID{7}) || f.Outcome.Token != 9 || !f.Outcome.Retryable {
			t.Errorf("%d: %+v", i, f)
		}
	}
	if len(hinted) != 2 || hinted[0].ID != (job.ExecutionID{1}) || !hinted[0].DueAt.After(at) || hinted[0].Group.Key != 3 {
		t.Errorf("hinted: %+v", hinted)
	}
	s.over = make([]engine.Overrun, overrunBatch)
	if next, err := w.Tick(t.Context()); err != nil || next != 0 {
		t.Errorf("a full batch: %v, %v", next, err)
	}
	s.over = nil
	if next, err := w.Tick(t.Context()); err != nil || next != time.Second {
		t.Errorf("nothing: %v, %v", next, err)
	}
	s.err = errors.New("away")
	if _, err := w.Tick(t.Context()); !errors.Is(err, s.err) {
		t.Errorf("got %v", err)
	}
}

type expiring struct {
	engine.Leases
	n   int
	err error
}

func (e *expiring) Expire(_ context.Context, limit int) (int, error) { return min(e.n, limit), e.err }

func TestExpirer(t *testing.T) {
	s := &expiring{}
	e := &Expirer{Store: s, Log: quiet}
	for n, want := range map[int]time.Duration{0: time.Second, 5: time.Second, expireBatch + 1: 0} {
		s.n = n
		if next, err := e.Tick(t.Context()); err != nil || next != want {
			t.Errorf("%d: %v, %v", n, next, err)
		}
	}
	s.err = errors.New("away")
	if _, err := e.Tick(t.Context()); !errors.Is(err, s.err) {
		t.Errorf("got %v", err)
	}
}

type redrivable struct {
	engine.Executions
	due []job.Execution
	err error
}

func (r *redrivable) Redrivable(_ context.Context, limit int) ([]job.Execution, error) {
	return r.due[:min(limit, len(r.due))], r.err
}

func TestRedriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &redrivable{}
		stuck := map[job.ExecutionID]bool{}
		done, tried := 0, 0
		r := &Redriver{Store: s, Log: quiet, Redrive: func(_ context.Context, e job.Execution) error {
			tried++
			if stuck[e.ID] {
				return errors.New("its unique key is held")
			}
			done++
			for i, d := range s.due {
				if d.ID == e.ID {
					s.due = append(s.due[:i:i], s.due[i+1:]...)
					break
				}
			}
			return nil
		}}
		for i := range 3 * redriveBatch { // those that cannot come first
			id := job.ExecutionID{byte(i), byte(i >> 8), 1}
			s.due = append(s.due, job.Execution{ID: id})
			stuck[id] = i < 2*redriveBatch
		}
		for range 5 {
			if _, err := r.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if done != redriveBatch || tried != 3*redriveBatch {
			t.Errorf("%d redriven, %d tried", done, tried)
		}
		<-time.After(redriveAgain)
		clear(stuck)
		for range 5 {
			if _, err := r.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if done != 3*redriveBatch || len(r.stuck) != 0 {
			t.Errorf("%d redriven at last; %d are remembered", done, len(r.stuck))
		}
		s.err = errors.New("away")
		if _, err := r.Tick(t.Context()); !errors.Is(err, s.err) {
			t.Errorf("got %v", err)
		}
	})
}
