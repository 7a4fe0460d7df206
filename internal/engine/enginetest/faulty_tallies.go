package enginetest

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) KeepTally(ctx context.Context, s engine.ServerID, number int64, t engine.Tally) error {
	_, err := disturb(ctx, f, "KeepTally", func() (struct{}, error) { return none(f.Store.KeepTally(ctx, s, number, t)) })
	return err
}

func (f *Faulty) TenantMinutes(ctx context.Context, t tenant.ID, from time.Time) ([]engine.TenantMinute, error) {
	return disturb(ctx, f, "TenantMinutes", func() ([]engine.TenantMinute, error) { return f.Store.TenantMinutes(ctx, t, from) })
}

func (f *Faulty) KeepDepths(ctx context.Context, at time.Time, ds []engine.TenantDepths) (bool, error) {
	return disturb(ctx, f, "KeepDepths", func() (bool, error) { return f.Store.KeepDepths(ctx, at, ds) })
}

func (f *Faulty) Depths(ctx context.Context, t tenant.ID, from time.Time) ([]engine.DepthMinute, error) {
	return disturb(ctx, f, "Depths", func() ([]engine.DepthMinute, error) { return f.Store.Depths(ctx, t, from) })
}

func (f *Faulty) JobDays(ctx context.Context, t tenant.ID, j job.ID, from, until time.Time) ([]engine.JobDay, error) {
	return disturb(ctx, f, "JobDays", func() ([]engine.JobDay, error) { return f.Store.JobDays(ctx, t, j, from, until) })
}

func (f *Faulty) Failures(ctx context.Context, q engine.FailureFilter, limit int) ([]engine.Failure, error) {
	return disturb(ctx, f, "Failures", func() ([]engine.Failure, error) { return f.Store.Failures(ctx, q, limit) })
}

func (f *Faulty) Whose(ctx context.Context, ids []job.ExecutionID, since time.Time) ([]engine.Owned, error) {
	return disturb(ctx, f, "Whose", func() ([]engine.Owned, error) { return f.Store.Whose(ctx, ids, since) })
}

func (f *Faulty) Recent(ctx context.Context, t tenant.ID, ids []job.ID, n int, since time.Time) ([][]engine.Run, error) {
	return disturb(ctx, f, "Recent", func() ([][]engine.Run, error) { return f.Store.Recent(ctx, t, ids, n, since) })
}

func (f *Faulty) Names(ctx context.Context, t tenant.ID, ids []job.ID) (map[job.ID]string, error) {
	return disturb(ctx, f, "Names", func() (map[job.ID]string, error) { return f.Store.Names(ctx, t, ids) })
}

func (f *Faulty) LateJobs(ctx context.Context, t tenant.ID, before time.Time, limit int) (engine.JobPage, error) {
	return disturb(ctx, f, "LateJobs", func() (engine.JobPage, error) { return f.Store.LateJobs(ctx, t, before, limit) })
}

func (f *Faulty) DeadErrors(ctx context.Context, q engine.DeadLetterFilter, p engine.Page) (engine.Listed[engine.DeadError], error) {
	return disturb(ctx, f, "DeadErrors", func() (engine.Listed[engine.DeadError], error) { return f.Store.DeadErrors(ctx, q, p) })
}

func (f *Faulty) Revisions(ctx context.Context, t tenant.ID, j job.ID, before, limit int) ([]engine.Revision, error) {
	return disturb(ctx, f, "Revisions", func() ([]engine.Revision, error) { return f.Store.Revisions(ctx, t, j, before, limit) })
}

func (f *Faulty) ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, limit int) (engine.Forgot, error) {
	return disturb(ctx, f, "ForgetHistory", func() (engine.Forgot, error) { return f.Store.ForgetHistory(ctx, t, before, limit) })
}
