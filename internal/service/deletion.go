package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// remainder is the rest of a deletion as stored in its operation.
type remainder struct {
	Job string `json:"job"`

	of job.ID
}

func decodeRemainder(b []byte) (x remainder, err error) {
	if err := json.Unmarshal(b, &x); err != nil {
		return x, err
	}
	x.of, err = job.ParseID(x.Job)
	return x, err
}

// DeleteJob deletes a job, cancels its waiting executions, and leaves running ones alone. Nothing of it starts any
// more. If very many wait, an operation cancels the rest.
func (s *Jobs) DeleteJob(ctx context.Context, p tenant.Principal, ref engine.Ref) (Report, error) {
	return s.deleteJob(ctx, p, ref, false)
}

// DeleteAndStopJob is DeleteJob, and asks running executions to stop, even if the job was deleted before.
func (s *Jobs) DeleteAndStopJob(ctx context.Context, p tenant.Principal, ref engine.Ref) (Report, error) {
	return s.deleteJob(ctx, p, ref, true)
}

func (s *Jobs) deleteJob(ctx context.Context, p tenant.Principal, ref engine.Ref, stop bool) (Report, error) {
	if err := allow(p, tenant.Write); err != nil {
		return Report{}, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return Report{}, err
	}
	now := s.now()
	rest, err := restOf(p, j.ID, now)
	if err != nil {
		return Report{}, err
	}
	deletion := engine.Deletion{Job: j.ID, AsOf: now, Rest: &rest}
	if j.State != job.Deleted {
		told := detail{Before: brief(&j)}
		if stop {
			told.After = fields{"running": "cancel"}
		}
		deletion.Entry = s.audited(p, "job.delete", j.ID.String(), told)
	}
	gone, err := s.store.DeleteJob(ctx, p.Tenant, deletion)
	if err != nil {
		return Report{}, err
	}
	if gone.Rest != (job.OperationID{}) {
		s.rouse()
	}
	if stop {
		if err := s.stopRunning(ctx, p, j.ID); err != nil {
			return Report{}, err
		}
	}
	out, err := s.report(ctx, p, gone.Job)
	out.Rest = gone.Rest
	return out, err
}

// stopRunning asks all running executions of a job to stop. No more of them start, so those found are all.
func (s *Jobs) stopRunning(ctx context.Context, p tenant.Principal, of job.ID) error {
	reason := "its job was deleted by " + p.Name
	for page := (engine.Page{Limit: 1000, Uncounted: true}); ; {
		found, err := s.store.FindExecutions(ctx, engine.ExecutionFilter{Tenant: p.Tenant, Job: of, Statuses: []job.Status{job.Running}}, page)
		if err != nil {
			return fmt.Errorf("find what runs of job %s: %w", of, err)
		}
		for _, e := range found.Executions {
			told := s.audited(p, "execution.cancel", e.ID.String(), detail{After: fields{"reason": reason}})
			if _, err := s.store.Cancel(ctx, p.Tenant, e.ID, reason, told); err != nil && !isConflict(err) && !errors.Is(err, engine.ErrNotFound) {
				return fmt.Errorf("cancel what runs of job %s: %w", of, err)
			}
		}
		if len(found.Executions) > 0 {
			s.cfg.Nudge()
		}
		if page.Cursor = found.Next; page.Cursor == "" {
			return nil
		}
	}
}

// restOf returns the operation that cancels the remaining executions of a deleted job.
func restOf(p tenant.Principal, of job.ID, now time.Time) (job.Operation, error) {
	what, err := json.Marshal(remainder{Job: of.String()})
	return job.Operation{
		ID: job.OperationID(newID()), Tenant: p.Tenant, Kind: job.OpCancelWaiting, State: job.OpRunning, Spec: what, By: p.Name, CreatedAt: now, UpdatedAt: now, Version: 1,
	}, err
}

// stepRest cancels some of the remaining executions of a deleted job. Repeating it finds what is left.
func (r *Runner) stepRest(ctx context.Context, x *run) (wait time.Duration, over bool, err error) {
	if ours, err := r.ours(ctx, x); err != nil || !ours {
		return 0, err == nil, err
	}
	ended, err := r.s.store.CancelWaiting(ctx, x.op.Tenant, x.rest.of, engine.CancelsAtOnce)
	if err != nil {
		return 0, false, fmt.Errorf("cancel what waits of job %s: %w", x.rest.of, err)
	}
	x.op.Done += int64(len(ended))
	x.op.Total = max(x.op.Total, x.op.Done) // beyond the count
	state := job.OpRunning
	if len(ended) < engine.CancelsAtOnce {
		state, x.op.Total = job.OpSucceeded, x.op.Done
	}
	over, err = r.save(ctx, x, state)
	return 0, over, err
}
