package engine

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// A store may have a second wall between tenants: within a confined context it sees and changes nothing of another
// tenant, whatever its statements say. It is for users' requests, each for one tenant; what the product does for all
// of them is not confined.

type confinedKey struct{}

// Confine restricts everything a store does with the context to one tenant.
func Confine(ctx context.Context, t tenant.ID) context.Context {
	return context.WithValue(ctx, confinedKey{}, t)
}

// Unconfined undoes it.
func Unconfined(ctx context.Context) context.Context {
	if _, ok := Confined(ctx); !ok {
		return ctx
	}
	return context.WithValue(ctx, confinedKey{}, tenant.ID(""))
}

// Confined returns the tenant that the context is restricted to, if any.
func Confined(ctx context.Context) (tenant.ID, bool) {
	t, _ := ctx.Value(confinedKey{}).(tenant.ID)
	return t, t != ""
}

// Walled is a store that has such a wall, or may have.
type Walled interface {
	// Wall returns why there is none, and how to set it up; "" if it stands. It is known after Migrate or
	// CheckSchema.
	Wall() string
}
