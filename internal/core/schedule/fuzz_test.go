package schedule

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"
)

// seeds are the expressions of the vectors.
func seeds(f *testing.F) []string {
	file, err := os.Open("testdata/cron-vectors.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	var out []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			f.Fatal(err)
		}
		out = append(out, v.Expr)
	}
	return out
}

// FuzzParse holds for any text: it is refused with an *Error that points into it, or everything can be asked of it.
func FuzzParse(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s, "")
	}
	f.Add("0 0 13 * 5", "and")
	asOf := utc("2026-01-01T00:00:00Z")
	berlin := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, expr, day string) {
		c, err := Parse(expr, Options{Zone: berlin, Day: Day(day)})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Field == "" || e.Want == "" || e.Position < 0 || e.Position > len(expr)+1 {
				t.Fatalf("%q: %#v", expr, err)
			}
			return
		}
		if at, ok := c.Next(asOf); !ok || !at.After(asOf) {
			t.Fatalf("%q after %v: %v, %v", expr, asOf, at, ok)
		}
		if c.Describe() == "" || c.String() != expr {
			t.Fatalf("%q is described as %q", expr, c.Describe())
		}
		for _, w := range (Plan{Cron: c, Jitter: time.Hour}).Lint(asOf) {
			if w.Code == "" || w.Message == "" {
				t.Fatalf("%q: %v", expr, w)
			}
		}
	})
}

// FuzzNext holds for any instant and zone: the answer is later, whole seconds, and nothing lies between.
func FuzzNext(f *testing.F) {
	for i, s := range seeds(f) {
		f.Add(s, int64(i)*12345678, int64(0), uint8(i))
	}
	f.Add("0 0 29 2 *", int64(-62135596801), int64(999999999), uint8(3))
	f.Add("* * * * *", int64(253402300799), int64(1), uint8(0))
	f.Add("*/5 * * * *", int64(1)<<62, int64(0), uint8(9))
	f.Fuzz(func(t *testing.T, expr string, sec, nsec int64, which uint8) {
		z := zone(t, changes[int(which)%len(changes)].zone)
		c, err := Parse(expr, Options{Zone: z})
		if err != nil {
			return
		}
		from := time.Unix(sec, nsec)
		at, ok := c.Next(from)
		if !ok {
			if from.Unix() < utc("9950-01-01T00:00:00Z").Unix() && c.every == 0 {
				t.Fatalf("%q in %s never fires after %v", expr, z, from)
			}
			return
		}
		if !at.After(from) || at.Nanosecond() != 0 || at.Location() != time.UTC {
			t.Fatalf("%q after %v: %v", expr, from, at)
		}
		if c.every > 0 || at.Unix()-1 <= from.Unix() {
			return
		}
		// Asked from any instant between, the answer is the same.
		between := time.Unix(max(from.Unix(), minInstant)+(at.Unix()-max(from.Unix(), minInstant))/2, 0)
		if again, ok := c.Next(between); between.Before(at) && (!ok || !again.Equal(at)) {
			t.Fatalf("%q in %s after %v: %v; but after %v: %v", expr, z, from, at, between, again)
		}
	})
}
