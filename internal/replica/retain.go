package replica

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// retain deletes what is no longer needed to restore any instant of the time to keep.
func (s *Shipper) retain(ctx context.Context) (time.Duration, error) {
	gen := s.current()
	if gen == nil {
		return pruneEvery, nil
	}
	s.mu.Lock()
	had, storing := !gen.snapshot.IsZero(), s.storing
	s.mu.Unlock()
	var v *Survey
	err := s.there(ctx)
	if err == nil {
		v, err = Look(ctx, s.cfg.Place)
	}
	if err == nil {
		err = v.prune(ctx, s.created, s.cfg.Now().Add(-s.cfg.Keep), gen.id, storing)
	}
	if err == nil {
		err = s.there(ctx) // if not, it may have left before Look
	}
	if err != nil && ctx.Err() == nil {
		s.failed(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.gen == gen && had && !v.whole(gen.id) {
		s.restart = errMissing // somebody has deleted it
	}
	return pruneEvery, nil
}

// whole reports whether a generation has a snapshot.
func (v *Survey) whole(id string) bool {
	for _, g := range v.Generations {
		if g.ID == id {
			return slices.ContainsFunc(g.Snapshots, Point.whole)
		}
	}
	return false
}

// prune deletes, of one store's objects, those that are not needed to restore instants after the limit. The generation that is written
// is never deleted, nor is what is stored of the snapshot that is being stored.
func (v *Survey) prune(ctx context.Context, store, limit time.Time, current, storing string) error {
	later := false // a later generation has all of the time to keep
	for i := len(v.Generations) - 1; i >= 0; i-- {
		g := v.Generations[i]
		if !g.Store.Equal(store) {
			continue
		}
		base := -1 // the last snapshot before the limit
		for j, p := range g.Snapshots {
			if !p.Ended.After(limit) && p.whole() {
				base = j
			}
		}
		switch {
		case later && g.ID != current:
			live, err := v.writtenAfter(ctx, g, limit)
			if err == nil && !live {
				err = v.forget(ctx, g)
			}
			if err != nil {
				return err
			}
		case base > 0:
			for _, p := range g.Snapshots[:base] {
				if err := deleteSnapshot(ctx, v.place, p.Name); err != nil {
					return err
				}
			}
		}
		if err := v.orphans(ctx, snapshots+g.ID+"/", storing, g.Snapshots, limit); err != nil {
			return err
		}
		if base >= 0 && !later {
			upTo := g.Snapshots[base].index
			if err := v.forgetMerged(ctx, g.ID, upTo); err != nil {
				return err
			}
			if err := deleteAll(ctx, v.place, segments+g.ID+"/", upTo); err != nil {
				return err
			}
			later = true
		}
	}
	return nil
}

// orphans deletes parts, below a prefix, of snapshots that were never finished and that began before a limit.
func (v *Survey) orphans(ctx context.Context, prefix, storing string, whole []Point, limit time.Time) error {
	return blob.Each(ctx, v.place, prefix, func(x blob.Info) error {
		folder, object := path.Split(x.Name)
		of := strings.TrimSuffix(folder, "/")
		if !known(x.Name) || object == manifest[1:] || of == storing || slices.ContainsFunc(whole, func(p Point) bool { return p.Name == of }) {
			return nil
		}
		began := begunAt(path.Base(of))
		if !strings.HasPrefix(x.Name, backups) {
			began = begunAt(path.Base(of)[13:]) // after the index
		}
		if began.After(limit) {
			return nil
		}
		return v.removeOwn(ctx, x.Name, func(h head) bool { return h.Kind == kindPart })
	})
}

// writtenAfter reports whether a generation was written after an instant.
func (v *Survey) writtenAfter(ctx context.Context, g Generation, limit time.Time) (bool, error) {
	if g.Began.After(limit) {
		return true, nil
	}
	from := int64(0)
	if n := len(g.Snapshots); n > 0 {
		if g.Snapshots[n-1].Ended.After(limit) {
			return true, nil
		}
		from = g.Snapshots[n-1].index
	}
	last, _, err := lastSegment(ctx, v.place, g.ID, from)
	for ; err == nil && last > from; last-- {
		at, bad, err := v.endOf(ctx, g.ID, last)
		if err != nil || bad == nil {
			return at.After(limit), err
		}
	}
	return false, err
}

// forget deletes a generation, its description last.
func (v *Survey) forget(ctx context.Context, g Generation) error {
	for _, p := range g.Snapshots {
		if err := deleteSnapshot(ctx, v.place, p.Name); err != nil {
			return err
		}
	}
	err := v.orphans(ctx, snapshots+g.ID+"/", "", nil, time.Unix(1<<40, 0))
	if err == nil {
		err = v.forgetMerged(ctx, g.ID, 1<<62)
	}
	if err == nil {
		err = v.forgetSegments(ctx, g.ID)
	}
	if err != nil {
		return err
	}
	if !g.described {
		return nil
	}
	return remove(ctx, v.place, generations+g.ID)
}

// forgetSegments deletes the segments of a generation. Somebody else's object with such a name can only be at the end of the row, which
// then could not go on, or beyond it.
func (v *Survey) forgetSegments(ctx context.Context, generation string) error {
	first, err := firstFrom(ctx, v.place, generation, 0)
	if err != nil || first == 0 {
		return err
	}
	last, _, err := lastSegment(ctx, v.place, generation, first-1)
	for ; err == nil && last >= first; last-- {
		var bad error
		if _, bad, err = v.endOf(ctx, generation, last); bad == nil {
			break
		}
	}
	prefix := segments + generation + "/"
	if err == nil {
		err = deleteAll(ctx, v.place, prefix, last)
	}
	if err != nil {
		return err
	}
	return blob.Each(ctx, v.place, prefix, func(x blob.Info) error {
		if !known(x.Name) {
			return nil
		}
		return v.removeOwn(ctx, x.Name, func(h head) bool { return h.Kind == kindSegment && h.Generation == generation })
	})
}

// removeOwn deletes an object if its head says that it is the package's.
func (v *Survey) removeOwn(ctx context.Context, name string, own func(head) bool) error {
	h, err := peekHead(ctx, v.place, name)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.As(err, new(*blob.Damaged)):
		return nil
	case err != nil:
		return err
	case !own(h):
		return nil
	}
	return remove(ctx, v.place, name)
}

// deleteSnapshot deletes a snapshot, its manifest first: without one it is none.
func deleteSnapshot(ctx context.Context, place blob.Store, name string) error {
	if err := remove(ctx, place, name+manifest); err != nil {
		return err
	}
	return deleteAll(ctx, place, name+"/", 1<<62-1)
}

// deleteAll deletes objects of the package below a prefix; of segments, those up to an index.
func deleteAll(ctx context.Context, place blob.Store, prefix string, upTo int64) error {
	enough := errors.New("enough")
	err := blob.Each(ctx, place, prefix, func(x blob.Info) error {
		if !known(x.Name) {
			return nil
		}
		if strings.HasPrefix(x.Name, segments) && indexIn(x.Name[len(x.Name)-12:]) > upTo {
			return enough
		}
		return remove(ctx, place, x.Name)
	})
	if errors.Is(err, enough) {
		return nil
	}
	return err
}

func remove(ctx context.Context, place blob.Store, name string) error {
	if err := place.Delete(ctx, name); !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	return nil
}
