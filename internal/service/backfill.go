package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Backfill selects past instants of a job's schedule to fire.
type Backfill struct {
	From, To    time.Time // from is in it, to is not
	OnlyMissing bool      // those without an execution, or with only a skipped one
}

// filling is a backfill as stored in its operation.
type filling struct {
	Job         string    `json:"job"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	OnlyMissing bool      `json:"only_missing"`
	At          time.Time `json:"at,omitzero"` // progress: everything before it is done

	job job.ID
}

// MaxBackfill limits how many instants one backfill may fire.
const MaxBackfill = 100_000

// CountBackfill returns how many instants a backfill would fire.
func (s *Operations) CountBackfill(ctx context.Context, p tenant.Principal, ref engine.Ref, b Backfill) (int64, error) {
	if err := allow(p, tenant.Read); err != nil {
		return 0, err
	}
	_, n, err := s.fill(ctx, p, ref, b)
	return n, err
}

// BeginBackfill begins to fire past instants of a job, at a rate per second (0: unlimited).
func (s *Operations) BeginBackfill(ctx context.Context, p tenant.Principal, ref engine.Ref, b Backfill, rate float64, once Once[job.Operation]) (o job.Operation, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return o, nil, err
	}
	f, total, err := s.fill(ctx, p, ref, b)
	if err != nil {
		return o, nil, err
	}
	what, err := json.Marshal(f)
	if err != nil {
		return o, nil, err
	}
	return s.begin(ctx, p, job.Operation{Kind: job.OpBackfill, Spec: what, Rate: rate, Total: total}, once)
}

// fill checks a backfill and counts its instants.
func (s *Operations) fill(ctx context.Context, p tenant.Principal, ref engine.Ref, b Backfill) (f filling, n int64, err error) {
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return f, 0, err
	}
	if j.State == job.Deleted {
		return f, 0, engine.ErrNotFound
	}
	if j.Schedule.Type == job.Manual {
		return f, 0, &NotDone{"backfill", "The job has no schedule: there is nothing to backfill. Trigger it instead."}
	}
	if !j.Schedule.Type.Recurs() {
		return f, 0, &NotDone{"backfill", "The job fires once: there is nothing to backfill. Trigger it instead."}
	}
	ps := s.jobs.plans(p.Tenant)
	if b.To.After(ps.at) {
		b.To = ps.at
	}
	if next := j.NextRunAt; !next.IsZero() && b.To.After(next) {
		b.To = next // planned and owed later instants are fired by the schedule
	}
	var v job.Invalids
	if b.From.IsZero() || !b.From.Before(b.To) {
		v.Add("from", b.From.Format(time.RFC3339), "a time in the past, before to")
		return f, 0, v
	}
	f = filling{Job: j.ID.String(), From: b.From.UTC(), To: b.To.UTC(), OnlyMissing: b.OnlyMissing, job: j.ID}
	for at, pages := f.From, 0; at.Before(f.To); pages++ {
		if pages > maxFillPages {
			v.Add("from", b.From.Format(time.RFC3339), fmt.Sprintf("a shorter range: this one has over %d instants to look at", maxFillPages*schedule.MaxPreview))
			return f, 0, v
		}
		found, end, err := s.toFill(ctx, ps, j, f, at, job.Operation{})
		if err != nil {
			return f, 0, err
		}
		if n += int64(len(found)); n > MaxBackfill {
			v.Add("from", b.From.Format(time.RFC3339), fmt.Sprintf("a range with at most %d instants", MaxBackfill))
			return f, 0, v
		}
		at = end
	}
	return f, n, nil
}

// maxFillPages limits how much one backfill examines.
const maxFillPages = 200

// toFill lists instants of a backfill from one on, and where it stopped. Executions that the operation itself created
// count as missing: creating them again changes nothing.
func (s *Operations) toFill(ctx context.Context, ps *plans, j job.Job, f filling, from time.Time, o job.Operation) ([]time.Time, time.Time, error) {
	t := &timetable{s: s.jobs, j: j, ps: ps, always: true}
	if err := t.read(ctx, from, f.To, schedule.MaxPreview); err != nil {
		return nil, from, err
	}
	if f.OnlyMissing && len(t.unread) > 0 {
		return nil, from, fmt.Errorf("find what has run between %s and %s: %w: %s", from.Format(time.RFC3339), t.end.Format(time.RFC3339), engine.ErrArchive, strings.Join(t.unread, ", "))
	}
	var out []time.Time
	for _, x := range t.planned {
		if x.Flag == schedule.Excluded || !x.UTC.Before(t.end) {
			continue
		}
		e, ok := t.records[x.UTC.UnixMicro()]
		if ok && f.OnlyMissing && !e.PassedOver() && e.ID != filled(o, x.UTC) {
			continue
		}
		out = append(out, x.UTC)
	}
	return out, t.end, nil
}

// filled returns the id of a backfill's execution for an instant: always the same, so that repeating it adds nothing.
func filled(o job.Operation, at time.Time) job.ExecutionID {
	return derivedAt(o.ID, []byte(at.UTC().Format(time.RFC3339)), o.CreatedAt)
}

func decodeFilling(b []byte) (f filling, err error) {
	if err = json.Unmarshal(b, &f); err == nil {
		f.job, err = job.ParseID(f.Job)
	}
	return f, err
}

// listFill reads the next piece of a backfill.
func (r *Runner) listFill(ctx context.Context, x *run) error {
	j, err := r.s.store.Job(ctx, x.op.Tenant, engine.Ref{ID: x.fill.job})
	if errors.Is(err, engine.ErrNotFound) || err == nil && (j.State == job.Deleted || !j.Schedule.Type.Recurs()) {
		x.last = true // there is nothing left to fire
		return nil
	}
	if err != nil {
		return err
	}
	found, end, err := r.s.toFill(ctx, r.s.jobs.plans(x.op.Tenant), j, x.fill, x.from, x.op)
	if err != nil {
		return err
	}
	x.instants = map[job.ExecutionID]time.Time{}
	for _, at := range found {
		id := filled(x.op, at)
		x.next, x.instants[id] = append(x.next, id), at
	}
	x.from, x.last = end, !end.Before(x.fill.To)
	return nil
}

// filled records the progress of a backfill: to the next instant of the piece, or to its end.
func (x *run) filled() (err error) {
	if x.fill.At = x.from; len(x.next) > 0 {
		x.fill.At = x.instants[x.next[0]]
	}
	x.op.Spec, err = json.Marshal(x.fill)
	return err
}

// fillIn fires a few instants in one commit, and returns how many exist.
func (r *Runner) fillIn(ctx context.Context, x *run, ids []job.ExecutionID) (int, error) {
	j, err := r.s.store.Job(ctx, x.op.Tenant, engine.Ref{ID: x.fill.job})
	if errors.Is(err, engine.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	now := r.s.now()
	es := make([]job.Execution, len(ids))
	for i, id := range ids {
		es[i] = j.Fire(id, x.instants[id], now)
		es[i].Trigger = job.ByBackfill
	}
	got, err := r.s.store.Backfill(ctx, x.op.Tenant, j.ID, es)
	if errors.Is(err, engine.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	there := make(map[job.ExecutionID]bool, len(got))
	for _, id := range got {
		there[id] = true
	}
	var ready []job.Ready
	for i := range es {
		if there[es[i].ID] {
			ready = append(ready, es[i].Ready())
		}
	}
	r.s.cfg.Hint(ready)
	return len(got), nil
}
