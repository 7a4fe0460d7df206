//go:build !unix

package watchdog

import "time"

var begun = time.Now()

// CPU is unknown here: the process counts as busy, so that only the later limit applies.
func CPU() time.Duration { return time.Since(begun) }
