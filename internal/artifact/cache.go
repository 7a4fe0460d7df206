package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Fetch downloads an artifact; ErrNotFound if there is none.
type Fetch func(ctx context.Context, t tenant.ID, id string) (io.ReadCloser, error)

// Cache keeps artifacts that a worker has downloaded, by their hash, up to a total size, and evicts the least
// recently used. Concurrent requests for one artifact share a download, and processes may share the folder.
type Cache struct {
	dir   string
	max   int64
	fetch Fetch

	mu      sync.Mutex
	coming  map[string]chan struct{} // guarded by mu: downloads in progress
	checked map[string]bool          // guarded by mu: files whose hash this process has verified
}

// partial begins the names of files that are still being written.
const partial = ".partial-"

// stale sets how old a partial file is when nobody writes it any more.
const stale = 24 * time.Hour

// NewCache keeps up to limit bytes in a folder, which is made when the first comes; what a crash left is removed.
func NewCache(dir string, limit int64, fetch Fetch) *Cache {
	left, _ := filepath.Glob(filepath.Join(dir, partial+"*")) // the pattern is sound
	for _, file := range left {
		if info, err := os.Lstat(file); err == nil && time.Since(info.ModTime()) > stale {
			os.Remove(file)
		}
	}
	return &Cache{dir: dir, max: limit, fetch: fetch, coming: map[string]chan struct{}{}, checked: map[string]bool{}}
}

// Open opens an artifact, downloading it if needed. Its content matches the hash in its id.
func (c *Cache) Open(ctx context.Context, t tenant.ID, id string) (Blob, error) {
	if !job.ValidArtifact(id) {
		return nil, ErrNotFound
	}
	for {
		c.mu.Lock()
		wait := c.coming[id]
		if wait == nil {
			wait = make(chan struct{})
			c.coming[id] = wait
			c.mu.Unlock()
			break
		}
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() {
		c.mu.Lock()
		close(c.coming[id])
		delete(c.coming, id)
		c.mu.Unlock()
	}()
	if b, err := c.cached(ctx, id); b != nil || err != nil {
		return b, err
	}
	return c.download(ctx, t, id)
}

// cached opens a cached artifact; nil if it is missing or does not match its hash. Only the holder of coming[id]
// calls it.
func (c *Cache) cached(ctx context.Context, id string) (Blob, error) {
	place := filepath.Join(c.dir, id)
	file, err := os.Open(place)
	if err != nil {
		return nil, nil // the download reports what is wrong, if anything
	}
	c.mu.Lock()
	sound := c.checked[id]
	c.mu.Unlock()
	if !sound {
		is, _, err := hashed(ctx, io.Discard, file, 1<<62)
		if ctx.Err() != nil {
			file.Close()
			return nil, ctx.Err()
		}
		if err != nil || is != id {
			file.Close()
			os.Remove(place)
			return nil, nil
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			file.Close()
			return nil, err
		}
		c.sound(id)
	}
	os.Chtimes(place, time.Time{}, time.Now()) // used: others go before it
	return blobOf(file)
}

func (c *Cache) sound(id string) {
	c.mu.Lock()
	c.checked[id] = true
	c.mu.Unlock()
}

func (c *Cache) download(ctx context.Context, t tenant.ID, id string) (Blob, error) {
	r, err := c.fetch(ctx, t, id)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, full(err)
	}
	temp, err := os.CreateTemp(c.dir, partial)
	if err != nil {
		return nil, full(err)
	}
	is, _, err := hashed(ctx, temp, r, 1<<62)
	if err == nil && is != id {
		err = fmt.Errorf("the artifact came as %s: it was damaged on its way", is)
	}
	if err == nil {
		_, err = temp.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = os.Rename(temp.Name(), filepath.Join(c.dir, id))
	}
	if err != nil {
		temp.Close()
		os.Remove(temp.Name())
		return nil, full(err)
	}
	c.sound(id)
	c.shrink(id)
	return blobOf(temp)
}

// shrink evicts the least recently used artifacts until all fit, but never the newest.
func (c *Cache) shrink(keep string) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return // the next download tries again
	}
	var all []os.FileInfo
	var sum int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && job.ValidArtifact(e.Name()) {
			all, sum = append(all, info), sum+info.Size()
		}
	}
	slices.SortFunc(all, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, f := range all {
		if sum <= c.max {
			return
		}
		if f.Name() == keep {
			continue
		}
		if err := os.Remove(filepath.Join(c.dir, f.Name())); err == nil || errors.Is(err, os.ErrNotExist) {
			sum -= f.Size()
			c.mu.Lock()
			delete(c.checked, f.Name())
			c.mu.Unlock()
		}
	}
}
