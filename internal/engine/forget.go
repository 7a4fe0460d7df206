package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Forgetting is dropping history that a tenant may not have any more.
type Forgetting interface {
	// ForgetHistory drops executions of a tenant that finished before an instant, with their attempts, events, logs and dead
	// letters: it looks at up to limit, and says whether more is left. The sums that were kept of them stay.
	ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, limit int) (Forgot, error)
}

// Forgot is what was dropped.
type Forgot struct {
	N    int
	More bool
}
