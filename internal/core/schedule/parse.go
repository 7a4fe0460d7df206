package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Day determines how the two day fields of an expression combine.
type Day string

// The day modes. An empty one is Vixie.
const (
	Vixie  Day = "vixie" // either field suffices, unless one begins with * or ?; then both are needed
	Either Day = "or"    // either field suffices, unless one is exactly * or ?; then both are needed
	Both   Day = "and"   // both fields are needed
)

// Options are the options of an expression.
type Options struct {
	Zone *Zone // UTC where nil
	Day  Day   // Vixie where empty
}

const maxExpression = 256

var macros = map[string]string{
	"@YEARLY": "0 0 1 1 *", "@ANNUALLY": "0 0 1 1 *", "@MONTHLY": "0 0 1 * *", "@WEEKLY": "0 0 * * 0",
	"@DAILY": "0 0 * * *", "@MIDNIGHT": "0 0 * * *", "@HOURLY": "0 * * * *",
}

// written is a parsed expression that is not compiled yet.
type written struct {
	second, minute, hour, date, month, week field
	seconds                                 bool // there is a seconds field
	either                                  bool // either of the day fields suffices
	every                                   time.Duration
}

// Parse compiles an expression. An invalid one is refused with an *Error.
func Parse(expression string, o Options) (*Cron, error) {
	if o.Zone == nil {
		o.Zone = UTC
	}
	if o.Day == "" {
		o.Day = Vixie
	}
	w, err := take(expression, o.Day)
	if err != nil {
		return nil, err
	}
	return compile(expression, o, w)
}

// take parses an expression without compiling it.
func take(expression string, day Day) (written, error) {
	var w written
	if day != Vixie && day != Either && day != Both {
		return w, wrong("day", string(day), 0, `"vixie", "or" or "and"`, "")
	}
	if len(expression) > maxExpression {
		return w, wrong("expression", expression, 0, fmt.Sprintf("at most %d bytes", maxExpression), "")
	}
	for i := range len(expression) {
		if c := expression[i]; c >= 0x80 || c < ' ' && c != '\t' {
			return w, wrong("expression", expression, i+1, "ASCII letters, digits, spaces and * ? , - / # @", "")
		}
	}
	text := upper(expression)
	if at := strings.TrimLeft(text, " \t"); strings.HasPrefix(at, "@") {
		return takeMacro(expression, strings.TrimRight(at, " \t"), len(text)-len(at)+1, day)
	}
	return w, asWritten(w.fields(expression, text, day), expression)
}

// asWritten restores the lower case of the item that an error names.
func asWritten(err error, expression string) error {
	var e *Error
	if errors.As(err, &e) && e.Position > 0 && e.Position-1+len(e.Value) <= len(expression) {
		if w := expression[e.Position-1:][:len(e.Value)]; strings.EqualFold(w, e.Value) {
			e.Value = w
		}
	}
	return err
}

func takeMacro(expression, text string, pos int, day Day) (written, error) {
	var w written
	if full, ok := macros[text]; ok {
		return w, w.fields(full, full, day)
	}
	name, length, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	shown := strings.TrimSpace(expression)
	if name != "@EVERY" {
		hint := ""
		if name == "@REBOOT" {
			hint = "a job runs on no particular machine, so there is no boot to wait for"
		}
		return w, wrong("expression", shown, pos, "@yearly, @monthly, @weekly, @daily, @hourly or @every with a duration", hint)
	}
	rest := strings.TrimLeft(length, " ")
	every, ok := duration(strings.ToLower(rest))
	if !ok {
		return w, wrong("expression", shown, pos+len(text)-len(rest), "@every with a duration of "+wantEvery, "")
	}
	w.every = every
	return w, nil
}

// fields reads the five or six fields of an upper-case text.
func (w *written) fields(expression, text string, day Day) error {
	var parts [7]string
	var at [7]int
	n := 0
	for i := 0; i < len(text); {
		if text[i] == ' ' || text[i] == '\t' {
			i++
			continue
		}
		if n == 7 {
			break
		}
		end := i
		for end < len(text) && text[end] != ' ' && text[end] != '\t' {
			end++
		}
		parts[n], at[n] = text[i:end], i+1
		n, i = n+1, end
	}
	if n != 5 && n != 6 {
		return miscounted(expression, n, at[6])
	}
	w.seconds = n == 6
	units := [6]*unit{seconds, minutes, hours, dates, months, weekdays}
	into := [6]*field{&w.second, &w.minute, &w.hour, &w.date, &w.month, &w.week}
	if !w.seconds {
		w.second = field{unit: seconds, text: "0", items: []item{{kind: kindValue, step: 1}}}
	}
	for i := range n {
		k := i + 6 - n
		f, err := parseField(units[k], parts[i], at[i])
		if err != nil {
			return err
		}
		*into[k] = f
	}
	switch day {
	case Vixie:
		w.either = !w.date.starred() && !w.week.starred()
	case Either:
		w.either = !w.date.plain() && !w.week.plain()
	}
	return nil
}

func miscounted(expression string, n, at int) error {
	want := "5 fields (minute hour day-of-month month day-of-week), or 6 with a second before them"
	switch {
	case n == 0:
		return wrong("expression", expression, 0, want, "it is empty")
	case n == 7:
		return wrong("expression", expression, at, want, "there are too many fields; there is no year field")
	}
	return wrong("expression", expression, 0, want, fmt.Sprintf("there are %d fields", n))
}

// upper converts ASCII letters to upper case and keeps every position.
func upper(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

const (
	wantEvery = `at least 1s, in whole hours, minutes and seconds, such as "90s" or "1h30m"`
	maxEvery  = 1_000_000 * 3600 // seconds; more than a century is a mistake
)

// ParseEvery parses the length of an interval: "90s", "1h30m".
func ParseEvery(text string) (time.Duration, error) {
	d, ok := duration(text)
	if !ok {
		return 0, wrong("every", text, 0, wantEvery, "")
	}
	return d, nil
}

func duration(text string) (time.Duration, bool) {
	total, units := 0, "hms"
	for text != "" {
		i := strings.IndexAny(text, "hms")
		if i < 0 {
			return 0, false
		}
		u := strings.IndexByte(units, text[i])
		_, digits := number(text[:i])
		n, err := strconv.Atoi(text[:i])
		if !digits || err != nil || n > maxEvery || u < 0 {
			return 0, false
		}
		total += n * map[byte]int{'h': 3600, 'm': 60, 's': 1}[text[i]]
		units, text = units[u+1:], text[i+1:]
	}
	return time.Duration(total) * time.Second, total >= 1 && total <= maxEvery
}
