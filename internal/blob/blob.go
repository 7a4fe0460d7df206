// Package blob stores objects under names: artifacts now, archives and backups
// later. An object never changes. It appears whole under its name or not at
// all, whatever fails meanwhile, and no two objects ever have one name.
//
//	Object{Name, Size, SHA256} + content ──▶ Store.Put ─▶ a folder, a bucket, or the database
//	Object ──▶ Open ─▶ Store.Get ─▶ the content, compared with its SHA-256
//
// Stores keep content as it is, without a frame, so that other programs can
// read it. Whoever writes an object remembers its size and SHA-256: an artifact
// has it in its name. Open and At find an object that was truncated, damaged or
// written by someone else, and name it.
//
// The objects of a tenant have names below tenants/ID/, see Of. Every store
// passes one suite, blobtest. The package starts nothing and decides nothing
// about retention.
package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Store is a place for objects. Its errors name the place and, where they are about one object, the object.
type Store interface {
	// Put stores an object, unless there is one of its name: ErrExists. Of two at once, one succeeds. A Put whose answer was lost may
	// answer ErrExists when it is repeated. Content that is not the object's is refused.
	Put(ctx context.Context, o Object, content io.ReaderAt) error
	// Get reads up to n bytes of an object from an offset; there are fewer if it ends before. A read of an object that is deleted
	// meanwhile may break off.
	Get(ctx context.Context, name string, from, n int64) (io.ReadCloser, error)
	// Stat returns an object's size; ErrNotFound if there is none.
	Stat(ctx context.Context, name string) (Info, error)
	// List returns up to limit objects whose names begin with a prefix and come after another name, in order of their names' bytes.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Delete removes an object; ErrNotFound if there is none.
	Delete(ctx context.Context, name string) error
	// String names the place, for people.
	String() string
}

// The errors on which callers decide.
var (
	ErrNotFound = errors.New("no such object")
	ErrExists   = errors.New("the object exists")
	ErrNoRoom   = errors.New("no room is left for objects")
	// ErrUnavailable says that the place cannot be reached, or is too slow.
	ErrUnavailable = errors.New("the objects cannot be reached")
	// ErrRefused says that the place refuses what it is asked: the credentials are wrong, the bucket does not exist, or nothing may be written there.
	ErrRefused = errors.New("the place for objects refuses")
)

// Object describes the content stored under a name: at least one byte.
type Object struct {
	Name   string
	Size   int64
	SHA256 [sha256.Size]byte
}

// Check refuses an object that no place stores: an empty one, or one of a bad name.
func (o Object) Check() error {
	if err := CheckName(o.Name); err != nil {
		return err
	}
	if o.Size < 1 {
		return fmt.Errorf("the object %s is empty; want one byte or more", o.Name)
	}
	return nil
}

// Info describes a stored object, as its place does.
type Info struct {
	Name string
	Size int64
}

// Damaged says that what a place has under a name is not what was stored there.
type Damaged struct{ Place, Name, Why string }

func (d *Damaged) Error() string {
	return fmt.Sprintf("%s in %s is damaged or was not written by Carillon: %s", d.Name, d.Place, d.Why)
}

// TooLarge says that a place does not take objects of a size.
type TooLarge struct {
	Place       string
	Size, Limit int64
}

func (t *TooLarge) Error() string {
	return fmt.Sprintf("the object has %d bytes; %s takes at most %d", t.Size, t.Place, t.Limit)
}

// The limits of names.
const (
	maxName    = 512
	maxSegment = 200
)

// CheckName refuses names that some place could not store, or that would lead out of it. A name has segments of letters,
// digits and ._=- with slashes between them; no segment begins with a dot. Beside an object a/b there must be none whose name
// begins with a/b/: a folder could not store both.
func CheckName(name string) error {
	bad := func(why string) error {
		return fmt.Errorf("the name %.80q of an object %s; want segments of letters, digits and ._=- that do not begin with a dot, with slashes between them", name, why)
	}
	if len(name) > maxName {
		return bad(fmt.Sprintf("has more than %d bytes", maxName))
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return bad("has an empty segment")
		case part[0] == '.':
			return bad("has a segment that begins with a dot")
		case len(part) > maxSegment:
			return bad(fmt.Sprintf("has a segment of more than %d bytes", maxSegment))
		}
		for i := range len(part) {
			c := part[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._=-", c) >= 0) {
				return bad(fmt.Sprintf("has the character %q", c))
			}
		}
	}
	return nil
}

const ofTenants = "tenants/"

// Of returns the name of an object of a tenant.
func Of(t tenant.ID, rest string) string { return ofTenants + string(t) + "/" + rest }

// TenantOf returns the tenant that the object of a name belongs to; empty: the installation.
func TenantOf(name string) tenant.ID {
	rest, ok := strings.CutPrefix(name, ofTenants)
	if !ok {
		return ""
	}
	t, _, _ := strings.Cut(rest, "/")
	return tenant.ID(t)
}

// Each calls f for every object whose name begins with a prefix, in order of the names' bytes.
func Each(ctx context.Context, s Store, prefix string, f func(Info) error) error {
	const page = 1000
	after := ""
	for {
		all, err := s.List(ctx, prefix, after, page)
		if err != nil {
			return err
		}
		for _, x := range all {
			if err := f(x); err != nil {
				return err
			}
			after = x.Name
		}
		if len(all) < page {
			return nil
		}
	}
}

// Exact reads the content of an object that is to be stored, and fails at its end if it is another.
func Exact(ctx context.Context, o Object, content io.ReaderAt) io.Reader {
	return &exact{ctx: ctx, r: io.NewSectionReader(content, 0, o.Size+1), o: o, hash: sha256.New(), wrong: func(why string) error {
		return fmt.Errorf("the content given for %s %s", o.Name, why)
	}}
}

// Open reads a whole object. At its end it returns *Damaged instead of io.EOF if the content is not the object's.
func Open(ctx context.Context, s Store, o Object) (io.ReadCloser, error) {
	r, err := s.Get(ctx, o.Name, 0, o.Size+1)
	if err != nil {
		return nil, err
	}
	return &opened{exact{ctx: ctx, r: r, o: o, hash: sha256.New(), wrong: func(why string) error {
		return &Damaged{s.String(), o.Name, "it " + why}
	}}, r}, nil
}

type opened struct {
	exact
	io.Closer
}

// exact compares what it reads with an object.
type exact struct {
	ctx  context.Context
	r    io.Reader
	o    Object
	n    int64
	hash interface {
		Sum([]byte) []byte
		io.Writer
	}
	wrong func(why string) error
}

func (e *exact) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := e.r.Read(p)
	e.hash.Write(p[:n])
	e.n += int64(n)
	switch {
	case e.n > e.o.Size:
		return 0, e.wrong(fmt.Sprintf("has more than %d bytes", e.o.Size))
	case err == nil || !errors.Is(err, io.EOF):
		return n, err
	case e.n < e.o.Size:
		return n, e.wrong(fmt.Sprintf("ends after %d of %d bytes", e.n, e.o.Size))
	}
	if got := [sha256.Size]byte(e.hash.Sum(nil)); got != e.o.SHA256 {
		return n, e.wrong(fmt.Sprintf("has the SHA-256 %x, want %x", got, e.o.SHA256))
	}
	return n, io.EOF
}
