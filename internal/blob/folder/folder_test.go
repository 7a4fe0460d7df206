package folder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/blobtest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, blobtest.Harness{
		New: func(t *testing.T) func() blob.Store {
			root := filepath.Join(t.TempDir(), "not", "there", "yet")
			return func() blob.Store { return New(root) }
		},
		Replace: func(t *testing.T, s blob.Store, name string, data []byte) {
			if err := os.WriteFile(filepath.Join(s.(*Store).root, filepath.FromSlash(name)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// What a crash left half-written is no object, and goes after a day.
func TestHalfWrittenFilesAreNoObjects(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := New(root)
	blobtest.Put(t, s, "a/b", []byte("x"))
	old, young := filepath.Join(root, aside, "old"), filepath.Join(root, aside, "young")
	for _, file := range []string{old, young} {
		if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ago := time.Now().Add(-stale - time.Minute)
	if err := os.Chtimes(old, ago, ago); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(t.Context(), "", "", 10); err != nil || len(all) != 1 {
		t.Errorf("listed %+v, %v", all, err)
	}
	New(root)
	if _, err := os.Lstat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Lstat(young); err != nil {
		t.Errorf("one that may still be written: %v", err)
	}
}

// What is no file is never followed.
func TestLinksAndFoldersAreNoObjects(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(root, "link")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	if err := os.Mkdir(filepath.Join(root, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := New(root)
	for _, name := range []string{"link", "dir"} {
		var d *blob.Damaged
		if _, err := s.Get(t.Context(), name, 0, 1); !errors.As(err, &d) || d.Name != name {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Delete(t.Context(), name); !errors.As(err, &d) {
			t.Errorf("delete %s: %v", name, err)
		}
	}
}

func TestAFolderThatTakesNoWritesSaysSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{file, filepath.Join(file, "below"), "/proc/carillon"} {
		o := blobtest.Of("a", []byte("x"))
		if err := New(root).Put(t.Context(), o, strings.NewReader("x")); err == nil || errors.Is(err, blob.ErrExists) || !strings.Contains(err.Error(), root) {
			t.Errorf("%s: %v", root, err)
		}
	}
}
