package history_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// slow is a mover that stops before one of its calls until it may go on.
type slow struct {
	at, n       int
	stops, goes chan struct{}
}

func (s *slow) call(f func() error) error {
	if s.n++; s.n == s.at {
		close(s.stops)
		<-s.goes
	}
	return f()
}

type slowFiles struct {
	blob.Store
	s *slow
}

func (f slowFiles) Put(ctx context.Context, o blob.Object, c io.ReaderAt) error {
	return f.s.call(func() error { return f.Store.Put(ctx, o, c) })
}

func (f slowFiles) Delete(ctx context.Context, name string) error {
	return f.s.call(func() error { return f.Store.Delete(ctx, name) })
}

func (f slowFiles) Get(ctx context.Context, name string, from, n int64) (r io.ReadCloser, err error) {
	err = f.s.call(func() error { r, err = f.Store.Get(ctx, name, from, n); return err })
	return r, err
}

// A mover that stops anywhere for so long that another takes its turn does no harm when it goes on: not when the other has moved the day,
// and not when the other is about to.
func TestAMoverThatLostItsTurn(t *testing.T) {
	t.Parallel()
	for beside, from := range map[bool]int{false: 2, true: 3} {
		for at := from; ; at += 2 { // the first call takes the turn
			if testing.Short() && at%5 != 1 {
				continue
			}
			when := fmt.Sprintf("it stopped before call %d, and the other was still at work: %t", at, beside)
			w := build(t, 12)
			acme := w.look(w.store, "acme")
			s := &slow{at: at, stops: make(chan struct{}), goes: make(chan struct{})}
			m := w.mover(&engine.Around{Store: w.store, Hook: func(ctx context.Context, _ engine.Method, call func(context.Context) error) error {
				return s.call(func() error { return call(ctx) })
			}}, slowFiles{w.files, s})
			ended := make(chan error, 1)
			go func() { _, err := m.Tick(t.Context()); ended <- err }()
			select {
			case <-s.stops:
			case err := <-ended:
				w.do(err)
				if at < 10 {
					t.Fatalf("it made %d calls", s.n)
				}
			}
			if s.n < at {
				break
			}
			_, err := w.store.TakeArchive(t.Context(), m.Holder, -time.Second)
			w.do(err)
			goOn := func() {
				close(s.goes)
				<-ended // how it ends does not matter
			}
			went := false
			next := w.mover(&engine.Around{Store: w.store, Hook: func(ctx context.Context, method engine.Method, call func(context.Context) error) error {
				if method == "LeaveDay" && beside && !went {
					went = true
					goOn()
				}
				return call(ctx)
			}}, w.files)
			_, err = next.Tick(t.Context())
			w.do(err)
			if !went {
				goOn()
			}
			w.same(w.look(w.tiers(), "acme"), acme, when)
			last := w.mover(w.store, w.files)
			_, err = last.Tick(t.Context())
			w.do(err)
			w.same(w.look(w.tiers(), "acme"), acme, when+", and a third came")
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
			if at > 200 {
				t.Fatal("it never ends")
			}
		}
	}
}
