package replica

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// gone reports whether an object was deleted.
func (r *rig) gone(name string) bool {
	r.t.Helper()
	_, err := r.place.Stat(r.t.Context(), name)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		r.t.Fatal(err)
	}
	return err != nil
}

// days has a snapshot and two facts in segments on each of some days, and returns the snapshots.
func (r *rig) days(n int) []Point {
	r.t.Helper()
	for range n {
		for range 3 {
			r.write(1)
			r.step()
		}
		r.ahead += 25 * time.Hour
	}
	g := r.survey().Generations[0]
	if len(g.Snapshots) != n {
		r.t.Fatalf("there are %d snapshots of %d", len(g.Snapshots), n)
	}
	return g.Snapshots
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

// TestRetentionNeedsAWholeSnapshot loses a part of the snapshot from which the time to keep would be restored.
func TestRetentionNeedsAWholeSnapshot(t *testing.T) {
	t.Parallel()
	for how, do := range map[string]func(*rig, string){"missing": (*rig).lose, "damaged": (*rig).spoil} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			days := r.days(4)
			do(r, partName(days[2].Name, 0))
			if err := r.survey().prune(t.Context(), r.s.created, days[2].Ended, r.s.gen.id, ""); err != nil {
				t.Fatal(err)
			}
			if !r.gone(days[0].Name+manifest) || r.gone(days[1].Name+manifest) {
				t.Errorf("the first snapshot was deleted: %v; the second: %v", r.gone(days[0].Name+manifest), r.gone(days[1].Name+manifest))
			}
			r.must(Want{At: days[2].Ended, LastGood: true}, 7)
			if err := r.survey().prune(t.Context(), r.s.created, days[3].Ended, r.s.gen.id, ""); err != nil {
				t.Fatal(err)
			}
			if !r.gone(days[2].Name + manifest) {
				t.Error("the damaged snapshot was not deleted with the others before the next one")
			}
			r.must(Want{}, r.n)
		})
	}
	t.Run("the only one", func(t *testing.T) { // then another generation begins
		t.Parallel()
		r := newRig(t)
		r.write(1)
		r.step()
		r.lose(partName(r.survey().Generations[0].Snapshots[0].Name, 0))
		if _, err := r.s.retain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r.step()
		}
		r.status(0, 2, 2)
		r.must(Want{}, 1)
	})
	t.Run("backups", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var ids []string
		for i := range 4 {
			r.write(1)
			p, _, err := Backup(t.Context(), r.path, r.place, t.TempDir(), 2, "host", "test", r.now)
			if err != nil {
				t.Fatal(err)
			}
			if ids = append(ids, p.ID()); i == 2 {
				r.lose(partName(backups+p.ID(), 0))
			}
		}
		r.must(Want{From: ids[1]}, 2) // is one of the newest two that are whole
		if !r.gone(backups + ids[0] + manifest) {
			t.Error("the first backup is left")
		}
	})
}

// TestRetentionGoesOnAfterDamage sees that a damaged end of an old generation keeps neither it nor older ones.
func TestRetentionGoesOnAfterDamage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 {
		r.write(1)
		r.step()
		r.write(1)
		r.step()
		r.begin(1)
	}
	r.ahead += time.Hour
	v := r.survey()
	first, second := v.Generations[0].ID, v.Generations[1].ID
	r.spoil(segmentName(second, 2))
	if err := v.prune(t.Context(), r.s.created, r.now(), r.s.gen.id, ""); err != nil {
		t.Fatal(err)
	}
	if !r.gone(generations+first) || !r.gone(generations+second) || r.gone(segmentName(second, 2)) {
		t.Error("an old generation is left, or what may be somebody's was deleted")
	}
	r.must(Want{}, r.n)
}

// TestRetentionWhileASnapshotIsStored lets more than the time to keep pass before all of a snapshot is stored.
func TestRetentionWhileASnapshotIsStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	r.place.before = func(name string) {
		if strings.HasSuffix(name, manifest) {
			r.place.before = nil
			r.ahead += 100 * time.Hour
			if _, err := r.s.retain(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	r.step()
	r.must(Want{}, 1)
}

// TestRetentionOfForeignObjects has files with names that the package could have given, in a generation that is forgotten.
func TestRetentionOfForeignObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		r.write(1)
		r.step()
	}
	g := r.survey().Generations[0]
	foreign := []string{
		segmentName(g.ID, 3), segmentName(g.ID, 4), segmentName(g.ID, 9), partName(snapshotName(g.ID, 7, r.now()), 0), generations + "20200101T000000.000000Z-AAAAAAAA",
	}
	for _, name := range foreign {
		if err := os.MkdirAll(filepath.Dir(r.file(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		r.spoil(name)
	}
	left := partName(snapshotName(g.ID, 8, r.now().Add(2*time.Hour)), 0) // of a snapshot that was not finished
	data, err := os.ReadFile(r.file(partName(g.Snapshots[0].Name, 0)))
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(r.file(left)), 0o700), os.WriteFile(r.file(left), data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	r.begin(1)
	r.ahead += time.Hour
	if err := r.survey().prune(t.Context(), r.s.created, r.now(), r.s.gen.id, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range foreign {
		if r.gone(name) {
			t.Errorf("%s was deleted", name)
		}
	}
	for _, name := range []string{generations + g.ID, segmentName(g.ID, 1), segmentName(g.ID, 2), g.Snapshots[0].Name + manifest, left} {
		if !r.gone(name) {
			t.Errorf("%s is left", name)
		}
	}
	r.must(Want{}, r.n)
}
