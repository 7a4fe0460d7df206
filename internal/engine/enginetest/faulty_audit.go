package enginetest

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) Record(ctx context.Context, e audit.Entry) error {
	_, err := disturb(ctx, f, "Record", func() (struct{}, error) { return none(f.Store.Record(ctx, e)) })
	return err
}

func (f *Faulty) AuditEntries(ctx context.Context, q engine.AuditFilter, p engine.Page) (engine.AuditPage, error) {
	return disturb(ctx, f, "AuditEntries", func() (engine.AuditPage, error) { return f.Store.AuditEntries(ctx, q, p) })
}

func (f *Faulty) SealAudit(ctx context.Context) (bool, error) {
	return disturb(ctx, f, "SealAudit", func() (bool, error) { return f.Store.SealAudit(ctx) })
}

func (f *Faulty) AuditSeals(ctx context.Context, t tenant.ID, after int64, limit int) ([]engine.Sealed, error) {
	return disturb(ctx, f, "AuditSeals", func() ([]engine.Sealed, error) { return f.Store.AuditSeals(ctx, t, after, limit) })
}

func (f *Faulty) Unsealed(ctx context.Context, t tenant.ID) (int64, error) {
	return disturb(ctx, f, "Unsealed", func() (int64, error) { return f.Store.Unsealed(ctx, t) })
}

func (f *Faulty) StrayEntry(ctx context.Context, t tenant.ID, after int64) (int64, error) {
	return disturb(ctx, f, "StrayEntry", func() (int64, error) { return f.Store.StrayEntry(ctx, t, after) })
}
