package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// ErrNotFound means that the tenant has no such artifact.
var ErrNotFound = errors.New("no such artifact")

// ErrEmpty means that the artifact was empty.
var ErrEmpty = errors.New("an artifact must not be empty")

// ErrNoRoom means that there is no space for the artifact.
var ErrNoRoom = errors.New("no room is left for artifacts")

// ErrUnavailable says that the place where artifacts are stored cannot be reached, or refuses.
var ErrUnavailable = errors.New("the place where artifacts are stored cannot be used")

// TooLarge says that an artifact, or what it unpacks to, is larger than is allowed.
type TooLarge struct{ Limit int64 }

func (t *TooLarge) Error() string { return fmt.Sprintf("it is larger than %d bytes", t.Limit) }

// OverQuota is the error that a tenant's artifacts would take more space than its quota allows.
type OverQuota struct {
	Limit int64
	Used  int64 // by the others, with those on their way
	Adds  int64 // by this one, as far as is known
}

func (o *OverQuota) Error() string {
	return fmt.Sprintf("the tenant's artifacts may have %d bytes together, and have %d without it", o.Limit, o.Used)
}

// Kept is an artifact that was put.
type Kept struct {
	ID    string
	Size  int64
	Known bool // the tenant had it already
}

// Blob is an open artifact.
type Blob interface {
	io.Reader
	io.ReaderAt
	io.Closer
	Size() int64
}

// hashed copies from r to w and returns the id of the content; *TooLarge beyond the limit.
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
