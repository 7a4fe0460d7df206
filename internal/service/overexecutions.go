package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// ExecutionSelection selects executions: by their ids or, if there are none, by a filter.
type ExecutionSelection struct {
	IDs    []job.ExecutionID
	Filter engine.ExecutionFilter
}

// ExecutionAction is an action on each execution of a selection.
type ExecutionAction struct {
	Kind    job.OperationKind // job.OpCancelExecutions or job.OpRetryExecutions
	Reason  string            // of a cancel
	Payload []byte            // of a retry; nil: each keeps its own
}

// ExecutionsSample describes a selection before anything is done to it.
type ExecutionsSample struct {
	Total      engine.Total
	Executions []job.Execution // the first few
}

// overExecutions is an operation over executions in stored form: the selection, the action, and the progress.
type overExecutions struct {
	IDs      []string        `json:"ids,omitempty"`
	Job      string          `json:"job,omitempty"`
	Statuses []job.Status    `json:"statuses,omitempty"`
	Triggers []job.Trigger   `json:"triggers,omitempty"`
	Worker   string          `json:"worker,omitempty"`
	JobName  string          `json:"job_name,omitempty"`
	Tag      string          `json:"tag,omitempty"`
	Text     string          `json:"text,omitempty"`
	From     time.Time       `json:"from,omitzero"`
	Until    time.Time       `json:"until,omitzero"`
	Kept     time.Time       `json:"kept,omitzero"`
	OwnAsOf  time.Time       `json:"own_as_of,omitzero"`
	Reason   string          `json:"reason,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	asker

	Cursor string `json:"cursor,omitempty"` // after the last one done
	Last   string `json:"last,omitempty"`   // the last one done, of ids

	ids    []job.ExecutionID
	filter engine.ExecutionFilter
	next   string // where the next page begins
}

func decodeOver(b []byte) (x overExecutions, err error) {
	if err := json.Unmarshal(b, &x); err != nil {
		return x, err
	}
	x.next = x.Cursor
	x.ids = make([]job.ExecutionID, len(x.IDs))
	for i, text := range x.IDs {
		if x.ids[i], err = job.ParseExecutionID(text); err != nil {
			return x, err
		}
	}
	x.filter = engine.ExecutionFilter{Statuses: x.Statuses, Triggers: x.Triggers, JobName: x.JobName, Tag: x.Tag, Text: x.Text, From: x.From, Until: x.Until, Kept: x.Kept, OwnAsOf: x.OwnAsOf}
	if x.Job != "" {
		if x.filter.Job, err = job.ParseID(x.Job); err != nil {
			return x, err
		}
	}
	if x.Worker != "" {
		x.filter.Worker, err = job.ParseWorkerID(x.Worker)
	}
	return x, err
}

// fits lists the statuses in which an execution may be for an action.
func (a ExecutionAction) fits() (usual, all []job.Status) {
	if a.Kind == job.OpCancelExecutions {
		usual = []job.Status{job.Waiting, job.Pending, job.Running, job.Retrying}
		return usual, append(usual[:len(usual):len(usual)], job.Cancelling)
	}
	for _, s := range job.Statuses() {
		if s.Final() {
			all = append(all, s)
		}
	}
	return []job.Status{job.Failed, job.TimedOut}, all
}

// settle checks a selection and an action, and limits the selection to the instant.
func (s *Operations) settle(ctx context.Context, p tenant.Principal, sel *ExecutionSelection, a ExecutionAction, now time.Time) error {
	var v job.Invalids
	if !job.ValidNote(a.Reason) {
		v.Add("reason", a.Reason, job.WantNote)
	}
	usual, all := a.fits()
	for _, st := range sel.Filter.Statuses {
		if !slices.Contains(all, st) {
			v.Add("filter.status", st.String(), fmt.Sprintf("statuses that can be chosen for this: %v", all))
		}
	}
	if len(v) > 0 {
		return v
	}
	if err := s.overrideFits(ctx, p, a.Payload); err != nil {
		return err
	}
	if err := s.jobs.plans(p.Tenant).overriding(ctx, a.Payload); err != nil {
		return err
	}
	f := &sel.Filter
	var err error
	if f.Kept, err = s.executions.since(ctx, p); err != nil {
		return err
	}
	if f.OwnAsOf, err = s.executions.ownAsOf(ctx, p, job.ID{}); err != nil {
		return err
	}
	if f.Tenant = p.Tenant; len(f.Statuses) == 0 {
		f.Statuses = usual
	}
	if end := now.Add(time.Microsecond); f.Until.IsZero() || f.Until.After(end) {
		f.Until = end
	}
	seen := map[job.ExecutionID]bool{}
	sel.IDs = slices.DeleteFunc(slices.Clone(sel.IDs), func(id job.ExecutionID) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
	id, err := job.ParseID(f.Text)
	if err != nil || len(sel.IDs) > 0 {
		return nil
	}
	f.Text = "" // it is one of a job, or of an execution of one
	e, err := s.store.Execution(ctx, p.Tenant, job.ExecutionID(id))
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	if err == nil && e.Job != id {
		f.From, f.Until, id = e.ScheduledAt, e.ScheduledAt.Add(time.Microsecond), e.Job
	}
	if !f.Job.IsZero() && f.Job != id {
		f.Until = f.From // nothing belongs to two jobs at once
	}
	f.Job = id
	return nil
}

// SampleExecutions returns how many executions a selection matches, and the first of them, if an action may be
// applied to them.
func (s *Operations) SampleExecutions(ctx context.Context, p tenant.Principal, sel ExecutionSelection, a ExecutionAction) (out ExecutionsSample, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	if err := s.settle(ctx, p, &sel, a, s.now()); err != nil {
		return out, err
	}
	return s.sampleExecutions(ctx, sel, a)
}

const sampleTime = 2 * time.Second // after which a sample examines no further page

func (s *Operations) sampleExecutions(ctx context.Context, sel ExecutionSelection, a ExecutionAction) (out ExecutionsSample, err error) {
	_, all := a.fits()
	for _, id := range sel.IDs {
		e, err := s.store.Execution(ctx, sel.Filter.Tenant, id)
		var past bool
		if err == nil {
			past, err = s.past(ctx, &e, sel.Filter.Kept, sel.Filter.OwnAsOf)
		}
		switch {
		case errors.Is(err, engine.ErrNotFound) || err == nil && (!slices.Contains(all, e.Status) || past):
			continue
		case err != nil:
			return out, err
		}
		if out.Total.Count++; len(out.Executions) < sampled {
			out.Executions = append(out.Executions, e)
		}
	}
	if len(sel.IDs) > 0 {
		return out, nil
	}
	page := engine.Page{Limit: sampled, Bounded: true}
	for began := time.Now(); ; page.Uncounted = true {
		found, err := s.store.FindExecutions(ctx, sel.Filter, page)
		if err != nil {
			return out, err
		}
		if !page.Uncounted {
			out.Total = found.Total
		}
		out.Executions = append(out.Executions, found.Executions...)
		if page.Cursor = found.Next; !found.Partial || len(out.Executions) >= sampled || time.Since(began) > sampleTime {
			break
		}
	}
	out.Total.Count = max(out.Total.Count, int64(len(out.Executions)))
	out.Executions = out.Executions[:min(sampled, len(out.Executions))]
	return out, nil
}

// BeginExecutions begins to apply an action to each execution of a selection, at a rate per second (0: unlimited). It
// does not include what is scheduled after it began, nor what it creates itself.
func (s *Operations) BeginExecutions(ctx context.Context, p tenant.Principal, sel ExecutionSelection, a ExecutionAction, rate float64, once Once[job.Operation]) (o job.Operation, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return o, nil, err
	}
	if err := s.settle(ctx, p, &sel, a, s.now()); err != nil {
		return o, nil, err
	}
	found, err := s.sampleExecutions(ctx, sel, a)
	if err != nil {
		return o, nil, err
	}
	f := sel.Filter
	x := overExecutions{
		Statuses: f.Statuses, Triggers: f.Triggers, JobName: f.JobName, Tag: f.Tag, Text: f.Text, From: f.From, Until: f.Until, Kept: f.Kept, OwnAsOf: f.OwnAsOf,
		Reason: a.Reason, Payload: a.Payload, asker: askedBy(p),
	}
	if !f.Job.IsZero() {
		x.Job = f.Job.String()
	}
	if !f.Worker.IsZero() {
		x.Worker = f.Worker.String()
	}
	for _, id := range sel.IDs {
		x.IDs = append(x.IDs, id.String())
	}
	what, err := json.Marshal(x)
	if err != nil {
		return o, nil, err
	}
	return s.begin(ctx, p, job.Operation{Kind: a.Kind, Spec: what, Rate: rate, Total: found.Total.Count}, once)
}

// listOver reads the next executions of an operation after the last one done, possibly by another server. Executions
// that are done keep their place, so the next page neither repeats nor skips any.
func (r *Runner) listOver(ctx context.Context, x *run) error {
	b := &x.over
	if len(b.ids) > 0 {
		at := 1 + slices.IndexFunc(b.ids, func(id job.ExecutionID) bool { return id.String() == b.Last })
		end := min(at+piece, len(b.ids))
		x.next, x.last = slices.Clone(b.ids[at:end]), end == len(b.ids)
		return nil
	}
	f := b.filter
	f.Tenant = x.op.Tenant
	page, err := r.s.store.FindExecutions(ctx, f, engine.Page{Limit: piece, Cursor: b.next, Uncounted: true, Bounded: true})
	if err != nil {
		return fmt.Errorf("list executions: %w", err)
	}
	x.instants = make(map[job.ExecutionID]time.Time, len(page.Executions))
	for _, e := range page.Executions {
		x.next = append(x.next, e.ID)
		x.instants[e.ID] = e.ScheduledAt
	}
	b.next, x.last = page.Next, page.Next == ""
	return nil
}

// doneOver records which execution was done last.
func (x *run) doneOver(these []job.ExecutionID) (err error) {
	last := these[len(these)-1]
	if len(x.over.ids) > 0 {
		x.over.Last = last.String()
	} else {
		x.over.Cursor = engine.EncodeCursor(x.instants[last], last)
	}
	x.op.Spec, err = json.Marshal(x.over)
	return err
}

// doOver cancels or retries a few executions, and returns how many it could.
func (r *Runner) doOver(ctx context.Context, x *run, ids []job.ExecutionID) (done int, err error) {
	p := x.over.principal(x.op)
	if x.op.Kind == job.OpRetryExecutions {
		return r.retryThese(ctx, p, x, ids)
	}
	for _, id := range ids {
		_, err := r.s.executions.Cancel(ctx, p, id, x.over.Reason)
		var refused *NotDone
		switch {
		case err == nil:
			done++
		case errors.Is(err, engine.ErrNotFound) || errors.As(err, &refused): // passed over
		default:
			return 0, err
		}
	}
	return done, nil
}

// retryThese runs executions again, each once by this operation: the id of the new one is derived from the operation
// and the old id.
func (r *Runner) retryThese(ctx context.Context, p tenant.Principal, x *run, ids []job.ExecutionID) (int, error) {
	var all []job.Execution
	var parts []runPart
	jobs := map[job.ID]job.Job{}
	for _, id := range ids {
		old, err := r.s.store.Execution(ctx, x.op.Tenant, id)
		var past bool
		if err == nil {
			past, err = r.s.past(ctx, &old, x.over.Kept, x.over.OwnAsOf)
		}
		if err == nil && (!old.Status.Final() || past) {
			continue // skipped, like the others
		}
		var e job.Execution
		var part runPart
		if err == nil {
			e, part, err = r.anew(ctx, x, old, jobs)
		}
		switch {
		case refusedToRun(err):
			continue
		case err != nil:
			return 0, err
		}
		if part.run != (job.ExecutionID{}) {
			parts = append(parts, part)
			continue
		}
		all = append(all, e)
	}
	p.Internal = true // what an operation begins counts against no rate
	done, err := r.s.reruns.retryParts(ctx, p, parts, x.over.Payload)
	if err != nil || len(all) == 0 {
		return done, err
	}
	entry := r.s.entry(p, "execution.retry", all[0].RetryOf.String(), detail{After: fields{"operation_id": x.op.ID.String()}})
	entry.Count = len(all)
	got, err := r.s.store.Rerun(ctx, x.op.Tenant, engine.Rerun{Executions: all, Entry: &entry})
	if err != nil {
		return 0, err
	}
	var ready []job.Ready
	for i := range all {
		if slices.Contains(got.Added, all[i].ID) {
			ready = append(ready, all[i].Ready())
		}
	}
	r.s.cfg.Hint(ready)
	return done + len(got.Added), nil
}

// anew is the new execution of one that has ended, or the part of a run that it stands for.
func (r *Runner) anew(ctx context.Context, x *run, old job.Execution, jobs map[job.ID]job.Job) (e job.Execution, part runPart, err error) {
	j, part, err := r.partOf(ctx, old, jobs)
	if err != nil || part.run != (job.ExecutionID{}) {
		return e, part, err
	}
	e = j.Rerun(old, derivedAt(x.op.ID, old.ID[:], x.op.CreatedAt), job.ByRetry, x.over.Payload, r.s.now())
	return e, part, regroup(j, &e)
}
