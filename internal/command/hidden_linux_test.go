package command

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// A hidden file that is reached by a link stays hidden when the link is switched, as for a renewed certificate or a mounted secret.
func TestHiddenFilesBehindALinkThatIsSwitched(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "key"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "now")
	if err := os.Symlink("one", link); err != nil {
		t.Fatal(err)
	}
	r := &Runner{}
	r.cfg.Hidden = []string{filepath.Join(link, "key")}
	was := realPaths(r.cfg.Hidden)
	spec := minder.Spec{Files: &minder.Files{Hidden: was}, Mask: was}
	r.hideAnew(&spec)
	if !slices.Equal(spec.Files.Hidden, was) || !slices.Equal(spec.Mask, was) {
		t.Errorf("before: hides %v, covers %v", spec.Files.Hidden, spec.Mask)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("two", link); err != nil {
		t.Fatal(err)
	}
	r.hideAnew(&spec)
	for _, of := range []string{"one", "two"} {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, of, "key"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(spec.Files.Hidden, real) || !slices.Contains(spec.Mask, real) {
			t.Errorf("%s is not hidden: hides %v, covers %v", real, spec.Files.Hidden, spec.Mask)
		}
	}
	if len(was) != 1 {
		t.Errorf("what was tested at the start changed: %v", was)
	}
}
