// Package blobtest is the suite that every place for objects passes.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// Harness gives the suite access to places of one kind.
type Harness struct {
	// New makes an empty place and returns how to open it, as several servers do.
	New func(t *testing.T) (open func() blob.Store)
	// Replace puts other content under a name of an object that is there, behind the back of the store.
	Replace func(t *testing.T, s blob.Store, name string, data []byte)
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	for name, test := range map[string]func(*testing.T, Harness){
		"an object": object, "put if absent": absent, "half an object": half, "names": names, "list": list, "damage": damage, "marks": marks, "contexts": contexts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// Of describes an object with some content.
func Of(name string, data []byte) blob.Object {
	return blob.Object{Name: name, Size: int64(len(data)), SHA256: sha256.Sum256(data)}
}

// Put stores an object.
func Put(t *testing.T, s blob.Store, name string, data []byte) blob.Object {
	t.Helper()
	o := Of(name, data)
	if err := s.Put(t.Context(), o, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	return o
}

// read reads a whole object and compares it.
func read(ctx context.Context, s blob.Store, o blob.Object) ([]byte, error) {
	r, err := blob.Open(ctx, s, o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// content is data of a length, the same for the same length.
func content(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i>>16 ^ i>>8*7 ^ i*31)
	}
	return out
}

func object(t *testing.T, h Harness) {
	s := h.New(t)()
	const chunk = 256 << 10
	for _, size := range []int{1, 1000, chunk - 1, chunk, chunk + 1, 8*chunk + 5, 5<<20 + 1} {
		data, name := content(size), fmt.Sprintf("tenants/acme/size=%d/object.bin", size)
		o := Put(t, s, name, data)
		if got, err := read(t.Context(), s, o); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: read %d, %v", size, len(got), err)
		}
		if info, err := s.Stat(t.Context(), name); err != nil || info != (blob.Info{Name: name, Size: int64(size)}) {
			t.Errorf("%d bytes: %+v, %v", size, info, err)
		}
		for _, x := range [][2]int{{0, 1}, {0, size}, {size / 2, 10}, {max(0, size-1), 10}, {size, 1}, {size + 100, 5}, {chunk - 3, 6}, {0, 0}} {
			from, n := x[0], x[1]
			want := data[min(from, size):min(from+n, size)]
			r, err := s.Get(t.Context(), name, int64(from), int64(n))
			if err != nil {
				t.Errorf("%d bytes, %d from %d: %v", size, n, from, err)
				continue
			}
			got, err := io.ReadAll(r)
			r.Close()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %d from %d: read %d, %v, want %d", size, n, from, len(got), err, len(want))
			}
		}
		at := blob.NewAt(t.Context(), s, name, int64(size))
		if got, err := io.ReadAll(io.NewSectionReader(at, 0, int64(size))); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes in parts: read %d, %v", size, len(got), err)
		}
	}
	const name = "tenants/acme/size=1000/object.bin"
	if err := s.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	_, statted := s.Stat(t.Context(), name)
	_, got := s.Get(t.Context(), name, 0, 1)
	for what, err := range map[string]error{"stat": statted, "get": got, "delete": s.Delete(t.Context(), name)} {
		if !errors.Is(err, blob.ErrNotFound) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s of a deleted object: %v", what, err)
		}
	}
	Put(t, s, name, []byte("another"))
}

func absent(t *testing.T, h Harness) {
	open := h.New(t)
	s := open()
	first := Put(t, s, "a/b", []byte("first"))
	for _, text := range []string{"second", "first"} {
		o := Of("a/b", []byte(text))
		if err := s.Put(t.Context(), o, strings.NewReader(text)); !errors.Is(err, blob.ErrExists) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got, err := read(t.Context(), s, first); err != nil || string(got) != "first" {
		t.Errorf("after that: %q, %v", got, err)
	}
	const writers = 8
	var all sync.WaitGroup
	errs := make([]error, writers)
	of := func(n int) []byte { return bytes.Repeat([]byte{byte('a' + n)}, 300<<10) }
	for n := range writers {
		s := open()
		all.Go(func() { errs[n] = s.Put(t.Context(), Of("race", of(n)), bytes.NewReader(of(n))) })
	}
	all.Wait()
	winner := slices.Index(errs, nil)
	if winner < 0 {
		t.Fatalf("nobody won: %v", errs)
	}
	for n, err := range errs {
		if n != winner && !errors.Is(err, blob.ErrExists) {
			t.Errorf("writer %d: %v, and %d has won", n, err, winner)
		}
	}
	if got, err := read(t.Context(), s, Of("race", of(winner))); err != nil || !bytes.Equal(got, of(winner)) {
		t.Errorf("the winner's: %d bytes, %v", len(got), err)
	}
}

// breaking yields its content up to a point.
type breaking struct {
	data []byte
	at   int64
}

var errBroken = errors.New("the disk broke")

func (b breaking) ReadAt(p []byte, from int64) (int, error) {
	if from+int64(len(p)) > b.at {
		return 0, errBroken
	}
	return bytes.NewReader(b.data).ReadAt(p, from)
}

func half(t *testing.T, h Harness) {
	s := h.New(t)()
	data := content(3 << 20)
	o := Of("x/half", data)
	long, other := append(slices.Clone(data), 'x'), slices.Clone(data)
	other[len(other)/2] ^= 1
	for what, r := range map[string]io.ReaderAt{
		"that breaks off": breaking{data, 2 << 20}, "that is short": bytes.NewReader(data[:len(data)-1]), "that is long": bytes.NewReader(long), "that is another": bytes.NewReader(other),
	} {
		if err := s.Put(t.Context(), o, r); err == nil || errors.Is(err, blob.ErrExists) || what == "that breaks off" && !errors.Is(err, errBroken) {
			t.Errorf("content %s: %v", what, err)
		}
		if _, err := s.Stat(t.Context(), o.Name); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("after content %s: %v", what, err)
		}
	}
	if err := s.Put(t.Context(), Of("x/empty", nil), bytes.NewReader(nil)); err == nil {
		t.Error("an empty object is stored")
	}
	if all, err := s.List(t.Context(), "", "", 10); err != nil || len(all) != 0 {
		t.Errorf("listed: %+v, %v", all, err)
	}
	Put(t, s, o.Name, data)
}

func names(t *testing.T, h Harness) {
	s := h.New(t)()
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "a/./b", ".hidden", "a/.hidden", "a b", "a\\b", "a\x00b", "a\nb", "a:b", "ä", "a%2e", "~",
		strings.Repeat("x", 201), strings.Repeat("x/", 300) + "x",
	} {
		o := Of(name, []byte("x"))
		_, statted := s.Stat(t.Context(), name)
		_, got := s.Get(t.Context(), name, 0, 1)
		for what, err := range map[string]error{"put": s.Put(t.Context(), o, strings.NewReader("x")), "stat": statted, "get": got, "delete": s.Delete(t.Context(), name)} {
			if err == nil || errors.Is(err, blob.ErrNotFound) || !strings.Contains(err.Error(), "want segments of letters") {
				t.Errorf("%s of %.30q: %v", what, name, err)
			}
		}
	}
	for _, name := range []string{"a", "A-b_c.d=e", "year=2026/month=11/part-0000.parquet", strings.Repeat("x", 200) + "/" + strings.Repeat("y", 200)} {
		Put(t, s, name, []byte(name))
	}
}

func list(t *testing.T, h Harness) {
	s := h.New(t)()
	var all []string
	for _, name := range []string{"a-b", "a/b", "a/b-c", "a/c-d", "a/c/d", "a=b", "b", "tenants/acme/1", "tenants/acme/2", "tenants/acme2/1"} {
		Put(t, s, name, []byte(name))
		all = append(all, name)
	}
	slices.Sort(all)
	got := func(prefix, after string, limit int) (out []string) {
		t.Helper()
		xs, err := s.List(t.Context(), prefix, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range xs {
			if out = append(out, x.Name); x.Size != int64(len(x.Name)) {
				t.Errorf("%+v", x)
			}
		}
		return out
	}
	for _, x := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"", "", 100, all},
		{"", "", 3, all[:3]},
		{"", all[2], 3, all[3:6]},
		{"", all[len(all)-1], 3, nil},
		{"a", "", 100, []string{"a-b", "a/b", "a/b-c", "a/c-d", "a/c/d", "a=b"}},
		{"a/", "", 100, []string{"a/b", "a/b-c", "a/c-d", "a/c/d"}},
		{"a/", "a/b", 1, []string{"a/b-c"}},
		{"tenants/acme/", "", 100, []string{"tenants/acme/1", "tenants/acme/2"}},
		{"nothing/", "", 100, nil},
		{"a/", "z", 100, nil},
	} {
		if names := got(x.prefix, x.after, x.limit); !slices.Equal(names, x.want) {
			t.Errorf("%q after %q: %q, want %q", x.prefix, x.after, names, x.want)
		}
	}
	var each []string
	if err := blob.Each(t.Context(), s, "tenants/", func(x blob.Info) error { each = append(each, x.Name); return nil }); err != nil || len(each) != 3 {
		t.Errorf("each: %q, %v", each, err)
	}
}

func damage(t *testing.T, h Harness) {
	s := h.New(t)()
	data := content(600 << 10)
	flipped, shifted := slices.Clone(data), slices.Clone(data)
	flipped[300<<10] ^= 4
	copy(shifted[256<<10:], data[:256<<10])
	for what, now := range map[string][]byte{
		"truncated": data[:len(data)-100], "truncated-to-a-byte": data[:1], "flipped": flipped, "shifted": shifted, "longer": append(slices.Clone(data), 'x'), "foreign": []byte("written by someone else"),
	} {
		name := "damage/" + what
		o := Put(t, s, name, data)
		h.Replace(t, s, name, now)
		got, err := read(t.Context(), s, o)
		var d *blob.Damaged
		if !errors.As(err, &d) || d.Name != name || d.Place != s.String() || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: read %d bytes, %v", what, len(got), err)
		}
		if len(now) < len(data) {
			if _, err := blob.NewAt(t.Context(), s, name, o.Size).ReadAt(make([]byte, 10), o.Size-10); !errors.As(err, &d) {
				t.Errorf("%s, read in parts: %v", what, err)
			}
		}
		if err := s.Delete(t.Context(), name); err != nil {
			t.Errorf("delete what is %s: %v", what, err)
		}
	}
	o := Put(t, s, "damage/beside", data)
	if _, err := read(t.Context(), s, o); err != nil {
		t.Errorf("an object beside damaged ones: %v", err)
	}
}

func marks(t *testing.T, h Harness) {
	open := h.New(t)
	found := make([]string, 4)
	var all sync.WaitGroup
	for i := range found {
		s := open()
		all.Go(func() {
			var err error
			if found[i], err = blob.Mark(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if found[0] == "" || slices.ContainsFunc(found, func(m string) bool { return m != found[0] }) {
		t.Errorf("four servers over one place see %q", found)
	}
	other, err := blob.Mark(t.Context(), h.New(t)())
	if err != nil || other == found[0] {
		t.Errorf("another place has the mark %q, %v", other, err)
	}
	h.Replace(t, open(), blob.MarkName, []byte("somebody's"))
	var d *blob.Damaged
	if m, err := blob.Mark(t.Context(), open()); !errors.As(err, &d) {
		t.Errorf("a foreign mark: %q, %v", m, err)
	}
}

func contexts(t *testing.T, h Harness) {
	s := h.New(t)()
	data := content(600 << 10)
	o := Put(t, s, "x", data)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := blob.Open(ctx, s, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("read on: %v", err)
	}
	begun := time.Now()
	if err := s.Put(ctx, Of("y", data), bytes.NewReader(data)); err == nil {
		t.Error("put after the end of the context")
	}
	if _, err := s.Stat(t.Context(), "y"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("it is there: %v", err)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}
