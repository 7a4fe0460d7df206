package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kind is the kind of an item in a field.
type kind uint8

const (
	kindAll     kind = iota // * or */s; ? too
	kindValue               // a
	kindRange               // a-b or a-b/s
	kindFrom                // a/s
	kindLast                // L or L-a
	kindLastW               // LW or L-aW
	kindNearest             // aW
	kindDayLast             // aL, of a weekday
	kindNth                 // a#b, of a weekday
)

// item is one part of a field's list.
type item struct {
	kind kind
	a, b int
	step int // 1 where none is written
	text string
	pos  int
}

// field is one field of an expression as it was written.
type field struct {
	unit  *unit
	text  string
	pos   int // in the expression, from 1
	items []item
}

// unit is the unit that a field counts.
type unit struct {
	name     string
	min, max int // as written; 7 is a second name of Sunday
	size     int // number of different values
	names    []string
	want     string
}

var (
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

	seconds  = &unit{name: "second", max: 59, size: 60, want: "0-59"}
	minutes  = &unit{name: "minute", max: 59, size: 60, want: "0-59"}
	hours    = &unit{name: "hour", max: 23, size: 24, want: "0-23"}
	dates    = &unit{name: "day-of-month", min: 1, max: 31, size: 31, want: "1-31, L, L-n, nW or LW"}
	months   = &unit{name: "month", min: 1, max: 12, size: 12, names: monthNames, want: "1-12 or JAN-DEC"}
	weekdays = &unit{name: "day-of-week", max: 7, size: 7, names: dayNames, want: "0-7 or SUN-SAT, dL or d#n"}
)

const maxItems = 64

// parseField reads one field; text is upper case.
func parseField(u *unit, text string, pos int) (field, error) {
	f := field{unit: u, text: text, pos: pos, items: make([]item, 0, strings.Count(text, ",")+1)}
	if cap(f.items) > maxItems {
		return f, wrong(u.name, text, pos, fmt.Sprintf("at most %d items in a list", maxItems), "a range or a step may say the same")
	}
	for rest, more := text, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		it, err := u.item(part, pos)
		if err != nil {
			return f, err
		}
		f.items = append(f.items, it)
		pos += len(part) + 1
	}
	return f, nil
}

// item reads one item of a list.
func (u *unit) item(text string, pos int) (item, error) {
	it := item{text: text, pos: pos, step: 1}
	if text == "" {
		return it, wrong(u.name, text, pos, u.want, "an item of the list is empty: is there a comma too many?")
	}
	if special, err := u.special(&it); special || err != nil {
		return it, err
	}
	body, step, stepped := strings.Cut(text, "/")
	if stepped {
		var ok bool
		if it.step, ok = number(step); !ok || it.step < 1 {
			return it, wrong(u.name, text, pos, "a step of 1 or more after the /", "")
		}
	}
	if body == "*" || body == "?" {
		return it, u.wildcard(body, stepped, it)
	}
	low, high, ranged := strings.Cut(body, "-")
	var err error
	if it.a, err = u.value(low, it); err != nil {
		return it, err
	}
	switch {
	case ranged:
		it.kind = kindRange
		it.b, err = u.value(high, it)
	case stepped:
		it.kind = kindFrom
	default:
		it.kind = kindValue
	}
	return it, err
}

func (u *unit) wildcard(body string, stepped bool, it item) error {
	if body == "?" && u != dates && u != weekdays {
		return wrong(u.name, it.text, it.pos, u.want, "? stands in the day fields only: write *")
	}
	if body == "?" && stepped {
		return wrong(u.name, it.text, it.pos, u.want, "? takes no step: write */n")
	}
	return nil
}

// value reads a number or a name.
func (u *unit) value(text string, it item) (int, error) {
	if i := slices.Index(u.names, text); i >= 0 {
		return i + u.min, nil
	}
	v, ok := number(text)
	if !ok || v < u.min || v > u.max {
		return 0, wrong(u.name, it.text, it.pos, u.want, u.hint(text, it))
	}
	return v, nil
}

// hint guesses the value that was meant.
func (u *unit) hint(text string, it item) string {
	switch _, isNumber := number(text); {
	case isNumber && u == hours && text == "24":
		return "midnight is hour 0"
	case isNumber:
		return ""
	case text == "" && it.text[0] == '-':
		return "numbers have no sign; a range needs a value on both sides"
	case text == "":
		return "a range or a step needs a value before it"
	case text == "L" && u == weekdays:
		return "which weekday? write 5L for the last Friday"
	case strings.HasSuffix(text, "W") && u == weekdays:
		return "W belongs to the day-of-month field"
	case strings.ContainsAny(it.text, "LW#") && (u == dates || u == weekdays):
		return "L, W and # take no range and no step"
	case strings.Contains(text, "#"):
		return "# belongs to the day-of-week field"
	case len(text) > 3 && slices.Contains(u.names, text[:3]):
		return "names have three letters: " + text[:3]
	case len(text) == 3 && slices.Contains(monthNames, text):
		return "the month is the field after the day of the month"
	case len(text) == 3 && slices.Contains(dayNames, text):
		return "the weekday is the last field"
	}
	return ""
}

// special reads the items with L, W and #, which only the day fields have.
func (u *unit) special(it *item) (bool, error) {
	switch u {
	case dates:
		return u.specialDate(it)
	case weekdays:
		return u.specialWeekday(it)
	}
	return false, nil
}

func (u *unit) specialDate(it *item) (bool, error) {
	body, w := strings.CutSuffix(it.text, "W")
	if body == "L" {
		it.kind = kindLast
	} else if n, ok := strings.CutPrefix(body, "L-"); ok {
		it.kind = kindLast
		if it.a, ok = number(n); !ok || it.a < 1 || it.a > 30 {
			return false, wrong(u.name, it.text, it.pos, "L-1 to L-30", "L-n is n days before the last day of the month")
		}
	} else if w {
		it.kind = kindNearest
		var ok bool
		if it.a, ok = number(body); !ok || it.a < 1 || it.a > 31 {
			return false, wrong(u.name, it.text, it.pos, "1W to 31W, LW or L-nW", "15W is the weekday nearest to the 15th; it takes no range and no step")
		}
		return true, nil
	} else {
		return false, nil
	}
	if w {
		it.kind = kindLastW
	}
	return true, nil
}

func (u *unit) specialWeekday(it *item) (bool, error) {
	day, n, hash := strings.Cut(it.text, "#")
	if hash {
		it.kind = kindNth
		var ok bool
		if it.b, ok = number(n); !ok || it.b < 1 || it.b > 5 {
			return false, wrong(u.name, it.text, it.pos, "a number from 1 to 5 after the #", "FRI#2 is the second Friday of the month")
		}
	} else if l, ok := strings.CutSuffix(it.text, "L"); ok && l != "" {
		it.kind, day = kindDayLast, l
	} else {
		return false, nil
	}
	var err error
	it.a, err = u.value(day, *it)
	it.a %= 7
	return true, err
}

// number reads digits. Numbers too large to matter are all equivalent.
func number(s string) (int, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > 1e9 {
		n = 1e9
	}
	return n, true
}

// bounds returns the first value of an item and how many follow it, counted on through a wrap.
func (u *unit) bounds(it item) (first, length int) {
	a, b := it.a, it.b
	if u == weekdays && a == 7 {
		a = 0 // 7-2 is Sunday to Tuesday
	}
	switch it.kind {
	case kindAll:
		return u.min, u.size - 1
	case kindFrom:
		return a, u.min + u.size - 1 - a
	case kindRange:
		if it.a == it.b {
			return a, 0
		}
		if b < a {
			b += u.size
		}
		return a, b - a
	}
	return a, 0
}

// mask returns a bit for each value that the plain items match; bit 0 is the unit's least value.
func (f field) mask() uint64 {
	var m uint64
	for _, it := range f.items {
		if it.kind >= kindLast {
			continue
		}
		if it.kind == kindAll && it.step == 1 {
			return 1<<f.unit.size - 1
		}
		first, length := f.unit.bounds(it)
		for i := 0; i <= length; i += it.step {
			m |= 1 << ((first - f.unit.min + i) % f.unit.size)
		}
	}
	return m
}

// open reports whether a time field keeps its interval through a change of the clocks.
func (f field) open() bool {
	return slices.ContainsFunc(f.items, func(it item) bool { return it.kind == kindAll || it.kind == kindFrom }) || f.mask() == 1<<f.unit.size-1
}

// plain reports whether a field is exactly * or ?.
func (f field) plain() bool { return f.text == "*" || f.text == "?" }

// starred reports whether a field begins like a wildcard.
func (f field) starred() bool { return f.text[0] == '*' || f.text[0] == '?' }
