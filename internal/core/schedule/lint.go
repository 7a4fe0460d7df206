package schedule

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Warning describes something a schedule may do that its author may not expect.
type Warning struct {
	Code    string // one of the Lint codes
	Field   string // "minute", "day-of-month", …; empty for the whole schedule
	Message string
}

// The codes of warnings.
const (
	LintStepTooLarge = "step-too-large"  // only the first value is left
	LintStepUneven   = "step-uneven"     // the last step is shorter than the others
	LintEitherDay    = "either-day"      // both day fields are set, and either suffices
	LintMissingDay   = "missing-day"     // some months lack the day
	LintGap          = "gap"             // a fixed time falls into the zone's next gap
	LintOverlap      = "overlap"         // a fixed time falls into the zone's next overlap
	LintJitter       = "jitter-too-long" // the jitter window is longer than the shortest interval
	LintBarred       = "all-excluded"    // the calendar leaves no instant
	LintFar          = "long-excluded"   // the calendar leaves none for more than a year
)

// Lint lists warnings for the author of a plan; it judges clock changes and intervals from asOf on.
func (p Plan) Lint(asOf time.Time) []Warning {
	var out []Warning
	if c := p.Cron; c != nil && c.every == 0 {
		// Its text was accepted before, so it is again.
		if w, err := take(c.text, c.day); err == nil {
			for _, f := range []field{w.second, w.minute, w.hour, w.date, w.month, w.week} {
				out = append(out, lintSteps(f)...)
			}
			out = append(out, lintDays(w)...)
		}
		out = append(out, c.lintClocks(asOf)...)
	}
	out = append(out, p.lintCalendar(asOf)...)
	return append(out, p.lintJitter(asOf)...)
}

// lintCalendar warns of a calendar that leaves no instant, or none for a long time although the schedule has some.
func (p Plan) lintCalendar(asOf time.Time) []Warning {
	if p.Calendar == nil {
		return nil
	}
	if p.Barred(asOf) {
		return []Warning{{LintBarred, "calendar", "the calendar leaves out every instant of the schedule: nothing fires until the calendar is changed"}}
	}
	bare, ok := p.nominal(asOf)
	year := asOf.AddDate(1, 0, 0)
	if t, more := p.Next(asOf); ok && more && bare.Before(year) && t.After(year) {
		return []Warning{{LintFar, "calendar", fmt.Sprintf("the calendar leaves out every instant before %s", t.Format(time.RFC3339))}}
	}
	return nil
}

func lintSteps(f field) []Warning {
	var out []Warning
	for _, it := range f.items {
		first, length := f.unit.bounds(it)
		values := length + 1
		if it.kind == kindFrom {
			values = f.unit.size // a/s wraps around the whole field
		}
		switch {
		case it.kind >= kindLast || it.step == 1:
		case it.step > length:
			out = append(out, Warning{LintStepTooLarge, f.unit.name, fmt.Sprintf(
				"%s %s: the step is larger than the range, so only %d is left", f.unit.name, it.text, first)})
		case values%it.step == 0:
		case values == f.unit.size:
			out = append(out, Warning{LintStepUneven, f.unit.name, fmt.Sprintf(
				"%s %s: %d does not divide the range evenly; the count starts anew at %d, so the last step is shorter", f.unit.name, it.text, it.step, first)})
		case length%it.step != 0:
			out = append(out, Warning{LintStepUneven, f.unit.name, fmt.Sprintf(
				"%s %s: %d does not divide the range evenly, so its end is never reached", f.unit.name, it.text, it.step)})
		}
	}
	return out
}

func lintDays(w written) []Warning {
	var out []Warning
	if w.either {
		out = append(out, Warning{LintEitherDay, "", fmt.Sprintf(
			`day-of-month %s and day-of-week %s: either suffices; use the day mode "and" for days that satisfy both`, w.date.text, w.week.text)})
	}
	for _, it := range w.date.items {
		if d, ok := rareDay(it); ok {
			if lacking := lacking(uint32(w.month.mask()), d); lacking != "" {
				out = append(out, Warning{LintMissingDay, dates.name, fmt.Sprintf("day-of-month %s: there is no such day in %s", it.text, lacking)})
			}
		}
	}
	for _, it := range w.week.items {
		if it.kind == kindNth && it.b == 5 {
			out = append(out, Warning{LintMissingDay, weekdays.name, fmt.Sprintf("day-of-week %s: most months have no fifth %s", it.text, time.Weekday(it.a))})
		}
	}
	return out
}

// rareDay returns how many days a month needs to contain the item's day, if that is more than 28.
func rareDay(it item) (uint32, bool) {
	d := uint32(it.a)
	switch it.kind {
	case kindLast, kindLastW:
		d++
	case kindRange:
		if it.b < it.a {
			return 0, false // it continues at day 1
		}
	case kindValue, kindNearest, kindFrom:
	default:
		return 0, false
	}
	return d, d > 28
}

// lacking names the months of a mask that have fewer than d days.
func lacking(mask, d uint32) string {
	var out []string
	for ; mask != 0; mask &= mask - 1 {
		m := bits.TrailingZeros32(mask)
		switch name := time.Month(m + 1).String(); {
		case m == 1 && d == 29:
			out = append(out, name+" of most years")
		case monthDays[m] < d:
			out = append(out, name)
		}
	}
	return list(out, "and")
}

// lintClocks checks the next gap and the next overlap of the zone.
func (c *Cron) lintClocks(asOf time.Time) []Warning {
	var gap, overlap *Warning
	until := asOf.AddDate(2, 0, 0).Unix()
	for s := c.zone.at(asOf.Unix()); s.hi < until && (gap == nil || overlap == nil); {
		n := c.zone.at(s.hi)
		if n.off > s.off && gap == nil {
			gap = c.lintGap(s, n)
		}
		if n.off < s.off && overlap == nil {
			overlap = c.lintOverlap(s, n)
		}
		s = n
	}
	var out []Warning
	for _, w := range []*Warning{gap, overlap} {
		if w != nil && w.Code != "" {
			out = append(out, *w)
		}
	}
	return out
}

// lintGap returns the warning for a gap, or none if it is harmless.
func (c *Cron) lintGap(s, n span) *Warning {
	lost := c.nextLocal(uint64(n.lo + s.off + epochShift))
	if c.hourOpen || lost >= uint64(n.lo+n.off+epochShift) {
		return &Warning{}
	}
	at := clock(int64(lost) - epochShift)
	return &Warning{LintGap, "", fmt.Sprintf("%s does not exist on %s in %s, where the clocks go forward: fires at %s instead",
		at.Format("15:04:05"), at.Format(time.DateOnly), c.zone, clock(n.lo+n.off).Format("15:04:05"))}
}

func (c *Cron) lintOverlap(s, n span) *Warning {
	twice := c.nextLocal(uint64(n.lo + n.off + epochShift))
	if c.hourOpen || twice >= uint64(n.lo+s.off+epochShift) {
		return &Warning{}
	}
	at, does := clock(int64(twice)-epochShift), "fires the first time only"
	if c.open {
		does = "fires both times"
	}
	return &Warning{LintOverlap, "", fmt.Sprintf("%s comes twice on %s in %s, where the clocks go back: %s",
		at.Format("15:04:05"), at.Format(time.DateOnly), c.zone, does)}
}

// clock formats local seconds as a time.
func clock(local int64) time.Time { return time.Unix(local, 0).UTC() }

// lintJitter compares the jitter window with the shortest of the next intervals.
func (p Plan) lintJitter(asOf time.Time) []Warning {
	const looked = 500
	at, ok := p.Next(asOf)
	shortest := time.Duration(1<<63 - 1)
	for i := 0; ok && p.Jitter > 0 && i < looked; i++ {
		var t time.Time
		if t, ok = p.Next(at); ok {
			shortest = min(shortest, t.Sub(at))
		}
		at = t
	}
	if p.Jitter <= shortest {
		return nil
	}
	return []Warning{{LintJitter, "jitter", fmt.Sprintf("a jitter of up to %v is longer than the shortest interval, %v: executions may change places", p.Jitter, shortest)}}
}

// list joins words as in a sentence.
func list(words []string, last string) string {
	if n := len(words); n > 1 {
		words = append(slices.Clone(words[:n-2]), words[n-2]+" "+last+" "+words[n-1])
	}
	return strings.Join(words, ", ")
}
