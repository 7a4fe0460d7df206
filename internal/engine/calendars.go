package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Calendars are named lists of times that schedules leave out.
type Calendars interface {
	// PutCalendar creates or replaces a calendar.
	PutCalendar(ctx context.Context, c Calendar, e *audit.Entry) error
	// Calendar finds one; ErrNotFound if there is none.
	Calendar(ctx context.Context, t tenant.ID, name string) (Calendar, error)
	// Calendars lists a tenant's calendars in order of their names.
	Calendars(ctx context.Context, t tenant.ID) ([]Calendar, error)
	// DeleteCalendar deletes one; ErrNotFound if there is none.
	DeleteCalendar(ctx context.Context, t tenant.ID, name string, e *audit.Entry) error
}

// Calendar is a named list of times that schedules leave out.
type Calendar struct {
	Tenant    tenant.ID
	Name      string
	Spec      []byte // as it was written
	UpdatedAt time.Time
}
