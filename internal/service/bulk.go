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

// JobSelection selects jobs: by their ids or, if there are none, by a filter.
type JobSelection struct {
	IDs    []job.ID
	Filter engine.JobFilter
}

// JobAction is an action on each job of a selection.
type JobAction struct {
	Kind    job.OperationKind // one of job.JobActions
	Reason  string            // of a pause
	Until   time.Time         // of a pause; zero: until it is resumed
	Tags    []string          // that are added or removed
	Payload []byte            // of a trigger; nil: the job's
}

// Sample describes a selection before anything is done to it.
type Sample struct {
	Total engine.Total
	Jobs  []job.Job // the first few
}

const sampled = 10

// asker identifies who requested an operation, for the audit entries of what it does.
type asker struct {
	Role    tenant.Role `json:"by_role,omitempty"`
	Key     string      `json:"by_key,omitempty"`
	From    string      `json:"by_origin,omitempty"`
	Request string      `json:"by_request,omitempty"`
}

func askedBy(p tenant.Principal) asker { return asker{p.Role, p.Key, p.From, p.Asked} }

// principal returns the requester, in whose name the work is done. For older operations only the name is known.
func (a asker) principal(o job.Operation) tenant.Principal {
	p := tenant.Principal{Tenant: o.Tenant, Role: a.Role, Name: o.By, Key: a.Key, From: a.From, Asked: a.Request}
	if p.Role == "" {
		p.Role = tenant.System
	}
	return p
}

// bulk is an operation over jobs in stored form: the selection, the action, and the progress.
type bulk struct {
	IDs        []string         `json:"ids,omitempty"`
	State      job.State        `json:"state,omitempty"`
	Type       job.ScheduleType `json:"schedule_type,omitempty"`
	Tag        string           `json:"tag,omitempty"`
	WithoutTag string           `json:"without_tag,omitempty"`
	Name       string           `json:"name,omitempty"`
	Text       string           `json:"text,omitempty"`
	Owner      string           `json:"owner,omitempty"`
	Late       time.Time        `json:"late_before,omitzero"`
	Reason     string           `json:"reason,omitempty"`
	Until      time.Time        `json:"until,omitzero"`
	Tags       []string         `json:"tags,omitempty"`
	Payload    json.RawMessage  `json:"payload,omitempty"`
	asker

	Newest string `json:"newest,omitempty"` // of those that a filter selected when it began; newer ones are left out
	Cursor string `json:"cursor,omitempty"` // of the current page
	Last   string `json:"last,omitempty"`   // the last job done; the newest are done first

	ids  []job.ID
	next string // cursor of the next page
}

func decodeBulk(b []byte) (x bulk, err error) {
	if err := json.Unmarshal(b, &x); err != nil {
		return x, err
	}
	x.next = x.Cursor
	x.ids = make([]job.ID, len(x.IDs))
	for i, text := range x.IDs {
		if x.ids[i], err = job.ParseID(text); err != nil {
			return x, err
		}
	}
	return x, nil
}

func (x *bulk) filter(t tenant.ID) engine.JobFilter {
	return engine.JobFilter{Tenant: t, State: x.State, ScheduleType: x.Type, Tag: x.Tag, WithoutTag: x.WithoutTag, Name: x.Name, Text: x.Text, Owner: x.Owner, LateBefore: x.Late}
}

// checkAction reports what is wrong with an action.
func (s *Operations) checkAction(ctx context.Context, p tenant.Principal, a JobAction) error {
	var v job.Invalids
	if !job.ValidNote(a.Reason) {
		v.Add("reason", a.Reason, job.WantNote)
	}
	if !a.Until.IsZero() && !a.Until.After(s.now()) {
		v.Add("until", a.Until.Format(time.RFC3339), "an instant in the future, or null for until they are resumed")
	}
	if a.Kind == job.OpTag || a.Kind == job.OpUntag {
		v = append(v, job.CheckTags(a.Tags)...)
		if len(a.Tags) == 0 {
			v.Add("tags", "", "at least one tag")
		}
	}
	if len(v) > 0 {
		return v
	}
	if err := s.overrideFits(ctx, p, a.Payload); err != nil {
		return err
	}
	return s.jobs.plans(p.Tenant).overriding(ctx, a.Payload)
}

// SampleJobs returns how many jobs a selection matches, and the first of them, if an action may be applied to them.
func (s *Operations) SampleJobs(ctx context.Context, p tenant.Principal, sel JobSelection, a JobAction) (out Sample, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	if err := s.checkAction(ctx, p, a); err != nil {
		return out, err
	}
	return s.sample(ctx, p, sel)
}

func (s *Operations) sample(ctx context.Context, p tenant.Principal, sel JobSelection) (out Sample, err error) {
	if len(sel.IDs) == 0 {
		sel.Filter.Tenant = p.Tenant
		page, err := s.store.FindJobs(ctx, sel.Filter, engine.Page{Limit: sampled})
		return Sample{Total: page.Total, Jobs: page.Jobs}, err
	}
	for _, id := range sel.IDs {
		j, err := s.find(ctx, p.Tenant, engine.Ref{ID: id})
		switch {
		case errors.Is(err, engine.ErrNotFound) || err == nil && j.State == job.Deleted:
			continue
		case err != nil:
			return out, err
		}
		out.Total.Count++
		if len(out.Jobs) < sampled {
			out.Jobs = append(out.Jobs, j)
		}
	}
	return out, nil
}

// BeginJobs begins to apply an action to each job of a selection, at a rate per second (0: unlimited). It does not
// include jobs created after it began.
func (s *Operations) BeginJobs(ctx context.Context, p tenant.Principal, sel JobSelection, a JobAction, rate float64, once Once[job.Operation]) (o job.Operation, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return o, nil, err
	}
	if err := s.checkAction(ctx, p, a); err != nil {
		return o, nil, err
	}
	sel.IDs = slices.Compact(slices.SortedFunc(slices.Values(sel.IDs), func(a, b job.ID) int { return slices.Compare(b[:], a[:]) }))
	found, err := s.sample(ctx, p, sel)
	if err != nil {
		return o, nil, err
	}
	f := sel.Filter
	x := bulk{
		State: f.State, Type: f.ScheduleType, Tag: f.Tag, WithoutTag: f.WithoutTag, Name: f.Name, Text: f.Text, Owner: f.Owner, Late: f.LateBefore.UTC(),
		Reason: a.Reason, Until: a.Until.UTC().Truncate(time.Microsecond), Tags: a.Tags, Payload: a.Payload, asker: askedBy(p),
	}
	for _, id := range sel.IDs {
		x.IDs = append(x.IDs, id.String())
	}
	if len(sel.IDs) == 0 && len(found.Jobs) > 0 {
		x.Newest = found.Jobs[0].ID.String()
	}
	what, err := json.Marshal(x)
	if err != nil {
		return o, nil, err
	}
	return s.begin(ctx, p, job.Operation{Kind: a.Kind, Spec: what, Rate: rate, Total: found.Total.Count}, once)
}

// listJobs reads the next jobs of a bulk operation, newest first, after the last one done, possibly by another
// server.
func (r *Runner) listJobs(ctx context.Context, x *run) error {
	b := &x.bulk
	if len(b.ids) > 0 {
		at := 1 + slices.IndexFunc(b.ids, func(id job.ID) bool { return id.String() == b.Last })
		for _, id := range b.ids[at:min(at+piece, len(b.ids))] {
			x.next = append(x.next, job.ExecutionID(id))
		}
		x.last = at+piece >= len(b.ids)
		return nil
	}
	if b.Newest == "" {
		x.last = true
		return nil
	}
	page, err := r.s.store.FindJobs(ctx, b.filter(x.op.Tenant), engine.Page{Limit: piece, Cursor: b.next, Uncounted: true})
	if err != nil {
		return fmt.Errorf("list jobs: %w", err)
	}
	for _, j := range page.Jobs {
		if id := j.ID.String(); id <= b.Newest && (b.Last == "" || id < b.Last) {
			x.next = append(x.next, job.ExecutionID(j.ID))
		}
	}
	b.Cursor, b.next, x.last = b.next, page.Next, page.Next == ""
	return nil
}

// doneTo records which job was done last.
func (x *run) doneTo(these []job.ExecutionID) (err error) {
	x.bulk.Last = these[len(these)-1].String()
	x.op.Spec, err = json.Marshal(x.bulk)
	return err
}

// doToJobs applies an action to a few jobs, and returns to how many it could.
func (r *Runner) doToJobs(ctx context.Context, x *run, ids []job.ExecutionID) (done int, err error) {
	p := x.bulk.principal(x.op)
	for _, id := range ids {
		err := r.doToJob(ctx, p, x, job.ID(id))
		var refused *NotDone
		var held *engine.Held
		var used *engine.Used
		switch {
		case err == nil:
			done++
		case errors.Is(err, engine.ErrNotFound) || isInvalid(err) || errors.As(err, &refused) || errors.As(err, &held) || errors.As(err, &used): // passed over
		default:
			return 0, err
		}
	}
	return done, nil
}

func (r *Runner) doToJob(ctx context.Context, p tenant.Principal, x *run, id job.ID) (err error) {
	ref, b := engine.Ref{ID: id}, &x.bulk
	switch x.op.Kind {
	case job.OpPause:
		_, err = r.s.jobs.PauseJob(ctx, p, ref, b.Reason, b.Until)
	case job.OpResume:
		_, err = r.s.jobs.ResumeJob(ctx, p, ref)
	case job.OpDelete:
		_, err = r.s.jobs.DeleteJob(ctx, p, ref)
	case job.OpTrigger:
		// A job that this operation has already triggered is not triggered again. As in a backfill, executions over
		// the tenant's rate wait to start: if they were refused here, repeating a piece would use up the rate for
		// nothing.
		var t Triggered
		if t, _, err = r.s.jobs.trigger(ctx, p, ref, firing{id: derivedAt(x.op.ID, id[:], x.op.CreatedAt), payload: b.Payload}, Once[job.Execution]{}, unasked); err == nil && t.Instead {
			return &NotDone{"trigger", "Another execution holds its unique key."}
		}
	default:
		_, err = r.s.jobs.UpdateJob(ctx, p, ref, 0, func(j job.Job) (job.Definition, error) {
			return retagged(j.Definition, x.op.Kind, b.Tags), nil
		})
	}
	return err
}

// unasked allows an operation what was allowed when it began.
func unasked(context.Context, tenant.Principal) error { return nil }

// retagged returns a definition with tags added or removed.
func retagged(d job.Definition, kind job.OperationKind, tags []string) job.Definition {
	out := slices.Clone(d.Tags)
	if kind == job.OpUntag {
		out = slices.DeleteFunc(out, func(t string) bool { return slices.Contains(tags, t) })
	}
	for _, t := range tags {
		if kind == job.OpTag && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		out = nil
	}
	d.Tags = out
	return d
}
