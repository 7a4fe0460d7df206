package history_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var errKilled = errors.New("killed")

// killer stops a mover at one of its calls, as a kill would: that call and all after it fail.
type killer struct {
	at, n int
	after bool // that call takes effect
}

func (k *killer) call(f func() error) error {
	k.n++
	if k.n > k.at || k.n == k.at && !k.after {
		return errKilled
	}
	if err := f(); err != nil || k.n < k.at {
		return err
	}
	return errKilled
}

type killedFiles struct {
	blob.Store
	k *killer
}

func (s killedFiles) Put(ctx context.Context, o blob.Object, c io.ReaderAt) error {
	return s.k.call(func() error { return s.Store.Put(ctx, o, c) })
}

func (s killedFiles) Delete(ctx context.Context, name string) error {
	return s.k.call(func() error { return s.Store.Delete(ctx, name) })
}

func (s killedFiles) Get(ctx context.Context, name string, from, n int64) (r io.ReadCloser, err error) {
	err = s.k.call(func() error { r, err = s.Store.Get(ctx, name, from, n); return err })
	return r, err
}

// A mover that is killed at any of its calls, before it or after it, loses nothing and shows nothing twice; nor does the next one, which
// ends what it began.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			if testing.Short() && at%5 != 1 && at > 3 {
				continue
			}
			w := build(t, 26)
			acme := w.look(w.store, "acme")
			k := &killer{at: at, after: after}
			store := &engine.Around{Store: w.store, Hook: func(ctx context.Context, _ engine.Method, call func(context.Context) error) error {
				return k.call(func() error { return call(ctx) })
			}}
			m := w.mover(store, killedFiles{w.files, k})
			_, _ = m.Tick(t.Context())
			when := fmt.Sprintf("killed at call %d, after it: %t", at, after)
			w.same(w.look(w.tiers(), "acme"), acme, when)
			next := w.mover(w.store, w.files)
			next.Holder = m.Holder // else it would wait until the turn is over
			if _, err := next.Tick(t.Context()); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			w.same(w.look(w.tiers(), "acme"), acme, when+", and the next one came")
			if note, err := mover.ReadNote(t.Context(), w.store); err != nil || note.Error != "" {
				t.Fatalf("%s: %+v, %v", when, note, err)
			}
			if n := w.left("acme"); n != 1 {
				t.Fatalf("%s: %d are left: %s", when, n, w.log.String())
			}
			files, err := w.store.ArchiveFiles(t.Context(), engine.FileFilter{})
			w.do(err)
			objects, err := w.files.List(t.Context(), "", "", 100)
			w.do(err)
			if len(files) != len(objects) {
				t.Fatalf("%s: %d objects of %d files", when, len(objects), len(files))
			}
			if k.n < at {
				break
			}
			if at > 200 {
				t.Fatal("it never ends")
			}
		}
	}
}
