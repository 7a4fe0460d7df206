package schedule

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Jitter returns how long after its nominal instant a job fires: whole milliseconds, at least 0 and less than the window.
// It is a stable hash of the job and the instant, the same on every node and on every firing of that instant.
func Jitter(id job.ID, nominal time.Time, window time.Duration) time.Duration {
	if window < time.Millisecond {
		return 0
	}
	h := mix(binary.BigEndian.Uint64(id[:8]))
	h = mix(h ^ binary.BigEndian.Uint64(id[8:]))
	h = mix(h ^ uint64(nominal.UnixMicro()))
	delay, _ := bits.Mul64(h, uint64((window+time.Millisecond-1)/time.Millisecond))
	return time.Duration(delay) * time.Millisecond
}

// mix is the finalizer of SplitMix64: each bit of x moves half of the result's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
