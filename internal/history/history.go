// Package history answers for executions wherever they are: in the store, or in
// the files that days of them were moved to. Whoever asks never learns which.
//
//	Tiers.FindExecutions ─▶ store ─▶ catalogue ─▶ files, newest first ─▶ one page
//	Tiers.Execution, Attempts, Events, Logs ─▶ store, else the file with the id
//
// The store is always read before the catalogue. A day that leaves the store to
// its files in between is then seen twice, and shown once; it is never missed.
//
// The package writes nothing, and never decides where a day belongs.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Tiers is a store that also answers for what is in files.
type Tiers struct {
	engine.Store
	files blob.Store
	log   *slog.Logger
}

// Over adds files to a store.
func Over(s engine.Store, files blob.Store, log *slog.Logger) *Tiers { return &Tiers{s, files, log} }

// readTime is how long a page reads files before it says that it is partial.
const readTime = 1500 * time.Millisecond

// lost reports whether an error says that a file is gone or damaged, so that asking again does not help.
func lost(err error) bool {
	var damaged *blob.Damaged
	return errors.As(err, &damaged) || errors.Is(err, blob.ErrNotFound)
}

// with opens a file. What cannot be read of a file that is there is damaged.
func (s *Tiers) with(ctx context.Context, x engine.ArchiveFile, f func(at *blob.At) error) error {
	at := blob.NewAt(ctx, s.files, x.Name, x.Bytes)
	err := f(at)
	switch {
	case err == nil, lost(err), ctx.Err() != nil, errors.Is(err, blob.ErrUnavailable), errors.Is(err, blob.ErrRefused):
		return err
	}
	if info, look := s.files.Stat(ctx, x.Name); look != nil || info.Size == x.Bytes && !unreadable(err) {
		return cmp.Or(look, err)
	}
	return &blob.Damaged{Place: s.files.String(), Name: x.Name, Why: err.Error()}
}

// unreadable reports whether an error is about the content of a file rather than about reaching it.
func unreadable(err error) bool {
	return !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// cannot turns the failure of a file into one that callers of a store know.
func cannot(err error) error {
	if errors.Is(err, engine.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", engine.ErrArchive, err)
}

func (s *Tiers) tell(x engine.ArchiveFile, err error) {
	s.log.Error("an archived file cannot be read; what it holds is missing from answers until it is restored", "file", x.Name, "place", s.files.String(), "error", err)
}

// find looks for an execution in files.
func (s *Tiers) find(ctx context.Context, t tenant.ID, id job.ExecutionID) (out engine.Finished, err error) {
	files, err := s.Store.ArchiveFiles(engine.Unconfined(ctx), engine.FileFilter{Tenant: t, Kind: engine.ArchivedExecutions, Made: id.At(), Answering: true})
	if err != nil {
		return out, err
	}
	var failed error
	for _, x := range files {
		var found bool
		err := s.with(ctx, x, func(at *blob.At) error {
			f, err := archive.Open(at, x.Bytes)
			if err == nil {
				out, found, err = f.Find(t, id)
			}
			return err
		})
		if found && err == nil {
			return out, s.rename(ctx, t, []*job.Execution{&out.Execution})
		}
		if err != nil {
			s.tell(x, err)
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil { // it may be in there
		return engine.Finished{}, cannot(failed)
	}
	return engine.Finished{}, engine.ErrNotFound
}

// rename gives executions the current names of their jobs.
func (s *Tiers) rename(ctx context.Context, t tenant.ID, es []*job.Execution) error {
	var ids []job.ID
	for _, e := range es {
		ids = append(ids, e.Job)
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	names, err := s.Store.Names(ctx, t, slices.Compact(ids))
	for _, e := range es {
		if name, ok := names[e.Job]; ok {
			e.JobName = name
		}
	}
	return err
}

// Execution finds one execution, wherever it is.
func (s *Tiers) Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error) {
	e, err := s.Store.Execution(ctx, t, id)
	if !errors.Is(err, engine.ErrNotFound) {
		return e, err
	}
	f, err := s.find(ctx, t, id)
	return f.Execution, err
}

// Attempts lists the failed and lost attempts of an execution, oldest first.
func (s *Tiers) Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.PastAttempt, error) {
	as, err := s.Store.Attempts(ctx, t, id)
	if !errors.Is(err, engine.ErrNotFound) {
		return as, err
	}
	f, err := s.find(ctx, t, id)
	return f.Attempts, err
}

// Events lists the recorded events of an execution, oldest first. Those of an archived one may be in both places.
func (s *Tiers) Events(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.Event, error) {
	_, err := s.Store.Execution(ctx, t, id)
	if err == nil {
		events, err := s.Store.Events(ctx, t, id)
		if !errors.Is(err, engine.ErrNotFound) {
			return events, err
		}
	} else if !errors.Is(err, engine.ErrNotFound) {
		return nil, err
	}
	f, err := s.find(ctx, t, id)
	if err != nil {
		return nil, err
	}
	late, err := s.Store.LateEvents(ctx, t, id)
	if err != nil {
		return nil, err
	}
	type key struct {
		kind  job.EventKind
		token job.Token
	}
	seen := map[key]bool{}
	var out []job.Event
	for _, e := range append(f.Events, late...) {
		if k := (key{e.Kind, e.Token}); !seen[k] {
			seen[k] = true
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b job.Event) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

// Logs reads the log of an execution from a position on.
func (s *Tiers) Logs(ctx context.Context, t tenant.ID, id job.ExecutionID, q engine.LogQuery) (out []engine.LogChunk, err error) {
	if out, err = s.Store.Logs(ctx, t, id, q); !errors.Is(err, engine.ErrNotFound) {
		return out, err
	}
	out = nil
	err = s.log1(ctx, t, id, func(f *archive.LogFile) (found bool, err error) {
		out, err = f.Log(t, id, q)
		return len(out) > 0, err
	})
	return out, err
}

// LogLines counts the lines of an execution's log.
func (s *Tiers) LogLines(ctx context.Context, t tenant.ID, id job.ExecutionID, attempt int) (n int64, err error) {
	if n, err = s.Store.LogLines(ctx, t, id, attempt); err != nil || n > 0 {
		return n, err
	}
	if _, err := s.Store.Execution(ctx, t, id); !errors.Is(err, engine.ErrNotFound) {
		return 0, err
	}
	err = s.log1(ctx, t, id, func(f *archive.LogFile) (found bool, err error) {
		n, err = f.Lines(t, id, attempt)
		return n > 0, err
	})
	if errors.Is(err, engine.ErrNotFound) {
		err = nil // as the store has it
	}
	return n, err
}

// log1 calls f with the files that may have the log of an archived execution, until it has found it: a log is in one file as a whole.
func (s *Tiers) log1(ctx context.Context, t tenant.ID, id job.ExecutionID, f func(*archive.LogFile) (found bool, err error)) error {
	if _, err := s.find(ctx, t, id); err != nil {
		return err
	}
	files, err := s.Store.ArchiveFiles(engine.Unconfined(ctx), engine.FileFilter{Tenant: t, Kind: engine.ArchivedLogs, Made: id.At(), Answering: true})
	if err != nil {
		return err
	}
	var failed error
	for _, x := range files {
		var found bool
		err := s.with(ctx, x, func(at *blob.At) error {
			l, err := archive.OpenLogs(at, x.Bytes)
			if err == nil {
				found, err = f(l)
			}
			return err
		})
		if found && err == nil {
			return nil
		}
		if err != nil {
			s.tell(x, err)
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil { // it may be in there
		return cannot(failed)
	}
	return nil
}

// Rerun adds new executions of finished ones, which may be archived.
func (s *Tiers) Rerun(ctx context.Context, t tenant.ID, r engine.Rerun) (engine.Rerunning, error) {
	if !r.DeadOnly { // dead letters are in the store
		for i := range r.Executions {
			of := r.Executions[i].RetryOf
			_, err := s.Store.Execution(ctx, t, of)
			if err == nil {
				continue
			}
			if !errors.Is(err, engine.ErrNotFound) {
				return engine.Rerunning{}, err
			}
			f, err := s.find(ctx, t, of)
			if errors.Is(err, engine.ErrNotFound) {
				continue
			}
			if err != nil {
				return engine.Rerunning{}, err
			}
			if r.Archived == nil {
				r.Archived = map[job.ExecutionID]job.ID{}
			}
			r.Archived[of] = f.Execution.Job
		}
	}
	return s.Store.Rerun(ctx, t, r)
}

// Stats returns the statistics of jobs. Those of a one-off job are its execution, which may be archived: it is looked up for a single job,
// not for each of a list.
func (s *Tiers) Stats(ctx context.Context, t tenant.ID, ids []job.ID) ([]job.Stats, error) {
	out, err := s.Store.Stats(ctx, t, ids)
	if err != nil || len(ids) != 1 || out[0].Total > 0 {
		return out, err
	}
	f, err := s.find(ctx, t, job.ExecutionID(ids[0]))
	if err != nil {
		return out, nil // it has none, or its file cannot be read, which is logged
	}
	e := &f.Execution
	out[0] = job.Stats{Total: 1, LastStatus: e.Status, LastRunAt: e.StartedAt}
	if e.Status == job.Succeeded {
		out[0].Succeeded = 1
	}
	if !e.StartedAt.IsZero() {
		out[0].AvgDuration = e.Duration()
		out[0].P95Duration = job.P95(map[int]int64{job.Bucket(e.Duration()): 1})
	}
	return out, nil
}
