package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// DefaultName is the file name of a program that is not an archive, if the job gives none.
const DefaultName = "program"

// Unpack writes the content of an artifact to a folder: an archive's files, or else the program itself under the name
// given (empty: DefaultName). It returns the path of the program to run. Folders get mode 0700, files 0600 or, if
// executable, 0700; the named one always is.
func Unpack(ctx context.Context, b Blob, limits Limits, into *os.Root, name string) (program string, err error) {
	kind, err := walk(ctx, b, limits, func(e entry, r io.Reader) error {
		local := filepath.FromSlash(e.name)
		if e.dir {
			return into.MkdirAll(local, 0o700)
		}
		if err := into.MkdirAll(filepath.Dir(local), 0o700); err != nil {
			return err
		}
		return write(into, local, e.exec || name != "" && e.name == path.Clean(name), r)
	})
	if err != nil {
		return "", err
	}
	if kind != File {
		return filepath.FromSlash(name), nil
	}
	if name == "" {
		name = DefaultName
	}
	local := filepath.FromSlash(path.Clean(name))
	if err := into.MkdirAll(filepath.Dir(local), 0o700); err != nil {
		return "", err
	}
	return local, write(into, local, true, &interruptible{ctx, io.NewSectionReader(b, 0, b.Size())})
}

func write(into *os.Root, name string, exec bool, r io.Reader) error {
	mode := os.FileMode(0o600)
	if exec {
		mode = 0o700
	}
	f, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// Listing lists the content of an artifact.
type Listing struct {
	Kind  Kind
	files map[string]bool
}

// Has reports whether the artifact holds a file of this name.
func (l *Listing) Has(name string) bool { return l.files[path.Clean(name)] }

// List returns the content of an artifact, or *Unsafe or *TooLarge if it must not be unpacked.
func List(ctx context.Context, b Blob, limits Limits) (*Listing, error) {
	l := &Listing{files: map[string]bool{}}
	kind, err := walk(ctx, b, limits, func(e entry, _ io.Reader) error {
		if !e.dir {
			l.files[e.name] = true
		}
		return nil
	})
	l.Kind = kind
	return l, err
}

// Inspector lists artifacts and caches the last ones: an id determines its listing.
type Inspector struct {
	store *Store
	turn  chan struct{} // one is read at a time: a large one takes seconds

	mu    sync.Mutex
	known []inspected // guarded by mu
}

type inspected struct {
	id   string
	list *Listing
	err  error
}

const remembered = 16

// NewInspector lists the artifacts of a store.
func NewInspector(s *Store) *Inspector { return &Inspector{store: s, turn: make(chan struct{}, 1)} }

// Inspect lists an artifact of the tenant.
func (i *Inspector) Inspect(ctx context.Context, t tenant.ID, id string) (*Listing, error) {
	b, err := i.store.Open(ctx, t, id) // even if it is cached: it may be another tenant's
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if k, ok := i.recall(id); ok {
		return k.list, k.err
	}
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if k, ok := i.recall(id); ok { // the previous holder of the turn may have wanted the same
		return k.list, k.err
	}
	l, err := List(ctx, b, DefaultLimits)
	var no *Unsafe
	var large *TooLarge
	if err != nil && !errors.As(err, &no) && !errors.As(err, &large) {
		return nil, fmt.Errorf("inspect an artifact: %w", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known = append(i.known, inspected{id, l, err})
	if len(i.known) > remembered {
		i.known = i.known[1:]
	}
	return l, err
}

// recall returns the cached listing of an artifact.
func (i *Inspector) recall(id string) (k inspected, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := slices.IndexFunc(i.known, func(k inspected) bool { return k.id == id })
	if at < 0 {
		return k, false
	}
	return i.known[at], true
}
