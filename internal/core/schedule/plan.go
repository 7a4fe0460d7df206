package schedule

import (
	"cmp"
	"fmt"
	"time"
)

// Plan is a recurring schedule with everything around its expression. Its instants are nominal: jitter is added when
// one fires, and never moves the series.
type Plan struct {
	Cron     *Cron         // the expression, or
	Every    time.Duration // the interval; whole seconds
	Anchor   time.Time     // of an interval; if zero it is Start, else the instant passed to Next
	Start    time.Time     // included; zero for none
	End      time.Time     // excluded; zero for none
	Calendar *Calendar     // excluded times; nil for none
	Jitter   time.Duration // for Lint only
	Zone     *Zone         // of an interval, for Preview and Calendar; a Cron brings its own
}

// Next returns the first instant after the given one that the plan's bounds and calendar allow. False means
// exhausted: there is none before the end, or none within 41 years that the calendar allows.
func (p Plan) Next(after time.Time) (time.Time, bool) {
	limit := after.AddDate(searchYear, 0, 0)
	for {
		t, ok := p.nominal(after)
		if !ok || p.Calendar == nil {
			return t, ok
		}
		free := p.Calendar.free(t.Unix(), limit.Unix(), p.zone())
		if free == t.Unix() {
			return t, true
		}
		if free >= limit.Unix() {
			return time.Time{}, false
		}
		after = time.Unix(free-1, 0)
	}
}

// LookAgain is how long a plan is left alone if its calendar leaves no instant.
const LookAgain = 24 * time.Hour

// Cursor returns the position of a plan after an instant: its next instant or, if only its calendar leaves none, a
// time to look again, because a calendar may change. False: it has ended for good.
func (p Plan) Cursor(after, now time.Time) (time.Time, bool) {
	if t, ok := p.Next(after); ok {
		return t, true
	}
	if !p.Barred(after) {
		return time.Time{}, false
	}
	if now.After(after) {
		after = now
	}
	again := after.Add(LookAgain).Truncate(time.Second)
	if !p.End.IsZero() && again.After(p.End) {
		again = p.End
	}
	return again, true
}

// Barred reports whether there would be an instant after the given one, but the calendar excludes all that are known.
func (p Plan) Barred(after time.Time) bool {
	if p.Calendar == nil {
		return false
	}
	if _, ok := p.Next(after); ok {
		return false
	}
	_, ok := p.nominal(after)
	return ok
}

// At reports whether an instant is one of the plan's.
func (p Plan) At(t time.Time) bool {
	is, ok := p.Next(t.Add(-1))
	return ok && is.Equal(t)
}

// nominal returns the first instant after the given one between start and end, excluded or not.
func (p Plan) nominal(after time.Time) (time.Time, bool) {
	if before := p.Start.Add(-1); !p.Start.IsZero() && after.Before(before) {
		after = before // the second of before precedes the start, or contains it
	}
	t, ok := p.series(after)
	if !ok || !p.End.IsZero() && !t.Before(p.End) {
		return time.Time{}, false
	}
	return t, true
}

// series returns the bare series of the expression or interval.
func (p Plan) series(after time.Time) (time.Time, bool) {
	every := int64(p.Every / time.Second)
	if p.Cron != nil {
		if every = p.Cron.every; every == 0 {
			return p.Cron.Next(after)
		}
	}
	if every <= 0 {
		return time.Time{}, false
	}
	from := max(after.Unix(), minInstant)
	anchor := from
	if a := cmp.Or(p.Anchor, p.Start); !a.IsZero() {
		anchor = max(a.Unix(), minInstant)
	}
	if anchor > maxInstant || from > maxInstant {
		return time.Time{}, false
	}
	k := int64(1)
	if from > anchor {
		k += (from - anchor) / every
	}
	if sec := anchor + k*every; sec <= maxInstant {
		return time.Unix(sec, 0).UTC(), true
	}
	return time.Time{}, false
}

func (p Plan) zone() *Zone {
	switch {
	case p.Cron != nil:
		return p.Cron.zone
	case p.Zone != nil:
		return p.Zone
	}
	return UTC
}

// Flag marks a special instant in a preview.
type Flag string

// The flags. Most instants have none.
const (
	Gap         Flag = "gap"           // fires for local times that the clocks skipped
	FirstOfTwo  Flag = "first-of-two"  // its local time comes again
	SecondOfTwo Flag = "second-of-two" // its local time occurred before
	Excluded    Flag = "excluded"      // the calendar leaves it out
)

// Instant is one line of a preview.
type Instant struct {
	UTC   time.Time
	Local time.Time // the same instant, in the schedule's zone
	Flag  Flag
}

// MaxPreview is the maximum number of instants in one preview.
const MaxPreview = 1000

// Preview lists the next n nominal instants after from, including excluded ones. There are fewer if the plan ends.
func (p Plan) Preview(from time.Time, n int) ([]Instant, error) {
	if n < 1 || n > MaxPreview {
		return nil, wrong("n", fmt.Sprint(n), 0, fmt.Sprintf("1 to %d", MaxPreview), "")
	}
	p.Anchor = cmp.Or(p.Anchor, p.Start, from)
	z := p.zone()
	out := make([]Instant, 0, n)
	for at := from; len(out) < n; {
		t, ok := p.nominal(at)
		if !ok {
			break
		}
		out = append(out, Instant{UTC: t, Local: t.In(z.loc), Flag: p.flag(t.Unix(), z)})
		at = t
	}
	return out, nil
}

func (p Plan) flag(t int64, z *Zone) Flag {
	s := z.at(t)
	if p.Calendar != nil && p.Calendar.free(t, t+1, z) != t {
		return Excluded
	}
	if t == s.lo && p.Cron != nil && p.Cron.every == 0 && p.Cron.madeUp(s) {
		return Gap
	}
	if t < s.lo+s.prev-s.off {
		return SecondOfTwo
	}
	if s.hi < farFuture && t >= s.hi+z.at(s.hi).off-s.off {
		return FirstOfTwo
	}
	return ""
}

// Closer reports whether two instants of a plan, without its calendar, can be closer together than min, and how close
// two of them are. It ignores clock changes.
func (p Plan) Closer(than time.Duration) (gap time.Duration, closer bool) {
	if p.Cron == nil {
		return p.Every, p.Every < than
	}
	if every := p.Cron.Every(); every > 0 {
		return every, every < than
	}
	return p.Cron.closer(than)
}

// closer checks the instants of one day, and the distance from its last to the first of the next day, if both days
// may match.
func (c *Cron) closer(than time.Duration) (gap time.Duration, closer bool) {
	last, _ := c.timeOfDay(0)
	for {
		t, ok := c.timeOfDay(last + 1)
		if !ok || last+1 >= daySeconds {
			break
		}
		if gap = time.Duration(t-last) * time.Second; gap < than {
			return gap, true
		}
		last = t
	}
	gap = time.Duration(daySeconds-last+c.first) * time.Second
	return gap, gap < than && (c.week == 0 || c.week&(c.week<<1|c.week>>6) != 0)
}
