package bench

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"
)

// disturbedMost limits how often a measurement is repeated because the host took CPU time away.
const disturbedMost = 20

// undisturbed calls f, and repeats it if the host of this virtual machine took CPU time away meanwhile, since the
// delay was then not this program's. It returns how often it repeated; the last time counts in any case.
func undisturbed(ctx context.Context, do func() error) (disturbed int, err error) {
	for {
		before := stolen()
		if err := do(); err != nil || disturbed == disturbedMost || stolen() == before {
			return disturbed, err
		}
		disturbed++
		if err := until(ctx, time.Now().Add(time.Duration(disturbed)*10*time.Millisecond)); err != nil {
			return disturbed, err
		}
	}
}

// stolen returns how long, in ticks, the host ran others while this machine had work; 0 if unknown.
func stolen() int64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return parseStolen(b)
}

// parseStolen reads "cpu user nice system idle iowait irq softirq steal …", the first line.
func parseStolen(b []byte) int64 {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[8]), 10, 64)
	return n
}
