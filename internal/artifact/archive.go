package artifact

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Kind is the form of an artifact.
type Kind string

// The kinds.
const (
	Tar     Kind = "tar"
	TarGzip Kind = "tar.gz"
	Zip     Kind = "zip"
	File    Kind = "file" // not an archive but the program itself
)

// Limits limits what an archive may unpack to.
type Limits struct {
	Entries int   // files and folders
	Bytes   int64 // of all files together
	Ratio   int64 // unpacked to packed …
	Free    int64 // … beyond so many bytes
}

// DefaultLimits limits archives by default.
var DefaultLimits = Limits{Entries: 10_000, Bytes: 1 << 30, Ratio: 200, Free: 16 << 20}

const maxDirectory = 4 << 20 // bytes of a zip's directory, which is read into memory

// Unsafe says why an archive is not unpacked.
type Unsafe struct{ Why string }

func (u *Unsafe) Error() string { return u.Why }

func unsafe(format string, args ...any) error { return &Unsafe{fmt.Sprintf(format, args...)} }

// sniff detects the kind of an artifact from its first bytes.
func sniff(b io.ReaderAt) (Kind, error) {
	head := make([]byte, 512)
	n, err := b.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return Zip, nil
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return TarGzip, nil
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return Tar, nil
	}
	return File, nil
}

// entry is a file or folder in an archive, by its clean name.
type entry struct {
	name string
	dir  bool
	exec bool
}

// visit is called for each entry, with the content of files. Unread content counts too.
type visit func(e entry, r io.Reader) error

// walk visits every entry of an archive, and refuses harmful ones. An artifact that is not an archive has no entries.
func walk(ctx context.Context, b Blob, limits Limits, v visit) (Kind, error) {
	kind, err := sniff(b)
	if err != nil {
		return "", err
	}
	w := &walker{visit: v, limits: limits, seen: map[string]bool{}, packed: b.Size(), ctx: ctx}
	switch kind {
	case Zip:
		return kind, w.zip(b)
	case Tar:
		return kind, w.tar(&bounded{w: w, r: io.NewSectionReader(b, 0, b.Size())})
	case TarGzip:
		z, err := gzip.NewReader(io.NewSectionReader(b, 0, b.Size()))
		if err != nil {
			return kind, unsafe("it begins as gzip does, but cannot be read: %v", err)
		}
		return kind, w.tar(&bounded{w: w, r: z})
	case File:
	}
	return kind, nil
}

// walker counts what it has visited.
type walker struct {
	ctx     context.Context
	visit   visit
	limits  Limits
	packed  int64
	seen    map[string]bool // by name; true: a folder
	entries int
	bytes   int64
}

func (w *walker) tar(r io.Reader) error {
	t := tar.NewReader(&interruptible{w.ctx, r})
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return w.unreadable(err)
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = w.show(h.Name, h.FileInfo().Mode(), t)
		case tar.TypeDir:
			err = w.show(h.Name, h.FileInfo().Mode()|fs.ModeDir, nil)
		case tar.TypeXGlobalHeader: // metadata of git archive
		case tar.TypeSymlink, tar.TypeLink:
			err = unsafe("%q is a link; only files and folders are unpacked", short(h.Name))
		default:
			err = unsafe("%q is neither a file nor a folder", short(h.Name))
		}
		if err != nil {
			return err
		}
	}
}

func (w *walker) zip(b Blob) error {
	if err := checkDirectory(b); err != nil {
		return err
	}
	z, err := zip.NewReader(b, b.Size())
	if err != nil {
		return unsafe("it begins as a zip does, but cannot be read: %v", err)
	}
	for _, f := range z.File {
		mode := f.Mode()
		if strings.HasSuffix(f.Name, "/") || mode.IsDir() {
			if err := w.show(f.Name, fs.ModeDir|0o700, nil); err != nil {
				return err
			}
			continue
		}
		if !mode.IsRegular() {
			return unsafe("%q is a link or a device; only files and folders are unpacked", short(f.Name))
		}
		if err := w.zipped(f, mode); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) zipped(f *zip.File, mode fs.FileMode) error {
	r, err := f.Open()
	if err != nil {
		return w.unreadable(err)
	}
	defer r.Close()
	return w.show(f.Name, mode, &interruptible{w.ctx, r})
}

// checkDirectory refuses a zip whose directory would take much memory to read, before it is read.
func checkDirectory(b Blob) error {
	const endSize, endMark = 22, "PK\x05\x06"
	n := min(b.Size(), endSize+1<<16)
	tail := make([]byte, n)
	if _, err := b.ReadAt(tail, b.Size()-n); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	at := bytes.LastIndex(tail, []byte(endMark))
	if at < 0 || at+endSize > len(tail) {
		return unsafe("it begins as a zip does, but has no end")
	}
	records := binary.LittleEndian.Uint16(tail[at+10:])
	size, from := int64(binary.LittleEndian.Uint32(tail[at+12:])), int64(binary.LittleEndian.Uint32(tail[at+16:]))
	end := b.Size() - n + int64(at)
	if records == 0xffff || size == 0xffff || size > maxDirectory || from > end || end-from > maxDirectory { // the first two also indicate a zip64
		return unsafe("its directory is larger than %d bytes, or a zip64's", maxDirectory)
	}
	return nil
}

// show checks one entry, and visits it.
func (w *walker) show(name string, mode fs.FileMode, r io.Reader) error {
	if w.entries++; w.entries > w.limits.Entries {
		return unsafe("it holds more than %d files and folders", w.limits.Entries)
	}
	e := entry{dir: mode.IsDir(), exec: mode&0o111 != 0}
	var err error
	if e.name, err = cleanName(name, e.dir); err != nil {
		return err
	}
	if e.name == "." {
		return nil
	}
	if was, ok := w.seen[e.name]; ok && !(was && e.dir) {
		return unsafe("it holds %q twice", short(e.name))
	}
	for up := path.Dir(e.name); up != "."; up = path.Dir(up) {
		if dir, ok := w.seen[up]; ok && !dir {
			return unsafe("%q lies in %q, which is a file", short(e.name), short(up))
		}
		w.seen[up] = true
	}
	w.seen[e.name] = e.dir
	if e.dir {
		return w.visit(e, nil)
	}
	c := &counted{w: w, r: r}
	if err := w.visit(e, c); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, c); err != nil { // content that a listing did not read
		return err
	}
	return nil
}

// cleanName returns the name under which an entry is unpacked: local, and never outside the folder.
func cleanName(name string, dir bool) (string, error) {
	if dir {
		name = strings.TrimRight(name, "/")
		if name == "" || name == "." {
			return ".", nil
		}
	}
	if why := job.BadPath(strings.TrimPrefix(name, "./")); why != "" {
		return "", unsafe("%q %s", short(name), why)
	}
	return path.Clean(name), nil
}

// perEntry limits how much of a tar an entry may take besides its content: names and padding.
const perEntry = 4 << 10

// bounded reads a tar, up to a limit on all of its content. What lies between the entries is not part of any entry,
// and has no end.
type bounded struct {
	w *walker
	r io.Reader
	n int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	held := b.n - int64(b.w.limits.Entries)*perEntry
	if over := b.w.within(held); over != nil {
		return n, over
	}
	return n, err
}

// counted reads a file from an archive, up to a limit shared by all of its files.
type counted struct {
	w *walker
	r io.Reader
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	w := c.w
	w.bytes += int64(n)
	if over := w.within(w.bytes); over != nil {
		return n, over
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, w.unreadable(err)
	}
	return n, err
}

// within returns an error if an archive unpacks to too many bytes.
func (w *walker) within(n int64) error {
	switch {
	case n > w.limits.Bytes:
		return &TooLarge{w.limits.Bytes}
	case n > w.limits.Free && n/w.limits.Ratio > w.packed:
		return unsafe("it unpacks to more than %d times its size", w.limits.Ratio)
	}
	return nil
}

// unreadable returns the error for an archive that is truncated or damaged.
func (w *walker) unreadable(err error) error {
	if ctx := w.ctx.Err(); ctx != nil {
		return ctx
	}
	var no *Unsafe
	var large *TooLarge
	if errors.As(err, &no) || errors.As(err, &large) {
		return err
	}
	return unsafe("it cannot be read to its end: %v", err)
}

func short(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}
