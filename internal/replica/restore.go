package replica

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
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
	stopped string
}

// Result is what was restored.
type Result struct {
	Choice
	Segments int
	Began    time.Time // everything acknowledged before is there
	Ended    time.Time // nothing committed after is
	Stopped  string    // why it ends before the instant that was asked for; empty: it does not
	Pages    uint32
}

// Choose decides from what to restore.
func (v *Survey) Choose(ctx context.Context, want Want) (c Choice, err error) {
	if err := v.oneStore(want); err != nil {
		return c, err
	}
	before := func(p Point) bool { return want.At.IsZero() || !p.Ended.After(want.At) }
	newest := func(all []Point) *Point {
		for _, p := range slices.Backward(all) {
			if before(p) {
				return &p
			}
		}
		return nil
	}
	var gen *Generation
	for i, g := range slices.Backward(v.Generations) {
		if (want.From == "" || want.From == g.ID) && newest(g.Snapshots) != nil {
			gen = &v.Generations[i]
			break
		}
	}
	saved := newest(slices.DeleteFunc(slices.Clone(v.Backups), func(p Point) bool { return want.From != "" && p.Name != backups+want.From }))
	if gen == nil && saved == nil {
		return c, v.none(want)
	}
	for _, g := range v.Generations {
		c.Epoch = max(c.Epoch, g.Epoch)
	}
	if gen == nil {
		c.Store, c.Snapshot, c.Epoch = saved.Store, *saved, max(c.Epoch, saved.epoch)
		return c, nil
	}
	c.Store, c.Generation, c.Snapshot, c.gen = gen.Store, gen.ID, *newest(gen.Snapshots), gen
	if want.From == "" {
		if err := v.alone(ctx, gen, want); err != nil {
			return c, err
		}
	}
	end, err := v.end(ctx, &c, want)
	if err != nil {
		return c, err
	}
	if saved != nil && saved.Ended.After(end) {
		c.Generation, c.Snapshot, c.gen, c.Last, c.stopped = "", *saved, nil, 0, ""
	}
	return c, nil
}

// oneStore fails if what is asked for may belong to more than one store.
func (v *Survey) oneStore(want Want) error {
	stores := map[int64]string{}
	for _, g := range v.Generations {
		stores[g.Store.UnixMicro()] = fmt.Sprintf("%s (of the store created at %s on %s)", g.ID, show(g.Store), g.Host)
	}
	for _, p := range v.Backups {
		stores[p.Store.UnixMicro()] = fmt.Sprintf("%s (of the store created at %s on %s)", strings.TrimPrefix(p.Name, backups), show(p.Store), p.Host)
	}
	if want.From != "" || len(stores) < 2 {
		return nil
	}
	var all []string
	for _, text := range stores {
		all = append(all, text)
	}
	sort.Strings(all)
	return fmt.Errorf("%w: %s holds more than one store: %s", ErrAmbiguous, v.place, strings.Join(all, ", "))
}

func (v *Survey) none(want Want) error {
	switch {
	case want.From != "":
		return fmt.Errorf("%w: %s has no whole snapshot or backup of %s up to that instant", ErrNone, v.place, want.From)
	case len(v.Generations)+len(v.Backups) == 0:
		return fmt.Errorf("%w: %s holds no replica and no backup", ErrNone, v.place)
	case want.At.IsZero():
		return fmt.Errorf("%w: no generation in %s has a whole snapshot", ErrNone, v.place)
	}
	first := time.Time{}
	for _, g := range v.Generations {
		if len(g.Snapshots) > 0 && (first.IsZero() || g.Snapshots[0].Ended.Before(first)) {
			first = g.Snapshots[0].Ended
		}
	}
	for _, p := range v.Backups {
		if first.IsZero() || p.Ended.Before(first) {
			first = p.Ended
		}
	}
	return fmt.Errorf("%w: %s goes back to %s, and not to %s", ErrNone, v.place, show(first), show(want.At))
}

// alone fails if an earlier generation was written after this one began: then two processes have replicated at once.
func (v *Survey) alone(ctx context.Context, gen *Generation, want Want) error {
	for _, g := range v.Generations {
		if g.ID == gen.ID || g.Began.After(gen.Began) || len(g.Snapshots) == 0 {
			continue
		}
		newest := g.Snapshots[len(g.Snapshots)-1]
		last, _, err := lastSegment(ctx, v.place, g.ID, newest.index)
		if err != nil {
			return err
		}
		if last == newest.index {
			continue
		}
		h, err := peekHead(ctx, v.place, segmentName(g.ID, last))
		if err != nil {
			return err
		}
		if h.Ended.After(gen.Began) && (want.At.IsZero() || gen.Began.Before(want.At)) {
			return fmt.Errorf("%w: two processes have replicated at once: %s on %s from %s, and %s on %s until %s", ErrAmbiguous, gen.ID, gen.Host, show(gen.Began), g.ID, g.Host, show(h.Ended))
		}
	}
	return nil
}

// end finds the last segment to restore, and returns its end.
func (v *Survey) end(ctx context.Context, c *Choice, want Want) (time.Time, error) {
	last, beyond, err := lastSegment(ctx, v.place, c.Generation, c.Snapshot.index)
	if err != nil {
		return time.Time{}, err
	}
	ended := func(index int64) (time.Time, error) {
		if index == c.Snapshot.index {
			return c.Snapshot.Ended, nil
		}
		h, err := peekHead(ctx, v.place, segmentName(c.Generation, index))
		return h.Ended, err
	}
	c.Last = last
	if beyond > 0 {
		next, err := ended(beyond)
		if err == nil && (want.At.IsZero() || !next.After(want.At)) {
			missing := fmt.Sprintf("the segment %s is missing, although %s exists", segmentName(c.Generation, last+1), segmentName(c.Generation, beyond))
			if !want.LastGood {
				return time.Time{}, &blob.Damaged{Place: v.place.String(), Name: segmentName(c.Generation, last+1), Why: "it is missing, although later ones exist"}
			}
			c.stopped = missing
		}
	}
	if !want.At.IsZero() {
		low, high := c.Snapshot.index, last // low is early enough
		for low < high {
			mid := low + (high-low+1)/2
			t, err := ended(mid)
			if err != nil {
				return t, err
			}
			if t.After(want.At) {
				high = mid - 1
			} else {
				low = mid
			}
		}
		if low < last {
			c.stopped = ""
		}
		c.Last = low
	}
	return ended(c.Last)
}

// Assemble writes the chosen pages into an empty file. tell, if it is given, hears how many objects were read, of how many.
func (v *Survey) Assemble(ctx context.Context, c Choice, want Want, file *os.File, tell func(done, all int64)) (r Result, err error) {
	if tell == nil {
		tell = func(int64, int64) {}
	}
	r = Result{Choice: c, Stopped: c.stopped}
	all := int64(0)
	step := func(done int64) { tell(done, all) }
	var chain string
	for {
		all = c.Last - r.Snapshot.index
		chain, err = v.snapshot(ctx, r.Snapshot, file, &r)
		if err == nil {
			break
		}
		earlier := v.before(c.gen, r.Snapshot)
		if !want.LastGood || earlier == nil || !errors.As(err, new(*blob.Damaged)) {
			return r, err
		}
		r.Snapshot = *earlier
		if err := file.Truncate(0); err != nil {
			return r, err
		}
	}
	for index := r.Snapshot.index + 1; index <= c.Last; index++ {
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
			if want.LastGood && errors.As(err, new(*blob.Damaged)) {
				r.Stopped = err.Error()
				return r, nil
			}
			return r, err
		}
		chain, r.Began, r.Ended, r.Pages = p.sum, p.Began, p.Ended, p.Size
		r.Segments++
		step(int64(r.Segments))
	}
	return r, nil
}

// before returns the snapshot before another one of a generation; nil if there is none.
func (v *Survey) before(g *Generation, p Point) *Point {
	if g == nil {
		return nil
	}
	for _, x := range slices.Backward(g.Snapshots) {
		if x.index < p.index {
			return &x
		}
	}
	return nil
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
	if err == nil && p.Kind == kindSegment {
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
