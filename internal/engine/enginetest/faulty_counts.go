package enginetest

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) KeepMinutes(ctx context.Context, s engine.ServerID, ms []engine.Minute) error {
	_, err := disturb(ctx, f, "KeepMinutes", func() (struct{}, error) { return none(f.Store.KeepMinutes(ctx, s, ms)) })
	return err
}

func (f *Faulty) Minutes(ctx context.Context, from time.Time) ([]engine.Minute, error) {
	return disturb(ctx, f, "Minutes", func() ([]engine.Minute, error) { return f.Store.Minutes(ctx, from) })
}

func (f *Faulty) Census(ctx context.Context, overdue time.Time) (engine.Census, error) {
	return disturb(ctx, f, "Census", func() (engine.Census, error) { return f.Store.Census(ctx, overdue) })
}
