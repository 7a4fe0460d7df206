package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Blobs stores large objects in chunks. An object is written in several commits and appears under its name in the last one, so
// nobody sees half of it. Package blob/database makes a blob.Store of it.
type Blobs interface {
	// BeginBlob begins to write an object, which nobody sees. One whose id is known changes nothing.
	BeginBlob(ctx context.Context, b Blob) error
	// PutChunks stores chunks of an object that is being written, beginning with number first. Chunks that are there already stay.
	// ErrConflict if it is not being written: it is whole, was dropped, or was given up because it took too long.
	PutChunks(ctx context.Context, b Blob, first int, chunks []Chunk) error
	// EndBlob makes an object visible under its name, if its chunks have its size together. ErrConflict if another object has the
	// name or chunks are missing. An object that is visible already stays so.
	EndBlob(ctx context.Context, b Blob) error
	// Blob finds the object of a name; ErrNotFound if there is none.
	Blob(ctx context.Context, name string) (Blob, error)
	// Chunks reads up to limit chunks of an object, beginning with number first, in order. There may be fewer, or none: the object
	// was dropped.
	Chunks(ctx context.Context, id [16]byte, first, limit int) ([]Chunk, error)
	// FindBlobs lists objects whose names begin with a prefix and come after another name, in order of their names' bytes.
	FindBlobs(ctx context.Context, prefix, after string, limit int) ([]Blob, error)
	// DropBlob takes an object out of sight. SweepBlobs deletes its chunks.
	DropBlob(ctx context.Context, id [16]byte) error
	// SweepBlobs deletes up to limit chunks of one object that was dropped, or that has been written since before an instant and is not whole.
	SweepBlobs(ctx context.Context, before time.Time, limit int) (Forgot, error)
}

// Blob is an object.
type Blob struct {
	ID     [16]byte
	Tenant tenant.ID // empty: the installation's
	Name   string
	Size   int64
}

// Chunk is a part of an object.
type Chunk struct {
	N    int
	Sum  uint32 // CRC-32C of Data, by whoever wrote it
	Data []byte
}
