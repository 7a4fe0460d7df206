package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestCron(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		code     int
		out, err []string
	}{
		{"explain", []string{"explain", "30 2 13 * 5", "--timezone", "Europe/Berlin", "--from", "2026-03-01T00:00:00Z", "-n", "2"}, 0,
			[]string{"At 02:30 on day 13 of the month, and on every Friday (Europe/Berlin)\n", "warning either-day: ", "Fri 2026-03-06 02:30:00 +01:00  2026-03-06T01:30:00Z", "Fri 2026-03-13"}, nil},
		{"both days", []string{"next", "0 0 13 * 5", "--day", "and", "--from", "2026-03-01T00:00:00Z", "-n", "1"}, 0, []string{"Fri 2026-03-13 00:00:00 +00:00"}, nil},
		{"a gap", []string{"next", "30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2026-03-28T12:00:00Z", "-n", "1"}, 0, []string{"Sun 2026-03-29 03:00:00 +02:00  2026-03-29T01:00:00Z  gap"}, nil},
		{"without quotes", []string{"next", "30", "2", "1", "1", "1", "-n", "1"}, 0, []string{"02:30:00"}, nil},
		{"an interval", []string{"explain", "@every 90s", "--from", "2026-03-01T00:00:00Z", "-n", "1"}, 0, []string{"Every 1m30s", "2026-03-01T00:01:30Z"}, nil},
		{"lint", []string{"lint", "*/7 * * * *"}, 0, []string{"warning step-uneven: minute */7"}, nil},
		{"no warnings", []string{"lint", "0 12 * * *"}, 0, []string{"No warnings."}, nil},
		{"help", []string{}, 0, []string{"explain", "next", "lint"}, nil},
		{"a bad item", []string{"explain", "0 0 * * L"}, 2, nil, []string{"\n  0 0 * * L\n          ^\n", "5L"}},
		{"a bad number", []string{"next", "0 25 * * *"}, 2, nil, []string{"\n  0 25 * * *\n    ^^\n", "0-23"}},
		{"a tab before it", []string{"next", "0\t25 * * *"}, 2, nil, []string{"\n  0 25 * * *\n    ^^\n"}},
		{"too few fields", []string{"lint", "0 25"}, 2, nil, []string{"there are 2 fields"}},
		{"a zone", []string{"next", "0 2 * * *", "--timezone", "CEST"}, 2, nil, []string{"timezone", "Europe/Berlin"}},
		{"a day mode", []string{"next", "0 2 * * *", "--day", "xor"}, 2, nil, []string{"day", "vixie"}},
		{"an instant", []string{"next", "0 2 * * *", "--from", "now"}, 2, nil, []string{"--from"}},
		{"too many", []string{"next", "0 2 * * *", "-n", "1001"}, 2, nil, []string{"1000"}},
		{"no expression", []string{"next"}, 2, nil, []string{"which expression?"}},
		{"an unknown flag", []string{"lint", "0 2 * * *", "-n", "5"}, 2, nil, []string{"-n"}},
	} {
		var out, errs bytes.Buffer
		code := Main(append([]string{"cron"}, c.args...), &out, &errs)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d: %s%s", c.name, code, c.code, out.String(), errs.String())
		}
		for _, want := range c.out {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in\n%s", c.name, want, out.String())
			}
		}
		for _, want := range c.err {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s: %q is not in\n%s", c.name, want, errs.String())
			}
		}
	}
}
