package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// Want says what to restore.
type Want struct {
	At       time.Time // the instant; zero: the latest
	From     string    // the id of a generation or a backup; empty: the one that has the instant
	LastGood bool      // stop before what is damaged or missing
}

// Choice is what would be restored.
type Choice struct {
	Store      time.Time
	Generation string // empty: a backup
	Snapshot   Point
	Last       int64 // segment
	Epoch      int64 // the highest that is known

	gen     *Generation
	ended   time.Time // of the last segment, as far as is known
	stopped string
}

// Incomplete says why less can be restored than was asked for. It wraps what is damaged or missing.
type Incomplete struct {
	Why  error
	Good time.Time // the last instant that can be restored; zero: none can
}

func (i *Incomplete) Error() string {
	if i.Good.IsZero() {
		return fmt.Sprintf("%v; no earlier instant can be restored", i.Why)
	}
	return fmt.Sprintf("%v; the last instant that can be restored is %s", i.Why, show(i.Good))
}

// Unwrap returns what is damaged or missing.
func (i *Incomplete) Unwrap() error { return i.Why }

// Result is what was restored.
type Result struct {
	Choice
	Segments int
	Began    time.Time // everything acknowledged before is there
	Ended    time.Time // nothing committed after is
	Stopped  string    // why it ends before the instant that was asked for; empty: it does not
	Pages    uint32
}

// Assemble writes the chosen pages into an empty file. tell, if it is given, hears how many objects were read, of how many. If
// something turns out to be damaged, it finds out what can be restored without it, which is the result if want says so.
func (v *Survey) Assemble(ctx context.Context, c Choice, want Want, file *os.File, tell func(done, all int64)) (Result, error) {
	if tell == nil {
		tell = func(int64, int64) {}
	}
	first, lost := c, error(nil)
	for {
		r, bad, err := v.assemble(ctx, c, file, tell)
		if err != nil {
			return r, err
		}
		if bad != nil && lost == nil {
			lost = bad
		}
		if bad != nil {
			next, _, err := v.choose(ctx, want)
			if errors.Is(err, ErrNone) {
				return r, &Incomplete{Why: lost}
			}
			if err != nil {
				return r, err
			}
			if next.Snapshot.Name != c.Snapshot.Name { // else this is what is left
				c = next
				if err := file.Truncate(0); err != nil {
					return r, err
				}
				continue
			}
		}
		switch short := r.Ended.Before(first.ended); {
		case lost == nil:
		case !want.LastGood:
			return r, &Incomplete{lost, r.Ended}
		case short:
			r.Stopped = lost.Error()
		default:
			v.Ignored = append(v.Ignored, lost.Error())
			r.Stopped = first.stopped
		}
		return r, nil
	}
}

// assemble writes a choice into an empty file, up to what is damaged, of which the survey then knows.
func (v *Survey) assemble(ctx context.Context, c Choice, file *os.File, tell func(done, all int64)) (r Result, bad, err error) {
	r = Result{Choice: c, Stopped: c.stopped}
	chain, err := v.snapshot(ctx, c.Snapshot, file, &r)
	if errors.As(err, new(*blob.Damaged)) {
		same := func(p Point) bool { return p.Name == c.Snapshot.Name }
		v.Backups = slices.DeleteFunc(v.Backups, same)
		if c.gen != nil {
			c.gen.Snapshots = slices.DeleteFunc(c.gen.Snapshots, same)
		}
		return r, err, nil
	}
	var spans map[int64]int64
	if err == nil {
		spans, err = v.spans(ctx, c)
	}
	for index := c.Snapshot.index + 1; err == nil && index <= c.Last; index++ {
		if last, ok := spans[index]; ok {
			next, err := v.span(ctx, c, index, last, chain, file, &r)
			if err == nil {
				chain, index = next, last
				tell(int64(r.Segments), c.Last-c.Snapshot.index)
				continue
			}
			if !errors.As(err, new(*blob.Damaged)) {
				return r, nil, err
			}
			v.Ignored = append(v.Ignored, err.Error()) // its segments are there
		}
		if chain, err = v.segment(ctx, c, index, chain, file, &r); errors.As(err, new(*blob.Damaged)) {
			c.gen.cut = index
			return r, err, nil
		}
		tell(int64(r.Segments), c.Last-c.Snapshot.index)
	}
	return r, nil, err
}

// segment writes the pages of a segment that follows the one with the sum chain, and returns its own.
func (v *Survey) segment(ctx context.Context, c Choice, index int64, chain string, file *os.File, r *Result) (string, error) {
	name := segmentName(c.Generation, index)
	p, err := fetch(ctx, v.place, name, 1<<30)
	if errors.Is(err, blob.ErrNotFound) {
		err = damaged(v.place, name, "it is missing")
	}
	if err == nil && (p.Kind != kindSegment || p.Generation != c.Generation || p.Index != index || p.Previous != chain) {
		err = damaged(v.place, name, fmt.Sprintf("it is the %s %d of %s and follows %.12s; want segment %d of %s after %.12s", p.Kind, p.Index, p.Generation, p.Previous, index, c.Generation, chain))
	}
	if err == nil {
		err = p.write(v.place, name, file)
	}
	if err != nil {
		return "", err
	}
	r.Began, r.Ended, r.Pages = p.Began, p.Ended, p.Size
	r.Segments++
	return p.sum, nil
}

// write writes the pages of an object where they belong. Nothing is written of an object that is damaged.
func (p parsed) write(place blob.Store, name string, file *os.File) error {
	pages, err := p.each(func(number uint32, data []byte) error {
		_, err := file.WriteAt(data, int64(number-1)*int64(p.PageSize))
		return err
	})
	if err == nil && p.Kind == kindSegment && pages != p.Pages {
		err = fmt.Errorf("it has %d pages; want %d", pages, p.Pages)
	}
	if err == nil && (p.Kind == kindSegment || p.Kind == kindMerged) {
		return file.Truncate(int64(p.Size) * int64(p.PageSize))
	}
	if err != nil && !errors.As(err, new(*os.PathError)) {
		err = damaged(place, name, err.Error())
	}
	return err
}

// snapshot writes the pages of a snapshot, and returns the sum of the last segment in it.
func (v *Survey) snapshot(ctx context.Context, point Point, file *os.File, r *Result) (chain string, err error) {
	m, err := fetch(ctx, v.place, point.Name+manifest, maxHead+1<<10)
	if errors.Is(err, blob.ErrNotFound) {
		err = damaged(v.place, point.Name+manifest, "it is missing")
	}
	if err != nil {
		return "", err
	}
	for i, x := range m.Parts {
		if x.Name != partName(point.Name, i) {
			return "", damaged(v.place, point.Name+manifest, fmt.Sprintf("it names the part %s; want %s", x.Name, partName(point.Name, i)))
		}
		p, err := fetch(ctx, v.place, x.Name, 1<<30)
		if errors.Is(err, blob.ErrNotFound) {
			err = damaged(v.place, x.Name, "it is missing")
		}
		if err == nil && (p.sum != x.Sum || p.Kind != kindPart) {
			err = damaged(v.place, x.Name, fmt.Sprintf("it has the sum %.12s; want %.12s", p.sum, x.Sum))
		}
		if err == nil {
			err = p.write(v.place, x.Name, file)
		}
		if err != nil {
			return "", err
		}
	}
	r.Began, r.Ended, r.Pages = m.Began, m.Ended, m.Size
	return m.Previous, file.Truncate(int64(m.Size) * int64(m.PageSize))
}
