package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite/walfile"
)

// Every object has one form: magic, length of the head, head (JSON), pages (zstd), SHA-256 of all that. The last is the object's sum.
const (
	magic   = "CRLNRPL1"
	maxHead = 4 << 20
	sumSize = sha256.Size
)

// The kinds of objects.
const (
	kindGeneration = "generation"
	kindSegment    = "segment"
	kindMerged     = "merged" // segments in a row
	kindPart       = "part"
	kindSnapshot   = "snapshot" // the manifest of one; without it there is none
)

// head is the beginning of an object.
type head struct {
	Kind       string    `json:"kind"`
	Store      time.Time `json:"store"` // when the store was created, which tells stores apart
	Generation string    `json:"generation,omitempty"`
	Index      int64     `json:"index"`              // of the segment, of the last one that a snapshot contains, or of the part
	Previous   string    `json:"previous,omitempty"` // sum of the segment before, or of the last one that a snapshot contains; of a generation before the first
	First      int64     `json:"first,omitempty"`    // segment of a merged object
	Last       string    `json:"last,omitempty"`     // sum of the last segment in it
	Least      uint32    `json:"least,omitempty"`    // size, in pages, that the database had after any of them
	PageSize   int       `json:"page_size,omitempty"`
	Pages      int       `json:"pages"`
	Size       uint32    `json:"size,omitempty"` // of the database, in pages
	// Began and Ended enclose the moment: everything acknowledged before Began is there, nothing committed after Ended is.
	Began    time.Time        `json:"began"`
	Ended    time.Time        `json:"ended"`
	Position walfile.Position `json:"position,omitzero"`
	Parts    []part           `json:"parts,omitempty"`
	Host     string           `json:"host,omitempty"`
	Version  string           `json:"version,omitempty"`
	Epoch    int64            `json:"epoch,omitempty"`
	After    string           `json:"after,omitempty"` // the generation that one follows, whatever the clock says
}

// part is an object with some pages of a snapshot.
type part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sum"`
}

// object is a whole object in a file.
type object struct {
	file string
	size int64
	hash [sha256.Size]byte // of the file
	sum  string
}

// writer writes an object into a file.
type writer struct {
	f     *os.File
	file  string
	sums  io.Writer // the file, and both hashes
	inner hash.Hash // of everything before the sum
	outer hash.Hash // of the file
	z     *zstd.Encoder
	pages int
	bytes int64
}

// newWriter begins an object of which the head is known.
func newWriter(file string, h head) (*writer, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	w := &writer{f: f, file: file, inner: sha256.New(), outer: sha256.New()}
	w.sums = io.MultiWriter(f, w.inner, w.outer)
	start := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(text)))
	if _, err = w.sums.Write(append(start, text...)); err == nil {
		w.z, err = zstd.NewWriter(w.sums, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	}
	if err != nil {
		return nil, errors.Join(err, w.abort())
	}
	return w, nil
}

// page adds a page.
func (w *writer) page(number uint32, data []byte) error {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], number)
	w.pages++
	w.bytes += int64(len(data))
	_, err := w.z.Write(n[:])
	if err == nil {
		_, err = w.z.Write(data)
	}
	return err
}

// finish ends the object.
func (w *writer) finish() (object, error) {
	if err := w.z.Close(); err != nil {
		return object{}, errors.Join(err, w.abort())
	}
	sum := w.inner.Sum(nil)
	_, err := w.sums.Write(sum)
	var size int64
	if err == nil {
		size, err = w.f.Seek(0, io.SeekCurrent)
	}
	if err != nil {
		return object{}, errors.Join(err, w.abort())
	}
	return object{w.file, size, [sha256.Size]byte(w.outer.Sum(nil)), hex.EncodeToString(sum)}, w.f.Close()
}

// abort removes the file.
func (w *writer) abort() error { return errors.Join(w.f.Close(), os.Remove(w.file)) }

// intact fails if the file is not what was written.
func (o object) intact() error {
	data, err := os.ReadFile(o.file)
	if err != nil {
		return fmt.Errorf("a segment that waited to be stored was lost: %w", err)
	}
	if sha256.Sum256(data) != o.hash {
		return fmt.Errorf("a segment that waited to be stored was damaged: %s", o.file)
	}
	return nil
}

// put stores an object. One of that name with the same content is the same object, which was put before without an answer.
func (o object) put(ctx context.Context, place blob.Store, name string) error {
	f, err := os.Open(o.file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = place.Put(ctx, blob.Object{Name: name, Size: o.size, SHA256: o.hash}, f)
	if !errors.Is(err, blob.ErrExists) {
		return err
	}
	r, bad := blob.Open(ctx, place, blob.Object{Name: name, Size: o.size, SHA256: o.hash})
	if bad != nil {
		return bad
	}
	defer r.Close()
	_, bad = io.Copy(io.Discard, r)
	var other *blob.Damaged
	switch {
	case errors.As(bad, &other):
		return err // another object
	case bad != nil:
		return bad
	}
	return nil
}

// putHead stores an object without pages.
func putHead(ctx context.Context, place blob.Store, name string, h head, folder string) (sum string, err error) {
	w, err := newWriter(folder+"/"+h.Kind+partial, h)
	if err != nil {
		return "", err
	}
	defer os.Remove(w.file)
	o, err := w.finish()
	if err == nil {
		err = o.put(ctx, place, name)
	}
	return o.sum, err
}

// parsed is an object that was read whole and is what its sum says.
type parsed struct {
	head
	sum  string
	body []byte // compressed
}

// damaged says what is wrong with an object.
func damaged(place blob.Store, name, why string) error {
	return &blob.Damaged{Place: place.String(), Name: name, Why: why}
}

// fetch reads a whole object and verifies it.
func fetch(ctx context.Context, place blob.Store, name string, limit int64) (parsed, error) {
	r, err := place.Get(ctx, name, 0, limit+1)
	if err != nil {
		return parsed{}, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return parsed{}, err
	}
	if int64(len(data)) > limit {
		return parsed{}, damaged(place, name, fmt.Sprintf("it has more than %d bytes", limit))
	}
	p, why := parse(data)
	if why != "" {
		return p, damaged(place, name, why)
	}
	return p, nil
}

// parse verifies the content of an object; why says what is wrong with it.
func parse(data []byte) (p parsed, why string) {
	if len(data) < len(magic)+4+sumSize || string(data[:len(magic)]) != magic {
		return p, "it does not begin or end as an object of a replica"
	}
	content, sum := data[:len(data)-sumSize], data[len(data)-sumSize:]
	if got := sha256.Sum256(content); !bytes.Equal(got[:], sum) {
		return p, fmt.Sprintf("its content has the SHA-256 %x, want %x", got, sum)
	}
	rest := content[len(magic):]
	n := int64(binary.BigEndian.Uint32(rest))
	if n > maxHead || n > int64(len(rest)-4) {
		return p, "its head is longer than it"
	}
	if err := json.Unmarshal(rest[4:4+n], &p.head); err != nil {
		return p, "its head cannot be read: " + err.Error()
	}
	p.sum, p.body = hex.EncodeToString(sum), rest[4+n:]
	return p, ""
}

// each calls f for every page. The data is valid during the call only.
func (p parsed) each(f func(number uint32, data []byte) error) (pages int, err error) {
	if p.PageSize < 512 || p.PageSize > 1<<16 {
		return 0, fmt.Errorf("it has pages of %d bytes", p.PageSize)
	}
	z, err := zstd.NewReader(bytes.NewReader(p.body), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	defer z.Close()
	buf := make([]byte, 4+p.PageSize)
	for ; ; pages++ {
		if _, err := io.ReadFull(z, buf); errors.Is(err, io.EOF) {
			return pages, nil
		} else if err != nil {
			return pages, err
		}
		number := binary.BigEndian.Uint32(buf)
		if number == 0 || number > p.Size {
			return pages, fmt.Errorf("it has a page %d of %d", number, p.Size)
		}
		if err := f(number, buf[4:]); err != nil {
			return pages, err
		}
	}
}

// peekHead reads the head of an object without verifying the rest.
func peekHead(ctx context.Context, place blob.Store, name string) (h head, err error) {
	const first = 8 << 10
	r, err := place.Get(ctx, name, 0, first)
	if err != nil {
		return h, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return h, err
	}
	if len(data) < len(magic)+4 || string(data[:len(magic)]) != magic {
		return h, damaged(place, name, "it does not begin as an object of a replica")
	}
	n := binary.BigEndian.Uint32(data[len(magic):])
	data = data[len(magic)+4:]
	if int64(n) > int64(len(data)) {
		return h, damaged(place, name, "it ends within its head")
	}
	if err := json.Unmarshal(data[:n], &h); err != nil {
		return h, damaged(place, name, "its head cannot be read: "+err.Error())
	}
	return h, nil
}
