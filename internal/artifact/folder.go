package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Folder keeps artifacts as files: one folder a tenant, one file an artifact. Servers may share it.
type Folder struct {
	path  string
	max   int64
	quota int64 // of all artifacts of a tenant, in bytes
}

// partial begins the names of files that are still being written.
const partial = ".partial-"

// stale sets how old a partial file is when nobody writes it any more.
const stale = 24 * time.Hour

// NewFolder keeps artifacts of up to limit bytes, and of a tenant up to quota bytes, in a folder, which is made when the
// first comes. What a crash left half-written is removed.
func NewFolder(path string, limit, quota int64) *Folder {
	left, _ := filepath.Glob(filepath.Join(path, "*", partial+"*")) // the pattern is sound
	for _, file := range left {
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > stale {
			os.Remove(file) // else the next start does
		}
	}
	return &Folder{path, limit, quota}
}

// dir is the tenant's folder.
func (f *Folder) dir(t tenant.ID) (string, error) {
	if !job.ValidKey(string(t)) { // no id has ever been another; a path must not be
		return "", fmt.Errorf("the tenant %q cannot have a folder: %w", t, ErrNotFound)
	}
	return filepath.Join(f.path, string(t)), nil
}

// Put keeps an artifact: it is whole under its name, or not there.
func (f *Folder) Put(ctx context.Context, t tenant.ID, r io.Reader) (k Kept, err error) {
	dir, err := f.dir(t)
	if err != nil {
		return k, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return k, full(err)
	}
	temp, err := os.CreateTemp(dir, partial)
	if err != nil {
		return k, full(err)
	}
	defer os.Remove(temp.Name()) // not there where it was renamed
	defer temp.Close()
	if k.ID, k.Size, err = hashed(ctx, temp, r, f.max); err != nil {
		return k, full(err)
	}
	if k.Size == 0 {
		return k, ErrEmpty
	}
	place := filepath.Join(dir, k.ID)
	if info, err := os.Lstat(place); err == nil && info.Size() == k.Size {
		k.Known = true
		return k, nil
	}
	// What others are still sending counts, so that two that end at once do not both pass.
	if sum, err := total(dir); err != nil {
		return k, err
	} else if sum > f.quota {
		return k, &OverQuota{f.quota, sum - k.Size}
	}
	if err := errors.Join(temp.Sync(), temp.Close()); err != nil {
		return k, full(err)
	}
	if err := os.Rename(temp.Name(), place); err != nil {
		return k, full(err)
	}
	return k, full(errors.Join(syncFolder(dir), syncFolder(f.path)))
}

// Open reads an artifact.
func (f *Folder) Open(_ context.Context, t tenant.ID, id string) (Blob, error) {
	dir, err := f.dir(t)
	if err != nil {
		return nil, err
	}
	if !job.ValidArtifact(id) {
		return nil, ErrNotFound
	}
	file, err := os.Open(filepath.Join(dir, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("open an artifact: %w", err)
	}
	return blobOf(file)
}

// Delete removes an artifact.
func (f *Folder) Delete(_ context.Context, t tenant.ID, id string) (int64, error) {
	dir, err := f.dir(t)
	if err != nil {
		return 0, err
	}
	if !job.ValidArtifact(id) {
		return 0, ErrNotFound
	}
	place := filepath.Join(dir, id)
	info, err := os.Lstat(place)
	if err == nil {
		err = os.Remove(place)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, ErrNotFound
	case err != nil:
		return 0, fmt.Errorf("delete an artifact: %w", err)
	}
	return info.Size(), syncFolder(dir)
}

// total returns the size of all files in a folder.
func total(dir string) (sum int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it has gone
			sum += info.Size()
		}
	}
	return sum, nil
}

// onDisk is an artifact in a file.
type onDisk struct {
	*os.File
	size int64
}

func (o onDisk) Size() int64 { return o.size }

func blobOf(file *os.File) (Blob, error) {
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	return onDisk{file, info.Size()}, nil
}

// full tells a disk without room from other errors.
func full(err error) error {
	if slices.ContainsFunc(noRoom, func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return err
}

// syncFolder makes the names in a folder durable, where the system can do that.
func syncFolder(dir string) error {
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
