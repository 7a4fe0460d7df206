package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Whatever a file holds that is said to be a backup, it is refused, or it is a store that can be read.
func FuzzVerify(f *testing.F) {
	from, file := filepath.Join(f.TempDir(), "carillon.db"), filepath.Join(f.TempDir(), "good.db")
	s, err := Open(f.Context(), Config{Path: from})
	if err == nil {
		err = errors.Join(s.Migrate(f.Context()), s.Close())
	}
	if err == nil {
		_, err = Backup(f.Context(), from, file)
	}
	if err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte("SQLite format 3"))
	f.Add(uint32(100), []byte{13, 0, 0})
	f.Add(uint32(len(good)), []byte("more"))
	f.Add(uint32(4096), []byte{2, 0, 0, 255, 255})
	f.Add(uint32(0), []byte{})
	damaged := filepath.Join(f.TempDir(), "damaged.db")
	f.Fuzz(func(t *testing.T, at uint32, by []byte) {
		data := append([]byte{}, good...)
		at %= uint32(len(data)) + 1
		data = append(data[:at], append(by, data[min(len(data), int(at)+len(by)):]...)...)
		if err := os.WriteFile(damaged, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Verify(t.Context(), damaged)
		if err == nil && s.Version == 0 {
			t.Errorf("%d bytes at %d: %+v", len(by), at, s)
		}
	})
}
