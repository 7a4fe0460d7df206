package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// Survey is what a place holds.
type Survey struct {
	Generations []Generation // by their beginning
	Backups     []Point      // by time
	// Ignored are objects, and names, that are not what they should be. Nothing is restored from them, and nothing deletes them.
	Ignored []string

	place  blob.Store
	unread []unread
}

// Generation is one row of segments.
type Generation struct {
	ID        string
	Store     time.Time // when the store was created
	Host      string
	Began     time.Time
	Epoch     int64
	Snapshots []Point // whole ones, by time

	described bool   // its description was read, and not only a manifest
	after     string // the generation that it follows
	cut       int64  // the first segment that turned out to be damaged; 0: none has
}

// Point is a snapshot from which a store can be restored.
type Point struct {
	Name  string
	Store time.Time
	Host  string
	Began time.Time // everything acknowledged before is there
	Ended time.Time // nothing committed after is
	Bytes int64

	index int64
	epoch int64
	lacks string // a part that is missing or has another size
}

// whole reports whether all parts are there.
func (p Point) whole() bool { return p.lacks == "" }

// Index returns the last segment that the snapshot contains.
func (p Point) Index() int64 { return p.index }

// unread is an object that has the name of a description or a manifest, and cannot be read as one.
type unread struct {
	generation string    // empty: a backup's
	at         time.Time // the beginning of the generation, or the end of the snapshot, by the name
	index      int64     // of the snapshot; -1: a description
	err        error
}

// Look finds out what a place holds. It reads the manifests, and neither parts nor segments.
func Look(ctx context.Context, place blob.Store) (*Survey, error) {
	v := &Survey{place: place}
	err := blob.Each(ctx, place, generations, func(x blob.Info) error {
		p, err := v.read(ctx, x.Name, kindGeneration)
		if err == nil && p != nil {
			v.Generations = append(v.Generations, Generation{ID: p.Generation, Store: p.Store, Host: p.Host, Began: p.Began, Epoch: p.Epoch, described: true, after: p.After})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	all, err := v.points(ctx, snapshots)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		id, _, _ := strings.Cut(strings.TrimPrefix(p.Name, snapshots), "/")
		i := slices.IndexFunc(v.Generations, func(g Generation) bool { return g.ID == id })
		if i < 0 { // its description was lost, and a manifest says as much
			i = len(v.Generations)
			v.Generations = append(v.Generations, Generation{ID: id, Store: p.Store, Host: p.Host, Began: begunAt(id), Epoch: p.epoch})
		}
		g := &v.Generations[i]
		g.Snapshots = append(g.Snapshots, p)
	}
	slices.SortFunc(v.Generations, func(a, b Generation) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
	v.Backups, err = v.points(ctx, backups)
	return v, err
}

// read reads an object without pages; nil if it is not what its name says.
func (v *Survey) read(ctx context.Context, name, kind string) (*parsed, error) {
	if !known(name) {
		v.Ignored = append(v.Ignored, name+": not a name that Carillon gives")
		return nil, nil
	}
	p, err := fetch(ctx, v.place, name, maxHead+1<<10)
	var bad *blob.Damaged
	switch {
	case errors.Is(err, blob.ErrNotFound): // it was deleted meanwhile
		return nil, nil
	case errors.As(err, &bad):
		v.Ignored = append(v.Ignored, name+": "+bad.Why)
		v.unread = append(v.unread, unreadable(name, err))
		return nil, nil
	case err != nil:
		return nil, err
	}
	if p.Kind != kind || p.Generation != "" && !strings.Contains(name, p.Generation) {
		why := fmt.Sprintf("it holds something else (%s of %s)", p.Kind, p.Generation)
		v.Ignored = append(v.Ignored, name+": "+why)
		v.unread = append(v.unread, unreadable(name, damaged(v.place, name, why)))
		return nil, nil
	}
	return &p, nil
}

// unreadable tells what an object would be by its name, which is one of the package's.
func unreadable(name string, err error) unread {
	if id, ok := strings.CutPrefix(name, generations); ok {
		return unread{id, begunAt(id), -1, err}
	}
	if rest, ok := strings.CutPrefix(name, snapshots); ok {
		id, rest, _ := strings.Cut(rest, "/")
		of, _, _ := strings.Cut(rest, "/")
		_, at, _ := strings.Cut(of, "-")
		return unread{id, begunAt(at), indexIn(of), err}
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(name, backups), "/")
	return unread{"", begunAt(id), 0, err}
}

// points finds the snapshots below a prefix that have a manifest, by time.
func (v *Survey) points(ctx context.Context, prefix string) (out []Point, err error) {
	there, wanted := map[string]int64{}, map[string][]part{}
	err = blob.Each(ctx, v.place, prefix, func(x blob.Info) error {
		if !strings.HasSuffix(x.Name, manifest) {
			if !known(x.Name) {
				v.Ignored = append(v.Ignored, x.Name+": not a name that Carillon gives")
			}
			there[x.Name] = x.Size
			return nil
		}
		p, err := v.read(ctx, x.Name, kindSnapshot)
		if err == nil && p != nil {
			point := Point{Name: strings.TrimSuffix(x.Name, manifest), Store: p.Store, Host: p.Host, Began: p.Began, Ended: p.Ended, index: p.Index, epoch: p.Epoch}
			for _, part := range p.Parts {
				point.Bytes += part.Bytes
			}
			wanted[point.Name] = p.Parts
			out = append(out, point)
		}
		return err
	})
	for i, p := range out {
		for _, part := range wanted[p.Name] {
			if size, ok := there[part.Name]; !ok || size != part.Bytes {
				out[i].lacks = part.Name
			}
		}
	}
	slices.SortFunc(out, func(a, b Point) int { return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.Name, b.Name)) })
	return out, err
}

// lastSegment returns the index of the last segment of a row without a gap that begins after an index, and the end of the last one;
// beyond is the next one that there is after a gap.
func lastSegment(ctx context.Context, place blob.Store, generation string, after int64) (last, beyond int64, err error) {
	last = after
	for folder := after + 1; ; folder = (folder>>perFolder + 1) << perFolder {
		found := false
		err := blob.Each(ctx, place, segmentFolder(generation, folder), func(x blob.Info) error {
			if !known(x.Name) {
				return nil
			}
			index := indexIn(x.Name[len(x.Name)-12:])
			switch {
			case index <= after:
			case index == last+1:
				last, found = index, true
			case beyond == 0:
				beyond = index
			}
			return nil
		})
		if err != nil || beyond > 0 {
			return last, beyond, err
		}
		if !found { // perhaps a whole folder is missing
			beyond, err = firstFrom(ctx, place, generation, last)
			return last, beyond, err
		}
	}
}

// firstFrom returns the first segment after an index, whatever is missing between; 0 if there is none.
func firstFrom(ctx context.Context, place blob.Store, generation string, after int64) (int64, error) {
	from := segmentName(generation, after)
	for {
		page, err := place.List(ctx, segments+generation+"/", from, 100)
		if err != nil || len(page) == 0 {
			return 0, err
		}
		for _, x := range page {
			if from = x.Name; known(x.Name) {
				return indexIn(x.Name[len(x.Name)-12:]), nil
			}
		}
	}
}
