package history_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// death is the end of a mover at a step: that call, or all after it, take no effect.
type death struct {
	step  string
	after bool
	dead  bool
}

func (d *death) call(step string, f func() error) error {
	if d.dead || step == d.step && !d.after {
		d.dead = true
		return errKilled
	}
	if err := f(); err != nil || step != d.step {
		return err
	}
	d.dead = true
	return errKilled
}

type dyingFiles struct {
	blob.Store
	d *death
}

func (f dyingFiles) Put(ctx context.Context, o blob.Object, c io.ReaderAt) error {
	return f.d.call("Put", func() error { return f.Store.Put(ctx, o, c) })
}

func (f dyingFiles) Delete(ctx context.Context, name string) error {
	return f.d.call("Delete", func() error { return f.Store.Delete(ctx, name) })
}

func (f dyingFiles) Get(ctx context.Context, name string, from, n int64) (r io.ReadCloser, err error) {
	err = f.d.call("Get", func() error { r, err = f.Store.Get(ctx, name, from, n); return err })
	return r, err
}

// A server is killed at each step of moving a day, just before it or just after. Nothing is lost or shown twice, neither then nor when
// another server has gone on, and no object is left over.
func TestKilledAtEachStepOfAMove(t *testing.T) {
	t.Parallel()
	on := map[string]func(t *testing.T) *world{
		"SQLite":     func(t *testing.T) *world { return build(t, 14) },
		"PostgreSQL": func(t *testing.T) *world { return buildOn(t, storetest.Postgres(t), 14) },
	}
	for engineName, open := range on {
		for _, step := range []string{"ReadDay", "BeginFile", "Put", "Get", "ProveFile", "LeaveDay", "DropArchived", "SettleFile", "NoteArchive"} {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/after=%t", engineName, step, after), func(t *testing.T) {
					t.Parallel()
					w := open(t)
					want := map[tenant.ID]seen{"acme": w.look(w.store, "acme"), "other": w.look(w.store, "other")}
					check := func(when string) {
						t.Helper()
						for id, all := range want {
							w.same(w.look(w.tiers(), id), all, when+", "+string(id))
						}
					}
					d := &death{step: step, after: after}
					killed := w.mover(&engine.Around{Store: w.store, Hook: func(ctx context.Context, m engine.Method, call func(context.Context) error) error {
						return d.call(string(m), func() error { return call(ctx) })
					}}, dyingFiles{w.files, d})
					_, _ = killed.Tick(t.Context())
					if !d.dead {
						t.Fatal("it was not killed")
					}
					check("killed")
					_, err := w.store.TakeArchive(t.Context(), killed.Holder, -time.Second) // its turn ends
					w.do(err)
					_, err = w.mover(w.store, w.files).Tick(t.Context())
					w.do(err)
					check("another went on")
					if note, err := mover.ReadNote(t.Context(), w.store); err != nil || note.Error != "" || len(note.Foreign) > 0 {
						t.Errorf("%+v, %v", note, err)
					}
					if a, b := w.left("acme"), w.left("other"); a != 1 || b != 0 { // a dead letter
						t.Errorf("%d and %d are left in the store", a, b)
					}
					files, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{})
					w.do(err)
					rows := int64(0)
					for _, f := range files {
						if f.State != engine.FileSettled {
							t.Errorf("%s is in state %d", f.Name, f.State)
						}
						if f.Kind == engine.ArchivedExecutions {
							rows += f.Rows
						}
					}
					objects, err := w.files.List(t.Context(), "", "", 100)
					w.do(err)
					if len(objects) != len(files) || rows != 13 {
						t.Errorf("%d objects of %d files with %d executions, want 13", len(objects), len(files), rows)
					}
				})
			}
		}
	}
}
