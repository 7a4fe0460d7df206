package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// rig is a store, its shipper and its place. Nothing runs by itself: the test takes each step.
type rig struct {
	t     *testing.T
	path  string
	place *flaky
	s     *Shipper
	store *sqlite.Store
	began time.Time
	ticks atomic.Int64  // of the clock, which a step of the test moves, and nothing else
	ahead time.Duration // of the clock
	n     int           // facts that were written
}

// now is the clock: a millisecond later each time.
func (r *rig) now() time.Time {
	return r.began.Add(r.ahead + time.Duration(r.ticks.Add(1))*time.Millisecond)
}

// flaky is a place that can be made to fail.
type flaky struct {
	blob.Store
	away   error
	keep   error             // of what is to be deleted
	before func(name string) // an object is stored
	read   func(name string) // an object is read
}

func (f *flaky) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if f.read != nil {
		f.read(name)
	}
	return f.Store.Get(ctx, name, from, n)
}

func (f *flaky) Delete(ctx context.Context, name string) error {
	if f.keep != nil {
		return f.keep
	}
	return f.Store.Delete(ctx, name)
}

func (f *flaky) Put(ctx context.Context, o blob.Object, content io.ReaderAt) error {
	if f.away != nil {
		return f.away
	}
	if f.before != nil {
		f.before(o.Name)
	}
	return f.Store.Put(ctx, o, content)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigAt(t, folder.New(filepath.Join(t.TempDir(), "place")))
}

func newRigAt(t *testing.T, place blob.Store) *rig {
	t.Helper()
	r := &rig{t: t, began: time.Now(), path: filepath.Join(t.TempDir(), "data", "carillon.db"), place: &flaky{Store: place}}
	r.start()
	return r
}

// start starts a process.
func (r *rig) start() {
	r.t.Helper()
	var err error
	r.s, err = New(Config{
		Place: r.place, Mounted: strings.HasPrefix(r.place.String(), "file:"), Folder: r.path + "-replica", Every: time.Millisecond, Snapshots: 24 * time.Hour, Keep: 72 * time.Hour, Spool: 64 << 20, Host: "host", Version: "test",
		Log: slog.New(slog.DiscardHandler), Now: r.now,
	})
	if err == nil {
		r.store, err = sqlite.Open(r.t.Context(), sqlite.Config{Path: r.path, Tap: r.s.Tap()})
	}
	if err == nil {
		err = r.store.Migrate(r.t.Context())
	}
	if err == nil {
		err = r.s.Bind(r.t.Context(), r.store)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	store := r.store
	r.t.Cleanup(func() { _ = store.Close() })
}

// write writes facts, each in a transaction of its own.
func (r *rig) write(n int) {
	r.t.Helper()
	for range n {
		r.n++
		if _, err := r.store.Share(r.t.Context(), fmt.Sprintf("fact %06d", r.n), []byte(strings.Repeat(fmt.Sprint(r.n), 100))); err != nil {
			r.t.Fatal(err)
		}
	}
}

// step does what the loops do once.
func (r *rig) step() {
	r.t.Helper()
	if _, err := r.s.tick(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.s.ship(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.s.work.Wait()
}

// stop ends the process in order.
func (r *rig) stop() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	cancel()
	r.s.Run(ctx)
	if err := r.store.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.s.Closed()
}

// crash copies the files as a killed process leaves them, and goes on with the copy.
func (r *rig) crash() {
	r.t.Helper()
	to := filepath.Join(r.t.TempDir(), "carillon.db")
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(r.path + end)
		if err == nil {
			err = os.WriteFile(to+end, data, 0o600)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	if err := os.CopyFS(to+"-replica", os.DirFS(r.path+"-replica")); err != nil && !errors.Is(err, fs.ErrNotExist) { // lost with it
		r.t.Fatal(err)
	}
	r.path = to
	r.start()
}

type restored struct {
	Result
	facts   int
	summary sqlite.Summary
	path    string
}

// restore restores into another folder, and counts the facts, which must be the first ones without a gap.
func (r *rig) restore(want Want) (out restored, err error) {
	r.t.Helper()
	v, err := Look(r.t.Context(), r.place)
	if err != nil {
		return out, err
	}
	choice, err := v.Choose(r.t.Context(), want)
	if err != nil {
		return out, err
	}
	out.path = filepath.Join(r.t.TempDir(), "restored.db")
	f, err := os.Create(out.path + ".pages")
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	if out.Result, err = v.Assemble(r.t.Context(), choice, want, f, nil); err != nil {
		return out, err
	}
	if out.summary, err = sqlite.Adopt(r.t.Context(), f.Name(), out.path, out.Epoch, time.Now()); err != nil {
		return out, err
	}
	s, err := sqlite.Open(r.t.Context(), sqlite.Config{Path: out.path})
	if err != nil {
		return out, err
	}
	defer s.Close()
	for {
		name := fmt.Sprintf("fact %06d", out.facts+1)
		got, err := s.Share(r.t.Context(), name, []byte("missing"))
		if err != nil {
			return out, err
		}
		if string(got) == "missing" {
			return out, nil
		}
		out.facts++
	}
}

func (r *rig) must(want Want, facts int) restored {
	r.t.Helper()
	out, err := r.restore(want)
	if err != nil || out.facts != facts {
		r.t.Fatalf("restored %d facts of %d: %v", out.facts, facts, err)
	}
	return out
}

func (r *rig) status(segments, snapshots, generations int64) {
	r.t.Helper()
	got := r.s.Status()
	if got.Segments != segments || got.Snapshots != snapshots || got.Generations != generations || got.Failing != nil {
		r.t.Fatalf("got %+v; want %d segments, %d snapshots, %d generations", got, segments, snapshots, generations)
	}
}

// file is the path of an object.
func (r *rig) file(name string) string { return filepath.Join(r.mount().root, name) }

// spoil overwrites an object.
func (r *rig) spoil(name string) {
	r.t.Helper()
	if err := os.WriteFile(r.file(name), []byte("hello"), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) lose(name string) {
	r.t.Helper()
	if err := os.Remove(r.file(name)); err != nil {
		r.t.Fatal(err)
	}
}

// begin begins another generation with a snapshot of as many more facts.
func (r *rig) begin(facts int) {
	r.t.Helper()
	r.s.tap.Abandon(errors.New("for the test"))
	r.write(facts)
	r.step()
	r.step()
}

// refuses sees that a restore names what is damaged or missing and the last instant that it could restore, restores so many facts with
// LastGood, and says why it ends there.
func (r *rig) refuses(want Want, names string, facts int) restored {
	r.t.Helper()
	_, err := r.restore(want)
	var less *Incomplete
	if !errors.As(err, &less) || !strings.Contains(err.Error(), names) {
		r.t.Fatalf("got %v; want an error that names %s", err, names)
	}
	want.LastGood = true
	out := r.must(want, facts)
	if !out.Ended.Equal(less.Good) || !strings.Contains(err.Error(), show(out.Ended)) {
		r.t.Errorf("restored up to %s; the error was %v", out.Ended, err)
	}
	if !strings.Contains(out.Stopped, names) {
		r.t.Errorf("it ends because %q; want the name of %s", out.Stopped, names)
	}
	return out
}

// survey looks at the place.
func (r *rig) survey() *Survey {
	r.t.Helper()
	v, err := Look(r.t.Context(), r.place)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}
