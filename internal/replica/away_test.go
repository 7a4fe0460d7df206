package replica

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mount is a folder on which a file system is mounted, or not.
type mount struct {
	t    *testing.T
	root string
}

func (r *rig) mount() mount {
	return mount{r.t, strings.TrimPrefix(r.place.String(), "file:")}
}

// leave leaves the empty folder under the mount.
func (m mount) leave() {
	m.t.Helper()
	if err := errors.Join(os.Rename(m.root, m.root+"-mounted"), os.Mkdir(m.root, 0o700)); err != nil {
		m.t.Fatal(err)
	}
}

func (m mount) back() {
	m.t.Helper()
	if err := errors.Join(os.RemoveAll(m.root), os.Rename(m.root+"-mounted", m.root)); err != nil {
		m.t.Fatal(err)
	}
}

// files lists what is in the folder.
func (m mount) files() (out []string) {
	m.t.Helper()
	if err := fs.WalkDir(os.DirFS(m.root), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && name != "." {
			out = append(out, name)
		}
		return err
	}); err != nil {
		m.t.Fatal(err)
	}
	return out
}

// TestAMountThatIsAway takes the file system away from under the folder, while the process runs, while it is idle, while a snapshot
// is due, and while it is down.
func TestAMountThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mount()
	gone := func(doing string) {
		t.Helper()
		if left := m.files(); len(left) > 0 {
			t.Errorf("%s: it wrote under the mount: %v", doing, left)
		}
		if got := r.s.Status(); !errors.Is(got.Failing, errAway) {
			t.Errorf("%s: got %+v", doing, got)
		}
		r.ahead += time.Minute
		r.step()
		if got := r.s.Status(); got.Behind < time.Minute || !strings.Contains(got.Warning(), "cannot be reached") {
			t.Errorf("%s: it is %s behind: %q", doing, got.Behind, got.Warning())
		}
	}
	well := func(doing string, generations int64) {
		t.Helper()
		r.step()
		r.step()
		if got := r.s.Status(); got.Failing != nil || got.Generations != generations || got.Waiting != 0 || got.Warning() != "" {
			t.Errorf("%s: got %+v", doing, got)
		}
		r.must(Want{}, r.n)
	}
	r.write(2)
	r.step()
	r.write(1)
	r.step()
	r.status(1, 1, 1)

	m.leave()
	r.write(2)
	r.step()
	gone("with changes")
	if _, err := r.s.retain(t.Context()); err != nil || r.s.restart != nil {
		t.Errorf("retention: %v, %v", err, r.s.restart)
	}
	m.back()
	well("with changes", 1)

	m.leave()
	r.step()
	gone("idle")
	m.back()
	well("idle", 1)

	m.leave()
	r.s.cfg.Spool = 1 // what waits is dropped, and a generation would begin
	r.write(1)
	for range 3 {
		r.step()
	}
	if got := r.s.Status(); got.Generation != "" {
		t.Errorf("got %+v", got)
	}
	gone("with a generation to begin")
	r.s.cfg.Spool = 64 << 20
	m.back()
	well("with a generation to begin", 2)

	m.leave()
	r.write(1)
	r.step()
	r.stop()
	r.start()
	r.write(1)
	r.step()
	gone("after a restart")
	m.back()
	well("after a restart", 0)

	// Of a crash with a spool that is lost, the folder beside the store still says where the replica was.
	m.leave()
	if left, _ := filepath.Glob(r.path + "-replica/state.json"); len(left) != 1 || os.Remove(left[0]) != nil {
		t.Fatalf("the state is %v", left)
	}
	r.crash()
	r.step()
	gone("without a state")
	m.back()
	well("without a state", 1)
}

// TestAMountThatLeavesDuringAPut stores a segment under the mount, as if the file system had left between two looks.
func TestAMountThatLeavesDuringAPut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mount()
	r.write(1)
	r.step()
	r.write(1)
	r.place.before = func(name string) {
		if strings.HasPrefix(name, segments) {
			m.leave()
			r.place.before = nil
		}
	}
	r.step()
	if got := r.s.Status(); !errors.Is(got.Failing, errAway) || got.Segments != 0 {
		t.Errorf("got %+v", got)
	}
	m.back()
	r.step()
	r.status(1, 1, 1)
	r.must(Want{}, 2)
}

// TestAnotherFolder puts another folder in the place of the first, and an older copy of it.
func TestAnotherFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.mount()
	r.write(1)
	r.step()
	older := filepath.Join(t.TempDir(), "older")
	if err := os.CopyFS(older, os.DirFS(m.root)); err != nil {
		t.Fatal(err)
	}
	r.write(1)
	r.step()
	m.leave()
	other := newRig(t)
	other.step()
	if err := os.CopyFS(m.root, os.DirFS(other.mount().root)); err != nil {
		t.Fatal(err)
	}
	before := len(m.files())
	r.write(1)
	r.step()
	if got := r.s.Status(); !errors.Is(got.Failing, errAway) || len(m.files()) != before {
		t.Errorf("got %+v; %d files of %d", got, len(m.files()), before)
	}
	m.back()
	r.step()
	r.status(2, 1, 1)

	m.leave() // the older copy has no second segment
	r.step()
	if err := os.CopyFS(m.root, os.DirFS(older)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.step()
	}
	r.status(2, 2, 2)
	r.must(Want{}, 3)
}
