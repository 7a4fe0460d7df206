package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Lines prints the progress of a run with one line for each measurement, for logs.
type Lines struct{ Out io.Writer }

// Begin prints the start of a measurement.
func (l Lines) Begin(name string, total int, _ func() int) {
	fmt.Fprintf(l.Out, "%s: %s …\n", name, thousands(total))
}

// End prints nothing: the next line does.
func (l Lines) End() {}

// Bar draws the progress of a run repeatedly in one line of a terminal.
type Bar struct {
	Out    io.Writer
	Colour bool

	stop func()
}

const (
	redraw   = 100 * time.Millisecond
	barWidth = 30
	wipe     = "\r\x1b[2K"
)

// Begin draws until End is called.
func (b *Bar) Begin(name string, total int, done func() int) {
	began := time.Now()
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			io.WriteString(b.Out, wipe+b.line(name, total, done(), time.Since(began)))
			select {
			case <-quit:
				io.WriteString(b.Out, wipe)
				return
			case <-tick.C:
			}
		}
	})
	b.stop = sync.OnceFunc(func() { close(quit); wg.Wait() })
}

// End wipes the line.
func (b *Bar) End() { b.stop() }

func (b *Bar) line(name string, total, done int, took time.Duration) string {
	done = min(done, total)
	full := barWidth
	if total > 0 {
		full = barWidth * done / total
	}
	bar := strings.Repeat("█", full)
	if b.Colour {
		bar = "\x1b[36m" + bar + "\x1b[0m"
	}
	rate := ""
	if s := took.Seconds(); s >= 1 && done > 0 && done < total {
		rate = "  " + thousands(int(float64(done)/s)) + "/s"
	}
	return fmt.Sprintf("  %-9s %s%s %s of %s%s", name, bar, strings.Repeat("░", barWidth-full), thousands(done), thousands(total), rate)
}
