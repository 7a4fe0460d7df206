package schedule

import (
	"errors"
	"testing"
	"time"
)

// Whatever stands for the length of an interval, it is refused with what would be right, or is one that a clock can count.
func FuzzParseEvery(f *testing.F) {
	for _, text := range []string{"90s", "1h30m", "", "s", "1s1h", "999999h", "1000001h", "99999999999999999999s", "-1s", "1.5h", " 1s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseEvery(text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Field == "" || e.Want == "" {
				t.Errorf("%q: %#v", text, err)
			}
			return
		}
		if d < time.Second || d%time.Second != 0 || d > maxEvery*time.Second {
			t.Errorf("%q is %v", text, d)
		}
		if again, err := time.ParseDuration(text); err != nil || again != d {
			t.Errorf("%q is %v, and to others %v, %v", text, d, again, err)
		}
	})
}
