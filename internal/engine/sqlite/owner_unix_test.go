//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Whoever restores is often the superuser, and the server another.
func TestARestoredStoreBelongsToTheFoldersOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser gives files to others")
	}
	dir := t.TempDir()
	from, saved, to := filepath.Join(dir, "from.db"), filepath.Join(dir, "saved"), filepath.Join(dir, "data", "carillon.db")
	s, err := Open(t.Context(), Config{Path: from})
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err == nil {
		err = s.Close()
	}
	if err == nil {
		_, err = Backup(t.Context(), from, saved)
	}
	if err == nil {
		err = os.Mkdir(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.Chown(filepath.Dir(to), 65532, 65533)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		if _, _, err := Restore(t.Context(), saved, to, time.Now(), again); err != nil {
			t.Fatal(err)
		}
		files, err := os.ReadDir(filepath.Dir(to))
		if err != nil || len(files) < 2 {
			t.Fatalf("%v, %v", files, err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			if o := info.Sys().(*syscall.Stat_t); o.Uid != 65532 || o.Gid != 65533 || info.Mode().Perm() != 0o600 {
				t.Errorf("%s is of %d:%d, %v", f.Name(), o.Uid, o.Gid, info.Mode())
			}
		}
	}
}
