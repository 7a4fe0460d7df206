package mover

import (
	"context"
	"errors"
	"slices"
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
	files, err := r.Store.ArchiveFiles(ctx, engine.FileFilter{})
	if err != nil || len(files) == 0 {
		return err
	}
	past, err := r.past(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		switch {
		case f.State == engine.FileRetired: // by a turn that was killed
			errs = append(errs, r.erase(ctx, f))
			continue
		case f.State != engine.FileSettled || past[f.Name].rows != f.Rows:
			continue
		}
		if err := r.step(ctx, f.Day, "purge"); err != nil {
			return err
		}
		gone, err := r.forget(ctx, f, past[f.Name].of)
		if err != nil {
			errs = append(errs, err)
		} else if gone {
			r.Log.Info("a file of history was deleted: its retention is over", "file", f.Name, "rows", f.Rows)
		}
	}
	return errors.Join(errs...)
}

// pastRows counts what tenants no longer keep of a file.
type pastRows struct {
	of   []tenant.ID
	rows int64
}

// past finds for each file the tenants that no longer keep what it has of them. Tenants that nobody knows are never among them, nor are those
// with a hold, be it of a single job.
func (r *round) past(ctx context.Context) (map[string]pastRows, error) {
	limits, err := r.limits(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]pastRows{}
	for t, since := range limits {
		files, err := r.Store.ArchiveFiles(ctx, engine.FileFilter{Tenant: t, Answering: true})
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if isPast(f, since) {
				x := out[f.Name]
				out[f.Name] = pastRows{append(x.of, t), x.rows + f.Shares[0].Rows}
			}
		}
	}
	return out, nil
}

// limits returns for each tenant since when history is kept; only of those of whom anything older may be deleted now.
func (r *round) limits(ctx context.Context) (map[tenant.ID]time.Time, error) {
	ts, err := r.Store.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	holds, err := r.Store.Holds(ctx, "")
	if err != nil {
		return nil, err
	}
	now := r.Clock.Now()
	kept, err := engine.Installed(ctx, r.Store, r.Retention, now)
	if err != nil {
		return nil, err
	}
	out := map[tenant.ID]time.Time{}
	for _, t := range ts {
		if since, over := t.DropsBefore(kept, now); over {
			out[t.ID] = since
		}
	}
	for _, h := range holds {
		delete(out, h.Tenant)
	}
	return out, nil
}

// isPast reports whether all of a file finished before an instant.
func isPast(f engine.ArchiveFile, since time.Time) bool {
	return !f.Day.Add(24 * time.Hour).After(since)
}

// forget deletes a file of which the given tenants have everything, and what the store still knows of its executions; not if one of them keeps
// it again.
func (r *round) forget(ctx context.Context, f engine.ArchiveFile, of []tenant.ID) (gone bool, err error) {
	limits, err := r.limits(ctx) // anew: deleting the files before this one may have taken long
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(of, func(t tenant.ID) bool { since, over := limits[t]; return !over || !isPast(f, since) }) {
		return false, nil
	}
	if err := r.reach(ctx, f); err != nil { // it goes on to answer until it can be deleted
		return false, err
	}
	err = r.Store.RetireFile(ctx, r.turn, f.Name) // nobody reads it from here on
	var held *engine.Held
	if errors.As(err, &held) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.erase(ctx, f)
}

// reach returns an error if the place of a file does not let anybody read it now. A file that is lost is none.
func (r *round) reach(ctx context.Context, f engine.ArchiveFile) error {
	_, err := blob.NewAt(ctx, r.Files, f.Name, f.Bytes).ReadAt(make([]byte, 1), 0)
	if away(ctx, err) {
		return err
	}
	return nil
}

// away reports whether it may help to try again.
func away(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrRefused) || errors.Is(err, engine.ErrUnavailable))
}

// erase deletes a retired file, and what the store still knows of its executions, which only the file names: so it goes last.
func (r *round) erase(ctx context.Context, f engine.ArchiveFile) error {
	if f.Kind == engine.ArchivedExecutions {
		err := archive.IDs(blob.NewAt(ctx, r.Files, f.Name, f.Bytes), f.Bytes, dropAtOnce, func(ids []job.ExecutionID) error {
			return r.Store.DropArchived(ctx, ids, r.Clock.Now())
		})
		if away(ctx, err) {
			return err
		}
	}
	return r.discard(ctx, f)
}
