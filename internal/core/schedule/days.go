package schedule

import "math/bits"

// shapes holds the days of every shape of month: 28 to 31 days, by the weekday of the first. Bit 0 is the first day.
type shapes [4 * 7]uint32

func shape(days, first uint32) uint32 { return (days-28)*7 + first }

const weeks = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28

// pattern lays a mask of weekdays over a month that begins with the weekday first.
func pattern(week, first uint32) uint32 {
	return uint32(uint64(week>>first|week<<(7-first)&0x7f) * weeks)
}

// daysOf computes the shapes: either field suffices, or both are needed.
func daysOf(date, week field, either bool) (s shapes) {
	plainDates, plainWeek := uint32(date.mask()), uint32(week.mask())
	for n := uint32(28); n <= 31; n++ {
		for first := range uint32(7) {
			byDate, byWeek := plainDates, pattern(plainWeek, first)
			for _, it := range date.items {
				byDate |= specialDate(it, int(n), int(first))
			}
			for _, it := range week.items {
				byWeek |= specialWeekday(it, int(n), int(first))
			}
			days := byDate & byWeek
			if either {
				days = byDate | byWeek
			}
			s[shape(n, first)] = days & (1<<n - 1)
		}
	}
	return s
}

// specialDate returns the day of an item with L or W in a month of n days, or nothing.
func specialDate(it item, n, first int) uint32 {
	switch it.kind {
	case kindLast, kindLastW:
		return dayBit(n-it.a, n, first, it.kind == kindLastW)
	case kindNearest:
		return dayBit(it.a, n, first, true)
	}
	return 0
}

// dayBit returns day d, or the weekday (Monday to Friday) nearest to it within the month.
func dayBit(d, n, first int, workday bool) uint32 {
	if d < 1 || d > n {
		return 0
	}
	if workday {
		switch (first + d - 1) % 7 {
		case 6:
			if d--; d == 0 {
				d = 3
			}
		case 0:
			if d++; d > n {
				d = n - 2
			}
		}
	}
	return 1 << (d - 1)
}

// specialWeekday returns the day of an item with L or # in a month of n days, or nothing.
func specialWeekday(it item, n, first int) uint32 {
	d := (it.a-first+7)%7 + 1
	switch it.kind {
	case kindDayLast:
		d += (n - d) / 7 * 7
	case kindNth:
		if d += 7 * (it.b - 1); d > n {
			return 0
		}
	default:
		return 0
	}
	return 1 << (d - 1)
}

// weekly returns the mask of weekdays equivalent to the shapes, or 0 if there is none.
func (s *shapes) weekly() uint32 {
	week := s[shape(28, 0)] & 0x7f
	for n := uint32(28); n <= 31; n++ {
		for first := range uint32(7) {
			if s[shape(n, first)] != pattern(week, first)&(1<<n-1) {
				return 0
			}
		}
	}
	return week
}

// possible reports whether some month of the mask ever has a day. Every month begins on every weekday, sooner or
// later.
func (s *shapes) possible(months uint32) bool {
	for ; months != 0; months &= months - 1 {
		m := bits.TrailingZeros32(months)
		for first := range uint32(7) {
			if s[shape(monthDays[m], first)] != 0 || m == 1 && s[shape(29, first)] != 0 {
				return true
			}
		}
	}
	return false
}
