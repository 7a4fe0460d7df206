package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// blobs is about large objects in chunks. What a blob.Store promises is in blobtest, which runs over both engines, too.
func blobs(t *testing.T, h Harness) {
	f := open(t, h)
	object := func(in tenant.ID, name string, size int64) engine.Blob {
		return engine.Blob{ID: [16]byte(uuid.New()), Tenant: in, Name: name, Size: size}
	}
	chunk := func(n int, text string) engine.Chunk {
		return engine.Chunk{N: n, Sum: 1<<32 - 1 - uint32(n), Data: []byte(text)}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	found := func(prefix, after string, limit int) (names []string) {
		t.Helper()
		for _, b := range must(f.FindBlobs(f.ctx, prefix, after, limit)) {
			names = append(names, b.Name)
		}
		return names
	}
	put := func(b engine.Blob, texts ...string) {
		t.Helper()
		do(f.BeginBlob(f.ctx, b))
		for i, text := range texts {
			do(f.PutChunks(f.ctx, b, i, []engine.Chunk{chunk(i, text)}))
		}
	}

	// Nobody sees it before its end, and every step may be repeated.
	a := object("acme", "tenants/acme/a", 7)
	for range 2 {
		do(f.BeginBlob(f.ctx, a))
	}
	if err := f.EndBlob(f.ctx, a); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("ended without its chunks: %v", err)
	}
	for range 2 {
		do(f.PutChunks(f.ctx, a, 0, []engine.Chunk{chunk(0, "abc"), chunk(1, "def")}))
	}
	do(f.PutChunks(f.ctx, a, 2, []engine.Chunk{chunk(2, "g")}))
	if _, err := f.Blob(f.ctx, a.Name); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("before its end: %v", err)
	}
	if got := found("", "", 10); got != nil {
		t.Errorf("listed before its end: %q", got)
	}
	for range 2 {
		do(f.EndBlob(f.ctx, a))
	}
	if got := must(f.Blob(f.ctx, a.Name)); got != a {
		t.Errorf("got %+v, want %+v", got, a)
	}
	got := must(f.Chunks(f.ctx, a.ID, 1, 5))
	if len(got) != 2 || got[0].N != 1 || got[0].Sum != chunk(1, "").Sum || !bytes.Equal(got[0].Data, []byte("def")) || string(got[1].Data) != "g" {
		t.Errorf("chunks: %+v", got)
	}
	if got := must(f.Chunks(f.ctx, a.ID, 0, 1)); len(got) != 1 || got[0].N != 0 {
		t.Errorf("one chunk: %+v", got)
	}
	if got := must(f.Chunks(f.ctx, a.ID, 3, 1)); len(got) != 0 {
		t.Errorf("past the end: %+v", got)
	}
	if err := f.PutChunks(f.ctx, a, 3, []engine.Chunk{chunk(3, "more")}); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("a chunk after the end: %v", err)
	}

	// Of two under one name the first to end has it.
	b := object("acme", a.Name, 1)
	put(b, "b")
	if err := f.EndBlob(f.ctx, b); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("a second under the name: %v", err)
	}
	const writers = 6
	ended := make(chan error, writers)
	for i := range writers {
		x := object("", "race", int64(i+1))
		put(x, string(bytes.Repeat([]byte("x"), i+1)))
		go func() { ended <- f.EndBlob(f.ctx, x) }()
	}
	won := 0
	for range writers {
		if err := <-ended; err == nil {
			won++
		} else if !errors.Is(err, engine.ErrConflict) {
			t.Errorf("raced: %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d objects have one name", won)
	}

	for _, name := range []string{"tenants/acme/z", "tenants/acme/b", "tenants/acme-2/x", "tenants/acmf", "t-b", "t/b"} {
		x := object("acme", name, 1)
		put(x, "x")
		do(f.EndBlob(f.ctx, x))
	}
	for _, x := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"tenants/acme/", "", 10, []string{"tenants/acme/a", "tenants/acme/b", "tenants/acme/z"}},
		{"tenants/acme/", "tenants/acme/a", 1, []string{"tenants/acme/b"}},
		{"t", "", 3, []string{"t-b", "t/b", "tenants/acme-2/x"}},
		{"zz", "", 3, nil},
	} {
		if got := found(x.prefix, x.after, x.limit); !slices.Equal(got, x.want) {
			t.Errorf("%q after %q: %q, want %q", x.prefix, x.after, got, x.want)
		}
	}

	// What is dropped is gone at once, and its name free; its chunks go in parts. What was begun long ago goes, too.
	do(f.DropBlob(f.ctx, a.ID))
	if _, err := f.Blob(f.ctx, a.Name); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("after it was dropped: %v", err)
	}
	again := object("acme", a.Name, 1)
	put(again, "x")
	do(f.EndBlob(f.ctx, again))
	swept := func(before time.Time) (n int) {
		t.Helper()
		for range 100 {
			x := must(f.SweepBlobs(f.ctx, before, 2))
			if n += x.N; !x.More {
				return n
			}
		}
		t.Fatal("there is always more to sweep")
		return n
	}
	if n := swept(f.now().Add(-time.Hour)); n != 3 || len(must(f.Chunks(f.ctx, a.ID, 0, 5))) != 0 {
		t.Errorf("%d chunks of one dropped object were deleted, want 3", n)
	}
	do(f.PutChunks(f.ctx, b, 1, []engine.Chunk{chunk(1, "still written")}))
	if n := swept(f.now().Add(time.Minute)); n != 2+writers-1 {
		t.Errorf("%d chunks of unfinished objects were deleted, want %d", n, 2+writers-1)
	}
	for what, err := range map[string]error{"a chunk": f.PutChunks(f.ctx, b, 2, []engine.Chunk{chunk(2, "x")}), "the end": f.EndBlob(f.ctx, b)} {
		if !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s of what was given up: %v", what, err)
		}
	}
	if got := must(f.Blob(f.ctx, again.Name)); got != again || len(must(f.Chunks(f.ctx, again.ID, 0, 5))) != 1 {
		t.Errorf("a whole object was swept: %+v", got)
	}

	// Within a tenant's context nothing of another's is seen or made, where the store has a wall.
	if w, ok := f.Store.(engine.Walled); ok && w.Wall() == "" {
		ctx := engine.Confine(f.ctx, "other")
		if x, err := f.Blob(ctx, again.Name); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("another tenant finds %+v, %v", x, err)
		}
		if x := must(f.Chunks(ctx, again.ID, 0, 1)); len(x) != 0 {
			t.Errorf("another tenant reads %+v", x)
		}
		if x := must(f.FindBlobs(ctx, "tenants/", "", 10)); len(x) != 0 {
			t.Errorf("another tenant lists %+v", x)
		}
		do(f.DropBlob(ctx, again.ID))
		must(f.Blob(f.ctx, again.Name))
		if err := f.BeginBlob(ctx, object("acme", "tenants/acme/new", 1)); err == nil {
			t.Error("another tenant begins an object of acme's")
		}
		own := engine.Confine(f.ctx, "acme")
		x := object("acme", fmt.Sprint("tenants/acme/", "own"), 1)
		do(f.BeginBlob(own, x))
		do(f.PutChunks(own, x, 0, []engine.Chunk{chunk(0, "x")}))
		do(f.EndBlob(own, x))
		do(f.DropBlob(own, x.ID))
	}
}
