package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Audit is the log of changes.
//
// An entry is written in the commit of its change. A method that changes something takes it as an argument, or in the
// value that describes the change; nil writes none. No entry is written if nothing changes: a repeated request does
// not write a second entry.
type Audit interface {
	// Record writes an entry about something outside the store.
	Record(ctx context.Context, e audit.Entry) error
	// AuditEntries lists entries of a tenant, newest first.
	AuditEntries(ctx context.Context, f AuditFilter, p Page) (AuditPage, error)
	// SealAudit seals some of the unsealed entries, and reports whether more are left. It seals only entries before
	// which none can be written any more; concurrent calls wait for each other.
	SealAudit(ctx context.Context) (more bool, err error)
	// AuditSeals lists up to limit seals of a tenant after a number, earliest first, and with each the stored entries
	// from after the last one of the previous seal up to its own last.
	AuditSeals(ctx context.Context, t tenant.ID, after int64, limit int) ([]Sealed, error)
	// StrayEntry returns the first entry of a tenant after a position that should be in a seal by now, of which the
	// caller has seen the last; 0: there is none.
	StrayEntry(ctx context.Context, t tenant.ID, after int64) (int64, error)
	// Unsealed counts the entries of a tenant that are not sealed yet.
	Unsealed(ctx context.Context, t tenant.ID) (int64, error)
}

// AuditLife sets how long entries are kept: as long as history, by default. They are dropped by whole seals, except a
// tenant's last one, which the next follows.
const AuditLife = 365 * 24 * time.Hour

// TidiedSeals limits how many seals Tidy drops; there may be more.
const TidiedSeals = 10

// AuditFilter selects entries of a tenant; a zero field matches everything.
type AuditFilter struct {
	Tenant tenant.ID
	Action string // or, if it ends with a dot, a prefix
	Object string
	By     string
	Key    string
	From   time.Time // at or after
	Until  time.Time // before
}

// AuditPage is one page of entries.
type AuditPage struct {
	Entries []audit.Entry
	Next    string
	Partial bool // the search ran out of time, see ExecutionPage
	Total   Total
}

// Sealed is a seal with its stored entries.
type Sealed struct {
	audit.Seal
	Entries []audit.Entry
}
