package schedule

import (
	"testing"
	"time"
)

// common are expressions as people write them, and rare ones that have to look far ahead.
var common = []string{
	"* * * * *", "*/5 * * * *", "0 * * * *", "30 4 * * *", "0 9-17 * * MON-FRI", "0 0 * * 0", "0 0 1 * *", "0 0 1,15 * 5",
	"*/10 * * * * *", "0 0 L * *", "0 12 15W * *", "0 0 * * FRI#2", "@daily", "@every 90s",
}

var rare = []string{"0 0 29 2 *", "0 0 29 2 MON#5", "0 0 1 1 *"}

var anchorTime = utc("2026-03-07T12:34:56.789Z")

func TestNextAllocatesNothing(t *testing.T) {
	for _, expr := range append(common, rare...) {
		for _, name := range []string{"UTC", "America/New_York"} {
			c, err := zones.Cron(expr, name, "")
			if err != nil {
				t.Fatal(err)
			}
			at := anchorTime
			if n := testing.AllocsPerRun(100, func() { at, _ = c.Next(at) }); n != 0 {
				t.Errorf("%q in %s: %v allocations", expr, name, n)
			}
		}
	}
	p := Plan{Cron: mustParse(t, "*/5 * * * *"), Calendar: calendar(t, Exclusions{Weekdays: []time.Weekday{0, 6}}), End: utc("2099-01-01T00:00:00Z")}
	if n := testing.AllocsPerRun(100, func() { p.Next(anchorTime) }); n != 0 {
		t.Errorf("a plan: %v allocations", n)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, expr := range append(common, rare...) {
		c, err := zones.Cron(expr, "America/New_York", "")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(expr, func(b *testing.B) {
			// Instants all over twenty years, so that months and clock changes have their usual share.
			var from [1024]time.Time
			for i := range from {
				from[i] = anchorTime.Add(time.Duration(i) * 171 * time.Hour)
			}
			b.ReportAllocs()
			for i := range b.N {
				if _, ok := c.Next(from[i%len(from)]); !ok {
					b.Fatal("it ends")
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, expr := range []string{"*/5 * * * *", "0 9-17 * * MON-FRI", "0 0 1,15W,LW * MON#1,FRIL"} {
		b.Run(expr, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, err := Parse(expr, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
