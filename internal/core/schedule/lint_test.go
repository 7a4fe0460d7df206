package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestLint(t *testing.T) {
	asOf := utc("2026-01-01T00:00:00Z")
	for _, x := range []struct {
		expr, zone string
		want       string // codes
		says       string
	}{
		{"*/15 * * * *", "Europe/Berlin", "", ""},
		{"0 12 * * *", "Europe/Berlin", "", ""},
		{"*/7 * * * *", "UTC", "step-uneven", "minute */7"},
		{"5/7 * * * *", "UTC", "step-uneven", ""},
		{"0 */5 * * *", "UTC", "step-uneven", "hour */5"},
		{"0 9-17/2 * * *", "UTC", "", ""},
		{"0-29/10 * * * *", "UTC", "", ""},
		{"0 9-17/3 * * *", "UTC", "", ""},
		{"0 9-18/4 * * *", "UTC", "step-uneven", ""},
		{"*/70 * * * *", "UTC", "step-too-large", "only 0 is left"},
		{"0 0 */31 * *", "UTC", "step-too-large", ""},
		{"0 0 13 * 5", "UTC", "either-day", `"and"`},
		{"0 0 31 * *", "UTC", "missing-day", "February, April, June, September and November"},
		{"0 0 31 1,3 *", "UTC", "", ""},
		{"0 0 29 2 *", "UTC", "missing-day", "February of most years"},
		{"0 0 L-29 * *", "UTC", "missing-day", "February"},
		{"0 0 30W 4,2 *", "UTC", "missing-day", "February"},
		{"0 0 28-3 * *", "UTC", "", ""},
		{"0 0 * * 1#5", "UTC", "missing-day", "fifth Monday"},
		{"30 2 * * *", "Europe/Berlin", "gap overlap", "02:30:00 does not exist on 2026-03-29 in Europe/Berlin, where the clocks go forward: fires at 03:00:00"},
		{"30 2 * * *", "Europe/Berlin", "gap overlap", "02:30:00 comes twice on 2026-10-25 in Europe/Berlin, where the clocks go back: fires the first time only"},
		{"*/30 2 * * *", "Europe/Berlin", "gap overlap", "fires both times"},
		{"30 2 * * 1", "Europe/Berlin", "", ""},
		{"30 * * * *", "Europe/Berlin", "", ""},
		{"30 2 * * *", "Asia/Kathmandu", "", ""},
		{"0 0 * * *", "Africa/Cairo", "gap", "fires at 01:00:00"},
		{"@every 1h", "Europe/Berlin", "", ""},
	} {
		c, err := zones.Cron(x.expr, x.zone, "")
		if err != nil {
			t.Fatal(err)
		}
		var codes, messages []string
		for _, w := range (Plan{Cron: c}).Lint(asOf) {
			codes, messages = append(codes, w.Code), append(messages, w.Message)
		}
		if got := strings.Join(codes, " "); got != x.want || !strings.Contains(strings.Join(messages, "; "), x.says) {
			t.Errorf("%s in %s: %s: %s", x.expr, x.zone, got, strings.Join(messages, "; "))
		}
	}
}

func TestLintJitter(t *testing.T) {
	asOf := utc("2026-01-01T00:00:00Z")
	c := mustParse(t, "0,10 * * * *")
	for window, want := range map[time.Duration]int{0: 0, 10 * time.Minute: 0, 10*time.Minute + 1: 1} {
		if got := (Plan{Cron: c, Jitter: window}).Lint(asOf); len(got) != want || want > 0 && got[0].Code != LintJitter {
			t.Errorf("a jitter of %v: %v", window, got)
		}
		if got := (Plan{Every: 10 * time.Minute, Jitter: window}).Lint(asOf); len(got) != want {
			t.Errorf("a jitter of %v, interval: %v", window, got)
		}
	}
}
