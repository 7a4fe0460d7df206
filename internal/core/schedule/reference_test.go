package schedule

import (
	"strconv"
	"strings"
	"time"
)

// reference is the rules again, slow and plain: it reads the text again for every local time that it tries,
// and walks the clock second by second or minute by minute. It shares nothing with the engine.
type reference struct {
	fields []string // second minute hour date month weekday
	six    bool
	day    Day
	loc    *time.Location
	opened [3]bool // what openField says of second, minute and hour
}

func newReference(expr string, day Day, loc *time.Location) reference {
	f := strings.Fields(strings.ToUpper(expr))
	r := reference{six: len(f) == 6, day: day, loc: loc}
	if !r.six {
		f = append([]string{"0"}, f...)
	}
	r.fields = f
	for i := range r.opened {
		r.opened[i] = r.openField(i)
	}
	return r
}

// next is the first firing after from and before until, or zero.
func (r reference) next(from, until time.Time) time.Time {
	step := time.Minute
	if r.six {
		step = time.Second
	}
	prev := from.Truncate(time.Second)
	for t := prev.Truncate(step).Add(step); t.Before(until); t = t.Add(step) {
		if r.fires(t, step) {
			return t
		}
	}
	return time.Time{}
}

func (r reference) fires(t time.Time, step time.Duration) bool {
	here, before := wallTime(t.In(r.loc)), wallTime(t.Add(-step).In(r.loc))
	if !r.opened[2] {
		for lost := before.Add(step); lost.Before(here); lost = lost.Add(step) {
			if r.matches(lost) {
				return true
			}
		}
	}
	return r.matches(here) && (r.opened[2] || r.opened[1] || r.six && r.opened[0] || !r.seenBefore(t))
}

// wallTime returns the wall-clock time, as if it were UTC.
func wallTime(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// seenBefore says whether the clock has shown the same in the 25 hours before.
func (r reference) seenBefore(t time.Time) bool {
	for d := time.Minute; d <= 25*time.Hour; d += time.Minute {
		if wallTime(t.Add(-d).In(r.loc)).Equal(wallTime(t.In(r.loc))) {
			return true
		}
	}
	return false
}

var referenceUnits = []struct{ min, max, count int }{{0, 59, 60}, {0, 59, 60}, {0, 23, 24}, {1, 31, 31}, {1, 12, 12}, {0, 6, 7}}

func (r reference) openField(i int) bool {
	all := true
	for v := referenceUnits[i].min; v <= referenceUnits[i].max; v++ {
		all = all && r.matchField(i, v, time.Time{})
	}
	for _, it := range strings.Split(r.fields[i], ",") {
		body, _, stepped := strings.Cut(it, "/")
		all = all || body == "*" || stepped && !strings.Contains(body, "-")
	}
	return all
}

func (r reference) matches(l time.Time) bool {
	return r.matchField(0, l.Second(), l) && r.matchField(1, l.Minute(), l) && r.matchField(2, l.Hour(), l) && r.matchDay(l)
}

func (r reference) matchDay(l time.Time) bool {
	date, week := r.matchField(3, l.Day(), l), r.matchField(5, int(l.Weekday()), l)
	both := true
	switch r.day {
	case "", Vixie:
		both = strings.ContainsAny(r.fields[3][:1]+r.fields[5][:1], "*?")
	case Either:
		both = strings.Contains("*?", r.fields[3]) || strings.Contains("*?", r.fields[5])
	}
	return r.matchField(4, int(l.Month()), l) && (date && week || !both && (date || week))
}

func (r reference) matchField(i, v int, l time.Time) bool {
	for _, it := range strings.Split(r.fields[i], ",") {
		if matchSpecial(i, it, l) || matchItem(i, it, v) {
			return true
		}
	}
	return false
}

func referenceValue(s string) int {
	for i, n := range monthNames {
		if n == s {
			return i + 1
		}
	}
	for i, n := range dayNames {
		if n == s {
			return i
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// matchItem walks from the first value of an item to its last, and looks for v on the way.
func matchItem(i int, it string, v int) bool {
	u := referenceUnits[i]
	body, stepText, stepped := strings.Cut(it, "/")
	step := 1
	if stepped {
		step = referenceValue(stepText)
	}
	low, high, ranged := strings.Cut(body, "-")
	a := referenceValue(low)
	b := a
	switch {
	case body == "*" || body == "?":
		a, b = u.min, u.max
	case a < 0:
		return false
	case ranged:
		b = referenceValue(high)
	}
	if i == 5 && a == 7 {
		a = 0
		if b == 7 {
			b = 0
		}
	}
	if stepped && !ranged && body != "*" {
		b = u.max
	}
	for x, n := a, 0; ; n++ {
		if n%step == 0 && (x == v || i == 5 && x == 7 && v == 0) {
			return true
		}
		if x == b {
			return false
		}
		if x++; x > u.max && !(i == 5 && x == 7 && b == 7) {
			x = u.min
		}
	}
}

// matchSpecial asks of L, W and # whether a date is the one they mean.
func matchSpecial(i int, it string, l time.Time) bool {
	if l.IsZero() || i != 3 && i != 5 {
		return false
	}
	lastDay := time.Date(l.Year(), l.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	if i == 5 {
		if d, n, ok := strings.Cut(it, "#"); ok {
			return referenceValue(d)%7 == int(l.Weekday()) && (l.Day()+6)/7 == referenceValue(n)
		}
		d, ok := strings.CutSuffix(it, "L")
		return ok && referenceValue(d)%7 == int(l.Weekday()) && l.Day() > lastDay-7
	}
	body, work := strings.CutSuffix(it, "W")
	d := 0
	if n, ok := strings.CutPrefix(body, "L"); ok {
		d = lastDay
		if n != "" {
			d -= referenceValue(n[1:])
		}
	} else if work {
		d = referenceValue(body)
	}
	if d < 1 || d > lastDay {
		return false
	}
	if !work {
		return l.Day() == d
	}
	// The nearest of the month's working days; only one can be nearest, for Saturday and Sunday stand side by side.
	best := 0
	for x := 1; x <= lastDay; x++ {
		w := time.Date(l.Year(), l.Month(), x, 0, 0, 0, 0, time.UTC).Weekday()
		if w != time.Saturday && w != time.Sunday && (best == 0 || distance(x, d) < distance(best, d)) {
			best = x
		}
	}
	return l.Day() == best
}

func distance(a, b int) int { return max(a-b, b-a) }
