package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is the result of a run, for programs. Missing measurements are left out.
type Report struct {
	Engine   string `json:"engine"`
	Version  string `json:"version"`
	Platform string `json:"platform"`
	Cores    int    `json:"cores"`

	InsertPerS   float64    `json:"insert_per_s,omitempty"`
	WorkPerS     float64    `json:"work_per_s,omitempty"`
	BothPerS     float64    `json:"both_per_s,omitempty"`
	LimitsPerS   float64    `json:"limits_per_s,omitempty"` // as both, with three tenants, a concurrency key and rates
	Turns        int        `json:"turns,omitempty"`        // turns taken; the one with the median share is reported
	Callbacks    *Callbacks `json:"callbacks,omitempty"`
	Remote       *Remote    `json:"remote,omitempty"` // as work, over HTTP
	Logs         *Logged    `json:"logs,omitempty"`
	SinglePerS   float64    `json:"single_per_s,omitempty"`
	SingleMS     *Quantiles `json:"single_ms,omitempty"`
	HTTPPerS     float64    `json:"http_per_s,omitempty"` // as single, over HTTP
	HTTPMS       *Quantiles `json:"http_ms,omitempty"`
	IdlePickupMS *Quantiles `json:"idle_pickup_ms,omitempty"`
	AtRate       *AtRate    `json:"at_rate,omitempty"`
	InsertCost   *Cost      `json:"insert_cost,omitempty"`
	WorkCost     *Cost      `json:"work_cost,omitempty"`
	BothCost     *Cost      `json:"both_cost,omitempty"`
	LimitsCost   *Cost      `json:"limits_cost,omitempty"`
	RSSMB        float64    `json:"rss_mb"`
	Seconds      float64    `json:"seconds"`

	Accepted int    `json:"accepted"`
	Lost     int    `json:"lost"`
	Doubled  int    `json:"doubled"`
	Config   Config `json:"config"`
}

// Config holds the options of a run, as shown: none of them is secret.
type Config struct {
	Database string `json:"database"` // its kind only
	Jobs     int    `json:"jobs"`
	Singles  int    `json:"singles"`
	Batch    int    `json:"batch"`
	Payload  int    `json:"payload"`
	Slots    int    `json:"slots"`
	Callers  int    `json:"callers"`
	Samples  int    `json:"samples"`
	Rate     int    `json:"rate"`
}

// Quantiles are those of a latency, in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
}

// AtRate describes how long executions waited at a given rate.
type AtRate struct {
	Rate        int     `json:"rate"`
	ReachedPerS float64 `json:"reached_per_s"`
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	P999        float64 `json:"p999_ms"`
}

// quantiles sorts its argument.
func quantiles(all []time.Duration) *Quantiles {
	slices.Sort(all)
	return &Quantiles{P50: rank(all, 0.5), P99: rank(all, 0.99), P999: rank(all, 0.999)}
}

// rank returns the least of the sorted values that a share of them does not exceed, in milliseconds.
func rank(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	return round(float64(sorted[max(i, 0)])/float64(time.Millisecond), 3)
}

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}

// WriteTable prints the report for people.
func (r Report) WriteTable(w io.Writer, colour bool) error {
	c := r.Config
	var b strings.Builder
	fmt.Fprintf(&b, "\nCarillon %s on %s, %s, %s\n", r.Version, r.Engine, plural(r.Cores, "core"), r.Platform)
	fmt.Fprintf(&b, "%s jobs of %s bytes in batches of %s, %s; every commit durable\n\n", thousands(c.Jobs), thousands(c.Payload), thousands(c.Batch), plural(c.Slots, "slot"))
	row := func(name string, rate float64, latency string) {
		text := ""
		if rate > 0 {
			text = thousands(int(math.Round(rate))) + " jobs/s"
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %-22s %16s   %s", name, text, latency), " ") + "\n")
	}
	for _, x := range []struct {
		name string
		rate float64
		cost *Cost
	}{{"insert", r.InsertPerS, r.InsertCost}, {"work", r.WorkPerS, r.WorkCost}, {"insert and work", r.BothPerS, r.BothCost}} {
		if x.rate > 0 {
			row(x.name, x.rate, x.cost.String())
		}
	}
	if r.LimitsPerS > 0 {
		share := r.LimitsCost.String()
		if r.BothPerS > 0 {
			share = strings.TrimPrefix(fmt.Sprintf("%s, %.0f %% of that without", share, 100*r.LimitsPerS/r.BothPerS), ", ")
		}
		row("the same under limits", r.LimitsPerS, share)
	}
	if x := r.Callbacks; x != nil {
		row("callbacks", x.PerS, latency(*x.Sent)+"   claimed to received at "+thousands(x.Rate)+"/s")
	}
	if x := r.Remote; x != nil {
		row("work over HTTP", x.PerS, fmt.Sprintf("%.0f %% of that in the process", 100*x.Share))
	}
	if x := r.Logs; x != nil {
		fmt.Fprintf(&b, "  %-22s %15s/s   each of %s kept once\n", "log of one job", thousands(int(math.Round(x.PerS)))+" lines", thousands(x.Lines))
	}
	if q := r.SingleMS; q != nil {
		row("insert one by one", r.SinglePerS, latency(*q)+"   "+plural(c.Callers, "caller"))
	}
	if q := r.HTTPMS; q != nil {
		row("the same over HTTP", r.HTTPPerS, latency(*q)+"   "+plural(c.Callers, "caller"))
	}
	if q := r.IdlePickupMS; q != nil {
		row("pickup when idle", 0, latency(*q)+"   "+plural(c.Samples, "sample"))
	}
	if a := r.AtRate; a != nil {
		row("pickup at "+thousands(a.Rate)+"/s", a.ReachedPerS, latency(Quantiles{P50: a.P50, P99: a.P99, P999: a.P999}))
	}
	fmt.Fprintf(&b, "  %-22s %9.0f MB       of this process, at the most\n", "memory", r.RSSMB)
	fmt.Fprintf(&b, "\n  %s\n\n", r.verdict(colour))
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) verdict(colour bool) string {
	text, code := fmt.Sprintf("lost 0, doubled 0: all %s executions succeeded exactly once", thousands(r.Accepted)), "32"
	if r.Lost > 0 || r.Doubled > 0 {
		text, code = fmt.Sprintf("LOST %s, DOUBLED %s of %s executions", thousands(r.Lost), thousands(r.Doubled), thousands(r.Accepted)), "31"
	}
	if !colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// String formats the cost of a job; "" if it is unknown.
func (c *Cost) String() string {
	switch {
	case c == nil:
		return ""
	case c.Database > 0:
		return fmt.Sprintf("%.0f µs of processor a job here, %.0f in the database", c.Process, c.Database)
	}
	return fmt.Sprintf("%.0f µs of processor a job", c.Process)
}

func latency(q Quantiles) string {
	return fmt.Sprintf("p50 %s   p99 %s   p99.9 %s", milliseconds(q.P50), milliseconds(q.P99), milliseconds(q.P999))
}

// milliseconds formats a duration with three significant digits.
func milliseconds(ms float64) string {
	digits := 0
	switch {
	case ms < 10:
		digits = 2
	case ms < 100:
		digits = 1
	}
	return fmt.Sprintf("%7s ms", strconv.FormatFloat(ms, 'f', digits, 64))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}

// thousands groups the digits of a non-negative number with spaces.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
