//go:build unix

package watchdog

import (
	"syscall"
	"time"
)

// CPU returns the processor time that this process has used.
func CPU() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
