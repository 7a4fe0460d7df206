package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file in an archive.
type entry struct {
	name string
	path string
	mode int64
}

// archive writes files into an archive under the given names, sorted, with one instant, one owner and two modes:
// nothing in it depends on who makes it.
func archive(to string, at time.Time, files []string) (err error) {
	entries := make([]entry, len(files))
	for i, f := range files {
		name, path, ok := strings.Cut(f, "=")
		if !ok || name == "" || path == "" || !filepath.IsLocal(name) {
			return fmt.Errorf("%q: want NAME=PATH, with a name that stays in the archive", f)
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no file", path)
		}
		e := entry{name: filepath.ToSlash(name), path: path, mode: 0o644}
		if info.Mode()&0o111 != 0 {
			e.mode = 0o755
		}
		entries[i] = e
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			return fmt.Errorf("%s is in it twice", entries[i].name)
		}
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	switch {
	case strings.HasSuffix(to, ".tar.gz"):
		return writeTar(out, at, entries)
	case strings.HasSuffix(to, ".zip"):
		return writeZip(out, at, entries)
	}
	return fmt.Errorf("%s: want a name that ends in .tar.gz or .zip", to)
}

func writeTar(out io.Writer, at time.Time, entries []entry) error {
	gz, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(gz)
	for _, e := range entries {
		data, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(data)), ModTime: at, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), gz.Close())
}

func writeZip(out io.Writer, at time.Time, entries []entry) error {
	w := zip.NewWriter(out)
	for _, e := range entries {
		data, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(e.mode))
		f, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
	}
	return w.Close()
}

// sums writes the SHA-256 of every file of a folder, in the format of sha256sum -c.
func sums(out io.Writer, folder string) error {
	all, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, f := range all {
		if !f.Type().IsRegular() || strings.HasPrefix(f.Name(), "SHA256SUMS") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%x  %s\n", sha256.Sum256(data), f.Name()); err != nil {
			return err
		}
	}
	return nil
}
