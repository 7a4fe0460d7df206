package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// ErrNotFound says that the tenant has no such artifact.
var ErrNotFound = errors.New("no such artifact")

// ErrEmpty says that there was nothing to keep.
var ErrEmpty = errors.New("an artifact must not be empty")

// ErrNoRoom says that there is no room for the artifact.
var ErrNoRoom = errors.New("no room is left for artifacts")

// TooLarge says that an artifact, or what it unpacks to, is larger than is allowed.
type TooLarge struct{ Limit int64 }

func (t *TooLarge) Error() string { return fmt.Sprintf("it is larger than %d bytes", t.Limit) }

// OverQuota says that a tenant's artifacts would take more room together than is allowed.
type OverQuota struct{ Limit, Used int64 }

func (o *OverQuota) Error() string {
	return fmt.Sprintf("the tenant's artifacts may have %d bytes together, and have %d without it", o.Limit, o.Used)
}

// Store keeps artifacts.
type Store interface {
	// Put keeps what r holds, and says under which id, and whether the tenant had it before. What fails leaves nothing.
	Put(ctx context.Context, t tenant.ID, r io.Reader) (Kept, error)
	// Open reads an artifact of the tenant's; ErrNotFound where it has none of this id.
	Open(ctx context.Context, t tenant.ID, id string) (Blob, error)
	// Delete removes an artifact of the tenant's, and says how large it was; ErrNotFound where it has none of this id. Who
	// has it open reads on.
	Delete(ctx context.Context, t tenant.ID, id string) (size int64, err error)
}

// Kept is an artifact that was put.
type Kept struct {
	ID    string
	Size  int64
	Known bool // the tenant had it already
}

// Blob is an artifact that is being read.
type Blob interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Size() int64
}

// hashed copies from r to w and says the id of what it copied; *TooLarge past the limit.
func hashed(ctx context.Context, w io.Writer, r io.Reader, limit int64) (id string, n int64, err error) {
	h := sha256.New()
	n, err = io.Copy(io.MultiWriter(w, h), io.LimitReader(&interruptible{ctx, r}, limit+1))
	if err == nil && n > limit {
		err = &TooLarge{limit}
	}
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// interruptible stops reading when its context ends.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}
