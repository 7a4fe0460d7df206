package artifact

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Whatever an archive says, what is unpacked stays within the folder, is made of plain files, and is no more than it may be.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("PK\x05\x06"), "")
	f.Add([]byte("#!/bin/sh\n"), "run")
	f.Add(gzipOf([]byte("x")), "a/b")
	limits := Limits{Entries: 20, Bytes: 1 << 16, Ratio: 100}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		if name != "" && !filepath.IsLocal(name) || len(name) > 100 { // which a job may not say
			return
		}
		around := t.TempDir()
		into := filepath.Join(around, "into")
		if err := os.Mkdir(into, 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(into)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, failed := Unpack(t.Context(), inMemory(data), limits, root, name)
		size := int64(0)
		err = filepath.WalkDir(into, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if !d.Type().IsRegular() {
				t.Errorf("%s is %v", path, d.Type())
			}
			info, err := d.Info()
			if err == nil {
				size += info.Size()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if failed == nil && size > max(limits.Bytes, int64(len(data))) {
			t.Errorf("%d bytes of %d", size, len(data))
		}
		if beside, err := os.ReadDir(around); err != nil || len(beside) != 1 {
			t.Errorf("beside it lie %v, %v", beside, err)
		}
	})
}
