package enginetest

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) KeepTraces(ctx context.Context, ts []engine.Trace) error {
	_, err := disturb(ctx, f, "KeepTraces", func() (struct{}, error) { return none(f.Store.KeepTraces(ctx, ts)) })
	return err
}

func (f *Faulty) Traces(ctx context.Context, ids [][16]byte) ([]engine.Trace, error) {
	return disturb(ctx, f, "Traces", func() ([]engine.Trace, error) { return f.Store.Traces(ctx, ids) })
}
