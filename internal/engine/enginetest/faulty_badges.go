package enginetest

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) AddBadge(ctx context.Context, b engine.Badge, most int, i engine.Idempotency) (engine.Created, error) {
	return disturb(ctx, f, "AddBadge", func() (engine.Created, error) { return f.Store.AddBadge(ctx, b, most, i) })
}

func (f *Faulty) Badge(ctx context.Context, hash [32]byte) (engine.Badge, error) {
	return disturb(ctx, f, "Badge", func() (engine.Badge, error) { return f.Store.Badge(ctx, hash) })
}

func (f *Faulty) FindBadges(ctx context.Context, t tenant.ID, p engine.Page) (engine.Listed[engine.Badge], error) {
	return disturb(ctx, f, "FindBadges", func() (engine.Listed[engine.Badge], error) { return f.Store.FindBadges(ctx, t, p) })
}

func (f *Faulty) LastStatus(ctx context.Context, t tenant.ID, ids []job.ID, since time.Time) ([]job.Status, error) {
	return disturb(ctx, f, "LastStatus", func() ([]job.Status, error) { return f.Store.LastStatus(ctx, t, ids, since) })
}

func (f *Faulty) DeleteBadge(ctx context.Context, t tenant.ID, id string) (engine.Badge, error) {
	return disturb(ctx, f, "DeleteBadge", func() (engine.Badge, error) { return f.Store.DeleteBadge(ctx, t, id) })
}
