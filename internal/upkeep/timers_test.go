package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	engine.Recovery
	over     []engine.Overrun
	slack    time.Duration
	finished []job.Finish
	refuse   job.ExecutionID
	stopped  job.ExecutionID // it was asked to stop meanwhile
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
		if f.Outcome.Execution == o.stopped {
			vs[i].Ended = job.Cancelled
		}
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
	s := &overrunning{over: []engine.Overrun{held(1, 0, false), held(2, 0, true), held(3, 1, false), held(4, 1, true), held(5, 0, false), held(6, 0, false)}, refuse: job.ExecutionID{5}, stopped: job.ExecutionID{6}}
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
	engine.Recovery
	n   int
	err error
}

func (e *expiring) Expire(_ context.Context, limit int) ([]engine.Ended, error) {
	return make([]engine.Ended, min(e.n, limit)), e.err
}

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
	due       []job.Execution
	until     map[job.ExecutionID]time.Time
	err, away error
}

func (r *redrivable) Redrivable(_ context.Context, limit int) (out []job.Execution, err error) {
	for _, e := range r.due {
		if !r.until[e.ID].After(time.Now()) && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, r.err
}

func (r *redrivable) Postpone(_ context.Context, ids []job.ExecutionID, by time.Duration) error {
	if r.away != nil {
		return r.away
	}
	for _, id := range ids {
		r.until[id] = time.Now().Add(by)
	}
	return nil
}

func TestRedriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &redrivable{until: map[job.ExecutionID]time.Time{}}
		stuck := map[job.ExecutionID]bool{}
		done, tried := 0, 0
		var away error
		r := &Redriver{Store: s, Log: quiet, Redrive: func(_ context.Context, e job.Execution) error {
			if away != nil {
				return away
			}
			tried++
			if stuck[e.ID] {
				return errors.New("its unique key is held")
			}
			done++
			s.due = slices.DeleteFunc(s.due, func(d job.Execution) bool { return d.ID == e.ID })
			return nil
		}}
		for i := range 3 * redriveBatch { // those that cannot come first
			id := job.ExecutionID{byte(i), byte(i >> 8), 1}
			s.due = append(s.due, job.Execution{ID: id})
			stuck[id] = i < 2*redriveBatch
		}
		s.away = errors.New("away")
		if _, err := r.Tick(t.Context()); !errors.Is(err, s.away) {
			t.Errorf("not put off: %v", err)
		}
		s.away, tried = nil, 0
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
		away = fmt.Errorf("busy: %w", engine.ErrUnavailable)
		if _, err := r.Tick(t.Context()); !errors.Is(err, away) {
			t.Errorf("a store that is away: %v", err)
		}
		away = nil // and nothing was postponed for it
		for range 5 {
			if _, err := r.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if done != 3*redriveBatch {
			t.Errorf("%d redriven at last", done)
		}
		s.err = errors.New("away")
		if _, err := r.Tick(t.Context()); !errors.Is(err, s.err) {
			t.Errorf("got %v", err)
		}
	})
}
