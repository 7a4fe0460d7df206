package replica

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

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
