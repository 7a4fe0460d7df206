package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// upTo reports whether an instant is no later than the one that is asked for.
func (w Want) upTo(t time.Time) bool { return w.At.IsZero() || !t.After(w.At) }

// Choose decides from what to restore: from the generation that was written at the instant, or from a backup that reaches further. If
// that is damaged or missing, as far as names and manifests show, the error is *Incomplete, or with want.LastGood the choice is what is left.
func (v *Survey) Choose(ctx context.Context, want Want) (Choice, error) {
	c, lost, err := v.choose(ctx, want)
	switch {
	case err != nil:
		return c, err
	case lost != nil && !want.LastGood:
		return c, &Incomplete{lost, c.ended}
	case lost != nil:
		c.stopped = lost.Error()
	}
	return c, nil
}

// choose is Choose of what is left; lost says why that is less than what was asked for.
func (v *Survey) choose(ctx context.Context, want Want) (c Choice, lost, err error) {
	if err := v.oneStore(want); err != nil {
		return c, nil, err
	}
	newest := func(all []Point) *Point {
		for _, p := range slices.Backward(all) {
			if want.upTo(p.Ended) {
				return &p
			}
		}
		return nil
	}
	var gen *Generation
	for i, g := range slices.Backward(v.Generations) {
		c.Epoch = max(c.Epoch, g.Epoch)
		if gen == nil && (want.From == "" || want.From == g.ID) && newest(g.Snapshots) != nil {
			gen = &v.Generations[i]
		}
	}
	saved := newest(slices.DeleteFunc(slices.Clone(v.Backups), func(p Point) bool { return want.From != "" && p.Name != backups+want.From }))
	if gen != nil {
		c.Store, c.Generation, c.Snapshot, c.gen = gen.Store, gen.ID, *newest(gen.Snapshots), gen
		if want.From == "" {
			if err := v.alone(ctx, gen); err != nil {
				return c, nil, err
			}
		}
		if lost, err = v.end(ctx, &c, want); err != nil {
			return c, nil, err
		}
	}
	if missing := v.missing(c, want); missing != nil {
		lost = missing
	}
	switch {
	case gen == nil && saved == nil && lost != nil:
		return c, nil, fmt.Errorf("%w; %w", v.none(want), lost)
	case gen == nil && saved == nil:
		return c, nil, v.none(want)
	case saved != nil && (gen == nil || saved.Ended.After(c.ended)):
		c = Choice{Store: saved.Store, Snapshot: *saved, Epoch: max(c.Epoch, saved.epoch), ended: saved.Ended}
	}
	return c, lost, nil
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

// follows reports whether a generation began after another one, whatever the clock said.
func (v *Survey) follows(g Generation, id string) bool {
	after := g.after
	for range v.Generations {
		if after == "" || after == id {
			break
		}
		i := slices.IndexFunc(v.Generations, func(x Generation) bool { return x.ID == after })
		if i < 0 {
			return false
		}
		after = v.Generations[i].after
	}
	return after == id
}

// alone fails if an earlier generation was written after this one began: then two processes have replicated at once. It fails, too, if the
// clock does not tell which one is the earlier.
func (v *Survey) alone(ctx context.Context, gen *Generation) error {
	for _, g := range v.Generations {
		if g.ID != gen.ID && !g.Began.After(gen.Began) && v.follows(g, gen.ID) {
			return fmt.Errorf("%w: the clock was set back: %s on %s from %s follows %s from %s", ErrAmbiguous, g.ID, g.Host, show(g.Began), gen.ID, show(gen.Began))
		}
	}
	for _, g := range v.Generations {
		if g.ID == gen.ID || g.Began.After(gen.Began) || len(g.Snapshots) == 0 {
			continue
		}
		newest := g.Snapshots[len(g.Snapshots)-1]
		until := newest.Ended
		last, _, err := lastSegment(ctx, v.place, g.ID, newest.index)
		for ; err == nil && last > newest.index; last-- {
			var at time.Time
			var bad error
			if at, bad, err = v.endOf(ctx, g.ID, last); bad == nil {
				until = at
				break
			}
		}
		if err != nil {
			return err
		}
		if until.After(gen.Began) {
			return fmt.Errorf("%w: two processes have replicated at once: %s on %s from %s, and %s on %s until %s", ErrAmbiguous, gen.ID, gen.Host, show(gen.Began), g.ID, g.Host, show(until))
		}
	}
	return nil
}

// endOf returns when a segment ended; bad says why it cannot be known.
func (v *Survey) endOf(ctx context.Context, generation string, index int64) (at time.Time, bad, err error) {
	name := segmentName(generation, index)
	h, err := peekHead(ctx, v.place, name)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return at, damaged(v.place, name, "it is missing"), nil
	case errors.As(err, new(*blob.Damaged)):
		return at, err, nil
	case err == nil && (h.Kind != kindSegment || h.Generation != generation || h.Index != index):
		return at, damaged(v.place, name, fmt.Sprintf("it is the %s %d of %s", h.Kind, h.Index, h.Generation)), nil
	}
	return h.Ended, nil, err
}

// end finds the last segment to restore, and when it ended; lost is what is damaged or missing between it and the instant.
func (v *Survey) end(ctx context.Context, c *Choice, want Want) (lost, err error) {
	c.Last, c.ended = c.Snapshot.index, c.Snapshot.Ended
	last, beyond, err := lastSegment(ctx, v.place, c.Generation, c.Snapshot.index)
	if err != nil {
		return nil, err
	}
	if cut := c.gen.cut; cut > 0 && cut <= last {
		last, beyond = cut-1, 0
	}
	// Times ascend. The first probe is the last segment, which is nearly always the answer.
	for low, high, probe := c.Last, last, last; low < high; probe = low + (high-low+1)/2 {
		at, bad, err := v.endOf(ctx, c.Generation, probe)
		next := probe
		for err == nil && bad != nil && next < high { // the first one after it whose time can be known decides
			next++
			at, bad, err = v.endOf(ctx, c.Generation, next)
		}
		switch {
		case err != nil:
			return nil, err
		case bad != nil || !want.upTo(at):
			high = probe - 1
		default:
			low, c.Last, c.ended = next, next, at
		}
	}
	after := !want.At.IsZero() && !want.At.After(c.ended) // nothing can be missing before the instant
	switch {
	case after:
	case c.Last < last:
		_, lost, err = v.endOf(ctx, c.Generation, c.Last+1)
	case beyond > 0:
		lost = damaged(v.place, segmentName(c.Generation, last+1), "it is missing, although later ones exist")
	case c.gen.cut > 0:
	default:
		c.stopped = v.gap(c, want)
	}
	return lost, err
}

// gap says that the generation was over before the instant; empty: it was not, as far as is known.
func (v *Survey) gap(c *Choice, want Want) string {
	for _, g := range v.Generations {
		if !want.At.IsZero() && want.From == "" && g.Began.After(want.At) && want.At.After(c.ended) {
			return fmt.Sprintf("it is the last change in %s; what changed between it and %s, when %s began, was not replicated", c.Generation, show(g.Began), g.ID)
		}
	}
	return ""
}

// missing says why the choice is not what was written last, up to the instant.
func (v *Survey) missing(c Choice, want Want) error {
	if want.From != "" {
		return nil
	}
	var began time.Time // of the choice
	if c.gen != nil {
		began = c.gen.Began
	}
	for _, u := range v.unread {
		later := u.at.After(c.ended) // a backup
		if u.generation != "" {
			later = begunAt(u.generation).After(began) || u.generation == c.Generation && u.index > c.Last
		}
		if later && want.upTo(u.at) {
			return u.err
		}
	}
	for _, g := range slices.Backward(v.Generations) {
		if g.Began.After(began) && want.upTo(g.Began) {
			return fmt.Errorf("the generation %s, which began at %s on %s, has no whole snapshot up to that instant in %s", g.ID, show(g.Began), g.Host, v.place)
		}
	}
	return nil
}
