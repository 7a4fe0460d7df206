package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// SearchExecutions lists executions of the tenant, latest scheduled time first. A text that is an id finds the
// execution, or the executions of the job, with that id. A page may end early if few of the examined rows match.
func (s *Executions) SearchExecutions(ctx context.Context, p tenant.Principal, f engine.ExecutionFilter, page engine.Page) (engine.ExecutionPage, error) {
	if err := allow(p, tenant.Read); err != nil {
		return engine.ExecutionPage{}, err
	}
	f.Tenant, page.Bounded = p.Tenant, true
	var err error
	if f.Kept, err = s.since(ctx, p); err != nil {
		return engine.ExecutionPage{}, err
	}
	if f.OwnAsOf, err = s.ownAsOf(ctx, p, job.ID{}); err != nil {
		return engine.ExecutionPage{}, err
	}
	if id, err := job.ParseID(f.Text); err == nil {
		return s.executionsOf(ctx, f, id, page)
	}
	return s.store.FindExecutions(ctx, f, page)
}

// executionsOf lists what an id refers to: an execution, or a job's executions, one of which may have its id.
func (s *Executions) executionsOf(ctx context.Context, f engine.ExecutionFilter, id job.ID, page engine.Page) (engine.ExecutionPage, error) {
	f.Text = ""
	e, err := s.store.Execution(ctx, f.Tenant, job.ExecutionID(id))
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return engine.ExecutionPage{}, err
	}
	of := id
	if one := err == nil && e.Job != id; one {
		of = e.Job
		if e.ScheduledAt.Before(f.From) || !f.Until.IsZero() && !e.ScheduledAt.Before(f.Until) {
			return engine.ExecutionPage{}, nil
		}
		f.From, f.Until = e.ScheduledAt, e.ScheduledAt.Add(time.Microsecond)
		page.Limit = 1000 // of one instant
	}
	if !f.Job.IsZero() && f.Job != of {
		return engine.ExecutionPage{}, nil
	}
	f.Job = of
	found, err := s.store.FindExecutions(ctx, f, page)
	if err != nil || of == id {
		return found, err
	}
	found.Executions = slices.DeleteFunc(found.Executions, func(x job.Execution) bool { return x.ID != e.ID })
	return engine.ExecutionPage{Executions: found.Executions, Total: engine.Total{Count: int64(len(found.Executions))}}, nil
}

// exportPage sets how many executions an export reads at once.
const exportPage = 1000

// ExportExecutions calls f with all executions that a filter selects, page by page, latest scheduled time first.
// Executions that change meanwhile may or may not be included; none is included twice.
func (s *Executions) ExportExecutions(ctx context.Context, p tenant.Principal, f engine.ExecutionFilter, page func([]job.Execution) error) error {
	at := engine.Page{Limit: exportPage, Uncounted: true}
	for {
		found, err := s.SearchExecutions(ctx, p, f, at)
		if err != nil {
			return err
		}
		if len(found.Unread) > 0 { // an export that misses something must not look complete
			return fmt.Errorf("%w: %s", engine.ErrArchive, strings.Join(found.Unread, ", "))
		}
		if err := page(found.Executions); err != nil {
			return err
		}
		if at.Cursor = found.Next; at.Cursor == "" {
			return nil
		}
	}
}
