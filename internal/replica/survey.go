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

	place blob.Store
}

// Generation is one row of segments.
type Generation struct {
	ID        string
	Store     time.Time // when the store was created
	Host      string
	Began     time.Time
	Epoch     int64
	Snapshots []Point // whole ones, by time

	sum string
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
}

// Index returns the last segment that the snapshot contains.
func (p Point) Index() int64 { return p.index }

// Look finds out what a place holds. It reads the manifests, and neither parts nor segments.
func Look(ctx context.Context, place blob.Store) (*Survey, error) {
	v := &Survey{place: place}
	err := blob.Each(ctx, place, generations, func(x blob.Info) error {
		p, err := v.read(ctx, x.Name, kindGeneration)
		if err == nil && p != nil {
			v.Generations = append(v.Generations, Generation{ID: p.Generation, Store: p.Store, Host: p.Host, Began: p.Began, Epoch: p.Epoch, sum: p.sum})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(v.Generations, func(a, b Generation) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
	for i := range v.Generations {
		g := &v.Generations[i]
		if g.Snapshots, err = v.points(ctx, snapshots+g.ID+"/"); err != nil {
			return nil, err
		}
	}
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
		return nil, nil
	case err != nil:
		return nil, err
	}
	if p.Kind != kind || p.Generation != "" && !strings.Contains(name, p.Generation) {
		v.Ignored = append(v.Ignored, fmt.Sprintf("%s: it holds something else (%s of %s)", name, p.Kind, p.Generation))
		return nil, nil
	}
	return &p, nil
}

// points finds the whole snapshots below a prefix.
func (v *Survey) points(ctx context.Context, prefix string) (out []Point, err error) {
	err = blob.Each(ctx, v.place, prefix, func(x blob.Info) error {
		if !strings.HasSuffix(x.Name, manifest) {
			if !known(x.Name) {
				v.Ignored = append(v.Ignored, x.Name+": not a name that Carillon gives")
			}
			return nil
		}
		p, err := v.read(ctx, x.Name, kindSnapshot)
		if err == nil && p != nil {
			point := Point{Name: strings.TrimSuffix(x.Name, manifest), Store: p.Store, Host: p.Host, Began: p.Began, Ended: p.Ended, index: p.Index, epoch: p.Epoch}
			for _, part := range p.Parts {
				point.Bytes += part.Bytes
			}
			out = append(out, point)
		}
		return err
	})
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
