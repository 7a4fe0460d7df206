package history_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// refusing is a place that lets nobody read, as one with the wrong credentials or a wrong file system does.
type refusing struct{ blob.Store }

func (r refusing) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, fmt.Errorf("read: %w", blob.ErrRefused)
}

// A file whose retention is over goes on to answer until it can be deleted, with all that the store has of its executions.
func TestAFileThatCannotBeReadIsNotForgotten(t *testing.T) {
	t.Parallel()
	w := build(t, 14)
	m := w.mover(w.store, w.files)
	if _, err := m.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	day := 1
	q := quotas{Store: w.store}
	for _, id := range []tenant.ID{"acme", "other"} {
		q.all = append(q.all, tenant.Tenant{ID: id, Tier: "enterprise", Overrides: tenant.Overrides{HistoryDays: &day}})
	}
	m.Store, m.Files = q, refusing{w.files}
	m.Clock = now(func(ctx context.Context) (time.Time, error) {
		at, err := w.store.Now(ctx)
		return at.AddDate(0, 0, 10), err
	})
	_, err := m.Tick(t.Context())
	w.do(err)
	note, err := mover.ReadNote(t.Context(), w.store)
	if err != nil || !strings.Contains(note.Error, "refuses") {
		t.Errorf("%+v, %v", note, err)
	}
	files, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{})
	w.do(err)
	for _, f := range files {
		if f.Kind == engine.ArchivedExecutions && f.State != engine.FileSettled {
			t.Errorf("%s is in state %d", f.Name, f.State)
		}
	}
	m.Files = w.files
	_, err = m.Tick(t.Context())
	w.do(err)
	if files, err = w.store.ArchiveFiles(t.Context(), engine.FileFilter{}); err != nil || len(files) > 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}
