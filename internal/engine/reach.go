package engine

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Reaches are the address ranges that callbacks of tenants may reach though they are not public.
type Reaches interface {
	// Reaches finds the ranges of the tenants that have some, parted by commas.
	Reaches(ctx context.Context) (map[tenant.ID]string, error)
}
