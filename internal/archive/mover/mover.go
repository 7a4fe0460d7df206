// Package mover moves days of finished executions out of the store, into files.
//
//	read a day in one snapshot ─▶ write a file aside ─▶ read it back and compare
//	─▶ note its name (begun) ─▶ put it, if the name is free ─▶ read it back (proved)
//	─▶ the store compares count and sum, and leaves the day to its files (answers)
//	─▶ drop what is left of it in the store (settled)
//
// One server at a time does that, whose turn it is by the store's word. A server
// that is killed leaves files that are begun or proved, which nobody reads: the
// next one removes them and writes the day anew. It goes on where files answer.
//
// The package deletes nothing from the store of which no file has been proved,
// and no object that is not what the catalogue says of its name: one that the
// catalogue does not know may be somebody's, or of a life of the store after the
// copy that was restored. It is told of, and left alone.
package mover

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Store is the part of a store that a mover uses.
type Store interface {
	engine.Catalogue
	engine.Days
	engine.Sharing
	Tenants(ctx context.Context) ([]tenant.Tenant, error)
	Holds(ctx context.Context, t tenant.ID) ([]tenant.Hold, error)
}

// Mover moves days. It is not safe for concurrent use, except for Wake.
type Mover struct {
	Store     Store
	Files     blob.Store
	Clock     clock.Clock // the store's
	Holder    [16]byte    // of this process
	Hot       int         // days that stay in the store after the one on which executions finished
	Retention int         // days that history is kept for tenants without a shorter or an explicit limit; none or fewer: for ever
	Layout    archive.Layout
	Spool     string      // the folder for files that are being written; "": the system's
	Busy      func() bool // other work waits; nil: never
	Log       *slog.Logger

	PartRows  int64 // about how many executions a file may have; 0: a million
	PartBytes int64 // about how many bytes; 0: 256 MiB

	surveyed time.Time // when this process last looked for objects that the catalogue does not know
}

const (
	turnLasts  = 2 * time.Minute
	turnKept   = 30 * time.Second
	lookAgain  = time.Hour
	tryAgain   = time.Minute
	revisit    = 24 * time.Hour  // a day of which some was moved already
	cleanUp    = 5 * time.Second // when the mover is told to stop
	dropAtOnce = 500
	manyRows   = 1_000_000
	manyBytes  = 256 << 20
)

// Note is the state of the archive, as the server whose turn it was last has seen it.
type Note struct {
	At      time.Time  `json:"at"`
	Oldest  *time.Time `json:"oldest,omitempty"` // the first day that should have moved and has not
	Day     *time.Time `json:"day,omitempty"`    // that is being moved
	Step    string     `json:"step,omitempty"`
	Rows    int64      `json:"rows,omitempty"` // of it that were written
	Written int64      `json:"written"`        // executions that were moved since the beginning
	Error   string     `json:"error,omitempty"`
	Foreign []string   `json:"foreign,omitempty"` // the first objects that the catalogue does not know
}

// ReadNote returns the last note.
func ReadNote(ctx context.Context, s engine.Catalogue) (n Note, err error) {
	text, err := s.ArchiveNote(ctx)
	if err != nil || text == nil {
		return n, err
	}
	return n, json.Unmarshal(text, &n)
}

// Lag returns for how long the oldest day should have moved.
func (n Note) Lag(hot int, now time.Time) time.Duration {
	lag := time.Duration(0)
	if quiet := now.Sub(n.At); !n.At.IsZero() && quiet > 3*lookAgain {
		lag = quiet // nobody has looked
	}
	if n.Oldest != nil {
		lag = max(lag, now.Sub(n.Oldest.AddDate(0, 0, 1+hot)))
	}
	return lag
}

// Tick moves every day that is due, and deletes files whose retention is over. What fails is noted, and tried again a minute later.
func (m *Mover) Tick(ctx context.Context) (time.Duration, error) {
	turn, err := m.Store.TakeArchive(ctx, m.Holder, turnLasts)
	if errors.Is(err, engine.ErrConflict) {
		return tryAgain, nil // another server does it
	}
	if err != nil {
		return 0, err
	}
	defer m.release(ctx)
	r := &round{Mover: m, turn: turn}
	if r.note, err = ReadNote(ctx, m.Store); err != nil {
		r.note = Note{} // it says nothing that is not found again
	}
	r.note.Error, r.note.Step, r.note.Day = "", "", nil
	working, stop := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { m.keep(working, turn, stop) })
	err = r.all(working)
	if cause := context.Cause(working); cause != nil && ctx.Err() == nil {
		err = errors.Join(cause, err)
	}
	stop(nil)
	keeping.Wait()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	r.note.Step, r.note.Day, r.note.Rows = "", nil, 0
	next := lookAgain
	if err != nil {
		next = tryAgain
		r.note.Error = err.Error()
		m.Log.Error("history could not be archived; it stays in the store, and is tried again", "error", err)
	}
	return next, r.save(ctx)
}

// release gives the turn up, so that nobody waits for its end. It does not matter if that fails.
func (m *Mover) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = m.Store.TakeArchive(ctx, m.Holder, 0)
}

// keep keeps the turn while the mover works.
func (m *Mover) keep(ctx context.Context, turn engine.ArchiveTurn, stop context.CancelCauseFunc) {
	t := time.NewTicker(turnKept)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, err := m.Store.TakeArchive(ctx, m.Holder, turnLasts)
		if errors.Is(err, engine.ErrConflict) || err == nil && now != turn {
			stop(errors.New("another server has the turn to move history: this one was too slow"))
			return
		}
	}
}

// round is a mover at work.
type round struct {
	*Mover
	turn engine.ArchiveTurn
	note Note
}

func (r *round) save(ctx context.Context) error {
	r.note.At = r.Clock.Now()
	text, err := json.Marshal(r.note)
	if err != nil {
		return err
	}
	return r.Store.NoteArchive(ctx, r.turn, text)
}

func (r *round) step(ctx context.Context, day time.Time, name string) error {
	r.note.Day, r.note.Step = &day, name
	return r.save(ctx)
}

// all first ends what was begun before, and then moves what is due. A day that fails does not keep the next ones from moving.
func (r *round) all(ctx context.Context) error {
	if err := r.resume(ctx); err != nil {
		return err
	}
	now := r.Clock.Now()
	days, err := r.Store.FinishedDays(ctx, archive.Day(now).AddDate(0, 0, -r.Hot))
	if err != nil {
		return err
	}
	var errs []error
	var left []time.Time
	for _, day := range days {
		moved, err := r.lately(ctx, day, now)
		if err == nil && !moved {
			if r.note.Oldest = &day; len(left) > 0 {
				r.note.Oldest = &left[0]
			}
			err = r.move(ctx, day)
		}
		if err != nil {
			left = append(left, day)
			errs = append(errs, fmt.Errorf("%s: %w", day.Format(time.DateOnly), err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	r.note.Oldest = nil
	if len(left) > 0 {
		r.note.Oldest = &left[0]
	}
	errs = append(errs, r.purge(ctx), r.survey(ctx, now))
	return errors.Join(errs...)
}

// lately reports whether some of a day was moved within the last day: what is left of it are executions that could not move then, and a
// file for each of them would be small.
func (r *round) lately(ctx context.Context, day, now time.Time) (bool, error) {
	files, err := r.Store.ArchiveFiles(ctx, engine.FileFilter{Day: day, Kind: engine.ArchivedExecutions})
	return slices.ContainsFunc(files, func(f engine.ArchiveFile) bool { return now.Sub(f.WrittenAt) < revisit }), err
}

// resume removes files that nobody reads, and lets the store drop what files answer for.
func (r *round) resume(ctx context.Context) error {
	files, err := r.Store.ArchiveFiles(ctx, engine.FileFilter{})
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(files), func(f engine.ArchiveFile) bool { return f.State >= engine.FileAnswers })
	if err := r.clear(ctx, left); err != nil {
		return err
	}
	for _, f := range files {
		if f.State != engine.FileAnswers {
			continue
		}
		if err := r.unload(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// clear removes files that an earlier turn has left begun or proved. Beside files that the catalogue does not know, their objects stay: the
// store may have been restored to the middle of a move, and its life after that may read them.
func (r *round) clear(ctx context.Context, left []engine.ArchiveFile) error {
	if len(left) == 0 {
		return nil
	}
	strange, err := unknown(ctx, r.Store, r.Files)
	if err != nil {
		return err
	}
	drop := r.discard
	if slices.ContainsFunc(strange, func(name string) bool { return path.Ext(name) == ".parquet" }) {
		r.surveyed = time.Time{}
		drop = func(ctx context.Context, f engine.ArchiveFile) error { return r.Store.StrikeFile(ctx, r.turn, f.Name) }
	}
	for _, f := range left {
		if err := r.Store.RetireFile(ctx, r.turn, f.Name); err != nil { // else a commit that is still under way could make it answer
			return err
		}
		if err := drop(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a file that answers for nothing and never will. An object of its name that is another is left alone.
func (r *round) discard(ctx context.Context, f engine.ArchiveFile) error {
	err := verify(ctx, r.Files, f)
	var damaged *blob.Damaged
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.As(err, &damaged):
	case err != nil:
		return err
	default:
		if err := r.Files.Delete(ctx, f.Name); err != nil && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	return r.Store.StrikeFile(ctx, r.turn, f.Name)
}

func object(f engine.ArchiveFile) blob.Object {
	return blob.Object{Name: f.Name, Size: f.Bytes, SHA256: f.SHA256}
}

// verify reads a whole file, and compares it with what the catalogue says.
func verify(ctx context.Context, files blob.Store, f engine.ArchiveFile) error {
	rc, err := blob.Open(ctx, files, object(f))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, rc)
	return errors.Join(err, rc.Close())
}

// move moves a day.
func (r *round) move(ctx context.Context, day time.Time) error {
	if err := r.step(ctx, day, "write"); err != nil {
		return err
	}
	files, err := r.Store.ArchiveFiles(ctx, engine.FileFilter{Day: day})
	if err != nil {
		return err
	}
	w := &dayWriter{round: r, ctx: ctx, day: day, began: time.Now()}
	for _, f := range files {
		w.next = max(w.next, f.Part+1)
	}
	if w.dir, err = os.MkdirTemp(r.Spool, "carillon-archive-"); err != nil {
		return err
	}
	defer os.RemoveAll(w.dir)
	defer w.abandon()
	r.note.Rows = 0
	w.readAt = r.Clock.Now().Add(-time.Minute) // surely before the snapshot, so that no event is dropped that the files have not
	if err = r.Store.ReadDay(ctx, day, w); err == nil {
		err = w.flush()
	}
	if err != nil || w.total == 0 {
		return errors.Join(err, r.discardAll(ctx, w.written))
	}
	if err := r.step(ctx, day, "leave"); err != nil {
		return err
	}
	if err := r.Store.LeaveDay(ctx, r.turn, day); err != nil {
		if errors.Is(err, engine.ErrConflict) { // some of it changed meanwhile
			err = errors.Join(err, r.discardAll(ctx, w.written))
		}
		return err
	}
	r.note.Written += w.total
	if err := r.step(ctx, day, "drop"); err != nil {
		return err
	}
	for _, f := range w.written {
		if err := r.unload(ctx, f); err != nil {
			return err
		}
	}
	r.Log.Info("a day of history was archived", "day", day.Format(time.DateOnly), "executions", w.total, "files", len(w.written))
	return nil
}

// discardAll removes files of this round that were not left a day, also when the turn is lost: nobody else looks for them then.
func (r *round) discardAll(ctx context.Context, files []engine.ArchiveFile) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
	}
	var errs []error
	for _, f := range files {
		errs = append(errs, r.discard(ctx, f))
	}
	return errors.Join(errs...)
}

// unload drops from the store what is left of the executions of a file.
func (r *round) unload(ctx context.Context, f engine.ArchiveFile) error {
	if f.Kind == engine.ArchivedExecutions {
		err := archive.IDs(blob.NewAt(ctx, r.Files, f.Name, f.Bytes), f.Bytes, dropAtOnce, func(ids []job.ExecutionID) error {
			began := time.Now()
			if err := r.Store.DropArchived(ctx, ids, f.ReadAt); err != nil {
				return err
			}
			return r.rest(ctx, time.Since(began))
		})
		if err != nil {
			return fmt.Errorf("drop what %s has: %w", f.Name, err)
		}
	}
	return r.Store.SettleFile(ctx, r.turn, f.Name)
}

// rest waits after some work, so that the mover takes at most a quarter of the machine while other work waits.
func (m *Mover) rest(ctx context.Context, worked time.Duration) error {
	if m.Busy == nil || !m.Busy() {
		return ctx.Err()
	}
	wait := worked * time.Duration(max(0, 4-runtime.NumCPU())) / time.Duration(min(4, runtime.NumCPU()))
	if wait <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(min(wait, 10*time.Second))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sha reads a file that was written aside.
func sha(f *os.File) (sum [sha256.Size]byte, size int64, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return sum, 0, err
	}
	h := sha256.New()
	size, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), size, err
}
