package replica

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// TestTheNewestIsDamaged loses what was written last: a restore never returns to an earlier instant without saying so.
func TestTheNewestIsDamaged(t *testing.T) {
	t.Parallel()
	// three has a generation with a fact in a snapshot and three in segments, and returns the instants after each.
	three := func(t *testing.T) (r *rig, gen string, at []time.Time) {
		t.Parallel()
		r = newRig(t)
		for range 4 {
			r.write(1)
			r.step()
			at = append(at, r.now())
		}
		return r, r.s.Status().Generation, at
	}
	t.Run("segment", func(t *testing.T) {
		r, gen, at := three(t)
		r.spoil(segmentName(gen, 3))
		r.refuses(Want{}, segmentName(gen, 3), 3)
		r.refuses(Want{At: at[3]}, segmentName(gen, 3), 3)
		r.must(Want{At: at[1]}, 2)
		r.spoil(segmentName(gen, 2)) // all of the end
		r.refuses(Want{}, segmentName(gen, 2), 2)
		r.must(Want{At: at[0]}, 1)
	})
	t.Run("segment before a damaged one", func(t *testing.T) {
		r, gen, at := three(t)
		r.lose(segmentName(gen, 2))
		r.refuses(Want{At: at[2]}, segmentName(gen, 2), 2) // the third one is later
		r.spoil(segmentName(gen, 3))
		r.refuses(Want{}, segmentName(gen, 2), 2)
		r.refuses(Want{At: at[2]}, segmentName(gen, 2), 2)
	})
	t.Run("segment with a backup after it", func(t *testing.T) {
		r, gen, _ := three(t)
		if _, _, err := Backup(t.Context(), r.path, r.place, t.TempDir(), 1, "host", "test", r.now); err != nil {
			t.Fatal(err)
		}
		r.write(1)
		r.step()
		data, err := os.ReadFile(r.file(segmentName(gen, 2)))
		if err == nil {
			data[len(data)-40] ^= 1
			err = os.WriteFile(r.file(segmentName(gen, 2)), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out := r.refuses(Want{}, segmentName(gen, 2), 4); out.Generation != "" {
			t.Errorf("restored from %s and not from the backup", out.Generation)
		}
	})
	for name, object := range map[string]string{"manifest": "manifest", "part": "part-000000"} {
		for how, do := range map[string]func(*rig, string){"damaged": (*rig).spoil, "missing": (*rig).lose} {
			t.Run(name+" "+how, func(t *testing.T) {
				r, first, _ := three(t)
				r.begin(2)
				g := r.survey().Generations[1]
				r.write(1)
				r.step()
				do(r, g.Snapshots[0].Name+"/"+object)
				names := g.Snapshots[0].Name + "/" + object
				if name+how == "manifestmissing" {
					names = g.ID // nothing says that it was there
				}
				if out := r.refuses(Want{}, names, 4); out.Generation != first {
					t.Errorf("restored from %s; want %s", out.Generation, first)
				}
				r.must(Want{At: g.Began.Add(-time.Microsecond)}, 4)
			})
		}
	}
	for how, do := range map[string]func(*rig, string){"damaged": (*rig).spoil, "missing": (*rig).lose} {
		t.Run("description "+how, func(t *testing.T) { // a manifest says as much
			r, _, _ := three(t)
			r.begin(2)
			r.write(1)
			r.step()
			gen := r.s.Status().Generation
			do(r, generations+gen)
			if out := r.must(Want{}, 7); out.Generation != gen || out.Stopped != "" {
				t.Errorf("got %+v", out)
			}
			parts := r.survey().Generations[1].Snapshots[0].Name
			r.spoil(parts + manifest)
			r.refuses(Want{}, gen, 4)
		})
	}
	t.Run("backup", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var ids []string
		for range 2 {
			r.write(1)
			p, _, err := Backup(t.Context(), r.path, r.place, t.TempDir(), 0, "host", "test", r.now)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, p.ID())
		}
		part, err := os.ReadFile(r.file(partName(backups+ids[1], 0)))
		if err != nil {
			t.Fatal(err)
		}
		r.spoil(partName(backups+ids[1], 0))
		r.refuses(Want{}, ids[1], 1)
		if err := os.WriteFile(r.file(partName(backups+ids[1], 0)), part, 0o600); err != nil {
			t.Fatal(err)
		}
		r.must(Want{}, 2)
		r.spoil(backups + ids[1] + manifest)
		r.refuses(Want{}, ids[1], 1)
		r.must(Want{From: ids[0]}, 1)
		r.spoil(backups + ids[0] + manifest)
		if _, err := r.restore(Want{LastGood: true}); !errors.Is(err, ErrNone) || !errors.As(err, new(*blob.Damaged)) {
			t.Errorf("with nothing that is good: %v", err)
		}
	})
}

// TestTheGenerationOfAnInstant asks for instants before, in, between and after generations.
func TestTheGenerationOfAnInstant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	r.step()
	r.write(1)
	r.step()
	inFirst := r.now()
	r.write(1)
	r.step()
	between := r.now()
	r.ahead += time.Hour
	r.begin(2)
	r.write(1)
	r.step()
	inSecond := r.now()
	r.ahead += 25 * time.Hour
	r.write(1)
	r.step() // with a snapshot
	r.ahead += time.Hour
	r.begin(1)
	v := r.survey()
	if len(v.Generations) != 3 || len(v.Generations[1].Snapshots) != 2 {
		t.Fatalf("got %+v", v.Generations)
	}
	first, second, third := v.Generations[0], v.Generations[1], v.Generations[2]
	for _, x := range []struct {
		at    time.Time
		from  string
		facts int
	}{
		{inFirst, first.ID, 2}, {inSecond, second.ID, 6}, {second.Snapshots[0].Ended, second.ID, 5},
		{second.Snapshots[1].Ended.Add(time.Microsecond), second.ID, 7}, {third.Snapshots[0].Ended, third.ID, 8}, {time.Time{}, third.ID, 8},
	} {
		if out := r.must(Want{At: x.at}, x.facts); out.Generation != x.from || out.Stopped != "" && !x.at.Equal(second.Snapshots[1].Ended.Add(time.Microsecond)) {
			t.Errorf("at %s: from %s; want %s: %q", x.at, out.Generation, x.from, out.Stopped)
		}
	}
	// Between the generations nothing was replicated, and it says so.
	if out := r.must(Want{At: between}, 3); out.Generation != first.ID || !strings.Contains(out.Stopped, second.ID) {
		t.Errorf("between: from %s: %q", out.Generation, out.Stopped)
	}
	// The second one had begun, and has no snapshot of that instant: the first one is not taken for it.
	r.refuses(Want{At: second.Snapshots[0].Ended.Add(-time.Microsecond)}, second.ID, 3)
	if _, err := r.restore(Want{At: inFirst, From: second.ID}); !errors.Is(err, ErrNone) {
		t.Errorf("from a later generation: %v", err)
	}
}

// TestAClockThatWasSetBack has a generation begin, by the clock, before the one that it follows.
func TestAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	r.step()
	r.write(1)
	r.step()
	first := r.s.Status().Generation
	for i := range 3 {
		r.ahead -= time.Hour
		r.begin(1)
		gen := r.s.Status().Generation
		if _, err := r.restore(Want{}); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), "the clock was set back") {
			t.Errorf("got %v; want that %s follows %s", err, gen, first)
		}
		r.must(Want{From: gen}, 3+i)
		r.must(Want{From: first}, 2)
	}
	r.ahead += 10 * time.Hour
	r.begin(1)
	r.must(Want{}, 6)
}

// TestTwoProcessesWithSnapshotsOnly has a process take a snapshot after another one has begun a generation, and no segments.
func TestTwoProcessesWithSnapshotsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	r.step()
	gen := r.s.Status().Generation
	twin := &rig{t: t, began: r.now().Add(time.Second), path: r.path, place: r.place, n: r.n}
	twin.crash()
	twin.begin(1)
	r.ahead += 25 * time.Hour
	r.step()
	if _, err := r.restore(Want{}); !errors.Is(err, ErrAmbiguous) || !strings.Contains(err.Error(), gen) {
		t.Errorf("got %v", err)
	}
}
