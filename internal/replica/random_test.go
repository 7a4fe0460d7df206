package replica

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// TestRandomDamage spoils some objects of a replica with generations, snapshots, merged objects and backups, and takes one away. A restore
// has everything, or fails; with LastGood it says so if it has less. It never has pages of different times: those that it has are checked.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		r.begin(10)
		r.merge(6)
		if _, _, err := Backup(t.Context(), r.path, r.place, t.TempDir(), 0, "host", "test", r.now); err != nil {
			t.Fatal(err)
		}
		r.ahead += 25 * time.Hour
		for range 4 {
			r.write(15)
			r.step()
		}
	}
	root := r.mount().root
	if err := os.Rename(root, root+"-whole"); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 2))
		if err := errors.Join(os.RemoveAll(root), os.CopyFS(root, os.DirFS(root+"-whole"))); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, prefix := range []string{generations, segments, mergedObjects, snapshots, backups} {
			some := r.objects(prefix)
			if prefix == segments {
				some = some[len(some)-len(some)/2:] // the later ones are read
			}
			all = append(all, some...)
		}
		var done []string
		for range random.IntN(5) {
			name := all[random.IntN(len(all))]
			r.spoil(name)
			done = append(done, name)
		}
		// The end of the row cannot be missed, nor can what nothing names.
		if name := all[random.IntN(len(all))]; name != segmentName(r.s.gen.id, r.s.gen.index) && !strings.HasPrefix(name, generations) {
			r.lose(name)
			done = append(done, "without "+name)
		}
		out, err := r.restore(Want{})
		if err == nil && out.facts != r.n {
			t.Errorf("seed %d: restored %d facts of %d without a word: %v", seed, out.facts, r.n, done)
		}
		var less *Incomplete
		if refused := errors.As(err, &less); err != nil && !refused {
			t.Errorf("seed %d: got %v: %v", seed, err, done)
			continue
		}
		last, bad := r.restore(Want{LastGood: true})
		switch {
		case bad != nil:
			t.Errorf("seed %d: the last good one: %v: %v", seed, bad, done)
		case err != nil && (last.facts > r.n || last.Stopped == "" && last.facts != r.n || last.Ended.Before(less.Good)):
			t.Errorf("seed %d: the last good one is %d facts at %s, because %q; the error was %v: %v", seed, last.facts, last.Ended, last.Stopped, err, done)
		case err == nil && last.facts != r.n:
			t.Errorf("seed %d: the last good one has %d facts of %d: %v", seed, last.facts, r.n, done)
		}
	}
}

// TestRandomLife has places that are away, mounts that leave, crashes, restarts and lost spools follow each other, and restores all of it.
func TestRandomLife(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 3))
		r := newRig(t)
		m := r.mount()
		r.write(1)
		r.step()
		r.s.most = 3
		var done []string
		mounted := true
		for range 40 {
			what := []string{"write", "write", "write", "away", "there", "leave", "back", "crash", "restart", "lose", "retain", "day"}[random.IntN(12)]
			done = append(done, what)
			switch what {
			case "write":
				r.write(1 + random.IntN(30))
			case "away":
				r.place.away = blob.ErrUnavailable
			case "there":
				r.place.away = nil
			case "leave":
				if mounted {
					m.leave()
				}
				mounted = false
			case "back":
				if !mounted {
					m.back()
				}
				mounted = true
			case "crash":
				r.crash()
				r.s.most = 3
			case "restart":
				away := r.place.away
				r.place.away = blob.ErrUnavailable
				for range random.IntN(3) { // these wait
					r.write(20)
					r.step()
				}
				r.stop()
				if random.IntN(2) == 0 {
					r.loseSome(random)
				}
				r.place.away = away
				r.start()
				r.s.most = 3
			case "lose":
				r.loseSome(random)
			case "retain":
				if _, err := r.s.retain(t.Context()); err != nil {
					t.Fatal(err)
				}
			case "day":
				if mounted && r.place.away == nil { // a snapshot would wait for the place
					r.ahead += 25 * time.Hour
				}
			}
			r.step()
			if mounted && r.place.away == nil && (what == "restart" || what == "crash") {
				for range 3 {
					r.write(1)
					r.step()
				}
				r.must(Want{}, r.n)
			}
			if !mounted && len(m.files()) > 0 {
				t.Fatalf("seed %d: it wrote under the mount: %v: %v", seed, m.files(), done)
			}
		}
		r.place.away = nil
		if !mounted {
			m.back()
		}
		for range 5 {
			r.step()
		}
		if got := r.s.Status(); got.Failing != nil || got.Waiting != 0 || !got.Whole {
			t.Fatalf("seed %d: got %+v: %v", seed, got, done)
		}
		out, err := r.restore(Want{})
		if err != nil || out.facts != r.n || out.Stopped != "" {
			t.Fatalf("seed %d: restored %d facts of %d, %v: %v", seed, out.facts, r.n, err, done)
		}
		r.stop()
	}
}

// loseSome deletes a file beside the store, if there is one, but not what says where the replica is.
func (r *rig) loseSome(random *rand.Rand) {
	r.t.Helper()
	var files []string
	for _, form := range []string{stateFile, "*" + ending, "*" + storedEnding} {
		some, err := filepath.Glob(filepath.Join(r.path+"-replica", form))
		if err != nil {
			r.t.Fatal(err)
		}
		files = append(files, some...)
	}
	if len(files) == 0 {
		return
	}
	if err := os.Remove(files[random.IntN(len(files))]); err != nil {
		r.t.Fatal(err)
	}
}
