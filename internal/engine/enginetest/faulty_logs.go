package enginetest

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) AppendLogs(ctx context.Context, as []engine.LogAppend) ([]engine.LogAppended, error) {
	return disturb(ctx, f, "AppendLogs", func() ([]engine.LogAppended, error) { return f.Store.AppendLogs(ctx, as) })
}

func (f *Faulty) Logs(ctx context.Context, t tenant.ID, id job.ExecutionID, q engine.LogQuery) ([]engine.LogChunk, error) {
	return disturb(ctx, f, "Logs", func() ([]engine.LogChunk, error) { return f.Store.Logs(ctx, t, id, q) })
}

func (f *Faulty) LogLines(ctx context.Context, t tenant.ID, id job.ExecutionID, attempt int) (int64, error) {
	return disturb(ctx, f, "LogLines", func() (int64, error) { return f.Store.LogLines(ctx, t, id, attempt) })
}
