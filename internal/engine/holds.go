package engine

import (
	"context"
	"fmt"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Holds keep history from being purged. Whatever purges looks at them in the transaction in which it drops, after
// locking the tenant, as those who add a hold do: what was not purged when AddHold returned stays.
type Holds interface {
	// AddHold adds a hold, or returns the one of the same tenant or job for the same reason. ErrConflict if the
	// tenant would have more than most; ErrNotFound if it, or the job, is unknown.
	AddHold(ctx context.Context, h tenant.Hold, most int, e *audit.Entry) (tenant.Hold, error)
	// Holds lists the holds of a tenant ("": of all), oldest first.
	Holds(ctx context.Context, t tenant.ID) ([]tenant.Hold, error)
	// DeleteHold ends a hold, and returns it; ErrNotFound if the tenant has none with the id.
	DeleteHold(ctx context.Context, t tenant.ID, id string, e *audit.Entry) (tenant.Hold, error)
}

// Held says that something cannot be deleted, because a hold keeps its history.
type Held struct{ Hold tenant.Hold }

func (h *Held) Error() string {
	what := "the job"
	if h.Hold.OfTenant() {
		what = "the tenant"
	}
	return fmt.Sprintf("%s is on hold (hold %s, by %s: %s)", what, h.Hold.ID, h.Hold.By, h.Hold.Reason)
}
