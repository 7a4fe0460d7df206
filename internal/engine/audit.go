package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Audit is the log of changes.
//
// An entry is written in the commit of the change that it is about. A method that changes something takes it as an argument, or in
// the value that describes the change; nil writes none. An entry is never written where nothing was changed: a request that was
// answered before is not answered by a second entry.
type Audit interface {
	// Record writes an entry about something that is not in the store.
	Record(ctx context.Context, e audit.Entry) error
	// AuditEntries lists entries of a tenant, latest first.
	AuditEntries(ctx context.Context, f AuditFilter, p Page) (AuditPage, error)
	// SealAudit seals entries that are not sealed yet, some at a time, and says whether more are left. Only those are
	// sealed before which none can be written any more; of two at once one waits for the other.
	SealAudit(ctx context.Context) (more bool, err error)
	// AuditSeals lists up to limit seals of a tenant from behind a number, earliest first, and with each the entries
	// that are stored from behind the last one of the seal before it to its own last.
	AuditSeals(ctx context.Context, t tenant.ID, after int64, limit int) ([]Sealed, error)
	// StrayEntry is the first entry of a tenant behind a place that would be in a seal by now, and of which the caller has seen
	// the last; 0: there is none.
	StrayEntry(ctx context.Context, t tenant.ID, after int64) (int64, error)
	// Unsealed counts the entries of a tenant that are not sealed yet.
	Unsealed(ctx context.Context, t tenant.ID) (int64, error)
}

// AuditLife sets how long entries are kept: as long as history, by default. They are dropped by whole seals, except for a tenant's
// last one, which the next follows.
const AuditLife = 365 * 24 * time.Hour

// TidiedSeals limits how many seals Tidy drops; there may be more.
const TidiedSeals = 10

// AuditFilter chooses entries of a tenant; a zero field chooses all.
type AuditFilter struct {
	Tenant tenant.ID
	Action string // or, where it ends with a dot, all that begin with it
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
	Partial bool // the search took its time, see ExecutionPage
	Total   Total
}

// Sealed is a seal and what is stored of its entries.
type Sealed struct {
	audit.Seal
	Entries []audit.Entry
}
