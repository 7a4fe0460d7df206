package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Identity tells stores apart.
type Identity struct {
	Created time.Time // when the first step of its schema was applied; copies and restored backups have it, too
	Epoch   int64     // of its tokens
}

// Identify returns which store this is.
func (s *Store) Identify(ctx context.Context) (id Identity, err error) {
	err = s.look(ctx, "identify the store", func(c *conn) error {
		id, err = identity(c)
		return err
	})
	return id, err
}

func identity(c *conn) (id Identity, err error) {
	done, err := readSteps(c)
	if err != nil {
		return id, err
	}
	if len(done) == 0 {
		return id, fmt.Errorf("the file holds no Carillon store: %w", engine.ErrSchema)
	}
	id.Created = done[0].At
	id.Epoch, err = epochOf(c)
	return id, err
}

// Extent is how large a database is.
type Extent struct {
	Pages    uint32
	PageSize int
}

func extent(c *conn) (x Extent, err error) {
	_, err = c.prepare("SELECT page_count, page_size FROM pragma_page_count, pragma_page_size").first(func(r *row) error {
		x = Extent{uint32(r.int64()), r.int()}
		return nil
	})
	return x, err
}

// Read calls begun, and then page for every page of a file in order, all as they are at one instant. A process may have
// the file open and write to it meanwhile. The data is valid during the call only.
func Read(ctx context.Context, path string, begun func(Identity, Extent) error, page func(number uint32, data []byte) error) error {
	return peek(ctx, path, "read "+path, func(c *conn) error {
		id, err := identity(c)
		if err != nil {
			return err
		}
		x, err := extent(c)
		if err == nil {
			err = begun(id, x)
		}
		if err != nil {
			return err
		}
		return c.pages(page)
	})
}

// pages calls f for every page in order.
func (c *conn) pages(f func(number uint32, data []byte) error) error {
	var buf []byte
	return c.prepare("SELECT pgno, data FROM sqlite_dbpage").each(func(r *row) error {
		number, size := uint32(r.int64()), r.on.ColumnLen(1)
		if cap(buf) < size {
			buf = make([]byte, size)
		}
		r.on.ColumnBytes(1, buf[:size])
		return f(number, buf[:size])
	})
}
