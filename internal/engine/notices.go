package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Notices holds notification rules, and the state of the search for events.
type Notices interface {
	// PutRule creates or replaces a rule, keeping its creation time. ErrConflict if a new rule would exceed most for
	// its tenant.
	PutRule(ctx context.Context, r notice.Rule, most int, e *audit.Entry) error
	// Rule finds one; ErrNotFound if there is none.
	Rule(ctx context.Context, t tenant.ID, name string) (notice.Rule, error)
	// Rules lists a tenant's rules in the order of their creation; of all tenants, if none is named.
	Rules(ctx context.Context, t tenant.ID) ([]notice.Rule, error)
	// DeleteRule deletes a rule and its alarms; ErrNotFound if there is none.
	DeleteRule(ctx context.Context, t tenant.ID, name string, e *audit.Entry) error

	// Alarms lists the ongoing alarms of all tenants.
	Alarms(ctx context.Context) ([]notice.Alarm, error)
	// SetAlarms stores new alarms and deletes those that ended. One that is stored already keeps its beginning.
	SetAlarms(ctx context.Context, began, ended []notice.Alarm) error
	// Watched returns how far the search for events has come; zero before the first.
	Watched(ctx context.Context) (time.Time, error)
	// SetWatched advances that position, never back.
	SetWatched(ctx context.Context, at time.Time) error
}

// Late is an execution that was due and has not begun.
type Late struct {
	Execution   job.ExecutionID
	Job         job.ID
	ScheduledAt time.Time
	DueAt       time.Time
}

// Mark is a place in the order in which executions finished.
type Mark struct {
	At time.Time
	ID job.ExecutionID
}
