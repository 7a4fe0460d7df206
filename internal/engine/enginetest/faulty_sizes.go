package enginetest

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) Sizes(ctx context.Context) (engine.Sizes, error) {
	return disturb(ctx, f, "Sizes", func() (engine.Sizes, error) { return f.Store.Sizes(ctx) })
}
