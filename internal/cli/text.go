package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// plain escapes control characters: tenants' text is shown on a terminal, which would obey them.
func plain(s string) string {
	if !strings.ContainsFunc(s, control) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		switch {
		case !control(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// control reports whether a terminal obeys a character, or it hides or reverses text; a tab is harmless.
func control(c rune) bool {
	return c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c))
}

// lines is text of several lines.
func lines(s string) string {
	all := strings.Split(s, "\n")
	for i, text := range all {
		all[i] = plain(text)
	}
	return strings.Join(all, "\n")
}

// line formats text as one line of a table.
func line(s string) string { return strings.ReplaceAll(plain(s), "\t", " ") }

// cut shortens text to n characters.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// span formats a duration for people.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d < 2*365*24*time.Hour:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	return strconv.Itoa(int(d/(365*24*time.Hour))) + "y"
}

func spanMS(ms int64) string { return span(time.Duration(ms) * time.Millisecond) }

// ago formats an instant relative to now, for people.
func ago(t, now time.Time) string {
	d := t.Sub(now)
	switch {
	case t.IsZero():
		return "-"
	case d > -time.Second && d < time.Second:
		return "now"
	case d > 0:
		return "in " + span(d.Truncate(time.Second))
	}
	return span((-d).Truncate(time.Second)) + " ago"
}

// exact formats an instant to the millisecond.
func exact(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// counting formats a number of things, in the singular or the plural.
func counting(n int64, one string) string { return fmt.Sprintf("%d %s", n, plural(n, one)) }

// plural returns the form of a noun that goes with a number.
func plural(n int64, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

// or returns what a pointer points to, or a default.
func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// dash returns text, or a dash if it is empty.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
