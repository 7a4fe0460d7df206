package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// revising is a store of one job, which another changes after it was read for the first time.
type revising struct {
	keeping
	is      job.Job
	past    []engine.Revision // the latest first
	between func(*revising)
}

func (r *revising) Job(context.Context, tenant.ID, engine.Ref) (job.Job, error) {
	j := r.is
	if f := r.between; f != nil {
		r.between = nil
		f(r)
	}
	return j, nil
}

func (r *revising) Revisions(_ context.Context, _ job.Job, before, limit int) (out []engine.Revision, err error) {
	for _, x := range r.past {
		if x.Job.Revision < before && len(out) < limit {
			out = append(out, x)
		}
	}
	return out, nil
}

func (r *revising) UpdateJob(_ context.Context, _ tenant.ID, u engine.Update) (job.Job, error) {
	if u.Revision != r.is.Revision {
		return job.Job{}, engine.ErrConflict
	}
	r.change(u.Job.Name)
	return r.is, nil
}

func (r *revising) change(name string) {
	r.past = append([]engine.Revision{{Job: r.is}}, r.past...)
	r.is.Name = name
	r.is.Revision++
}

func (r *revising) Stats(context.Context, tenant.ID, []job.ID) ([]job.Stats, error) {
	return make([]job.Stats, 1), nil
}

// Which definition is restored is settled by the revision that was asked for, also where that is the one that the job has and
// another changes it in between.
func TestRestoreWhileAnotherChanges(t *testing.T) {
	for _, c := range []struct {
		name    string
		is, to  int // revisions
		between string
		want    string
	}{
		{"as it is", 2, 2, "", "v2"},
		{"as it was when it was asked for", 2, 2, "other", "v2"},
		{"the first, as it is", 1, 1, "other", "v1"},
		{"the one before", 2, 1, "other", "v1"},
	} {
		r := &revising{is: job.Job{ID: job.ID{1}, Tenant: tenant.Default, State: job.Active, Revision: 1, Definition: noop()}}
		r.is.Name = "v1"
		if c.is > 1 {
			r.change("v2")
		}
		if c.between != "" {
			r.between = func(r *revising) { r.change(c.between) }
		}
		s := New(r, clock.System{}, Config{})
		got, err := s.RestoreJob(t.Context(), tenant.Local(), engine.Ref{ID: r.is.ID}, c.to, 0)
		if err != nil || got.Name != c.want || r.is.Name != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, got.Name, err, c.want)
		}
	}
}

func (m *morgue) DeadErrors(_ context.Context, _ engine.DeadLetterFilter, p engine.Page) (out engine.Listed[engine.DeadError], err error) {
	m.clock.Advance(m.slow)
	var after time.Time
	if p.Cursor != "" {
		if after, _, err = engine.DecodeCursor(p.Cursor); err != nil {
			return out, err
		}
	}
	for _, e := range m.dead {
		if at := m.died[e.ID]; after.IsZero() || at.Before(after) {
			if len(out.Rows) == p.Limit {
				last := out.Rows[p.Limit-1]
				out.Next = engine.EncodeCursor(last.At, last.Execution)
				break
			}
			out.Rows = append(out.Rows, engine.DeadError{Execution: e.ID, At: at, Error: &job.Error{Type: job.HTTPError, Message: "answered 500"}})
		}
	}
	return out, nil
}

// All that died of an error are counted, or as many as there is time for, and then it is said that there may be more.
func TestCountByFingerprint(t *testing.T) {
	print, _ := (&job.Error{Type: job.HTTPError, Message: "answered 503"}).Fingerprint()
	for _, c := range []struct {
		slow time.Duration
		of   job.Fingerprint
		want Chosen
	}{
		{0, print, Chosen{Count: 3*deadLooked + 1}},
		{0, job.Fingerprint{9}, Chosen{}},
		{sampleTime * 2 / 3, print, Chosen{Count: 2 * deadLooked, AtLeast: true}},
	} {
		m := newMorgue(3*deadLooked + 1)
		m.slow = c.slow
		s := New(m, m.clock, Config{})
		p := tenant.Local()
		got, err := s.CountDead(t.Context(), p, Selection{Print: c.of})
		if err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

// old is a store that has an execution which finished 40 days ago, of a tenant that may see 30.
type old struct {
	keeping
	clock *clock.Manual
}

func (o old) Tenants(context.Context) ([]tenant.Tenant, error) {
	return []tenant.Tenant{{ID: "t", Tier: tenant.Free, Overrides: tenant.Overrides{DeadLetters: new(true)}}}, nil
}

func (o old) Execution(context.Context, tenant.ID, job.ExecutionID) (job.Execution, error) {
	return job.Execution{ID: numbered(1), Status: job.Failed, FinishedAt: o.clock.Now().AddDate(0, 0, -40)}, nil
}

func (o old) from(f engine.DeadLetterFilter) error {
	if f.From.Before(o.clock.Now().AddDate(0, 0, -31)) {
		return errors.New("what is hidden is asked for")
	}
	return nil
}

func (o old) DeadLetters(_ context.Context, f engine.DeadLetterFilter, _ engine.Page) (engine.DeadLetterPage, error) {
	return engine.DeadLetterPage{}, o.from(f)
}

func (o old) DeadErrors(_ context.Context, f engine.DeadLetterFilter, _ engine.Page) (engine.Listed[engine.DeadError], error) {
	return engine.Listed[engine.DeadError]{}, o.from(f)
}

func (o old) Names(context.Context, tenant.ID, []job.ID) (map[job.ID]string, error) {
	return map[job.ID]string{{1}: "one"}, nil
}

func (o old) Recent(_ context.Context, _ tenant.ID, ids []job.ID, _ int, since time.Time) ([][]engine.Run, error) {
	return make([][]engine.Run, len(ids)), o.from(engine.DeadLetterFilter{From: since})
}

func (o old) Stats(_ context.Context, _ tenant.ID, ids []job.ID) ([]job.Stats, error) {
	return make([]job.Stats, len(ids)), nil
}

// What is older than a tenant's history is hidden in every way in which it could be seen.
func TestHistoryEndsEverywhere(t *testing.T) {
	clk := clock.NewManual(began)
	s := New(old{clock: clk}, clk, Config{})
	p, id, ctx := tenant.Principal{Tenant: "t", Role: tenant.Admin}, numbered(1), t.Context()
	for what, f := range map[string]func() error{
		"execution": func() error { _, err := s.Execution(ctx, p, id); return err },
		"attempts":  func() error { _, _, err := s.Attempts(ctx, p, id); return err },
		"log":       func() error { _, err := s.Log(ctx, p, id, LogQuery{Limit: 1}); return err },
		"retry":     func() error { _, _, err := s.Retry(ctx, p, id, nil, Once[job.Execution]{}); return err },
		"redrive":   func() error { _, _, err := s.Redrive(ctx, p, id, Once[job.Execution]{}); return err },
	} {
		if err := f(); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, f := range map[string]func() error{
		"groups":               func() error { _, err := s.DeadGroups(ctx, p, engine.DeadLetterFilter{}, 1); return err },
		"dead letters":         func() error { _, err := s.DeadLetters(ctx, p, engine.DeadLetterFilter{}, engine.Page{}); return err },
		"count":                func() error { _, err := s.CountDead(ctx, p, Selection{}); return err },
		"count of ids":         func() error { _, err := s.CountDead(ctx, p, Selection{IDs: []job.ExecutionID{id}}); return err },
		"count by fingerprint": func() error { _, err := s.CountDead(ctx, p, Selection{Print: job.Fingerprint{1}}); return err },
		"last runs":            func() error { _, err := s.LastRuns(ctx, p, []job.ID{{1}}, 1); return err },
	} {
		if err := f(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	sel := ExecutionSelection{IDs: []job.ExecutionID{id}}
	if got, err := s.SampleExecutions(ctx, p, sel, ExecutionAction{Kind: job.OpRetryExecutions}); err != nil || got.Total.Count != 0 {
		t.Errorf("sample: %+v, %v", got, err)
	}
	x, err := decodeOver([]byte(`{"kept": "2030-01-01T00:00:00Z"}`))
	if err != nil || !x.filter.Kept.Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("an operation goes on over %+v, %v", x.filter, err)
	}
}
