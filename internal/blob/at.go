package blob

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// block is the number of bytes At reads at once, so that small reads in order cost few requests.
const block = 4 << 20

// At reads parts of an object in any order, through a buffer of one block. It finds objects that are too short.
type At struct {
	ctx  context.Context
	s    Store
	name string
	size int64

	mu   sync.Mutex
	buf  []byte // guarded by mu
	from int64  // guarded by mu: where buf begins
}

// NewAt reads parts of an object of a known size.
func NewAt(ctx context.Context, s Store, name string, size int64) *At {
	return &At{ctx: ctx, s: s, name: name, size: size}
}

// Size returns the object's size.
func (a *At) Size() int64 { return a.size }

// ReadAt reads from an offset.
func (a *At) ReadAt(p []byte, from int64) (n int, err error) {
	if from < 0 {
		return 0, fmt.Errorf("read %s at %d: negative offset", a.name, from)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for n < len(p) {
		at := from + int64(n)
		if at >= a.size {
			return n, io.EOF
		}
		if at < a.from || at >= a.from+int64(len(a.buf)) {
			if err := a.fill(at); err != nil {
				return n, err
			}
		}
		n += copy(p[n:], a.buf[at-a.from:])
	}
	return n, nil
}

// fill reads the block that an offset is in.
func (a *At) fill(at int64) error {
	from := at / block * block
	want := min(block, a.size-from)
	r, err := a.s.Get(a.ctx, a.name, from, want)
	if err != nil {
		return err
	}
	defer r.Close()
	if cap(a.buf) == 0 {
		a.buf = make([]byte, 0, min(block, a.size))
	}
	n, err := io.ReadFull(r, a.buf[:want])
	a.buf, a.from = a.buf[:n], from
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF: //nolint:errorlint // ReadFull returns these as they are
		a.buf = a.buf[:0]
		return &Damaged{a.s.String(), a.name, fmt.Sprintf("it ends after %d of %d bytes", from+int64(n), a.size)}
	case err != nil:
		a.buf = a.buf[:0]
	}
	return err
}
