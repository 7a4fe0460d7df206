package history_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// restored opens a copy of the store, as after a restore.
func (w *world) restored(path string) *world {
	w.Helper()
	s, err := sqlite.Open(w.Context(), sqlite.Config{Path: path})
	w.do(err)
	w.Cleanup(func() { s.Close() })
	w.do(s.Migrate(w.Context()))
	return &world{T: w.T, store: s, root: w.root, files: w.files, ids: w.ids, dead: w.dead}
}

// A store that was restored from a copy shows all it had, and deletes no object that was put after the copy: not those that it does not
// know, and not those of which it knows no more than that they were begun. It says which they are.
func TestARestoredStoreDeletesNothingOfTheTimeAfter(t *testing.T) {
	t.Parallel()
	for _, when := range []engine.Method{"ReadDay", "BeginFile", "ProveFile"} {
		t.Run(string(when), func(t *testing.T) {
			t.Parallel()
			path, to := filepath.Join(t.TempDir(), "carillon.db"), filepath.Join(t.TempDir(), "copy.db")
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			w := buildOn(t, s, 40)
			of := map[tenant.ID]seen{"acme": w.look(w.store, "acme"), "other": w.look(w.store, "other")}
			copied := false
			store := &engine.Around{Store: w.store, Hook: func(ctx context.Context, method engine.Method, call func(context.Context) error) error {
				if method == when && !copied {
					copied = true
					if _, err := sqlite.Backup(ctx, path, to); err != nil {
						return err
					}
				}
				return call(ctx)
			}}
			m := w.mover(store, w.files)
			if _, err := m.Tick(t.Context()); err != nil || !copied {
				t.Fatal(copied, err)
			}
			before, err := w.files.List(t.Context(), "", "", 100)
			w.do(err)

			r := w.restored(to)
			_, err = r.store.TakeArchive(t.Context(), m.Holder, -time.Second) // it is over by then
			w.do(err)
			_, err = r.mover(r.store, w.files).Tick(t.Context())
			w.do(err)
			for id, want := range of {
				w.same(w.look(w.tiers(), id), want, "in the store that was copied, "+string(id))
				r.same(r.look(r.tiers(), id), want, "in the copy, "+string(id))
			}
			after, err := w.files.List(t.Context(), "", "", 100)
			w.do(err)
			note, err := mover.ReadNote(t.Context(), r.store)
			w.do(err)
			for _, o := range before {
				if !slices.Contains(after, o) {
					t.Errorf("%s is gone", o.Name)
				}
				if !slices.Contains(note.Foreign, o.Name) || !strings.Contains(r.log.String(), o.Name) {
					t.Errorf("nobody is told of %s", o.Name)
				}
			}
			if note.Error != "" || len(after) != 2*len(before) {
				t.Errorf("%d objects, before %d; %+v", len(after), len(before), note)
			}
		})
	}
}

// An object of somebody else beside the files is left alone and named.
func TestAForeignObject(t *testing.T) {
	t.Parallel()
	w := build(t, 30)
	acme := w.look(w.store, "acme")
	name := "executions/year=2026/month=01/day=02/part-0000.parquet"
	file := filepath.Join(w.root, filepath.FromSlash(name))
	w.do(os.MkdirAll(filepath.Dir(file), 0o700))
	w.do(os.WriteFile(file, []byte("not ours"), 0o600))
	m := w.mover(w.store, w.files)
	for range 2 {
		_, err := m.Tick(t.Context())
		w.do(err)
		if note, err := mover.ReadNote(t.Context(), w.store); err != nil || !slices.Equal(note.Foreign, []string{name}) {
			t.Errorf("%+v, %v", note, err)
		}
	}
	w.same(w.look(w.tiers(), "acme"), acme, "after")
	if text, err := os.ReadFile(file); err != nil || string(text) != "not ours" {
		t.Errorf("it is %q, %v", text, err)
	}
	if n := strings.Count(w.log.String(), name); n != 1 {
		t.Errorf("the log names it %d times", n)
	}
	office := mover.Office{Store: w.store, Files: w.files, Clock: m.Clock}
	v, err := office.Verify(t.Context(), "")
	if err != nil || len(v.Problems) != 1 || v.Problems[0].File != name {
		t.Errorf("%+v, %v", v, err)
	}
	w.do(os.Remove(file))
	again := w.mover(w.store, w.files)
	_, err = again.Tick(t.Context())
	w.do(err)
	if note, err := mover.ReadNote(t.Context(), w.store); err != nil || len(note.Foreign) > 0 {
		t.Errorf("%+v, %v", note, err)
	}
}
