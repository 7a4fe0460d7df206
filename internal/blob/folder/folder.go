// Package folder stores objects as files, each at its name. Servers may share the
// folder, on any file system that has hard links and reports them at once.
//
// A file is written aside, synced, linked to its name, and the folders that
// have changed are synced. The link fails if the name is taken, so it is the
// moment at which the object exists, for one writer only.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

const (
	aside = ".partial" // the folder of files that are being written; no name begins with a dot
	stale = 24 * time.Hour
)

// Store is a folder.
type Store struct{ root string }

var _ blob.Store = (*Store)(nil)

// New stores objects in a folder, which the first Put creates. It removes files that were left half-written a day ago.
func New(root string) *Store {
	left, _ := filepath.Glob(filepath.Join(root, aside, "*")) // the pattern is sound
	for _, file := range left {
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > stale {
			os.Remove(file) // else the next start does
		}
	}
	return &Store{root}
}

func (s *Store) String() string { return "file:" + s.root }

// at is the path of an object.
func (s *Store) at(name string) (string, error) {
	if err := blob.CheckName(name); err != nil {
		return "", err
	}
	return filepath.Join(s.root, filepath.FromSlash(name)), nil
}

// Put stores an object.
func (s *Store) Put(ctx context.Context, o blob.Object, content io.ReaderAt) error {
	if err := o.Check(); err != nil {
		return err
	}
	place := filepath.Join(s.root, filepath.FromSlash(o.Name))
	if err := s.makeFolders(aside, path.Dir(o.Name)); err != nil {
		return s.explain("store "+o.Name, err)
	}
	temp, err := os.CreateTemp(filepath.Join(s.root, aside), "")
	if err != nil {
		return s.explain("store "+o.Name, err)
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	if _, err := io.Copy(temp, blob.Exact(ctx, o, content)); err != nil {
		return s.explain("store "+o.Name, err)
	}
	if err := errors.Join(temp.Sync(), temp.Close()); err != nil {
		return s.explain("store "+o.Name, err)
	}
	if err := os.Link(temp.Name(), place); err != nil {
		return s.explain("store "+o.Name, err)
	}
	return s.explain("store "+o.Name, sync(filepath.Dir(place)))
}

// makeFolders makes folders within the root, and the root, and makes their names durable.
func (s *Store) makeFolders(names ...string) error {
	if _, err := os.Lstat(s.root); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(os.MkdirAll(s.root, 0o700), sync(filepath.Dir(s.root))); err != nil {
			return err
		}
	}
	for _, name := range names {
		dir := s.root
		for part := range strings.SplitSeq(name, "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			err := os.Mkdir(dir, 0o700)
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err == nil {
				err = sync(parent)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Get reads a part of an object.
func (s *Store) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	place, err := s.at(name)
	if err != nil {
		return nil, err
	}
	if _, err := s.stat(name, place); err != nil {
		return nil, err
	}
	f, err := os.Open(place)
	if err != nil {
		return nil, s.explain("read "+name, err)
	}
	return &part{ctx, s, name, io.NewSectionReader(f, from, n), f}, nil
}

type part struct {
	ctx  context.Context
	s    *Store
	name string
	r    *io.SectionReader
	io.Closer
}

func (p *part) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = p.s.explain("read "+p.name, err)
	}
	return n, err
}

// Stat returns an object's size.
func (s *Store) Stat(_ context.Context, name string) (blob.Info, error) {
	place, err := s.at(name)
	if err != nil {
		return blob.Info{}, err
	}
	return s.stat(name, place)
}

func (s *Store) stat(name, place string) (blob.Info, error) {
	info, err := os.Lstat(place)
	if err != nil {
		return blob.Info{}, s.explain("find "+name, err)
	}
	if !info.Mode().IsRegular() {
		return blob.Info{}, &blob.Damaged{Place: s.String(), Name: name, Why: "it is not a file but " + kind(info.Mode())}
	}
	return blob.Info{Name: name, Size: info.Size()}, nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	}
	return "a special file"
}

// List returns objects by name.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	var out []blob.Info
	dir := s.root
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		if err := blob.CheckName(prefix[:i]); err != nil {
			return nil, err
		}
		dir = filepath.Join(s.root, filepath.FromSlash(prefix[:i]))
	}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if errors.Is(err, fs.ErrNotExist) { // it has gone, or never was
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != dir {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(s.root, file)
		name := filepath.ToSlash(rel)
		if err != nil || !d.Type().IsRegular() || name <= after || !strings.HasPrefix(name, prefix) || blob.CheckName(name) != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			out = append(out, blob.Info{Name: name, Size: info.Size()})
		}
		return err
	})
	if err != nil {
		return nil, s.explain("list "+prefix, err)
	}
	slices.SortFunc(out, func(a, b blob.Info) int { return strings.Compare(a.Name, b.Name) })
	return out[:min(limit, len(out))], nil
}

// Delete removes an object. Whoever reads it reads on.
func (s *Store) Delete(_ context.Context, name string) error {
	place, err := s.at(name)
	if err != nil {
		return err
	}
	if _, err := s.stat(name, place); err != nil {
		return err
	}
	if err := os.Remove(place); err != nil {
		return s.explain("delete "+name, err)
	}
	return s.explain("delete "+name, sync(filepath.Dir(place)))
}

// explain gives the errors of files the names that callers know.
func (s *Store) explain(doing string, err error) error {
	is := func(list []error) bool {
		return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
	}
	var known error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		known = blob.ErrNotFound
	case errors.Is(err, fs.ErrExist):
		known = blob.ErrExists
	case is(noRoom):
		known = blob.ErrNoRoom
	case is(noLinks):
		return fmt.Errorf("%s in %s: %w: its file system has no hard links: %w", doing, s, blob.ErrRefused, err)
	case errors.Is(err, fs.ErrPermission), is(readOnly):
		known = blob.ErrRefused
	default:
		return fmt.Errorf("%s in %s: %w", doing, s, err)
	}
	return fmt.Errorf("%s in %s: %w: %w", doing, s, known, err)
}

// sync makes the names in a folder durable, where the system can do that.
func sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
