package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// unmarked is what servers share of a place that none of them has marked yet.
const unmarked = "-"

// findMark returns the mark of the place, and makes one where there is none. A folder that should have one and has none is not what it was.
func (p *place) findMark(ctx context.Context) (string, error) {
	if !p.mounted {
		return blob.Mark(ctx, p.Store)
	}
	mark, err := blob.ReadMark(ctx, p.Store)
	if !errors.Is(err, blob.ErrNotFound) {
		return mark, err
	}
	kept, err := p.db.Share(ctx, p.name, []byte(unmarked))
	if err != nil {
		return "", err
	}
	if _, where, _ := strings.Cut(string(kept), " "); where == p.String() {
		return "", p.away()
	} else if string(kept) != unmarked {
		if err := p.replaced(where, p.String()); err != nil { // before it is marked: it may be an empty folder under a mount, too
			return "", err
		}
	}
	return blob.Mark(ctx, p.Store)
}

func (p *place) away() error {
	return fmt.Errorf("%w: %s has no %s, though it had one, so it is empty or another folder; is its file system mounted? Nothing is written there until it is back", blob.ErrUnavailable, p, blob.MarkName)
}

// there fails if the folder is not the one that the servers have agreed on.
func (p *place) there(ctx context.Context) error {
	if !p.mounted {
		return nil
	}
	p.mu.Lock()
	want := p.mark
	p.mu.Unlock()
	mark, err := blob.ReadMark(ctx, p.Store)
	var damaged *blob.Damaged
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return p.away()
	case errors.As(err, &damaged), err == nil && mark != want:
		return fmt.Errorf("%w: the %s in %s is not the one that it had; is the right file system mounted?", blob.ErrRefused, blob.MarkName, p)
	}
	return err
}

// use calls f if the place can be used, and looks again where the file system may have left meanwhile: what was not found, or was stored,
// may be so only in the folder under it.
func (p *place) use(ctx context.Context, f func() error) error {
	if err := p.ready(ctx); err != nil {
		return err
	}
	err := f()
	if err == nil || errors.Is(err, blob.ErrNotFound) {
		if away := p.there(ctx); away != nil {
			return away
		}
	}
	return err
}

func (p *place) Put(ctx context.Context, o blob.Object, content io.ReaderAt) error {
	return p.use(ctx, func() error { return p.Store.Put(ctx, o, content) })
}

func (p *place) Get(ctx context.Context, name string, from, n int64) (r io.ReadCloser, err error) {
	if err := p.ready(ctx); err != nil {
		return nil, err
	}
	r, err = p.Store.Get(ctx, name, from, n)
	if errors.Is(err, blob.ErrNotFound) {
		if away := p.there(ctx); away != nil {
			return nil, away
		}
	}
	return r, err
}

func (p *place) Stat(ctx context.Context, name string) (x blob.Info, err error) {
	err = p.use(ctx, func() error { x, err = p.Store.Stat(ctx, name); return err })
	return x, err
}

func (p *place) List(ctx context.Context, prefix, after string, limit int) (all []blob.Info, err error) {
	err = p.use(ctx, func() error { all, err = p.Store.List(ctx, prefix, after, limit); return err })
	return all, err
}

func (p *place) Delete(ctx context.Context, name string) error {
	return p.use(ctx, func() error { return p.Store.Delete(ctx, name) })
}
