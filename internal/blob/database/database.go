// Package database stores objects in the database of the installation, in chunks.
// It needs nothing but the database that is there anyway, and every server sees
// every object. It is for objects of moderate size: up to 1 GiB each, and as many
// as you want the database and its backups to grow by.
//
// Each chunk carries a checksum, which every read compares.
package database

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	chunk   = 256 << 10 // bytes in a row
	inOne   = 8         // chunks that are written in one commit, or read at once
	maxSize = 1 << 30   // of an object; package location says the same
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Store is a database.
type Store struct{ db engine.Blobs }

var _ blob.Store = (*Store)(nil)

// New stores objects in a database.
func New(db engine.Blobs) *Store { return &Store{db} }

func (s *Store) String() string { return "the database" }

// Put stores an object. It is visible from its last commit on.
func (s *Store) Put(ctx context.Context, o blob.Object, content io.ReaderAt) error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.Size > maxSize {
		return &blob.TooLarge{Place: s.String(), Size: o.Size, Limit: maxSize}
	}
	switch _, err := s.Stat(ctx, o.Name); {
	case err == nil:
		return fmt.Errorf("store %s in %s: %w", o.Name, s, blob.ErrExists) // before all of it is written
	case !errors.Is(err, blob.ErrNotFound):
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	b := engine.Blob{ID: [16]byte(id), Tenant: blob.TenantOf(o.Name), Name: o.Name, Size: o.Size}
	if err := s.db.BeginBlob(ctx, b); err != nil {
		return explain("store "+o.Name, err)
	}
	r := blob.Exact(ctx, o, content)
	buf := make([]byte, chunk*inOne)
	for first := 0; ; first += inOne {
		n, err := io.ReadFull(r, buf)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err // the sweep deletes what is there
		}
		if err := s.putChunks(ctx, b, first, buf[:n]); err != nil {
			return explain("store "+o.Name, err)
		}
		if ended {
			break
		}
	}
	if err := s.db.EndBlob(ctx, b); err != nil {
		if errors.Is(err, engine.ErrConflict) {
			if _, found := s.Stat(ctx, o.Name); found == nil {
				return fmt.Errorf("store %s in %s: %w", o.Name, s, blob.ErrExists)
			}
		}
		return explain("store "+o.Name, err)
	}
	return nil
}

func (s *Store) putChunks(ctx context.Context, b engine.Blob, first int, data []byte) error {
	var chunks []engine.Chunk
	for len(data) > 0 {
		part := data[:min(chunk, len(data))]
		data = data[len(part):]
		chunks = append(chunks, engine.Chunk{N: first + len(chunks), Sum: crc32.Checksum(part, table), Data: part})
	}
	if len(chunks) == 0 {
		return nil
	}
	return s.db.PutChunks(ctx, b, first, chunks)
}

// Get reads a part of an object, chunk by chunk.
func (s *Store) Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	if err := blob.CheckName(name); err != nil {
		return nil, err
	}
	b, err := s.db.Blob(ctx, name)
	if err != nil {
		return nil, explain("read "+name, err)
	}
	return &reader{ctx: ctx, s: s, b: b, at: from, end: min(b.Size, from+min(n, b.Size))}, nil
}

// reader reads an object from at to end.
type reader struct {
	ctx     context.Context
	s       *Store
	b       engine.Blob
	at, end int64
	chunks  []engine.Chunk
}

func (r *reader) Read(p []byte) (int, error) {
	if r.at >= r.end {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := int(r.at / chunk)
	if len(r.chunks) == 0 {
		want := min(inOne, int((r.end-1)/chunk)-n+1)
		chunks, err := r.s.db.Chunks(r.ctx, r.b.ID, n, want)
		if err != nil {
			return 0, explain("read "+r.b.Name, err)
		}
		r.chunks = chunks
	}
	if len(r.chunks) == 0 || r.chunks[0].N != n {
		if again, err := r.s.db.Blob(r.ctx, r.b.Name); errors.Is(err, engine.ErrNotFound) || err == nil && again.ID != r.b.ID {
			return 0, fmt.Errorf("read %s in %s: it was deleted meanwhile: %w", r.b.Name, r.s, blob.ErrNotFound)
		}
		return 0, r.damaged(fmt.Sprintf("chunk %d is missing", n))
	}
	c := r.chunks[0]
	if want := min(chunk, r.b.Size-int64(n)*chunk); int64(len(c.Data)) != want {
		return 0, r.damaged(fmt.Sprintf("chunk %d has %d bytes, want %d", n, len(c.Data), want))
	}
	if crc32.Checksum(c.Data, table) != c.Sum {
		return 0, r.damaged(fmt.Sprintf("chunk %d does not have its checksum", n))
	}
	within := int(r.at - int64(n)*chunk)
	copied := copy(p, c.Data[within:min(len(c.Data), int(r.end-int64(n)*chunk))])
	if r.at += int64(copied); r.at/chunk > int64(n) {
		r.chunks = r.chunks[1:]
	}
	return copied, nil
}

func (r *reader) damaged(why string) error {
	return &blob.Damaged{Place: r.s.String(), Name: r.b.Name, Why: why}
}

func (r *reader) Close() error { return nil }

// Stat returns an object's size.
func (s *Store) Stat(ctx context.Context, name string) (blob.Info, error) {
	if err := blob.CheckName(name); err != nil {
		return blob.Info{}, err
	}
	b, err := s.db.Blob(ctx, name)
	return blob.Info{Name: b.Name, Size: b.Size}, explain("find "+name, err)
}

// List returns objects by name.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	bs, err := s.db.FindBlobs(ctx, prefix, after, limit)
	if err != nil {
		return nil, explain("list "+prefix, err)
	}
	out := make([]blob.Info, len(bs))
	for i, b := range bs {
		out[i] = blob.Info{Name: b.Name, Size: b.Size}
	}
	return out, nil
}

// Delete removes an object. Whoever reads it may not reach its end.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := blob.CheckName(name); err != nil {
		return err
	}
	b, err := s.db.Blob(ctx, name)
	if err == nil {
		err = s.db.DropBlob(ctx, b.ID)
	}
	return explain("delete "+name, err)
}

// explain gives the errors of a store the names that callers of a blob.Store know, and keeps those of the store.
func explain(doing string, err error) error {
	for _, x := range []struct{ is, as error }{
		{engine.ErrNotFound, blob.ErrNotFound}, {engine.ErrNoRoom, blob.ErrNoRoom}, {engine.ErrReadOnly, blob.ErrRefused}, {engine.ErrUnavailable, blob.ErrUnavailable},
	} {
		if errors.Is(err, x.is) {
			return fmt.Errorf("%s in the database: %w: %w", doing, x.as, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s in the database: %w", doing, err)
	}
	return nil
}
