package job

import (
	"strings"
	"testing"
	"time"
)

func TestLimitsAreChecked(t *testing.T) {
	rate := Rate{Count: 10, Per: time.Second, Burst: 1}
	for _, c := range []struct {
		name   string
		field  string // "": it is right
		change func(*Definition)
	}{
		{"a limit", "", func(d *Definition) { d.MaxConcurrent = 1_000_000 }},
		{"a rate", "", func(d *Definition) { d.Rate = rate }},
		{"the fastest", "", func(d *Definition) { d.Rate = Rate{Count: 1_000_000, Per: time.Second, Burst: 1_000_000} }},
		{"a unique key", "", func(d *Definition) { d.UniqueKey = strings.Repeat("é", 255) }},
		{"spans", "", func(d *Definition) { d.ExpiresAfter, d.AutoRedriveAfter = time.Millisecond, 720*time.Hour }},
		{"timeouts", "", func(d *Definition) { d.Target.Stall, d.Target.Total = 300*time.Second, time.Second }},
		{"negative", "max_concurrent", func(d *Definition) { d.MaxConcurrent = -1 }},
		{"too many", "max_concurrent", func(d *Definition) { d.MaxConcurrent = 1_000_001 }},
		{"no count", "rate_limit.count", func(d *Definition) { d.Rate = Rate{Per: time.Second, Burst: 1} }},
		{"no time", "rate_limit.per", func(d *Definition) { d.Rate = Rate{Count: 1, Burst: 1} }},
		{"a time too long", "rate_limit.per", func(d *Definition) { d.Rate = Rate{Count: 1, Per: 25 * time.Hour, Burst: 1} }},
		{"a fraction of a microsecond", "rate_limit.per", func(d *Definition) { d.Rate = Rate{Count: 1, Per: time.Second + 1, Burst: 1} }},
		{"no time and no burst", "rate_limit.per", func(d *Definition) { d.Rate = Rate{Count: 1} }},
		{"no count and no burst", "rate_limit.count", func(d *Definition) { d.Rate = Rate{Per: time.Second} }},
		{"no burst", "rate_limit.burst", func(d *Definition) { d.Rate = Rate{Count: 1, Per: time.Second} }},
		{"a burst", "rate_limit.burst", func(d *Definition) { d.Rate.Count, d.Rate.Per, d.Rate.Burst = 1, time.Second, -1 }},
		{"too fast", "rate_limit.count", func(d *Definition) { d.Rate = Rate{Count: 1001, Per: time.Millisecond, Burst: 1} }},
		{"a unique key too long", "unique_key", func(d *Definition) { d.UniqueKey = strings.Repeat("é", 256) }},
		{"control characters", "unique_key", func(d *Definition) { d.UniqueKey = "a\n" }},
		{"a negative expiry", "expires_after", func(d *Definition) { d.ExpiresAfter = -time.Second }},
		{"an expiry too far", "expires_after", func(d *Definition) { d.ExpiresAfter = 721 * time.Hour }},
		{"a redrive too soon", "auto_redrive_after", func(d *Definition) { d.AutoRedriveAfter = time.Microsecond }},
		{"a stall", "execution.stall_timeout_seconds", func(d *Definition) { d.Target.Stall = -time.Second }},
		{"a stall beyond the timeout", "execution.stall_timeout_seconds", func(d *Definition) { d.Target.Stall = 301 * time.Second }},
		{"a total", "execution.total_timeout_seconds", func(d *Definition) { d.Target.Total = -time.Second }},
		{"a total too long", "execution.total_timeout_seconds", func(d *Definition) { d.Target.Total = 721 * time.Hour }},
	} {
		d := good()
		c.change(&d)
		v := d.Check()
		switch {
		case c.field == "" && len(v) > 0:
			t.Errorf("%s: refused: %v", c.name, v)
		case c.field != "" && (len(v) != 1 || v[0].Field != c.field || v[0].Want == "" || v[0].Value == ""):
			t.Errorf("%s: got %+v, want %s", c.name, v, c.field)
		}
	}
}

// Stores count in whole microseconds; rounding must not let through more than a rate says.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		count int
		per   time.Duration
		want  time.Duration
		burst int
	}{
		{1, time.Second, time.Second, 1},
		{100, time.Second, 10 * time.Millisecond, 10},
		{30, time.Second, 33_334 * time.Microsecond, 3},
		{1_000_000, time.Second, time.Microsecond, 100_000},
		{600_000, time.Second, 2 * time.Microsecond, 60_000},
		{1_000_000, 1999 * time.Millisecond, 2 * time.Microsecond, 50_025},
		{1_000_000, 24 * time.Hour, 86_400 * time.Microsecond, 1},
		{1, 24 * time.Hour, 24 * time.Hour, 1},
		{1 << 61, time.Second, time.Microsecond, 1}, // which is refused, and must not panic before
	} {
		r := Rate{Count: c.count, Per: c.per}
		if r.Interval() != c.want || r.DefaultBurst() != c.burst {
			t.Errorf("%v: an interval of %v and a burst of %d, want %v and %d", r, r.Interval(), r.DefaultBurst(), c.want, c.burst)
		}
	}
}
