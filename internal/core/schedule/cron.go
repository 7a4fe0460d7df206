package schedule

import (
	"math/bits"
	"time"
)

// Cron is a compiled expression. It is immutable and safe for concurrent use.
type Cron struct {
	second, minute uint64     // masks of the values that match
	hour, month    uint32     // month: bit 0 is January
	week           uint32     // if weekdays alone decide: those that match; else 0
	first          uint32     // the first matching second of a day
	hourOpen       bool       // the hour field keeps its interval through a gap
	open           bool       // every pass of a repeated hour counts
	waits          *[60]uint8 // if the minute alone decides, at whole minutes in a zone with one offset: from each minute to the next that matches; else nil
	days           shapes
	every          int64 // seconds; 0 unless the expression is @every
	zone           *Zone
	text           string
	day            Day
}

func compile(expression string, o Options, w written) (*Cron, error) {
	c := &Cron{zone: o.Zone, text: expression, day: o.Day, every: int64(w.every / time.Second)}
	if c.every > 0 {
		return c, nil
	}
	c.second, c.minute = w.second.mask(), w.minute.mask()
	c.hour, c.month = uint32(w.hour.mask()), uint32(w.month.mask())
	c.hourOpen = w.hour.open()
	c.open = c.hourOpen || w.minute.open() || w.seconds && w.second.open()
	c.first = uint32(bits.TrailingZeros32(c.hour)*3600 + bits.TrailingZeros64(c.minute)*60 + bits.TrailingZeros64(c.second))
	c.days = daysOf(w.date, w.week, w.either)
	if !c.days.possible(c.month) {
		return nil, neverFires(w)
	}
	if c.month == 1<<12-1 {
		c.week = c.days.weekly()
	}
	if c.week == everyDay && c.hour == 1<<24-1 && c.second == 1 && c.zone.fixed && c.zone.spans[0].off%60 == 0 {
		c.waits = new([60]uint8)
		for m := range c.waits {
			for c.minute>>((m+int(c.waits[m]))%60)&1 == 0 {
				c.waits[m]++
			}
		}
	}
	return c, nil
}

// neverFires names the days that the months, or the other day field, rule out. Weekdays alone never do: some February
// has five of each.
func neverFires(w written) error {
	why := "none of the months has such a day"
	if !w.week.plain() {
		why = "no day of the months satisfies both day fields"
	}
	return wrong(dates.name, w.date.text, w.date.pos, "a day that exists", "this expression never fires: "+why)
}

// String returns the expression as it was written.
func (c *Cron) String() string { return c.text }

// Zone returns the zone in which the expression is read.
func (c *Cron) Zone() *Zone { return c.zone }

// Every returns the length of an @every expression, and 0 for all others.
func (c *Cron) Every() time.Duration { return time.Duration(c.every) * time.Second }

const (
	minInstant = -62135596800 // 0001-01-01T00:00:00Z
	maxInstant = 253402300799 // 9999-12-31T23:59:59Z
	searchYear = 41           // the rarest day, a 29 February on a given weekday, comes within 40 years
	never      = uint64(1) << 62
	everyDay   = 1<<7 - 1
)

// Next returns the earliest firing after an instant, in UTC and whole seconds; false if there is none before the year
// 10000. A standalone @every expression counts from the given instant; a Plan gives it an anchor.
func (c *Cron) Next(after time.Time) (time.Time, bool) {
	sec := max(after.Unix(), minInstant-1)
	if sec >= maxInstant {
		return time.Time{}, false
	}
	if c.every > 0 {
		sec += c.every
	} else {
		sec = c.next(sec + 1)
	}
	if sec > maxInstant {
		return time.Time{}, false
	}
	return time.Unix(sec, 0).UTC(), true
}

// next returns the first firing at t or later, in Unix seconds. Local time is kept in seconds since 0000-03-01.
func (c *Cron) next(t int64) int64 {
	if c.waits != nil {
		shift := c.zone.spans[0].off + epochShift
		m := uint64(t+shift+59) / 60
		return int64(m+uint64(c.waits[m%60]))*60 - shift
	}
	if c.zone.fixed {
		shift := c.zone.spans[0].off + epochShift
		if local := c.nextLocal(uint64(t + shift)); local < never {
			return int64(local) - shift
		}
		return farFuture
	}
	s := c.zone.at(t)
	if t == s.lo && c.madeUp(s) {
		return t
	}
	at := t + s.off
	if !c.open && s.off < s.prev {
		at = max(at, s.lo+s.prev) // earlier local times occurred before the change
	}
	local := c.nextLocal(uint64(at + epochShift))
	for {
		// Every match before local has passed.
		if end := uint64(s.hi + s.off + epochShift); local < end {
			return int64(local) - epochShift - s.off
		}
		if local >= never {
			return farFuture
		}
		n := c.zone.at(s.hi)
		begin := uint64(n.lo + n.off + epochShift)
		switch {
		case n.off > s.off && local < begin:
			if !c.hourOpen {
				return n.lo
			}
			local = c.nextLocal(begin)
		case n.off < s.off && c.open:
			local = c.nextLocal(begin)
		}
		s = n
	}
}

// madeUp reports whether a span begins with a firing for local times that the clocks skipped.
func (c *Cron) madeUp(s span) bool {
	return s.off > s.prev && !c.hourOpen && c.nextLocal(uint64(s.lo+s.prev+epochShift)) < uint64(s.lo+s.off+epochShift)
}

// nextLocal returns the first matching local second at or after one.
func (c *Cron) nextLocal(at uint64) uint64 {
	from := uint32(at / daySeconds)
	tod, ok := c.timeOfDay(uint32(at - uint64(from)*daySeconds))
	if !ok {
		from++ // so that one search for a day is enough
	}
	day, found := c.nextDay(from)
	if !found {
		return never
	}
	if !ok || day != from {
		tod = c.first
	}
	return uint64(day)*daySeconds + uint64(tod)
}

// timeOfDay returns the first matching second of a day at or after one.
func (c *Cron) timeOfDay(at uint32) (uint32, bool) {
	h, m, s := at/3600, at/60%60, at%60
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if rest := c.second >> s; rest != 0 {
				return at + uint32(bits.TrailingZeros64(rest)), true
			}
		}
		if rest := c.minute >> m >> 1; rest != 0 {
			return h*3600 + (m+1+uint32(bits.TrailingZeros64(rest)))*60 + uint32(bits.TrailingZeros64(c.second)), true
		}
	}
	if rest := c.hour >> h >> 1; rest != 0 {
		return c.first%3600 + (h+1+uint32(bits.TrailingZeros32(rest)))*3600, true
	}
	return 0, false
}

// nextDay returns the first matching day at or after one.
func (c *Cron) nextDay(day uint32) (uint32, bool) {
	if c.week == everyDay {
		return day, true
	}
	if c.week != 0 {
		twice := c.week | c.week<<7
		return day + uint32(bits.TrailingZeros32(twice>>weekday(day))), true
	}
	i := monthOf(day)
	m := monthAt(i)
	date := day - m.first
	for end := i + searchYear*12; i <= end; date = 0 {
		if c.month>>m.month&1 != 0 {
			if days := c.days[m.shape] >> date; days != 0 {
				return m.first + date + uint32(bits.TrailingZeros32(days)), true
			}
		}
		if rest := c.month >> m.month >> 1; rest != 0 {
			i += 1 + uint32(bits.TrailingZeros32(rest))
		} else {
			i += 12 - uint32(m.month) + uint32(bits.TrailingZeros32(c.month))
		}
		m = monthAt(i)
	}
	return 0, false
}
