package cli

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Whatever is typed as a rate, an instant or a command line, it is refused in words, or it means something.
func FuzzTyped(f *testing.F) {
	for _, text := range []string{"", "10/1s", "10/s", "100/m", "/", "1/", "x/1s", "+10m", "-24h", "15:04", "2026-01-31 15:04", "now", "2026-01-31T15:04:05Z", "+9223372036854775807ns", `a 'b c' "d\"" e\ f`, `'`, `\`, "{}", `{"a": 1}`} {
		f.Add(text)
	}
	now := time.Date(2026, 3, 29, 1, 59, 0, 0, time.UTC)
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var u usage
		if got, err := parseRate(text); err == nil && (got["count"] == nil || got["per"] == "") || err != nil && !errors.As(err, &u) {
			t.Errorf("the rate %q: %v, %v", text, got, err)
		}
		if at, err := parseTime(text, zone, now); err == nil && at.IsZero() && !strings.HasPrefix(text, "0001-01-01") && !strings.HasPrefix(text, "-") {
			t.Errorf("the instant %q: %v", text, at)
		}
		if ws, err := words(text); err == nil && len(ws) > len(text) {
			t.Errorf("the line %q: %q", text, ws)
		}
		_, _ = decodeFields([]byte(text))
	})
}
