package bench

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
)

// peakMemory returns the peak memory of this process in bytes, from the system or else from the Go runtime.
func peakMemory() uint64 {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if n := highWater(status); n > 0 {
			return n
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys
}

// highWater reads the line "VmHWM:  1234 kB" of a process's status; 0 if there is none.
func highWater(status []byte) uint64 {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) == 3 && string(f[0]) == "VmHWM:" {
			kb, err := strconv.ParseUint(string(f[1]), 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}
