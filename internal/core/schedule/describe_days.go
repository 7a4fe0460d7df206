package schedule

import (
	"fmt"
	"time"
)

func (c *Cron) describeDays(w written) string {
	anyDate, anyWeekday := w.date.mask() == 1<<31-1, w.week.mask() == 1<<7-1
	text := ""
	switch {
	case w.either && (anyDate || anyWeekday), anyDate && anyWeekday:
		if c.hour != 1<<24-1 { // otherwise "every 5 minutes" covers it
			text = " every day"
		}
	case w.either:
		text = " " + describeDates(w.date) + ", and " + onWeekdays(w.week)
	case anyDate:
		text = " " + onWeekdays(w.week)
	case anyWeekday:
		text = " " + describeDates(w.date)
	default:
		text = " " + describeDates(w.date) + " if it is " + isWeekday(w.week)
	}
	switch m := w.month.mask(); {
	case m == 1<<12-1:
		return text
	case w.either:
		return text + ", in " + describeMonths(m) + " only"
	default:
		return text + " in " + describeMonths(m)
	}
}

func describeMonths(mask uint64) string {
	s := series{mask: mask, size: 12, base: 1}
	if first, last, ok := s.stretch(); ok {
		return time.Month(first).String() + " to " + time.Month(last).String()
	}
	var out []string
	for _, m := range s.values() {
		out = append(out, time.Month(m).String())
	}
	return list(out, "and")
}

// describeDates returns "on day 1 and 15 of the month".
func describeDates(f field) string {
	var out []string
	if m := f.mask(); m != 0 {
		out = append(out, "day "+series{mask: m, size: 31, base: 1}.numbers())
	}
	for _, it := range f.items {
		before := "the day before the last day"
		if it.a > 1 {
			before = fmt.Sprintf("the day %d days before the last day", it.a)
		}
		switch {
		case it.kind == kindLast && it.a == 0:
			out = append(out, "the last day")
		case it.kind == kindLast:
			out = append(out, before)
		case it.kind == kindLastW && it.a == 0:
			out = append(out, "the last weekday (Monday to Friday)")
		case it.kind == kindLastW:
			out = append(out, "the weekday (Monday to Friday) nearest to "+before)
		case it.kind == kindNearest:
			out = append(out, fmt.Sprintf("the weekday (Monday to Friday) nearest to day %d", it.a))
		}
	}
	return "on " + list(out, "and") + " of the month"
}

// onWeekdays returns "on every Friday".
func onWeekdays(f field) string {
	days, special := weekdayWords(f, "every day from ", "every ")
	return "on " + list(append(days, special...), "and")
}

// isWeekday returns "a Friday".
func isWeekday(f field) string {
	days, special := weekdayWords(f, "a day from ", "a ")
	return list(append(days, special...), "or")
}

// weekdayWords returns the plain weekdays, Monday first, and those with L and #.
func weekdayWords(f field, stretch, one string) (days, special []string) {
	s := series{mask: f.mask(), size: 7}
	if first, last, ok := s.stretch(); ok {
		days = []string{stretch + time.Weekday(first).String() + " to " + time.Weekday(last).String()}
	} else {
		for d := 1; d <= 7; d++ {
			if s.mask>>(d%7)&1 != 0 {
				days = append(days, one+time.Weekday(d%7).String())
				one = ""
			}
		}
	}
	ordinals := []string{"first", "second", "third", "fourth", "fifth"}
	for _, it := range f.items {
		switch it.kind {
		case kindDayLast:
			special = append(special, fmt.Sprintf("the last %s of the month", time.Weekday(it.a)))
		case kindNth:
			special = append(special, fmt.Sprintf("the %s %s of the month", ordinals[it.b-1], time.Weekday(it.a)))
		}
	}
	return days, special
}
