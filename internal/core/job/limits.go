package job

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Limits on the limits, keys and durations of a definition.
const (
	MaxAtOnce = 1_000_000 // for concurrency limits, rates and bursts
	maxPer    = 24 * time.Hour
	maxSpan   = 30 * 24 * time.Hour
	maxUnique = 255
)

// WantAtOnce describes a valid concurrency limit.
const WantAtOnce = "a whole number from 1 to 1000000, or null for no limit"

// CheckAtOnce validates a concurrency limit; 0 is none.
func CheckAtOnce(n int, field string, v *Invalids) {
	if n < 0 || n > MaxAtOnce {
		v.Add(field, n, WantAtOnce)
	}
}

// WantPer describes a valid rate period.
const WantPer = "a duration of whole microseconds from 1ms to 24h, such as 1s"

// Check validates a rate; the zero Rate is none.
func (r Rate) Check(field string, v *Invalids) {
	if r == (Rate{}) {
		return
	}
	count := r.Count >= 1 && r.Count <= MaxAtOnce
	if !count {
		v.Add(field+".count", r.Count, "a whole number from 1 to 1000000")
	}
	per := r.Per >= time.Millisecond && r.Per <= maxPer && r.Per%time.Microsecond == 0
	if !per {
		v.Add(field+".per", r.Per, WantPer)
	}
	if count && per && r.Per/time.Duration(r.Count) < time.Microsecond {
		v.Add(field+".count", r.Count, fmt.Sprintf("at most one in a microsecond, which is %d in %s", r.Per/time.Microsecond, r.Per))
	}
	if asked := r.Burst != 0 || count && per; asked && (r.Burst < 1 || r.Burst > MaxAtOnce) { // 0 is derived from the others, unless these are valid
		v.Add(field+".burst", r.Burst, "a whole number from 1 to 1000000, or null for a tenth of a second's worth")
	}
}

// checkLimits validates the concurrency limits and rates of a definition.
func (d *Definition) checkLimits(v *Invalids) {
	CheckAtOnce(d.MaxConcurrent, "max_concurrent", v)
	d.Rate.Check("rate_limit", v)
	CheckUnique(d.UniqueKey, v)
	d.Retention.check(v)
	span := func(field string, s time.Duration) {
		if s != 0 && (s < time.Millisecond || s > maxSpan) {
			v.Add(field, s, "a duration from 1ms to 720h (30 days), such as 90s or 1h30m")
		}
	}
	span("expires_after", d.ExpiresAfter)
	span("auto_redrive_after", d.AutoRedriveAfter)
}

// CheckUnique validates a unique key; an empty one is none.
func CheckUnique(key string, v *Invalids) {
	if n := utf8.RuneCountInString(key); n > maxUnique || !printable(key) {
		v.Add("unique_key", key, "1 to 255 characters, without control characters")
	}
}

// checkTimes validates the timeouts other than that of an attempt.
func (t *Target) checkTimes(v *Invalids) {
	switch {
	case t.Stall == 0:
	case t.Stall < time.Second || t.Stall > maxTimeout:
		v.Add("execution.stall_timeout_seconds", int64(t.Stall/time.Second), "a whole number from 1 to 604800 (7 days), or null")
	case t.Timeout >= time.Second && t.Stall > t.Timeout:
		v.Add("execution.stall_timeout_seconds", int64(t.Stall/time.Second), fmt.Sprintf("at most timeout_seconds, which is %d", t.Timeout/time.Second))
	}
	if t.Total != 0 && (t.Total < time.Second || t.Total > maxSpan) {
		v.Add("execution.total_timeout_seconds", int64(t.Total/time.Second), "a whole number from 1 to 2592000 (30 days), or null")
	}
}
