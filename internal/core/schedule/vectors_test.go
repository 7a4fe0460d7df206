package schedule

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"
)

type vector struct {
	Expr, TZ, Day string
	From          time.Time
	Next          []time.Time
	Valid         *bool
	Cat, Src      string
}

// TestVectors holds the engine to what other crons agree on, and to our rules where they do not.
func TestVectors(t *testing.T) {
	f, err := os.Open("testdata/cron-vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := 0
	for lines := bufio.NewScanner(f); lines.Scan(); seen++ {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if v.Valid != nil && !*v.Valid {
			_, err := Parse(v.Expr, Options{Day: Day(v.Day)})
			var e *Error
			if !errors.As(err, &e) || e.Field == "" || e.Want == "" || e.Position < 0 || e.Position > len(v.Expr) {
				t.Errorf("%q (%s) is refused with %#v", v.Expr, v.Src, err)
			}
			continue
		}
		c, err := Parse(v.Expr, Options{Zone: zone(t, v.TZ), Day: Day(v.Day)})
		if err != nil {
			t.Errorf("%q: %v", v.Expr, err)
			continue
		}
		at := v.From
		for _, want := range v.Next {
			got, ok := c.Next(at)
			if !ok || !got.Equal(want) {
				t.Errorf("%q (%s, %s, %s) after %v: %v, want %v", v.Expr, v.TZ, v.Cat, v.Src, at, got.In(want.Location()), want)
				break
			}
			at = got
		}
	}
	if seen != 960 {
		t.Errorf("%d vectors", seen)
	}
}

// zone loads a zone for a test.
func zone(t testing.TB, name string) *Zone {
	t.Helper()
	z, err := zones.Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

var zones = NewCache(time.LoadLocation)
