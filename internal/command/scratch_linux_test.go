package command

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// The folder's name can be guessed. Where somebody else made a link of it, what the link leads to is left alone.
func TestAFolderThatIsALinkIsRefused(t *testing.T) {
	for name, user := range map[string]*minder.User{"as itself": nil, "as another user": {UID: 65534, GID: 65534}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			secret := filepath.Join(dir, "secret")
			if err := os.Mkdir(secret, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(secret, 0o700|os.ModeSticky); err != nil { // a mode that nothing here sets
				t.Fatal(err)
			}
			before, err := os.Stat(secret)
			if err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(dir, "carillon-commands-0")
			if err := os.Symlink(secret, link); err != nil {
				t.Fatal(err)
			}
			if _, err := newScratch(link, user, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "not a folder") {
				t.Errorf("got %v", err)
			}
			after, err := os.Stat(secret)
			if err != nil || after.Mode() != before.Mode() {
				t.Errorf("its mode was %v and is %v, %v", before.Mode(), after.Mode(), err)
			}
			if left, _ := os.ReadDir(secret); len(left) > 0 {
				t.Errorf("it holds %v", left)
			}
		})
	}
	// A link on the way there is followed.
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "way")); err != nil {
		t.Fatal(err)
	}
	s, err := newScratch(filepath.Join(dir, "way", "commands"), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
