package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// TestASpoolThatIsLost has segments wait in the spool when the process ends, in order or not, and loses or damages them before the next
// one: it begins a generation, or cuts them again, and never leaves a gap.
func TestASpoolThatIsLost(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, file string) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for how, do := range map[string]func(t *testing.T, spool string, waiting []string){
		"all": func(t *testing.T, spool string, _ []string) {
			if err := os.RemoveAll(spool); err != nil {
				t.Fatal(err)
			}
		},
		"first": func(t *testing.T, _ string, waiting []string) { remove(t, waiting[0]) },
		"last":  func(t *testing.T, _ string, waiting []string) { remove(t, waiting[2]) },
		"segments": func(t *testing.T, _ string, waiting []string) {
			for _, file := range waiting {
				remove(t, file)
			}
		},
		"state": func(t *testing.T, spool string, _ []string) { remove(t, filepath.Join(spool, stateFile)) },
		"state is old": func(t *testing.T, spool string, waiting []string) {
			for _, file := range waiting {
				remove(t, file)
			}
			if err := os.Rename(filepath.Join(spool, "older"), filepath.Join(spool, stateFile)); err != nil {
				t.Fatal(err)
			}
		},
		"damaged": func(t *testing.T, _ string, waiting []string) {
			if err := os.Truncate(waiting[2], 100); err != nil {
				t.Fatal(err)
			}
		},
		"state is damaged": func(t *testing.T, spool string, _ []string) {
			if err := os.Truncate(filepath.Join(spool, stateFile), 10); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, killed := range []bool{false, true} {
			name := how + " after an end in order"
			if killed {
				name = how + " after a crash"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.write(1)
				r.step()
				r.write(1)
				r.step()
				data, err := os.ReadFile(filepath.Join(r.path+"-replica", stateFile))
				if err == nil {
					err = os.WriteFile(filepath.Join(r.path+"-replica", "older"), data, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				r.write(1)
				r.step()
				r.place.away = blob.ErrUnavailable
				for range 3 {
					r.write(60) // several pages, which the next ones do not touch
					r.step()
				}
				lose := func() {
					waiting, _ := filepath.Glob(r.path + "-replica/*.segment")
					if len(waiting) != 3 {
						t.Fatalf("%d segments wait", len(waiting))
					}
					do(t, r.path+"-replica", waiting)
				}
				if killed {
					lose()
					r.place.away = nil
					r.crash()
				} else {
					r.stop()
					lose()
					r.place.away = nil
					r.start()
				}
				r.write(1)
				for range 4 {
					r.step()
				}
				if got := r.s.Status(); got.Failing != nil || !got.Whole || got.Waiting != 0 {
					t.Errorf("got %+v", got)
				}
				r.must(Want{}, r.n)
			})
		}
	}
}

// TestASpoolThatIsLostWhileItRuns takes waiting segments from under a process.
func TestASpoolThatIsLostWhileItRuns(t *testing.T) {
	t.Parallel()
	for how, do := range map[string]func(spool, file string) error{
		"the folder": func(spool, _ string) error { return os.RemoveAll(spool) },
		"a segment":  func(_, file string) error { return os.Remove(file) },
		"damaged":    func(_, file string) error { return os.WriteFile(file, []byte("hello"), 0o600) },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.write(1)
			r.step()
			r.place.away = blob.ErrUnavailable
			r.write(1)
			r.step()
			r.place.away = nil
			waiting, _ := filepath.Glob(r.path + "-replica/*.segment")
			if len(waiting) != 1 {
				t.Fatalf("%d segments wait", len(waiting))
			}
			if err := do(r.path+"-replica", waiting[0]); err != nil {
				t.Fatal(err)
			}
			r.write(1)
			for range 4 {
				r.step()
			}
			r.status(0, 2, 2)
			r.must(Want{}, 3)
		})
	}
}

// TestASpoolThatRefusesTheLastChanges has the spool refuse what was cut when the process ends: those changes were taken from the tap and
// are nowhere else, so the next process must not go on as if there had been none.
func TestASpoolThatRefusesTheLastChanges(t *testing.T) {
	t.Parallel()
	for how, before := range map[string]func(r *rig){
		"the last cut": func(*rig) {},
		"a pass that was under way": func(r *rig) { // after it, nothing is left for the last cut
			ctx, cancel := context.WithCancel(r.t.Context())
			cancel()
			if _, err := r.s.tick(ctx); err != nil {
				r.t.Error(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.write(1)
			r.step()
			r.write(1)
			r.step()
			wall := filepath.Join(r.path+"-replica", fmt.Sprintf("%012x%s%s", r.s.gen.index+1, ending, partial))
			if err := os.Mkdir(wall, 0o700); err != nil { // no file can be written here
				t.Fatal(err)
			}
			r.write(60) // several pages, which the next ones do not touch
			before(r)
			r.stop()
			r.start()
			r.write(1)
			for range 3 {
				r.step()
			}
			if got := r.s.Status(); got.Failing != nil || !got.Whole || got.Waiting != 0 {
				t.Errorf("got %+v", got)
			}
			r.must(Want{At: r.now()}, r.n)
			r.must(Want{}, r.n)
		})
	}
}

// TestASnapshotWithoutTheChangesBefore loses the tap between a cut and a snapshot, in a generation without a segment and in one with some:
// what follows the snapshot does not follow the segments before, so the generation ends, also if the process ends in this pass.
func TestASnapshotWithoutTheChangesBefore(t *testing.T) {
	t.Parallel()
	for _, segments := range []int{0, 2} {
		t.Run(fmt.Sprint(segments), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.write(1)
			r.step()
			for range segments {
				r.write(60)
				r.step()
			}
			r.write(60)
			r.s.tap.Abandon(errors.New("for the test"))
			if err := r.s.snapshot(t.Context(), r.s.gen, false); err == nil || errors.Is(err, errLater) {
				t.Fatalf("got %v", err)
			}
			r.write(1)
			r.stop()
			r.start()
			r.write(1)
			for range 3 {
				r.step()
			}
			r.status(0, 1, 1)
			r.must(Want{}, r.n)
		})
	}
}
