// Command cronbench compares the time that Next takes with that of robfig/cron, on the same expressions and instants,
// in one run. It is a separate module, so that the product does not depend on what it is compared with.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"text/tabwriter"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/robfig/cron/v3"
)

// expressions are forms that both understand alike.
var expressions = []string{
	"* * * * *", "*/5 * * * *", "0 * * * *", "30 4 * * *", "0 9-17 * * MON-FRI", "15 10 * * 1,3,5", "0 0 * * 0",
	"0 0 1 * *", "0 0 1,15 * 5", "0 0 31 * *", "0 0 1 1 *", "30 6 1 */3 *", "0 0 29 2 *",
}

const instants = 512

func main() {
	rounds := flag.Int("rounds", 15, "how often each side is measured; the best round counts")
	want := flag.Float64("want", 0, "fail when a ratio is below this")
	flag.Parse()
	if err := run(*rounds, *want); err != nil {
		fmt.Fprintln(os.Stderr, "cronbench:", err)
		os.Exit(1)
	}
}

func run(rounds int, want float64) error {
	if rounds < 1 {
		return fmt.Errorf("-rounds %d: want 1 or more", rounds)
	}
	zones := schedule.NewCache(time.LoadLocation)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "expression\tzone\tcarillon ns\trobfig ns\tratio\t")
	logs, n, least := 0.0, 0, math.Inf(1)
	for _, zone := range []string{"UTC", "America/New_York"} {
		for _, expr := range expressions {
			ours, theirs, err := both(zones, expr, zone)
			if err != nil {
				return err
			}
			a, b := measure(rounds, ours, theirs)
			ratio := b / a
			fmt.Fprintf(out, "%s\t%s\t%.1f\t%.1f\t%.1f\t\n", expr, zone, a, b, ratio)
			logs, n, least = logs+math.Log(ratio), n+1, min(least, ratio)
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	mean := math.Exp(logs / float64(n))
	fmt.Printf("Carillon takes 1/%.1f of robfig/cron's time (geometric mean); at the least 1/%.1f.\n", mean, least)
	if least < want {
		return fmt.Errorf("the least ratio is %.1f; want %.1f", least, want)
	}
	return nil
}

// both compiles an expression on both sides, and checks in UTC, where no rule of theirs differs from ours, that they agree.
func both(zones *schedule.Cache, expr, zone string) (ours, theirs func([]time.Time) time.Time, err error) {
	c, err := zones.Cron(expr, zone, "")
	if err != nil {
		return nil, nil, err
	}
	r, err := cron.ParseStandard("CRON_TZ=" + zone + " " + expr)
	if err != nil {
		return nil, nil, err
	}
	for _, at := range times() {
		a, ok := c.Next(at)
		if b := r.Next(at); zone == "UTC" && (!ok || !a.Equal(b)) {
			return nil, nil, fmt.Errorf("%q after %v: %v here, %v there", expr, at, a, b)
		}
	}
	ours = func(from []time.Time) (t time.Time) {
		for _, at := range from {
			t, _ = c.Next(at)
		}
		return t
	}
	theirs = func(from []time.Time) (t time.Time) {
		for _, at := range from {
			t = r.Next(at)
		}
		return t
	}
	return ours, theirs, nil
}

// times returns instants spread over ten years, so that months and clock changes have their usual share.
func times() []time.Time {
	out := make([]time.Time, instants)
	for i := range out {
		out[i] = time.Date(2026, 1, 1, 0, 0, 17, 0, time.UTC).Add(time.Duration(i) * (171*time.Hour + 7*time.Minute))
	}
	return out
}

// measure alternates the two sides, so that a busy machine slows both, and takes the best round of each, in ns a call.
func measure(rounds int, ours, theirs func([]time.Time) time.Time) (a, b float64) {
	from := times()
	a, b = math.Inf(1), math.Inf(1)
	for range rounds {
		a = min(a, once(from, ours, 8))
		b = min(b, once(from, theirs, 1))
	}
	return a, b
}

var sink time.Time // so that nothing measured is optimised away

func once(from []time.Time, f func([]time.Time) time.Time, repeat int) float64 {
	begin := time.Now()
	for range repeat {
		sink = f(from)
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(repeat*len(from))
}
