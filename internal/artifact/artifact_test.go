package artifact

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

type file struct {
	name string
	text string
	kind byte // of a tar; 0: a file
	mode int64
}

func tarOf(t *testing.T, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: f.mode, Size: int64(len(f.text))}
		if f.kind != 0 {
			h.Typeflag, h.Size, h.Linkname = f.kind, 0, "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			io.WriteString(w, f.text)
		}
	}
	w.Close()
	return b.Bytes()
}

func gzipOf(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func zipOf(t *testing.T, change func(*zip.FileHeader), files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		if change != nil {
			change(h)
		}
		out, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f.name, "/") {
			io.WriteString(out, f.text)
		}
	}
	w.Close()
	return b.Bytes()
}

// memory is an artifact that is not on disk.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

func inMemory(data []byte) Blob { return memory{bytes.NewReader(data)} }

func TestUnpack(t *testing.T) {
	t.Parallel()
	files := []file{{name: "./", kind: tar.TypeDir}, {name: "./bin/run", text: "#!/bin/sh", mode: 0o644}, {name: "lib/", kind: tar.TypeDir}, {name: "lib/a.so", text: "x", mode: 0o755}}
	for kind, data := range map[Kind][]byte{Tar: tarOf(t, files...), TarGzip: gzipOf(tarOf(t, files...)), Zip: zipOf(t, nil, file{name: "bin/run", text: "#!/bin/sh"}, file{name: "lib/"}, file{name: "lib/a.so", text: "x"})} {
		l, err := List(t.Context(), inMemory(data), DefaultLimits)
		if err != nil || l.Kind != kind || !l.Has("bin/run") || !l.Has("./lib/a.so") || l.Has("lib") || l.Has("run") {
			t.Errorf("%s: %+v, %v", kind, l, err)
		}
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if program, err := Unpack(t.Context(), inMemory(data), DefaultLimits, root, "bin/run"); err != nil || program != filepath.Join("bin", "run") {
			t.Errorf("%s: %q, %v", kind, program, err)
		}
		if info, err := os.Stat(filepath.Join(dir, "bin", "run")); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: the program: %v, %v", kind, info, err)
		}
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if program, err := Unpack(t.Context(), inMemory([]byte("#!/bin/sh")), DefaultLimits, root, ""); err != nil || program != DefaultName {
		t.Errorf("%q, %v", program, err)
	}
}

func TestWhatCouldDoHarmIsNotUnpacked(t *testing.T) {
	t.Parallel()
	many := make([]file, 30)
	for i := range many {
		many[i].name = fmt.Sprint("f", i)
	}
	small := Limits{Entries: 20, Bytes: 40 << 10, Ratio: 10, Free: 16 << 10}
	zeros := strings.Repeat("\x00", 20<<10)
	lying := zipOf(t, nil, file{name: "a", text: "x"})
	copy(lying[bytes.LastIndex(lying, []byte("PK\x05\x06"))+10:], "\xff\xff") // announces a zip64
	bad := map[string][]byte{
		"leads out of its folder": tarOf(t, file{name: "a/../../out", text: "x"}),
		"leads out":               zipOf(t, nil, file{name: "../out", text: "x"}),
		"is an absolute path":     zipOf(t, nil, file{name: "/etc/cron.d/x", text: "x"}),
		"is an absolute":          tarOf(t, file{name: "/etc/cron.d/x", text: "x"}),
		"holds a backslash":       zipOf(t, nil, file{name: `..\out`, text: "x"}),
		"is not a name":           tarOf(t, file{name: "a\x01b", text: "x"}),
		"is a link":               tarOf(t, file{name: "l", kind: tar.TypeSymlink}),
		"a link; only":            tarOf(t, file{name: "l", kind: tar.TypeLink}),
		"is a link or a device":   zipOf(t, func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, file{name: "l", text: "/etc"}),
		"neither a file":          tarOf(t, file{name: "d", kind: tar.TypeChar}),
		"neither a file nor":      gzipOf(tarOf(t, file{name: "p", kind: tar.TypeFifo})),
		"more than 20 files":      tarOf(t, many...),
		"than 20 files":           zipOf(t, nil, many...),
		"twice":                   tarOf(t, file{name: "a", text: "x"}, file{name: "./a", text: "y"}),
		"which is a file":         tarOf(t, file{name: "a", text: "x"}, file{name: "a/b", text: "y"}),
		"times its size":          gzipOf(tarOf(t, file{name: "a", text: zeros})),
		"more than 10 times":      zipOf(t, nil, file{name: "a", text: zeros}),
		"larger than 40960":       tarOf(t, file{name: "a", text: zeros}, file{name: "b", text: zeros}, file{name: "c", text: zeros}),
		"cannot be read":          gzipOf([]byte("no tar")),
		"to its end":              gzipOf(tarOf(t, file{name: "a", text: "x"}))[:40],
		"has no end":              []byte("PK\x03\x04 and nothing else"),
		"its directory":           lying,
	}
	for why, data := range bad {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := List(t.Context(), inMemory(data), small); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("list: %v, want %q", err, why)
		}
		if _, err := Unpack(t.Context(), inMemory(data), small, root, "a"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("unpack: %v, want %q", err, why)
		}
		root.Close()
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte("PK\x05\x06"))
	f.Add(gzipOf([]byte("x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := List(t.Context(), inMemory(data), Limits{Entries: 100, Bytes: 1 << 20, Ratio: 100})
		var no *Unsafe
		var large *TooLarge
		if err != nil && !errors.As(err, &no) && !errors.As(err, &large) {
			t.Errorf("got %T: %v", err, err)
		}
		for name := range l.files {
			if !filepath.IsLocal(name) {
				t.Errorf("it lists %q", name)
			}
		}
	})
}

// storeIn keeps artifacts in a folder.
func storeIn(t *testing.T, dir string, limit, quota int64) *Store {
	t.Helper()
	return NewStore(folder.New(dir), t.TempDir(), limit, quota)
}

func TestStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "artifacts")
	f := storeIn(t, dir, 100, 1<<20)
	ctx := t.Context()
	sum := sha256.Sum256([]byte("program"))
	id := hex.EncodeToString(sum[:])
	for i, known := range []bool{false, true} {
		k, err := f.Put(ctx, "acme", strings.NewReader("program"), 7)
		if err != nil || k != (Kept{id, 7, known}) {
			t.Errorf("%d: %+v, %v", i, k, err)
		}
	}
	b, err := f.Open(ctx, "acme", id)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if data, err := io.ReadAll(b); err != nil || string(data) != "program" || b.Size() != 7 {
		t.Errorf("%s, %v", data, err)
	}
	for _, x := range []struct {
		t  tenant.ID
		id string
	}{{"other", id}, {"acme", strings.Repeat("0", 64)}, {"acme", "../acme/" + id}, {"..", id}, {"acme/../acme", id}, {"", id}, {"acme", strings.ToUpper(id)}} {
		if _, err := f.Open(ctx, x.t, x.id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s %s: %v", x.t, x.id, err)
		}
	}
	var large *TooLarge
	if _, err := f.Put(ctx, "acme", strings.NewReader(strings.Repeat("x", 101)), -1); !errors.As(err, &large) {
		t.Errorf("too large: %v", err)
	}
	if _, err := f.Put(ctx, "acme", strings.NewReader(""), 0); !errors.Is(err, ErrEmpty) {
		t.Errorf("empty: %v", err)
	}
	if _, err := f.Put(ctx, "acme", io.MultiReader(strings.NewReader("half"), failing{}), 8); err == nil {
		t.Error("half of one was kept")
	}
	left, err := os.ReadDir(filepath.Join(dir, "tenants", "acme", "artifacts"))
	if spooled, err := os.ReadDir(f.spool); err != nil || len(spooled) != 0 {
		t.Errorf("left of uploads: %v, %v", spooled, err)
	}
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the line broke") }

func TestInspectorAsksWhoseItIs(t *testing.T) {
	t.Parallel()
	f := storeIn(t, t.TempDir(), 1<<20, 1<<30)
	k, err := f.Put(t.Context(), "acme", bytes.NewReader(tarOf(t, file{name: "a", text: "x"})), -1)
	if err != nil {
		t.Fatal(err)
	}
	i := NewInspector(f)
	for range 2 {
		if l, err := i.Inspect(t.Context(), "acme", k.ID); err != nil || !l.Has("a") {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if _, err := i.Inspect(t.Context(), "other", k.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("another tenant sees it: %v", err)
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	content := map[string]string{}
	ids := make([]string, 3)
	for i := range ids {
		text := strings.Repeat(fmt.Sprint(i), 40)
		sum := sha256.Sum256([]byte(text))
		ids[i] = hex.EncodeToString(sum[:])
		content[ids[i]] = text
	}
	var fetched atomic.Int32
	var damage atomic.Bool
	dir := t.TempDir()
	fetch := func(_ context.Context, _ tenant.ID, id string) (io.ReadCloser, error) {
		fetched.Add(1)
		if damage.Load() {
			return io.NopCloser(strings.NewReader("something else")), nil
		}
		return io.NopCloser(strings.NewReader(content[id])), nil
	}
	c := NewCache(dir, 100, fetch)
	open := func(id string) {
		t.Helper()
		b, err := c.Open(t.Context(), "acme", id)
		if err != nil {
			t.Error(err)
			return
		}
		defer b.Close()
		if data, err := io.ReadAll(b); err != nil || string(data) != content[id] {
			t.Errorf("%q, %v", data, err)
		}
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { open(ids[0]) })
	}
	all.Wait()
	if n := fetched.Load(); n != 1 {
		t.Errorf("downloaded %d times, want once", n)
	}
	open(ids[1])
	open(ids[2]) // the folder holds two: one goes
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("%d files are kept", len(files))
	}
	damage.Store(true)
	if err := os.WriteFile(filepath.Join(dir, ids[2]), []byte("tampered"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = NewCache(dir, 100, fetch) // as after a restart
	if _, err := c.Open(t.Context(), "acme", ids[2]); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("%v: what is damaged was taken", err)
	}
	damage.Store(false)
	open(ids[2])
}

// Headers that belong to no entry are counted, too: one look for the next entry may read any number of them.
func TestAnArchiveOfHeadersIsNotReadForever(t *testing.T) {
	t.Parallel()
	for _, kind := range []byte{tar.TypeXHeader, tar.TypeXGlobalHeader} {
		var one bytes.Buffer
		w := tar.NewWriter(&one)
		h := &tar.Header{Name: "f", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"comment": "x"}}
		if kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: kind, PAXRecords: map[string]string{"comment": "x"}}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		headers := bytes.Repeat(one.Bytes()[:1024], 1000)
		if headers[156] != kind {
			t.Fatalf("the header is a %q", headers[156])
		}
		limits := Limits{Entries: 10, Bytes: 100 << 10, Ratio: 1000, Free: 1 << 20}
		_, err := List(t.Context(), inMemory(gzipOf(headers)), limits)
		if large := new(TooLarge); !errors.As(err, &large) {
			t.Errorf("%q: %v", kind, err)
		}
		limits.Bytes, limits.Ratio, limits.Free = 1<<30, 2, 1<<10
		_, err = List(t.Context(), inMemory(gzipOf(headers)), limits)
		if no := new(Unsafe); !errors.As(err, &no) || !strings.Contains(no.Why, "times its size") {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

// What is known, and who no longer waits, is not held up by an artifact that takes long to read.
func TestInspectingWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := storeIn(t, t.TempDir(), 1<<20, 1<<30)
	i := NewInspector(f)
	put := func(text string) string {
		k, err := f.Put(t.Context(), tenant.Default, strings.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		return k.ID
	}
	known, fresh := put("one"), put("two")
	if _, err := i.Inspect(t.Context(), tenant.Default, known); err != nil {
		t.Fatal(err)
	}
	i.turn <- struct{}{} // somebody reads a large one
	if l, err := i.Inspect(t.Context(), tenant.Default, known); err != nil || l.Kind != File {
		t.Errorf("%+v, %v", l, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Inspect(ctx, tenant.Default, fresh); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-i.turn
	if _, err := i.Inspect(t.Context(), tenant.Default, fresh); err != nil {
		t.Error(err)
	}
}

func TestAFullDiskIsTold(t *testing.T) {
	for _, e := range noRoom {
		if err := full(&fs.PathError{Op: "write", Path: "x", Err: e}); !errors.Is(err, ErrNoRoom) {
			t.Errorf("%v is not taken for a full disk", e)
		}
	}
	if err := full(fs.ErrPermission); errors.Is(err, ErrNoRoom) {
		t.Error("what is forbidden is taken for a full disk")
	}
}

// What lies under an artifact's name and is not the artifact is found: by its length at once, else when it is read to its end.
func TestADamagedArtifactIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := storeIn(t, dir, 100, 1000)
	k, err := f.Put(t.Context(), "acme", strings.NewReader("program"), 7)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tenants", "acme", "artifacts", k.ID)
	read := func() error {
		b, err := f.Open(t.Context(), "acme", k.ID)
		if err != nil {
			return err
		}
		defer b.Close()
		_, err = io.Copy(io.Discard, b)
		return err
	}
	for _, text := range []string{"Program", "progra", "programs"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var d *blob.Damaged
		if err := read(); !errors.As(err, &d) || !strings.Contains(d.Name, k.ID) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if again, err := f.Put(t.Context(), "acme", strings.NewReader("program"), 7); err != nil || again.Known || read() != nil {
		t.Errorf("put in place of one of another length: %+v, %v, %v", again, err, read())
	}
}

// Several uploads that end at once do not pass the quota together, and one that is there counts once.
func TestTheQuotaHoldsForUploadsAtOnce(t *testing.T) {
	t.Parallel()
	f := storeIn(t, t.TempDir(), 100, 250)
	var all sync.WaitGroup
	var kept atomic.Int32
	for n := range 8 {
		all.Go(func() {
			_, err := f.Put(t.Context(), "acme", strings.NewReader(strings.Repeat(fmt.Sprint(n), 100)), []int64{100, -1}[n%2])
			var over *OverQuota
			if err == nil {
				kept.Add(1)
			} else if !errors.As(err, &over) || over.Limit != 250 {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	all.Wait()
	if kept.Load() > 2 {
		t.Errorf("%d artifacts of 100 bytes were kept, and 250 bytes are allowed", kept.Load())
	}
	if len(f.coming) != 0 {
		t.Errorf("uploads that have ended count: %v", f.coming)
	}
	if _, err := f.Put(t.Context(), "other", strings.NewReader("x"), 1); err != nil {
		t.Errorf("another tenant's: %v", err)
	}
}
