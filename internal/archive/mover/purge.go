package mover

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// purge deletes files of which no tenant keeps anything any more. A file that has executions of several tenants stays until the retention of
// the last one ends; nobody is shown what is past their own.
func (r *round) purge(ctx context.Context) error {
	files, err := r.Store.ArchiveFiles(ctx, engine.FileFilter{Answering: true})
	if err != nil || len(files) == 0 {
		return err
	}
	over, err := r.over(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		if over[f.Name] != f.Rows || f.State != engine.FileSettled {
			continue
		}
		if err := r.step(ctx, f.Day, "purge"); err != nil {
			return err
		}
		if err := r.forget(ctx, f); err != nil {
			errs = append(errs, err)
			continue
		}
		r.Log.Info("a file of history was deleted: its retention is over", "file", f.Name, "rows", f.Rows)
	}
	return errors.Join(errs...)
}

// over counts for each file the rows that their tenants no longer keep. Rows of a tenant that nobody knows never count, nor do those of one
// with a hold, be it of a single job.
func (r *round) over(ctx context.Context) (map[string]int64, error) {
	ts, err := r.Store.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	held := map[tenant.ID]bool{}
	holds, err := r.Store.Holds(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, h := range holds {
		held[h.Tenant] = true
	}
	out, now := map[string]int64{}, r.Clock.Now()
	kept, err := engine.Installed(ctx, r.Store, r.Retention, now)
	if err != nil {
		return nil, err
	}
	for _, t := range ts {
		since, over := t.DropsBefore(kept, now)
		if !over || held[t.ID] {
			continue
		}
		files, err := r.Store.ArchiveFiles(ctx, engine.FileFilter{Tenant: t.ID, Answering: true})
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if !f.Day.Add(24 * time.Hour).After(since) {
				out[f.Name] += f.Shares[0].Rows
			}
		}
	}
	return out, nil
}

// forget deletes a file, and what the store still knows of its executions.
func (r *round) forget(ctx context.Context, f engine.ArchiveFile) error {
	if f.Kind == engine.ArchivedExecutions {
		err := archive.IDs(blob.NewAt(ctx, r.Files, f.Name, f.Bytes), f.Bytes, dropAtOnce, func(ids []job.ExecutionID) error {
			return r.Store.DropArchived(ctx, ids, r.Clock.Now())
		})
		if err != nil && (ctx.Err() != nil || errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrRefused) || errors.Is(err, engine.ErrUnavailable)) {
			return err
		}
	}
	if err := r.Store.RetireFile(ctx, r.turn, f.Name); err != nil { // nobody reads it from here on
		return err
	}
	return r.discard(ctx, f)
}
