package engine

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Reach is where callbacks of a tenant may go, other than those of most tenants.
type Reach struct {
	Allow     string // address ranges that they may reach though they are not public, parted by commas
	HTTPSOnly bool   // they may not go over plain http
}

// Reaches are those of tenants.
type Reaches interface {
	// Reaches finds those of the tenants that have any.
	Reaches(ctx context.Context) (map[tenant.ID]Reach, error)
}
