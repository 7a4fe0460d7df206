package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Date is a calendar day.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

// Window is a range of local time that includes From and excludes To. Only the wall clock of the two is used, not
// their zone.
type Window struct {
	From, To time.Time
}

// Exclusions are the days and times that a calendar leaves out.
type Exclusions struct {
	Dates    []Date
	Yearly   []Date // every year; Year is ignored
	Weekdays []time.Weekday
	Windows  []Window
	Zone     *Zone // the zone in which they are read; nil for the schedule's
}

// Calendar is a compiled form of Exclusions. It is immutable and safe for concurrent use.
type Calendar struct {
	local  []stretch // sorted and disjoint
	yearly [12]uint32
	week   uint32
	zone   *Zone
}

// stretch is local seconds since 0000-03-01, from <= t < to.
type stretch struct{ from, to int64 }

// NewCalendar compiles exclusions. Invalid ones are refused with an *Error.
func NewCalendar(x Exclusions) (*Calendar, error) {
	c := &Calendar{zone: x.Zone}
	for _, d := range x.Dates {
		if d.Year < 1 || d.Year > 9999 || !onCalendar(d.Year, d) {
			return nil, wrong("dates", d.String(), 0, "a date that exists, from year 1 to 9999", "")
		}
		from := int64(firstOf(uint32(d.Year), uint32(d.Month-1))+uint32(d.Day-1)) * daySeconds
		c.local = append(c.local, stretch{from, from + daySeconds})
	}
	for _, d := range x.Yearly {
		if !onCalendar(2000, d) {
			return nil, wrong("yearly", d.String()[5:], 0, "a month and day that exist, 01-01 to 12-31", "")
		}
		c.yearly[d.Month-1] |= 1 << (d.Day - 1)
	}
	for _, d := range x.Weekdays {
		if d < time.Sunday || d > time.Saturday {
			return nil, wrong("weekdays", fmt.Sprint(int(d)), 0, "0 (Sunday) to 6 (Saturday)", "")
		}
		c.week |= 1 << d
	}
	for _, w := range x.Windows {
		from, to := wall(w.From), wall(w.To)
		if from >= to {
			return nil, wrong("windows", w.To.Format(time.DateTime), 0, "an end after the start, "+w.From.Format(time.DateTime), "")
		}
		c.local = append(c.local, stretch{from, to})
	}
	c.merge()
	return c, nil
}

func onCalendar(year int, d Date) bool {
	return d.Month >= 1 && d.Month <= 12 && d.Day >= 1 && d.Day <= int(daysIn(uint32(year), uint32(d.Month-1)))
}

// wall returns the wall-clock time at t, in whole seconds rounded up, since 0000-03-01.
func wall(t time.Time) int64 {
	_, off := t.Zone()
	s := t.Unix() + int64(off) + epochShift
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

// merge sorts the stretches and joins those that touch.
func (c *Calendar) merge() {
	slices.SortFunc(c.local, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	out := c.local[:0]
	for _, s := range c.local {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	c.local = out
}

// free returns the first instant at t or later that is not excluded, or the limit if that comes first.
func (c *Calendar) free(t, limit int64, z *Zone) int64 {
	if c.zone != nil {
		z = c.zone
	}
	for t < limit {
		s := z.at(t)
		end := c.until(t + s.off + epochShift)
		if end == 0 {
			return t
		}
		t = min(end-s.off-epochShift, s.hi) // after a change of the clocks, look again
	}
	return limit
}

// until returns the end of the excluded stretch that contains a local second, and 0 if there is none.
func (c *Calendar) until(at int64) int64 {
	i, _ := slices.BinarySearchFunc(c.local, at+1, func(s stretch, at int64) int { return cmp.Compare(s.from, at) })
	if i > 0 && at < c.local[i-1].to {
		return c.local[i-1].to
	}
	day := uint32(at / daySeconds)
	if c.week>>weekday(day)&1 != 0 {
		return c.endOfDay(day)
	}
	if _, month, date := civil(day); c.yearly[month]>>date&1 != 0 {
		return c.endOfDay(day)
	}
	return 0
}

func (c *Calendar) endOfDay(day uint32) int64 {
	if c.week == 1<<7-1 {
		return farFuture // every day is excluded
	}
	return int64(day+1) * daySeconds
}
