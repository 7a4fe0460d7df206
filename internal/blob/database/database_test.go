package database

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/blobtest"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) engine.Store{
		"sqlite":   func(t testing.TB) engine.Store { return storetest.SQLite(t) },
		"postgres": func(t testing.TB) engine.Store { return storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobtest.Run(t, blobtest.Harness{
				New: func(t *testing.T) func() blob.Store {
					db := &altered{Blobs: open(t), content: map[[16]byte][]byte{}}
					return func() blob.Store { return New(db) }
				},
				Replace: func(t *testing.T, s blob.Store, name string, data []byte) {
					db := s.(*Store).db.(*altered)
					b, err := db.Blob(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					db.content[b.ID] = data
				},
			})
		})
	}
}

// altered is a database in which the chunks of some objects have other content.
type altered struct {
	engine.Blobs
	content map[[16]byte][]byte
}

func (a *altered) Chunks(ctx context.Context, id [16]byte, first, limit int) ([]engine.Chunk, error) {
	all, err := a.Blobs.Chunks(ctx, id, first, limit)
	data, ok := a.content[id]
	if !ok || err != nil {
		return all, err
	}
	var out []engine.Chunk
	for _, c := range all {
		from, to := c.N*chunk, (c.N+1)*chunk
		if from >= len(data) {
			break
		}
		if len(c.Data) < chunk { // the last
			to = len(data)
		}
		c.Data = data[from:min(to, len(data))]
		out = append(out, c)
	}
	return out, nil
}

func TestTooLargeForADatabase(t *testing.T) {
	t.Parallel()
	s := New(storetest.SQLite(t))
	o := blobtest.Of("large", nil)
	o.Size = maxSize + 1
	var large *blob.TooLarge
	if err := s.Put(t.Context(), o, bytes.NewReader(nil)); !errors.As(err, &large) || large.Limit != maxSize {
		t.Errorf("got %v", err)
	}
}

// A read of what is deleted meanwhile breaks off and says why; it does not end early, nor call the object damaged.
func TestAnObjectIsDeletedWhileItIsRead(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db engine.Store) {
		s := New(db)
		blobtest.Put(t, s, "a", make([]byte, 3*inOne*chunk))
		r, err := s.Get(t.Context(), "a", 0, 3*inOne*chunk)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		now, err := db.Now(t.Context())
		for more := err == nil; more; {
			f, err := db.SweepBlobs(t.Context(), now, 5)
			if err != nil {
				t.Fatal(err)
			}
			more = f.More
		}
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		blobtest.Put(t, s, "a", []byte("x"))
		if _, err := io.Copy(io.Discard, r); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("where another has its name: %v", err)
		}
	})
}
