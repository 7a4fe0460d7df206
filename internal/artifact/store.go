package artifact

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Store keeps artifacts as objects, each of its tenant, named by its hash.
type Store struct {
	objects blob.Store
	spool   string // folder for uploads on their way; empty: the system's temporary folder
	max     int64
	quota   int64 // of all artifacts of a tenant, in bytes

	mu     sync.Mutex
	coming map[tenant.ID]int64 // guarded by mu: bytes of uploads on their way at this server
}

// NewStore keeps artifacts of up to limit bytes, and of a tenant up to quota bytes. Uploads that end at the same moment at several servers
// may exceed the quota. An upload is first written to the folder spool, since its name is known at its end.
func NewStore(objects blob.Store, spool string, limit, quota int64) *Store {
	return &Store{objects: objects, spool: spool, max: limit, quota: quota, coming: map[tenant.ID]int64{}}
}

const below = "artifacts/"

// object describes an artifact of a tenant.
func object(t tenant.ID, id string, size int64) (o blob.Object, err error) {
	if !job.ValidArtifact(id) || !job.ValidKey(string(t)) { // no tenant has ever had another id; an object must not
		return o, ErrNotFound
	}
	o.Name, o.Size = blob.Of(t, below+id), size
	_, err = hex.Decode(o.SHA256[:], []byte(id))
	return o, err
}

// Put keeps what r holds and returns its id. The size is -1 if it is unknown. Without room for it, nothing is read. What fails leaves
// nothing that a tenant sees.
func (s *Store) Put(ctx context.Context, t tenant.ID, r io.Reader, size int64) (k Kept, err error) {
	u, err := s.begin(ctx, t, r, size)
	if err != nil {
		return k, full(err)
	}
	defer u.release(0)
	temp, remove, err := s.temporary()
	if err != nil {
		return k, full(err)
	}
	defer remove()
	if k.ID, k.Size, err = hashed(ctx, temp, u, s.max); err != nil {
		return k, full(err)
	}
	if k.Size == 0 {
		return k, ErrEmpty
	}
	u.release(k.Size)
	o, err := object(t, k.ID, k.Size)
	if err != nil {
		return k, fmt.Errorf("the tenant %q cannot have artifacts: %w", t, err)
	}
	for try := 0; ; try++ {
		k.Known, err = s.put(ctx, t, o, temp)
		if !errors.Is(err, blob.ErrExists) && !errors.Is(err, blob.ErrNotFound) || try == putTries {
			return k, full(err)
		}
	}
}

// putTries bounds how often others may put and delete the same artifact meanwhile.
const putTries = 5

// put stores an artifact, which is counted as on its way, and reports whether the tenant had it.
func (s *Store) put(ctx context.Context, t tenant.ID, o blob.Object, content io.ReaderAt) (known bool, err error) {
	sum, has, err := s.total(ctx, t, o.Name)
	switch {
	case err != nil:
		return false, err
	case has == o.Size:
		return true, nil
	case has >= 0: // it was truncated, or somebody else has written it
		if err := s.objects.Delete(ctx, o.Name); err != nil {
			return false, err
		}
		sum -= has
	}
	s.mu.Lock()
	sum += s.coming[t]
	s.mu.Unlock()
	if sum > s.quota {
		return false, &OverQuota{Limit: s.quota, Used: sum - o.Size, Adds: o.Size}
	}
	return false, s.objects.Put(ctx, o, content)
}

// total returns the size of all artifacts of a tenant, and of one of them; -1: it has none of this name.
func (s *Store) total(ctx context.Context, t tenant.ID, name string) (sum, of int64, err error) {
	of = -1
	err = blob.Each(ctx, s.objects, blob.Of(t, below), func(x blob.Info) error {
		if sum += x.Size; x.Name == name {
			of = x.Size
		}
		return nil
	})
	return sum, of, err
}

// temporary makes a file that is gone when it is removed, or when the process ends, where the system can do that.
func (s *Store) temporary() (f *os.File, remove func(), err error) {
	if s.spool != "" {
		if err := os.MkdirAll(s.spool, 0o700); err != nil {
			return nil, nil, err
		}
	}
	f, err = os.CreateTemp(s.spool, "carillon-upload-")
	if err != nil {
		return nil, nil, err
	}
	if runtime.GOOS != "windows" {
		os.Remove(f.Name())
		return f, func() { f.Close() }, nil
	}
	return f, func() { f.Close(); os.Remove(f.Name()) }, nil
}

// Open reads an artifact of a tenant; ErrNotFound if it has none of this id. Read fails at the end if the content is another.
func (s *Store) Open(ctx context.Context, t tenant.ID, id string) (Blob, error) {
	o, err := object(t, id, 0)
	if err != nil {
		return nil, err
	}
	info, err := s.objects.Stat(ctx, o.Name)
	if err != nil {
		return nil, full(err)
	}
	o.Size = info.Size
	return &stored{At: blob.NewAt(ctx, s.objects, o.Name, o.Size), ctx: ctx, objects: s.objects, o: o}, nil
}

// stored is an artifact that is being read: from its beginning, or in parts.
type stored struct {
	*blob.At
	ctx     context.Context
	objects blob.Store
	o       blob.Object
	r       io.ReadCloser // nil: nothing was read yet
}

func (s *stored) Read(p []byte) (int, error) {
	if s.r == nil {
		r, err := blob.Open(s.ctx, s.objects, s.o)
		if err != nil {
			return 0, full(err)
		}
		s.r = r
	}
	return s.r.Read(p)
}

func (s *stored) ReadAt(p []byte, from int64) (int, error) {
	n, err := s.At.ReadAt(p, from)
	if err != nil && !errors.Is(err, io.EOF) {
		err = full(err)
	}
	return n, err
}

func (s *stored) Close() error {
	if s.r != nil {
		return s.r.Close()
	}
	return nil
}

// Delete removes an artifact of a tenant and returns its size; ErrNotFound if it has none of this id.
func (s *Store) Delete(ctx context.Context, t tenant.ID, id string) (int64, error) {
	o, err := object(t, id, 0)
	if err != nil {
		return 0, err
	}
	info, err := s.objects.Stat(ctx, o.Name)
	if err == nil {
		err = s.objects.Delete(ctx, o.Name)
	}
	return info.Size, full(err)
}
