package history_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// Ids that were made at about the same instant may be in several files of logs: a log is found in the one that has it, wherever that stands
// among the others.
func TestALogIsFoundAmongSeveralFiles(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"of two days": 24 * time.Hour, "of one day": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			clock := now(func(ctx context.Context) (time.Time, error) { return at, nil })
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "carillon.db"), Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			w := buildOn(t, s, 0)
			worker := job.WorkerID(newID())
			w.do(s.Register(t.Context(), job.Worker{ID: worker, Host: "h", Version: "v", Capacity: 10, StartedAt: at}, 100*time.Hour))
			id := newID()
			for _, i := range []int{2, 6, 10} { // those that log
				id[15]++
				w.runAs(id, worker, "acme", i)
				at = at.Add(step)
			}
			want := w.look(w.store, "acme")
			m := w.mover(w.store, w.files)
			m.PartRows = 1
			if _, err := m.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			files, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{Kind: engine.ArchivedLogs, Answering: true})
			w.do(err)
			if len(files) != 3 || w.left("acme") != 0 {
				t.Fatalf("%d files of logs, %d executions are left: %s", len(files), w.left("acme"), w.log.String())
			}
			w.same(w.look(w.tiers(), "acme"), want, "after")

			// One that is lost is missed where it may have the log, and only there.
			w.do(w.files.Delete(t.Context(), files[0].Name))
			found := 0
			for _, id := range w.ids["acme"] {
				chunks, err := w.tiers().Logs(t.Context(), "acme", id, engine.LogQuery{Chunks: 10})
				if err == nil && len(chunks) > 0 {
					found++
				} else if !errors.Is(err, engine.ErrArchive) {
					t.Errorf("%d chunks, %v", len(chunks), err)
				}
			}
			if found != 2 {
				t.Errorf("%d logs are found, want 2", found)
			}
		})
	}
}
