package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// keeping returns tenants that keep history for some days.
func keeping(days int) (out []tenant.Tenant) {
	for _, id := range []tenant.ID{"acme", "other"} {
		out = append(out, tenant.Tenant{ID: id, Tier: tenant.Enterprise, Overrides: tenant.Overrides{HistoryDays: &days}})
	}
	return out
}

// purger moves all history to files, and returns a mover that works ten days later.
func (w *world) purger(s mover.Store, files blob.Store) *mover.Mover {
	w.Helper()
	_, err := w.mover(w.store, w.files).Tick(w.Context())
	w.do(err)
	m := w.mover(s, files)
	m.Clock = now(func(ctx context.Context) (time.Time, error) {
		at, err := w.store.Now(ctx)
		return at.AddDate(0, 0, 10), err
	})
	return m
}

// during calls f once before a mover calls a method.
func during(s engine.Store, when engine.Method, f func()) *engine.Around {
	return &engine.Around{Store: s, Hook: func(ctx context.Context, m engine.Method, call func(context.Context) error) error {
		if m == when && f != nil {
			f()
			f = nil
		}
		return call(ctx)
	}}
}

// answering counts the files that answer, of a tenant or of all.
func (w *world) answering(of tenant.ID) int {
	w.Helper()
	files, err := w.store.ArchiveFiles(w.Context(), engine.FileFilter{Tenant: of, Answering: true})
	w.do(err)
	return len(files)
}

// What files have is there as long as the hold lasts, if it is there when the hold is answered, also in the middle of a purge that began
// without it.
func TestAHoldDuringAPurge(t *testing.T) {
	t.Parallel()
	w := build(t, 30)
	of := w.ids["acme"][2]
	h := tenant.Hold{ID: uuid.NewString(), Tenant: "acme", Job: job.ID(of), Reason: "a case", By: "ann", At: time.Now()}
	s := during(quotas{Store: w.store, all: keeping(1)}, "RetireFile", func() {
		_, err := w.store.AddHold(t.Context(), h, 9, nil)
		w.do(err)
	})
	m := w.purger(s, w.files)
	want, files := w.look(w.tiers(), "acme"), w.answering("acme")
	_, err := m.Tick(t.Context())
	w.do(err)
	if note, err := mover.ReadNote(t.Context(), w.store); err != nil || note.Error != "" || w.answering("acme") != files {
		t.Errorf("%d of %d files answer; %+v, %v", w.answering("acme"), files, note, err)
	}
	w.same(w.look(w.tiers(), "acme"), want, "with a hold")
	_, err = w.store.DeleteHold(t.Context(), "acme", h.ID, nil)
	w.do(err)
	_, err = m.Tick(t.Context())
	w.do(err)
	if n := w.answering("acme"); n != 0 {
		t.Errorf("%d files answer after the hold", n)
	}
}

// A retention that is raised in the middle of a purge keeps what is still there.
func TestARetentionThatIsRaisedDuringAPurge(t *testing.T) {
	t.Parallel()
	w := build(t, 30)
	q := &quotas{Store: w.store, all: keeping(1)}
	m := w.purger(during(q, "RetireFile", func() { q.all = keeping(100) }), w.files)
	files := w.answering("")
	_, err := m.Tick(t.Context())
	w.do(err)
	if n := w.answering(""); n != files-1 || n < 1 {
		t.Errorf("%d files answer, of %d that did", n, files)
	}
}

// A server is killed at each step of deleting files. Another one goes on, and nothing is left over of what they had.
func TestKilledAtEachStepOfAPurge(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"RetireFile", "DropArchived", "Delete", "StrikeFile"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%t", step, after), func(t *testing.T) {
				t.Parallel()
				w := build(t, 14)
				d := &death{step: step, after: after}
				q := quotas{Store: w.store, all: keeping(1)}
				killed := w.purger(&engine.Around{Store: q, Hook: func(ctx context.Context, m engine.Method, call func(context.Context) error) error {
					return d.call(string(m), func() error { return call(ctx) })
				}}, dyingFiles{w.files, d})
				id := w.ids["acme"][3]
				x, err := w.tiers().Execution(t.Context(), "acme", id)
				w.do(err)
				x.ID, x.RetryOf, x.Status, x.Trigger, x.Class = newID(), id, job.Pending, job.ByRetry, "x"
				_, err = w.tiers().Rerun(t.Context(), "acme", engine.Rerun{Executions: []job.Execution{x}})
				w.do(err)
				if late, err := w.store.LateEvents(t.Context(), "acme", id); err != nil || len(late) == 0 {
					t.Fatal("the store has no event of it", err)
				}
				_, _ = killed.Tick(t.Context())
				if !d.dead {
					t.Fatal("it was not killed")
				}
				_, err = w.store.TakeArchive(t.Context(), killed.Holder, -time.Second) // its turn ends
				w.do(err)
				m := w.mover(q, w.files)
				m.Clock = killed.Clock
				_, err = m.Tick(t.Context())
				w.do(err)
				note, err := mover.ReadNote(t.Context(), w.store)
				w.do(err)
				files, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{})
				w.do(err)
				objects, err := w.files.List(t.Context(), "", "", 100)
				w.do(err)
				late, err := w.store.LateEvents(t.Context(), "acme", id)
				w.do(err)
				if note.Error != "" || len(files) > 0 || len(objects) > 0 || len(late) > 0 {
					t.Errorf("%d files, %d objects and %d events are left; %+v", len(files), len(objects), len(late), note)
				}
			})
		}
	}
}
