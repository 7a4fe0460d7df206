package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

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
