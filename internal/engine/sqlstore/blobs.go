package sqlstore

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// The states of an object, as column state has them.
const (
	blobWriting = 0
	blobWhole   = 1
	blobGoing   = 2
)

const (
	beginBlobSQL = "INSERT INTO blobs (id, tenant, name, size, at, state) VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT (id) DO NOTHING"
	// The lock makes a sweep wait until the chunks are there, so that it finds them.
	writingBlobSQL = "SELECT true FROM blobs WHERE id = $1 AND state = 0 /*postgres: FOR SHARE*/"
	putChunkSQL    = "INSERT INTO blob_chunks (blob, n, sum, tenant, data) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (blob, n) DO NOTHING"
	endBlobSQL     = `
		UPDATE blobs SET state = 1 WHERE id = $1 AND state = 0
			AND size = (SELECT coalesce(sum(length(data)), 0) FROM blob_chunks WHERE blob = $1)
			AND NOT EXISTS (SELECT 1 FROM blobs o WHERE o.name = $2 AND o.state = 1)`
	blobColumns  = "SELECT id, tenant, name, size FROM blobs /*sqlite: INDEXED BY blobs_name*/ WHERE state = 1 AND "
	blobSQL      = blobColumns + "name = $1"
	findBlobsSQL = blobColumns + "name >= $1 AND name < $2 AND name > $3 ORDER BY name LIMIT $4"
	chunksSQL    = "SELECT n, sum, data FROM blob_chunks WHERE blob = $1 AND n >= $2 AND n < $3 ORDER BY n"
	dropBlobSQL  = "UPDATE blobs SET state = 2 WHERE id = $1 AND state = 1"
	// Servers sweep different objects.
	leftBlobSQL = `
		SELECT id FROM blobs /*sqlite: INDEXED BY blobs_left*/ WHERE state <> 1 AND (state = 2 OR at < $1) ORDER BY at LIMIT 1 /*postgres: FOR UPDATE SKIP LOCKED*/`
	goingBlobSQL    = "UPDATE blobs SET state = 2 WHERE id = $1"
	sweepChunksSQL  = "DELETE FROM blob_chunks WHERE blob = $1 AND n < (SELECT coalesce(min(n), 0) FROM blob_chunks WHERE blob = $1) + $2"
	deleteEmptySQL  = "DELETE FROM blobs WHERE id = $1 AND state = 2 AND NOT EXISTS (SELECT 1 FROM blob_chunks WHERE blob = $1)"
	pastEveryName   = "\U0010FFFF"
	chunksInOneRead = 16
)

func scanBlob(r Row) (b engine.Blob, err error) {
	return b, r.Scan(&b.ID, (*string)(&b.Tenant), &b.Name, &b.Size)
}

// BeginBlob begins to write an object.
func (s blobs) BeginBlob(ctx context.Context, b engine.Blob) error {
	return s.db.Write(ctx, "begin an object", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		_, err = tx.Exec(beginBlobSQL, b.ID, string(b.Tenant), b.Name, b.Size, now)
		return err
	})
}

// PutChunks stores chunks of an object that is being written.
func (s blobs) PutChunks(ctx context.Context, b engine.Blob, first int, chunks []engine.Chunk) error {
	rows := make([][]any, len(chunks))
	for i, c := range chunks {
		rows[i] = []any{b.ID, first + i, int64(c.Sum), string(b.Tenant), c.Data}
	}
	return s.db.Write(ctx, "store a part of an object", func(tx Tx) error {
		writing, err := value[bool](tx, writingBlobSQL, b.ID)
		if err != nil {
			return err
		}
		if !writing {
			return engine.ErrConflict
		}
		return tx.ExecEach(putChunkSQL, rows)
	})
}

// EndBlob makes an object visible under its name.
func (s blobs) EndBlob(ctx context.Context, b engine.Blob) error {
	return s.db.Write(ctx, "complete an object", func(tx Tx) error {
		n, err := tx.Exec(endBlobSQL, b.ID, b.Name)
		if err != nil || n > 0 {
			return err
		}
		whole, err := value[bool](tx, "SELECT true FROM blobs WHERE id = $1 AND state = 1", b.ID)
		if err == nil && !whole {
			err = engine.ErrConflict
		}
		return err
	})
}

// Blob finds the object of a name.
func (s blobs) Blob(ctx context.Context, name string) (engine.Blob, error) {
	return readOne(ctx, s.db, "find an object", scanBlob, blobSQL, name)
}

// Chunks reads chunks of an object.
func (s blobs) Chunks(ctx context.Context, id [16]byte, first, limit int) ([]engine.Chunk, error) {
	return readAll(ctx, s.db, "read an object", func(r Row) (c engine.Chunk, err error) {
		var sum int64
		err = r.Scan(&c.N, &sum, &c.Data)
		c.Sum = uint32(sum)
		return c, err
	}, chunksSQL, id, first, first+min(limit, chunksInOneRead))
}

// FindBlobs lists objects by name.
func (s blobs) FindBlobs(ctx context.Context, prefix, after string, limit int) ([]engine.Blob, error) {
	return readAll(ctx, s.db, "list objects", scanBlob, findBlobsSQL, prefix, prefix+pastEveryName, after, limit)
}

// DropBlob takes an object out of sight.
func (s blobs) DropBlob(ctx context.Context, id [16]byte) error {
	return exec(ctx, s.db, "delete an object", nil, dropBlobSQL, id)
}

// SweepBlobs deletes some of what is left of one object.
func (s blobs) SweepBlobs(ctx context.Context, before time.Time, limit int) (out engine.Forgot, err error) {
	err = s.db.Write(ctx, "sweep objects", func(tx Tx) error {
		out = engine.Forgot{}
		ids, err := all(tx, func(r Row) (id [16]byte, err error) { return id, r.Scan(&id) }, leftBlobSQL, before)
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := tx.Exec(goingBlobSQL, ids[0]); err != nil {
			return err
		}
		n, err := tx.Exec(sweepChunksSQL, ids[0], limit)
		if err != nil {
			return err
		}
		_, err = tx.Exec(deleteEmptySQL, ids[0])
		out = engine.Forgot{N: int(n), More: true} // of this object, or others
		return err
	})
	return out, err
}
