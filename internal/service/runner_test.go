package service

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// morgue is a store of dead letters and operations, for one goroutine. fail, if set, may make a call fail before or
// after it was done.
type morgue struct {
	keeping
	clock *clock.Manual
	dead  []job.Execution // the latest first
	died  map[job.ExecutionID]time.Time
	added map[job.ExecutionID]job.Execution // by its own id
	ops   map[job.OperationID]*kept
	stuck map[job.ExecutionID]bool // cannot be run again
	fail  func(call string) (before, after error)
	gone  int           // discarded
	slow  time.Duration // that a look at what they died of takes
}

type kept struct {
	job.Operation
	until time.Time
}

var began = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func newMorgue(n int) *morgue {
	m := &morgue{clock: clock.NewManual(began), died: map[job.ExecutionID]time.Time{}, added: map[job.ExecutionID]job.Execution{}, ops: map[job.OperationID]*kept{}, stuck: map[job.ExecutionID]bool{}}
	for i := range n {
		m.bury(numbered(i), began.Add(-time.Duration(i+1)*time.Second))
	}
	return m
}

func numbered(i int) (id job.ExecutionID) {
	binary.BigEndian.PutUint64(id[8:], uint64(i+1))
	return id
}

func (m *morgue) bury(id job.ExecutionID, at time.Time) {
	m.died[id] = at
	earlier, _ := slices.BinarySearchFunc(m.dead, at, func(e job.Execution, at time.Time) int {
		if m.died[e.ID].Before(at) {
			return 0
		}
		return -1
	})
	m.dead = slices.Insert(m.dead, earlier, job.Execution{ID: id, Job: job.ID{7}, Tenant: "t", Status: job.Failed, MaxAttempts: 2})
}

func (m *morgue) call(name string) (before, after error) {
	if m.fail == nil {
		return nil, nil
	}
	return m.fail(name)
}

func (m *morgue) Job(context.Context, tenant.ID, engine.Ref) (job.Job, error) {
	return job.Job{ID: job.ID{7}, Tenant: "t", Definition: noop()}, nil
}

func (m *morgue) Execution(_ context.Context, _ tenant.ID, id job.ExecutionID) (job.Execution, error) {
	if _, ok := m.died[id]; !ok {
		return job.Execution{}, engine.ErrNotFound
	}
	return job.Execution{ID: id, Job: job.ID{7}, Tenant: "t", Status: job.Failed, MaxAttempts: 2}, nil
}

func (m *morgue) DeadLetters(_ context.Context, f engine.DeadLetterFilter, p engine.Page) (page engine.DeadLetterPage, err error) {
	var after time.Time
	if p.Cursor != "" {
		us, _ := strconv.ParseInt(p.Cursor, 10, 64)
		after = time.UnixMicro(us)
	}
	for _, e := range m.dead {
		at := m.died[e.ID]
		if !f.Execution.IsZero() && e.ID != f.Execution || !f.Until.IsZero() && !at.Before(f.Until) {
			continue
		}
		page.Total.Count++
		if !after.IsZero() && !at.Before(after) {
			continue
		}
		if len(page.DeadLetters) == p.Limit {
			page.Next = strconv.FormatInt(m.died[page.DeadLetters[p.Limit-1].ID].UnixMicro(), 10)
			continue
		}
		page.DeadLetters = append(page.DeadLetters, job.DeadLetter{Execution: e})
	}
	return page, nil
}

func (m *morgue) Rerun(_ context.Context, _ tenant.ID, r engine.Rerun) (out engine.Rerunning, err error) {
	before, after := m.call("Rerun")
	if before != nil {
		return out, before
	}
	for _, e := range r.Executions {
		if _, ok := m.added[e.ID]; ok {
			out.Added = append(out.Added, e.ID)
			continue
		}
		i := slices.IndexFunc(m.dead, func(d job.Execution) bool { return d.ID == e.RetryOf })
		if i < 0 || m.stuck[e.RetryOf] {
			continue
		}
		m.dead = slices.Delete(m.dead, i, i+1)
		m.added[e.ID] = e
		out.Added = append(out.Added, e.ID)
	}
	if after != nil {
		return engine.Rerunning{}, after
	}
	return out, nil
}

func (m *morgue) Discard(_ context.Context, _ tenant.ID, ids []job.ExecutionID, _ engine.Idempotency, _ func(int) []byte, _ *audit.Entry) (int, engine.Created, error) {
	n := len(m.dead)
	m.dead = slices.DeleteFunc(m.dead, func(e job.Execution) bool { return slices.Contains(ids, e.ID) })
	m.gone += n - len(m.dead)
	return n - len(m.dead), engine.Created{}, nil
}

func (m *morgue) AddOperation(_ context.Context, o job.Operation, _ engine.Idempotency, _ *audit.Entry) (engine.Created, error) {
	m.ops[o.ID] = &kept{Operation: o}
	return engine.Created{}, nil
}

func (m *morgue) Operation(_ context.Context, _ tenant.ID, id job.OperationID) (job.Operation, error) {
	if o := m.ops[id]; o != nil {
		return o.Operation, nil
	}
	return job.Operation{}, engine.ErrNotFound
}

func (m *morgue) TakeOperation(_ context.Context, ttl time.Duration) (job.Operation, error) {
	for _, o := range m.ops {
		if o.State == job.OpRunning && !m.clock.Now().Before(o.until) {
			o.until = m.clock.Now().Add(ttl)
			o.Version++
			return o.Operation, nil
		}
	}
	return job.Operation{}, engine.ErrNotFound
}

func (m *morgue) SaveOperation(_ context.Context, o job.Operation, ttl time.Duration) (job.Operation, error) {
	before, after := m.call("SaveOperation")
	if before != nil {
		return o, before
	}
	is := m.ops[o.ID]
	if is.Version != o.Version || is.State != job.OpRunning {
		return o, engine.ErrConflict
	}
	o.Version++
	is.Operation, is.until = o, m.clock.Now().Add(ttl)
	return o, after
}

func (m *morgue) CancelOperation(_ context.Context, _ tenant.ID, id job.OperationID, _ *audit.Entry) (job.Operation, error) {
	o := m.ops[id]
	if o.State != job.OpRunning {
		return o.Operation, engine.ErrConflict
	}
	o.State, o.FinishedAt = job.OpCancelled, m.clock.Now()
	o.Version++
	return o.Operation, nil
}

func (m *morgue) service() *Service { return New(m, m.clock, Config{Unmetered: true}) }

var operator = tenant.Principal{Tenant: "t", Role: tenant.Operator, Name: "ann"}

func (m *morgue) begin(t *testing.T, s *Service, kind job.OperationKind, sel Selection, rate float64) job.OperationID {
	t.Helper()
	o, _, err := s.Begin(t.Context(), operator, kind, sel, rate, Once[job.Operation]{})
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}

// run steps a runner, moving the clock as it asks, until the operation ends or time is up; errors are met by trying again.
func (m *morgue) run(t *testing.T, r *Runner, id job.OperationID, within time.Duration) job.Operation {
	t.Helper()
	late := m.clock.Now().Add(within)
	for m.clock.Now().Before(late) {
		next, _ := r.Tick(t.Context())
		if o := m.ops[id]; o.State != job.OpRunning {
			return o.Operation
		}
		m.clock.Advance(max(next, time.Millisecond))
	}
	return m.ops[id].Operation
}

var quiet = slog.New(slog.DiscardHandler)

func TestAnOperationDoesAll(t *testing.T) {
	for _, kind := range []job.OperationKind{job.OpRedrive, job.OpDiscard} {
		m := newMorgue(250)
		s := m.service()
		for i := 0; i < 250; i += 50 {
			m.stuck[numbered(i)] = true
		}
		id := m.begin(t, s, kind, Selection{}, 0)
		m.bury(numbered(900), began.Add(time.Second)) // dies after it began
		o := m.run(t, s.Runner(quiet), id, time.Minute)
		done := int64(250)
		if kind == job.OpRedrive {
			done = 245
		}
		if o.State != job.OpSucceeded || o.Total != 250 || o.Done != done || o.Done+o.Passed != 250 || o.By != "ann" || o.FinishedAt.IsZero() {
			t.Errorf("%s: %+v", kind, o)
		}
		if kind == job.OpRedrive && len(m.added) != 245 || kind == job.OpDiscard && m.gone != 250 || m.died[numbered(900)].IsZero() || m.dead[0].ID != numbered(900) {
			t.Errorf("%s: %d added, %d discarded, %d left", kind, len(m.added), m.gone, len(m.dead))
		}
		for _, e := range m.added {
			if e.Trigger != job.ByRedrive || e.ID.At().Before(began.Truncate(time.Millisecond)) {
				t.Fatalf("added %+v", e)
			}
		}
	}
}

func TestAnOperationKeepsItsRate(t *testing.T) {
	m := newMorgue(250)
	s := m.service()
	id := m.begin(t, s, job.OpRedrive, Selection{}, 10)
	r := s.Runner(quiet)
	for range 10 {
		m.run(t, r, id, time.Second)
		passed := m.clock.Now().Sub(began).Seconds()
		if n := float64(len(m.added)); n > 10*passed+2 || n < 10*passed-4 {
			t.Fatalf("%v were added in %v s", n, passed)
		}
	}
	if o := m.run(t, r, id, time.Hour); o.State != job.OpSucceeded || o.Done != 250 {
		t.Errorf("ended: %+v", o)
	}
	if took := m.clock.Now().Sub(began); took < 24*time.Second || took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestASlowOperationHoldsUpNoOther(t *testing.T) {
	m := newMorgue(100)
	s := m.service()
	slow := m.begin(t, s, job.OpRedrive, Selection{IDs: []job.ExecutionID{numbered(0), numbered(1), numbered(1)}}, 0.01)
	r := s.Runner(quiet)
	m.run(t, r, slow, 5*time.Second)
	fast := m.begin(t, s, job.OpRedrive, Selection{IDs: []job.ExecutionID{numbered(2), numbered(3)}}, 0)
	if o := m.run(t, r, fast, 3*time.Second); o.State != job.OpSucceeded || o.Done != 2 {
		t.Errorf("fast: %+v", o)
	}
	other := s.Runner(quiet)
	m.run(t, other, slow, time.Second)
	if len(other.runs) != 0 {
		t.Error("another server took what this one has")
	}
	if o := m.run(t, r, slow, 250*time.Second); o.State != job.OpSucceeded || o.Done != 2 || o.Passed != 0 {
		t.Errorf("slow: %+v", o)
	}
}

func TestACancelledOperationStops(t *testing.T) {
	m := newMorgue(250)
	s := m.service()
	id := m.begin(t, s, job.OpRedrive, Selection{}, 10)
	r := s.Runner(quiet)
	m.run(t, r, id, 5*time.Second)
	if _, err := s.CancelOperation(t.Context(), operator, id); err != nil {
		t.Fatal(err)
	}
	n := len(m.added)
	for range 20 {
		m.clock.Advance(time.Second)
		if _, err := r.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.added) != n || len(r.runs) != 0 || m.ops[id].State != job.OpCancelled {
		t.Errorf("%d more were added; %d runs, %s", len(m.added)-n, len(r.runs), m.ops[id].State)
	}
}

func TestAnOperationSurvivesItsServer(t *testing.T) {
	for name, sel := range map[string]Selection{"filter": {}, "ids": {IDs: func() (ids []job.ExecutionID) {
		for i := range 250 {
			ids = append(ids, numbered(i))
		}
		return ids
	}()}} {
		m := newMorgue(250)
		m.stuck[numbered(3)], m.stuck[numbered(200)] = true, true
		s := m.service()
		id := m.begin(t, s, job.OpRedrive, sel, 50)
		m.run(t, s.Runner(quiet), id, 2*time.Second) // then it is heard of no more
		if n := len(m.added); n < 50 || n > 120 {
			t.Fatalf("%s: %d were added", name, n)
		}
		o := m.run(t, m.service().Runner(quiet), id, time.Minute)
		if o.State != job.OpSucceeded || len(m.added) != 248 || o.Done != 248 || o.Passed != 2 {
			t.Errorf("%s: %d added; %+v", name, len(m.added), o)
		}
	}
}

func TestAnOperationGivenBackIsTakenAtOnce(t *testing.T) {
	m := newMorgue(250)
	s := m.service()
	id := m.begin(t, s, job.OpRedrive, Selection{}, 100)
	r := s.Runner(quiet)
	m.run(t, r, id, time.Second)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := m.run(t, m.service().Runner(quiet), id, 4*time.Second); o.State != job.OpSucceeded || len(m.added) != 250 {
		t.Errorf("%d added; %+v", len(m.added), o)
	}
}

// Whatever fails, before or after it was done, nothing is redriven twice and nothing left out.
func TestAnOperationBearsAStoreThatFails(t *testing.T) {
	away := fmt.Errorf("away: %w", engine.ErrUnavailable)
	for seed := range 40 {
		m := newMorgue(250)
		dice := rand.New(rand.NewPCG(uint64(seed), 1))
		m.fail = func(string) (before, after error) {
			switch dice.IntN(5) {
			case 0:
				return away, nil
			case 1, 2:
				return nil, away
			}
			return nil, nil
		}
		s := m.service()
		id := m.begin(t, s, job.OpRedrive, Selection{}, 200)
		o := m.run(t, s.Runner(quiet), id, 10*time.Minute)
		byOld := map[job.ExecutionID]int{}
		for _, e := range m.added {
			byOld[e.RetryOf]++
		}
		if o.State != job.OpSucceeded || len(m.added) != 250 || len(byOld) != 250 || o.Done != 250 {
			t.Errorf("seed %d: %d added of %d; %+v", seed, len(m.added), len(byOld), o)
		}
	}
}

func TestAnOperationThatCannotBeReadFails(t *testing.T) {
	m := newMorgue(3)
	s := m.service()
	for _, o := range []job.Operation{
		{Kind: job.OpRedrive, Spec: []byte("{")}, {Kind: job.OpRedrive, Spec: []byte(`{"ids": ["x"]}`)}, {Kind: job.OpRedrive, Spec: []byte(`{"job": "x"}`)}, {Kind: "dance", Spec: []byte(`{}`)},
	} {
		o.ID, o.Tenant, o.State, o.Version = job.OperationID(newID()), "t", job.OpRunning, 1
		m.ops[o.ID] = &kept{Operation: o}
		if o := m.run(t, s.Runner(quiet), o.ID, 10*time.Second); o.State != job.OpFailed || o.Error == "" || o.FinishedAt.IsZero() {
			t.Errorf("%s: %+v", o.Spec, o)
		}
	}
	if len(m.added) != 0 {
		t.Error("something was redriven")
	}
}

// A rate near nothing asks for a long wait, never for one that is over already.
func TestATinyRateWaits(t *testing.T) {
	for _, rate := range []float64{5e-324, 1e-300, 1e-12, 0.001, 1, 10_000} {
		b := bucket{rate: rate, at: began}
		if n := b.draw(1, began); n != 0 || b.wait() <= 0 || b.wait() > 2*time.Hour {
			t.Errorf("at %g: %d at once, then one in %s", rate, n, b.wait())
		}
	}
	m := newMorgue(2)
	s := m.service()
	id := m.begin(t, s, job.OpRedrive, Selection{}, 1e-300)
	r := s.Runner(quiet)
	for range 5 {
		if wait, err := r.Tick(t.Context()); err != nil || wait < lookEach/2 {
			t.Errorf("come again in %s, %v", wait, err)
		}
		m.clock.Advance(time.Second)
	}
	if o := m.ops[id]; o.State != job.OpRunning || len(m.added) != 0 {
		t.Errorf("%d added; %+v", len(m.added), o)
	}
}

// What there is nothing of, or no more, is done at once, at any rate.
func TestAnOperationOverNothingEndsAtOnce(t *testing.T) {
	for n, ids := range map[int][]job.ExecutionID{0: nil, 1: {numbered(7)}} {
		m := newMorgue(0)
		s := m.service()
		id := m.begin(t, s, job.OpRedrive, Selection{IDs: ids}, 0.5)
		o := m.run(t, s.Runner(quiet), id, time.Duration(3*n)*time.Second+time.Millisecond)
		if o.State != job.OpSucceeded || o.Done != 0 || o.Passed != int64(n) {
			t.Errorf("%d ids: %+v", n, o)
		}
	}
}

func TestAnOperationSaysWhyItPassedSomeOver(t *testing.T) {
	for _, kind := range []job.OperationKind{job.OpRedrive, job.OpDiscard} {
		m := newMorgue(3)
		s := m.service()
		ids := []job.ExecutionID{numbered(0), numbered(1)}
		o := m.run(t, s.Runner(quiet), m.begin(t, s, kind, Selection{IDs: ids}, 0), time.Minute)
		if o.State != job.OpSucceeded || o.Passed != 0 || o.Error != "" {
			t.Errorf("%s: %+v", kind, o)
		}
		o = m.run(t, s.Runner(quiet), m.begin(t, s, kind, Selection{IDs: append(ids, numbered(2))}, 0), time.Minute)
		if o.State != job.OpSucceeded || o.Done != 1 || o.Passed != 2 || !strings.HasPrefix(o.Error, "2 passed over: ") {
			t.Errorf("%s: %+v", kind, o)
		}
	}
}

func TestSelectionsAreKept(t *testing.T) {
	at := began.Add(time.Hour)
	for _, sel := range []Selection{
		{IDs: []job.ExecutionID{numbered(1), numbered(2)}},
		{Filter: engine.DeadLetterFilter{Job: job.ID{1}, Reason: job.DeadPoison, Text: "täxt\"", From: began, Until: at, OwnAsOf: at}},
		{},
	} {
		b, err := sel.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeSelection(b, "t")
		sel.Filter.Tenant = "t"
		if err != nil || !slices.Equal(got.IDs, sel.IDs) || got.Filter != sel.Filter {
			t.Errorf("got %+v, %v, want %+v", got, err, sel)
		}
	}
	if got := (Selection{Filter: engine.DeadLetterFilter{Until: at}}).settled("t", time.Time{}, began); !got.Filter.Until.Equal(began) {
		t.Errorf("an end in the future: %v", got.Filter.Until)
	}
}

func TestOperationsNeedARole(t *testing.T) {
	s := New(nil, clock.System{}, Config{}) // a store would panic
	viewer := tenant.Principal{Tenant: "t", Role: tenant.Viewer}
	admin := tenant.Principal{Tenant: "t", Role: tenant.Admin}
	for name, err := range map[string]error{
		"begin": func() error {
			_, _, err := s.Begin(t.Context(), viewer, job.OpRedrive, Selection{}, 0, Once[job.Operation]{})
			return err
		}(),
		"cancel":  func() error { _, err := s.CancelOperation(t.Context(), viewer, job.OperationID{}); return err }(),
		"drain":   s.Drain(t.Context(), viewer, job.WorkerID{}),
		"limit":   s.SetLimit(t.Context(), operator, job.Limit{}),
		"tenants": func() error { _, err := s.Tenants(t.Context(), admin); return err }(),
		"create tenant": func() error {
			_, _, err := s.CreateTenant(t.Context(), admin, "x", tenant.Free, Once[tenant.Tenant]{})
			return err
		}(),
		"change tenant": func() error { _, err := s.UpdateTenant(t.Context(), admin, "x", TenantChange{}); return err }(),
	} {
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
