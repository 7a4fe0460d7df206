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
	"github.com/carillon-jobs/carillon/internal/engine"
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
	before func(name string) // an object is stored
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

func TestReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(3)
	r.step() // a generation with a snapshot
	r.status(0, 1, 1)
	first := r.must(Want{}, 3)
	var times []time.Time
	for range 5 {
		r.write(2)
		r.step()
		times = append(times, r.now())
	}
	r.step()
	r.status(5, 1, 1)
	last := r.must(Want{}, 13)
	if last.Segments != 5 || last.Generation == "" || last.Ended.After(times[4]) || last.Stopped != "" {
		t.Errorf("got %+v", last)
	}
	for i, at := range times {
		if got := r.must(Want{At: at}, 5+2*i); got.Segments != i+1 {
			t.Errorf("at %d: %+v", i, got)
		}
	}
	if _, err := r.restore(Want{At: first.Began.Add(-time.Hour)}); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "goes back to") {
		t.Errorf("before the first snapshot: %v", err)
	}
	if _, err := r.restore(Want{From: "20260101T000000.000000Z-AAAAAAAA"}); !errors.Is(err, ErrNone) {
		t.Errorf("of another generation: %v", err)
	}
	if got := r.s.Status().Behind; got > time.Minute || r.s.Status().Warning() != "" {
		t.Errorf("%s behind", got)
	}
}

// TestEpochOfARestoredStore compares the tokens of two stores that were restored from one replica.
func TestEpochOfARestoredStore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.step()
	id, err := r.store.Identify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := r.must(Want{}, 0)
	if got.summary.Epoch <= id.Epoch {
		t.Errorf("the epoch is %d after %d", got.summary.Epoch, id.Epoch)
	}
	if _, err := sqlite.Adopt(t.Context(), got.path, r.path, 0, time.Now()); err == nil {
		t.Error("over a store that is open")
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Adopt(t.Context(), got.path, r.path, 0, time.Now()); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("over a store: %v", err)
	}
}

func TestTheNextProcessGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(2)
	r.step()
	r.write(2)
	r.step()
	r.write(1) // is cut at the end only
	r.stop()
	r.must(Want{}, 5)
	r.start()
	r.write(1)
	r.step()
	r.status(1, 0, 0) // of this process
	r.must(Want{}, 6)

	r.place.away = blob.ErrUnavailable
	r.write(2)
	r.step() // into the spool
	r.write(1)
	r.place.away = nil
	r.crash()
	r.step()
	r.step()
	if got := r.s.Status(); got.Generations != 0 || got.Segments < 2 {
		t.Errorf("after a crash: %+v", got)
	}
	r.must(Want{}, 9)

	// A spool that was cut off, or another file, begins a generation.
	r.place.away = blob.ErrUnavailable
	r.write(2)
	r.step()
	r.place.away = nil
	left, _ := filepath.Glob(r.path + "-replica/*.segment")
	if len(left) != 1 {
		t.Fatalf("%d segments wait", len(left))
	}
	if err := os.Truncate(left[0], 100); err != nil {
		t.Fatal(err)
	}
	r.crash()
	r.step()
	r.status(0, 1, 1)
	r.must(Want{}, 11)
}

// TestAnUnreachablePlace sees that nothing stops, that changes wait, and that too many of them begin a generation.
func TestAnUnreachablePlace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.place.away = fmt.Errorf("put: %w", blob.ErrUnavailable)
	r.write(1)
	r.step()
	if got := r.s.Status(); got.Failing == nil || got.Generation != "" {
		t.Errorf("got %+v", got)
	}
	r.place.away = nil
	r.step()
	r.status(0, 1, 1)
	r.place.away = fmt.Errorf("put: %w", blob.ErrUnavailable)
	for range 3 {
		r.write(1)
		r.step()
	}
	r.ahead += time.Minute
	got := r.s.Status()
	if got.Failing == nil || got.Waiting == 0 || got.Failures < 3 || got.Behind < time.Minute || !strings.Contains(got.Warning(), "cannot be reached") {
		t.Errorf("got %+v: %s", got, got.Warning())
	}
	r.place.away = nil
	r.step()
	r.step() // nothing was written since, so everything until now is there
	if got := r.s.Status(); got.Failing != nil || got.Waiting != 0 || got.Warning() != "" {
		t.Errorf("got %+v", got)
	}
	r.must(Want{}, 4)

	r.s.cfg.Spool = 10_000
	r.place.away = fmt.Errorf("put: %w", blob.ErrUnavailable)
	for r.s.Status().Generation != "" {
		r.write(5)
		r.step()
	}
	if left, _ := filepath.Glob(r.path + "-replica/*.segment"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	facts := r.n
	r.place.away = nil
	r.step()
	r.status(3, 2, 2)
	r.must(Want{}, facts)
}

// TestDamage breaks objects one after the other.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(t *testing.T, file string){
		"truncated": func(t *testing.T, file string) {
			info, err := os.Stat(file)
			if err == nil {
				err = os.Truncate(file, info.Size()*2/3)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"a bit": func(t *testing.T, file string) {
			data, err := os.ReadFile(file)
			if err == nil {
				data[len(data)/2] ^= 1
				err = os.WriteFile(file, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"missing": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
		"foreign": func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"another segment": func(t *testing.T, file string) {
			data, err := os.ReadFile(strings.TrimSuffix(file, "4") + "5")
			if err == nil {
				err = os.WriteFile(file, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for range 7 {
				r.write(1)
				r.step()
			}
			gen := r.s.Status().Generation
			object := segmentName(gen, 4) // has the fifth fact
			breakIt(t, filepath.Join(strings.TrimPrefix(r.place.String(), "file:"), object))
			_, err := r.restore(Want{})
			var bad *blob.Damaged
			if !errors.As(err, &bad) || bad.Name != object {
				t.Fatalf("got %v; want the name of %s", err, object)
			}
			out := r.must(Want{LastGood: true}, 4)
			if !strings.Contains(out.Stopped, object) {
				t.Errorf("it says %q", out.Stopped)
			}
		})
	}
	t.Run("a snapshot", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.write(1)
		r.step()
		r.write(1)
		r.ahead += 25 * time.Hour
		r.step() // with a second snapshot
		r.write(1)
		r.step()
		parts, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(r.place.String(), "file:"), snapshots, "*", "*", "part-000000"))
		if len(parts) != 2 {
			t.Fatalf("there are %d snapshots", len(parts))
		}
		if err := os.Truncate(parts[1], 1000); err != nil {
			t.Fatal(err)
		}
		if _, err := r.restore(Want{}); !errors.As(err, new(*blob.Damaged)) {
			t.Fatalf("got %v", err)
		}
		r.must(Want{LastGood: true}, 3) // from the first one
	})
}

func TestForeignObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	r.step()
	gen := r.s.Status().Generation
	root := strings.TrimPrefix(r.place.String(), "file:")
	foreign := []string{
		generations + "notes.txt", generations + "20260101T000000.000000Z-AAAAAAAA", segments + gen + "/000000000/readme", segments + gen + "/000000000/0000000000ff.bak", snapshots + gen + "/x/manifest", "elsewhere/a", backups + "mine.zip",
	}
	for _, name := range foreign {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("not yours"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r.write(1)
	r.step()
	r.must(Want{}, 2)
	v, err := Look(t.Context(), r.place)
	if err != nil || len(v.Ignored) != 4 {
		t.Errorf("ignored: %v, %v", v.Ignored, err)
	}
	r.ahead += 1000 * time.Hour
	r.step()
	if _, err := r.s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range foreign {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestTwoProcesses has a copy of a folder replicate to the same place, and another store.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(2)
	r.step()
	r.write(1)
	r.step()
	twin := &rig{t: t, began: r.now().Add(time.Second), path: r.path, place: r.place, n: r.n}
	twin.crash()
	twin.write(1)
	r.write(2)
	r.step()
	gen := r.s.Status().Generation
	for range 3 { // finds that the segment exists, and begins a generation
		twin.write(1)
		twin.step()
	}
	if got := twin.s.Status().Generation; got == gen || got == "" {
		t.Errorf("both write %s", got)
	}
	r.ahead += time.Minute // both run on
	r.write(1)
	r.step()
	if _, err := r.restore(Want{}); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), gen) {
		t.Errorf("got %v", err)
	}
	r.must(Want{From: gen}, 6)
	r.must(Want{From: twin.s.Status().Generation}, twin.n)

	other := &rig{t: t, began: time.Now(), path: filepath.Join(t.TempDir(), "other.db"), place: r.place}
	s, err := New(Config{Place: r.place, Folder: other.path + "-replica", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: other.path, Tap: s.Tap()})
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := s.Bind(t.Context(), store); !errors.Is(err, ErrOthers) {
		t.Errorf("another store: %v", err)
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := func(prefix string) (n int) {
		if err := blob.Each(t.Context(), r.place, prefix, func(blob.Info) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 6 { // a snapshot and segments each day
		for range 3 {
			r.write(1)
			r.step()
		}
		r.ahead += 25 * time.Hour
	}
	facts := r.n
	if n := count(snapshots); n != 12 {
		t.Errorf("%d objects of snapshots", n)
	}
	v, err := Look(t.Context(), r.place)
	if err != nil {
		t.Fatal(err)
	}
	g := v.Generations[0]
	third := g.Snapshots[2]
	if err := v.prune(t.Context(), g.Store, third.Ended, g.ID, ""); err != nil {
		t.Fatal(err)
	}
	if n := count(snapshots); n != 8 {
		t.Errorf("%d objects of snapshots are left", n)
	}
	if n, want := count(segments), int(r.s.gen.index-third.index); n != want {
		t.Errorf("%d segments are left; want %d", n, want)
	}
	r.must(Want{}, facts)
	r.must(Want{At: third.Ended}, 7)
	if _, err := r.restore(Want{At: third.Began.Add(-time.Millisecond)}); !errors.Is(err, ErrNone) {
		t.Errorf("an instant that was forgotten: %v", err)
	}

	// The next generation replaces the first once it has all of the time to keep.
	r.s.tap.Abandon(errors.New("for the test"))
	r.step()
	r.step()
	r.write(1)
	r.step()
	v, err = Look(t.Context(), r.place)
	if err != nil || len(v.Generations) != 2 {
		t.Fatalf("%d generations, %v", len(v.Generations), err)
	}
	second := v.Generations[1]
	if err := v.prune(t.Context(), g.Store, second.Snapshots[0].Began.Add(-time.Nanosecond), second.ID, ""); err != nil {
		t.Fatal(err)
	}
	r.must(Want{From: g.ID}, facts)
	if err := v.prune(t.Context(), g.Store.Add(1), r.now(), second.ID, ""); err != nil {
		t.Fatal(err)
	}
	r.must(Want{From: g.ID}, facts) // it is another store's
	if err := v.prune(t.Context(), g.Store, r.now(), second.ID, ""); err != nil {
		t.Fatal(err)
	}
	if n := count(segments + g.ID); n > 0 {
		t.Errorf("%d segments of the first generation are left", n)
	}
	if _, err := r.restore(Want{From: g.ID}); !errors.Is(err, ErrNone) {
		t.Errorf("of the first generation: %v", err)
	}
	r.must(Want{}, r.n)
}

// TestAPlaceThatWasEmptied has somebody delete everything, in a place that cannot be away as a folder can.
func TestAPlaceThatWasEmptied(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.s.cfg.Mounted = false
	r.write(1)
	r.step()
	if err := os.RemoveAll(strings.TrimPrefix(r.place.String(), "file:")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.write(1)
	r.step()
	r.step()
	r.must(Want{}, 2)
	r.stop()
	if err := os.RemoveAll(strings.TrimPrefix(r.place.String(), "file:")); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.s.cfg.Mounted = false
	r.write(1)
	for range 3 {
		r.step()
	}
	r.must(Want{}, 3)
}

// TestAFolderThatWasEmptied has somebody delete everything in a folder, and say that it is meant.
func TestAFolderThatWasEmptied(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	r.step()
	r.step()
	if err := os.RemoveAll(r.mount().root); err != nil {
		t.Fatal(err)
	}
	r.write(1)
	r.step()
	if err := r.s.Status().Failing; !errors.Is(err, errAway) || !strings.Contains(err.Error(), "place.json") {
		t.Fatalf("got %v", err)
	}
	r.stop()
	if err := os.Remove(r.path + "-replica/place.json"); err != nil {
		t.Fatal(err)
	}
	r.start()
	for range 3 {
		r.step()
	}
	r.status(0, 1, 1)
	r.must(Want{}, 2)
}

// TestIdleForLongerThanTheRetention has retention delete every segment, all of which the newest snapshot contains, before the next process.
func TestIdleForLongerThanTheRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 {
		r.write(1)
		r.step()
	}
	r.ahead += 25 * time.Hour
	r.step() // with a snapshot
	r.ahead += 100 * time.Hour
	if _, err := r.s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.place.Stat(t.Context(), segmentName(r.s.gen.id, 1)); !errors.Is(err, blob.ErrNotFound) {
		t.Fatalf("the segment: %v", err)
	}
	r.stop()
	r.start()
	r.write(1)
	r.s.cfg.Snapshots = 1000 * time.Hour
	r.step()
	r.step()
	r.status(1, 0, 0)
	r.must(Want{}, 3)
}

// TestUnfinishedSnapshots sees that what was left of them is deleted once it is old.
func TestUnfinishedSnapshots(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	r.step()
	gen := r.s.Status().Generation
	put := func(name string) {
		w, err := newWriter(filepath.Join(t.TempDir(), "x"), head{Kind: kindPart})
		if err != nil {
			t.Fatal(err)
		}
		o, err := w.finish()
		if err == nil {
			err = o.put(t.Context(), r.place, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	old, young := partName(snapshotName(gen, 5, r.now().Add(-time.Hour)), 0), partName(snapshotName(gen, 6, r.now().Add(time.Hour)), 0)
	backup := partName(backups+stamp(r.now().Add(-48*time.Hour))+"-AAAAAAAA", 0)
	put(old)
	put(young)
	put(backup)
	r.write(1)
	r.step()
	v, err := Look(t.Context(), r.place)
	if err == nil {
		err = v.prune(t.Context(), r.s.created, r.now(), gen, "")
	}
	if err == nil {
		_, _, err = Backup(t.Context(), r.path, r.place, t.TempDir(), 1, "host", "test", r.now)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{old: false, young: true, backup: false} {
		if _, err := r.place.Stat(t.Context(), name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.must(Want{}, 2)
}

func TestBackups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var ids []string
	for i := range 4 {
		r.write(1)
		p, deleted, err := Backup(t.Context(), r.path, r.place, t.TempDir(), 3, "host", "test", r.now)
		if err != nil || deleted != max(0, i-2) {
			t.Fatalf("deleted %d, %v", deleted, err)
		}
		ids = append(ids, p.ID())
	}
	r.must(Want{}, 4)
	r.must(Want{From: ids[1]}, 2)
	if _, err := r.restore(Want{From: ids[0]}); !errors.Is(err, ErrNone) {
		t.Errorf("the first one: %v", err)
	}
	r.step()
	r.write(1)
	r.step()
	if got := r.must(Want{}, 5); got.Generation == "" {
		t.Error("the replica is newer")
	}
	if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(r.place.String(), "file:"), backups, "*")); len(left) < 3 {
		t.Errorf("left: %v", left)
	}
}

// TestRun lets everything run by itself.
func TestRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.s.Run(ctx); close(done) }()
	r.write(300)
	for !r.s.Status().Whole {
		time.Sleep(time.Millisecond) // of another goroutine, which waits for the disk
	}
	r.write(100)
	cancel()
	<-done
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	r.s.Closed()
	r.must(Want{}, 400)
	r.start()
	r.write(1)
	r.step()
	r.status(1, 0, 0)
	r.must(Want{}, 401)
}
