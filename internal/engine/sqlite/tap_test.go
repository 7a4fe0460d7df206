package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// copyOf is a database put together from a snapshot and changes.
type copyOf struct {
	path string
	f    *os.File
}

func (c *copyOf) take(t *testing.T, changes Changes) {
	t.Helper()
	for number, data := range changes.Pages {
		if _, err := c.f.WriteAt(data, int64(number-1)*int64(len(data))); err != nil {
			t.Fatal(err)
		}
	}
	if changes.Size > 0 && len(changes.Pages) > 0 {
		if err := c.f.Truncate(int64(changes.Size) * int64(changes.PageSize)); err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot starts a copy.
func snapshot(t *testing.T, s *Store) *copyOf {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snapshotOf(t, snap)
}

func snapshotOf(t *testing.T, snap *Snapshot) *copyOf {
	t.Helper()
	c := &copyOf{path: filepath.Join(t.TempDir(), "copy.db")}
	var err error
	if c.f, err = os.Create(c.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.f.Close() })
	if err := snap.Each(t.Context(), func(number uint32, data []byte) error {
		_, err := c.f.WriteAt(data, int64(number-1)*int64(len(data)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

// rowsOf returns everything in a file, in order.
func rowsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := peek(t.Context(), path, "read", func(c *conn) error {
		if err := c.prepare("PRAGMA integrity_check").each(func(r *row) error {
			if x := r.text(); x != "ok" {
				t.Errorf("%s is damaged: %s", path, x)
			}
			return nil
		}); err != nil {
			return err
		}
		names, err := tableNames(c)
		if err != nil {
			return err
		}
		for _, name := range names {
			var text strings.Builder
			err := c.prepare("SELECT * FROM " + quoted(name)).each(func(r *row) error {
				for i := range r.on.ColumnCount() {
					fmt.Fprintf(&text, "%q,", r.on.ColumnText(i))
				}
				text.WriteByte('\n')
				return nil
			})
			if err != nil {
				return err
			}
			out[name] = text.String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// same compares a copy with the store, whose content must be in its files.
func (c *copyOf) same(t *testing.T, path string) {
	t.Helper()
	// The copy says that it has a log; it has none. Read a copy of the copy, so that reading leaves it alone.
	data, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	data[18], data[19] = 1, 1
	twin := filepath.Join(t.TempDir(), "twin.db")
	if err := os.WriteFile(twin, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, want := rowsOf(t, twin), rowsOf(t, path)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("table %s: the copy has %d bytes, the store %d", name, len(got[name]), len(want[name]))
		}
	}
}

func tapped(t *testing.T, path string, from TapState) (*Store, *Tap) {
	t.Helper()
	tap := NewTap(from, time.Now)
	s, err := Open(t.Context(), Config{Path: path, Tap: tap})
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, tap
}

func cut(t *testing.T, tap *Tap) Changes {
	t.Helper()
	c, err := tap.Cut()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// exec runs statements in one transaction of the store.
func exec(t *testing.T, s *Store, sql ...string) {
	t.Helper()
	err := s.alter(t.Context(), writePatience, "test", func(c *conn) error {
		for _, q := range sql {
			if _, err := c.prepare(q).exec(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// foldNow folds the whole log, as the store does by itself when it has grown.
func foldNow(t *testing.T, s *Store) {
	t.Helper()
	c, err := openConn(s.path, sqlite.OpenReadWrite, folderPragmas...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !s.foldAll(c) {
		t.Fatal("closed")
	}
}

// TestTapMissesNothing compares a copy that follows the tap with the store, while the log is folded and begins anew between random
// transactions of all sizes, some of which are rolled back.
func TestTapMissesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			s, tap := tapped(t, filepath.Join(t.TempDir(), "a.db"), TapState{})
			if _, err := tap.Cut(); err == nil {
				t.Fatal("a cut before a snapshot")
			}
			exec(t, s, "CREATE TABLE x (id INTEGER PRIMARY KEY, v BLOB)")
			c := snapshot(t, s)
			logs := map[uint32]bool{}
			for range 150 {
				switch random.IntN(8) {
				case 0:
					foldNow(t, s)
				case 1:
					changes := cut(t, tap)
					c.take(t, changes)
					tap.Free(changes)
					logs[changes.Position.Seq] = true
				case 2: // larger than the cache, so that it spills into the log, and rolled back
					_ = s.alter(t.Context(), writePatience, "test", func(c *conn) error {
						if _, err := c.prepare("PRAGMA cache_size = 10").exec(); err != nil {
							return err
						}
						if _, err := c.prepare("INSERT INTO x (v) SELECT randomblob(9000) FROM (SELECT 1 FROM sqlite_schema LIMIT 60)").exec(); err != nil {
							return err
						}
						return errClosed
					})
				case 3:
					exec(t, s, fmt.Sprintf("INSERT INTO x (v) SELECT randomblob(%d) FROM (SELECT 1 FROM sqlite_schema LIMIT 60)", 1+random.IntN(12_000)))
				case 4:
					exec(t, s, fmt.Sprintf("DELETE FROM x WHERE id %% 7 = %d", random.IntN(7)))
				default:
					exec(t, s, fmt.Sprintf("INSERT INTO x (v) VALUES (randomblob(%d))", 1+random.IntN(20_000)), "UPDATE x SET v = randomblob(100) WHERE id = (SELECT max(id) FROM x) / 2")
				}
			}
			c.take(t, cut(t, tap))
			c.same(t, s.path)
			if len(logs) < 3 {
				t.Errorf("the log began anew in %d ways; the test wants more", len(logs))
			}
		})
	}
}

// TestTapWhileOthersWrite does the same while a snapshot is read, the log is folded, and two goroutines write.
func TestTapWhileOthersWrite(t *testing.T) {
	t.Parallel()
	s, tap := tapped(t, filepath.Join(t.TempDir(), "a.db"), TapState{})
	done := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 150 {
				store(t, s, some(s, 3))
			}
		}()
	}
	c := snapshot(t, s)
	for left := 2; left > 0; {
		select {
		case <-done:
			left--
		default:
			foldNow(t, s)
			c.take(t, cut(t, tap))
		}
	}
	// A second snapshot goes on where the first has come to.
	snap, err := s.Snapshot(t.Context())
	if err != nil || !snap.Continues {
		t.Fatalf("the second snapshot: %+v, %v", snap, err)
	}
	c.take(t, snap.Changes)
	second := snapshotOf(t, snap)
	store(t, s, some(s, 5))
	last := cut(t, tap)
	c.take(t, last)
	second.take(t, last)
	c.same(t, s.path)
	second.same(t, s.path)
}

func TestTapGoesOnInTheNextProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s, tap := tapped(t, path, TapState{})
	c := snapshot(t, s)
	store(t, s, some(s, 5))
	c.take(t, cut(t, tap))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	state, ok := tap.Finished()
	if !ok || state.Closed == nil {
		t.Fatalf("after an orderly end: %+v, %v", state, ok)
	}

	s, tap = tapped(t, path, state)
	if !tap.Resumed() {
		t.Fatal("it does not go on after an orderly end")
	}
	store(t, s, some(s, 5))
	mid := cut(t, tap)
	c.take(t, mid)
	store(t, s, some(s, 4)) // is in the log only
	crashed := filepath.Join(t.TempDir(), "b.db")
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + end)
		if err == nil {
			err = os.WriteFile(crashed+end, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := tap.Finished(); ok {
		t.Error("it says that nothing was left")
	}

	s, tap = tapped(t, crashed, TapState{At: mid.Position})
	if !tap.Resumed() {
		t.Fatal("it does not go on after a crash")
	}
	store(t, s, some(s, 1))
	c.take(t, cut(t, tap))
	c.same(t, crashed)

	// A file that was changed meanwhile, and a position of another log.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	state, ok = tap.Finished()
	if !ok {
		t.Fatal("not finished")
	}
	other, err := openConn(crashed, sqlite.OpenReadWrite)
	if err == nil {
		_, err = other.prepare("CREATE TABLE intruder (x)").exec()
	}
	if err == nil {
		err = other.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, tap = tapped(t, crashed, state)
	if _, err := tap.Cut(); tap.Resumed() || err == nil {
		t.Error("it goes on although the file was changed")
	}
}

// TestTapIsLost begins the log anew behind the store's back.
func TestTapIsLost(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"RESTART", "TRUNCATE"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, tap := tapped(t, filepath.Join(t.TempDir(), "a.db"), TapState{})
			snapshot(t, s)
			intrude := func() {
				other, err := openConn(s.path, sqlite.OpenReadWrite)
				if err == nil {
					_, err = other.prepare("PRAGMA wal_checkpoint(" + mode + ")").exec()
				}
				if err == nil {
					err = other.Close()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			store(t, s, some(s, 2))
			intrude()
			store(t, s, some(s, 1))
			if c, err := tap.Cut(); err == nil {
				t.Fatalf("it has noticed nothing: %d pages", len(c.Pages))
			}
			c := snapshot(t, s)
			store(t, s, some(s, 1))
			foldNow(t, s)
			store(t, s, some(s, 1))
			intrude()
			store(t, s, some(s, 1))
			intrude()
			store(t, s, some(s, 1))
			if _, err := tap.Cut(); err == nil {
				t.Error("it has noticed nothing")
			}
			c = snapshot(t, s)
			store(t, s, some(s, 1))
			c.take(t, cut(t, tap))
			c.same(t, s.path)
		})
	}
}

func TestTapThatNobodyReads(t *testing.T) {
	t.Parallel()
	s, tap := tapped(t, filepath.Join(t.TempDir(), "a.db"), TapState{})
	snapshot(t, s)
	tap.mu.Lock()
	tap.bytes = tapLimit
	tap.mu.Unlock()
	store(t, s, some(s, 1))
	if _, err := tap.Cut(); err == nil || !strings.Contains(err.Error(), "waited to be taken") {
		t.Errorf("got %v", err)
	}
	if _, err := tap.Cut(); err == nil {
		t.Error("the second cut")
	}
	if n := len(tap.pages); n > 0 {
		t.Errorf("it keeps %d pages", n)
	}
}

func TestSnapshotNeedsATap(t *testing.T) {
	t.Parallel()
	if _, err := fresh(t).Snapshot(t.Context()); err == nil {
		t.Error("there is no tap")
	}
}

// BenchmarkTapHoldsTheWriter measures for how long nobody can write because of a tap: as long as it reads what was committed in the moment before.
// Two goroutines write meanwhile, and a third one cuts.
func BenchmarkTapHoldsTheWriter(b *testing.B) {
	tap := NewTap(TapState{}, time.Now)
	s, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "a.db"), Tap: tap})
	if err == nil {
		err = s.Migrate(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	snap, err := s.Snapshot(b.Context())
	if err == nil {
		err = snap.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					_, _ = s.CreateJobs(b.Context(), []engine.Creation{some(s, 50)})
				}
			}
		})
	}
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				if c, err := tap.Cut(); err == nil {
					tap.Free(c)
				}
			}
		}
	})
	var held []time.Duration
	for b.Loop() {
		var from time.Time
		s.exclusively(func(alone bool) bool {
			if alone {
				from = time.Now()
			}
			return tap.read(alone)
		}, func() {})
		held = append(held, time.Since(from))
		time.Sleep(time.Millisecond)
	}
	close(stop)
	others.Wait()
	slices.Sort(held)
	b.ReportMetric(float64(held[len(held)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(held[len(held)*99/100].Microseconds()), "µs-p99")
	b.ReportMetric(float64(held[len(held)-1].Microseconds()), "µs-max")
}

// TestASnapshotThatFailsTakesNothing has the connection fail that is to read a snapshot: the next Cut still has what was written before.
func TestASnapshotThatFailsTakesNothing(t *testing.T) {
	t.Parallel()
	s, tap := tapped(t, filepath.Join(t.TempDir(), "a.db"), TapState{})
	c := snapshot(t, s)
	exec(t, s, "CREATE TABLE x (id INTEGER PRIMARY KEY, v BLOB)", "INSERT INTO x (v) VALUES (randomblob(9000))")
	if err := s.start(t.Context(), &Snapshot{}, func() (Extent, error) { return Extent{}, errors.New("the disk failed") }); err == nil {
		t.Fatal("it did not fail")
	}
	exec(t, s, "INSERT INTO x (v) VALUES (randomblob(9000))")
	c.take(t, cut(t, tap))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.same(t, s.path)
}
