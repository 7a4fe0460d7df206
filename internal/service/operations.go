package service

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Selection selects dead letters: by their ids or, if there are none, by a filter.
type Selection struct {
	IDs    []job.ExecutionID
	Filter engine.DeadLetterFilter
	Print  job.Fingerprint // only those that died of this error; zero: any
}

// chooses reports whether a dead letter with an error is selected.
func (s *Selection) chooses(why *job.Error) bool {
	if s.Print == (job.Fingerprint{}) {
		return true
	}
	print, _ := why.Fingerprint()
	return print == s.Print
}

// spec is a selection in stored form.
type spec struct {
	IDs    []string       `json:"ids,omitempty"`
	Job    string         `json:"job,omitempty"`
	Reason job.DeadReason `json:"reason,omitempty"`
	Text   string         `json:"text,omitempty"`
	Print  string         `json:"fingerprint,omitempty"`
	From   *time.Time     `json:"from,omitempty"`
	Until  *time.Time     `json:"until,omitempty"`
	Own    time.Time      `json:"own_as_of,omitzero"`
}

func (s Selection) encode() ([]byte, error) {
	x := spec{Reason: s.Filter.Reason, Text: s.Filter.Text, Own: s.Filter.OwnAsOf}
	for _, id := range s.IDs {
		x.IDs = append(x.IDs, id.String())
	}
	if s.Print != (job.Fingerprint{}) {
		x.Print = s.Print.String()
	}
	if !s.Filter.Job.IsZero() {
		x.Job = s.Filter.Job.String()
	}
	if !s.Filter.From.IsZero() {
		x.From = &s.Filter.From
	}
	if !s.Filter.Until.IsZero() {
		x.Until = &s.Filter.Until
	}
	return json.Marshal(x)
}

func decodeSelection(b []byte, t tenant.ID) (Selection, error) {
	var x spec
	s := Selection{Filter: engine.DeadLetterFilter{Tenant: t}}
	if err := json.Unmarshal(b, &x); err != nil {
		return s, err
	}
	for _, text := range x.IDs {
		id, err := job.ParseExecutionID(text)
		if err != nil {
			return s, err
		}
		s.IDs = append(s.IDs, id)
	}
	if x.Job != "" {
		id, err := job.ParseID(x.Job)
		if err != nil {
			return s, err
		}
		s.Filter.Job = id
	}
	s.Filter.Reason, s.Filter.Text, s.Filter.OwnAsOf = x.Reason, x.Text, x.Own
	if x.Print != "" {
		var err error
		if s.Print, err = job.ParseFingerprint(x.Print); err != nil {
			return s, err
		}
	}
	if x.From != nil {
		s.Filter.From = x.From.UTC()
	}
	if x.Until != nil {
		s.Filter.Until = x.Until.UTC()
	}
	return s, nil
}

// settled returns the selection as of an instant: later dead letters are never part of it, so that what is redriven
// and dies again is not redriven forever; nor is what the tenant may not see any more.
func (s Selection) settled(t tenant.ID, since, now time.Time) Selection {
	s.Filter.Tenant = t
	if s.Filter.From.Before(since) {
		s.Filter.From = since
	}
	if u := s.Filter.Until; u.IsZero() || u.After(now) {
		s.Filter.Until = now
	}
	seen := map[job.ExecutionID]bool{}
	s.IDs = slices.DeleteFunc(slices.Clone(s.IDs), func(id job.ExecutionID) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
	return s
}

// Chosen reports how many dead letters a selection matches.
type Chosen struct {
	Count   int64
	About   bool // as it is estimated
	AtLeast bool // not all were examined
}

// CountDead returns how many dead letters match now.
func (s *Operations) CountDead(ctx context.Context, p tenant.Principal, sel Selection) (Chosen, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Chosen{}, err
	}
	if err := s.deadLetters(ctx, p); err != nil {
		return Chosen{}, err
	}
	since, err := s.executions.since(ctx, p)
	if err != nil {
		return Chosen{}, err
	}
	if sel.Filter.OwnAsOf, err = s.executions.ownAsOf(ctx, p, sel.Filter.Job); err != nil {
		return Chosen{}, err
	}
	return s.count(ctx, sel.settled(p.Tenant, since, s.now()))
}

func (s *Operations) count(ctx context.Context, sel Selection) (n Chosen, err error) {
	if len(sel.IDs) == 0 && sel.Print != (job.Fingerprint{}) {
		return s.countPrint(ctx, sel)
	}
	if len(sel.IDs) == 0 {
		page, err := s.store.DeadLetters(ctx, sel.Filter, engine.Page{Limit: 1})
		return Chosen{Count: page.Total.Count, About: page.Total.Estimate}, err
	}
	for _, id := range sel.IDs {
		page, err := s.store.DeadLetters(ctx, engine.DeadLetterFilter{Tenant: sel.Filter.Tenant, Execution: id, From: sel.Filter.From, OwnAsOf: sel.Filter.OwnAsOf}, engine.Page{Limit: 1})
		if err != nil {
			return n, err
		}
		n.Count += int64(len(page.DeadLetters))
	}
	return n, nil
}

// countPrint examines the error of each dead letter, for as long as a sample may take.
func (s *Operations) countPrint(ctx context.Context, sel Selection) (n Chosen, err error) {
	page := engine.Page{Limit: deadLooked}
	for began := s.now(); ; {
		ds, err := s.store.DeadErrors(ctx, sel.Filter, page)
		if err != nil {
			return n, err
		}
		for _, d := range ds.Rows {
			if sel.chooses(d.Error) {
				n.Count++
			}
		}
		if ds.Next == "" {
			return n, nil
		}
		if s.now().Sub(began) > sampleTime {
			n.AtLeast = true
			return n, nil
		}
		page.Cursor = ds.Next
	}
}

// Begin begins an operation over dead letters, at a rate per second (0: unlimited). It does not include those that
// die after it began.
func (s *Operations) Begin(ctx context.Context, p tenant.Principal, kind job.OperationKind, sel Selection, rate float64, once Once[job.Operation]) (o job.Operation, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return o, nil, err
	}
	if err := s.deadLetters(ctx, p); err != nil {
		return o, nil, err
	}
	now := s.now()
	since, err := s.executions.since(ctx, p)
	if err != nil {
		return o, nil, err
	}
	if sel.Filter.OwnAsOf, err = s.executions.ownAsOf(ctx, p, sel.Filter.Job); err != nil {
		return o, nil, err
	}
	sel = sel.settled(p.Tenant, since, now)
	total, err := s.count(ctx, sel)
	if err != nil {
		return o, nil, err
	}
	what, err := sel.encode()
	if err != nil {
		return o, nil, err
	}
	return s.begin(ctx, p, job.Operation{Kind: kind, Spec: what, Rate: rate, Total: total.Count}, once)
}

// begin stores an operation, for a runner to take.
func (s *Operations) begin(ctx context.Context, p tenant.Principal, o job.Operation, once Once[job.Operation]) (job.Operation, []byte, error) {
	now := s.now()
	o.ID, o.Tenant, o.State, o.By, o.CreatedAt, o.UpdatedAt, o.Version = job.OperationID(newID()), p.Tenant, job.OpRunning, p.Name, now, now, 1
	told := fields{"kind": string(o.Kind), "total": fmt.Sprint(o.Total), "rate_per_s": fmt.Sprint(o.Rate), "of": digest(o.Spec)}
	out, err := s.store.AddOperation(ctx, o, once.with(o, now), s.audited(p, "operation.begin", o.ID.String(), detail{After: told}))
	if err != nil {
		return o, nil, fmt.Errorf("begin to %s: %w", o.Kind, err)
	}
	if replay, err := outcome(out); replay != nil || err != nil {
		return o, replay, err
	}
	s.rouse()
	return o, nil, nil
}

// rouse notifies the runner of an operation that was added here.
func (s *shared) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Operation finds one operation.
func (s *Operations) Operation(ctx context.Context, p tenant.Principal, id job.OperationID) (job.Operation, error) {
	if err := allow(p, tenant.Read); err != nil {
		return job.Operation{}, err
	}
	return s.store.Operation(ctx, p.Tenant, id)
}

// FindOperations lists operations, newest first.
func (s *Operations) FindOperations(ctx context.Context, p tenant.Principal, page engine.Page) (engine.OperationPage, error) {
	if err := allow(p, tenant.Read); err != nil {
		return engine.OperationPage{}, err
	}
	return s.store.FindOperations(ctx, p.Tenant, page)
}

// CancelOperation ends a running operation; what it has done stays. *NotDone if it has finished otherwise, or is the
// rest of a deletion.
func (s *Operations) CancelOperation(ctx context.Context, p tenant.Principal, id job.OperationID) (job.Operation, error) {
	if err := allow(p, tenant.Write); err != nil {
		return job.Operation{}, err
	}
	if o, err := s.store.Operation(ctx, p.Tenant, id); err != nil {
		return o, err
	} else if !o.Kind.Cancellable() {
		return o, &NotDone{"cancel", "The operation cancels what waited for a deleted job; it cannot be cancelled."}
	}
	o, err := s.store.CancelOperation(ctx, p.Tenant, id, s.audited(p, "operation.cancel", id.String(), detail{}))
	if !isConflict(err) {
		return o, err
	}
	if o, err = s.store.Operation(ctx, p.Tenant, id); err != nil {
		return o, err
	}
	return o, &NotDone{"cancel", fmt.Sprintf("The operation has finished as %s; it cannot be cancelled.", o.State)}
}
