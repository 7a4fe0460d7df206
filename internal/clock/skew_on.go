//go:build failpoint && unix

package clock

import (
	"sync/atomic"
	"time"
)

var (
	skewed atomic.Pointer[skew]
	began  = time.Now()
)

// host returns the time of this machine's clock, or the one it was set to.
func host() time.Time {
	now := time.Now()
	if s := skewed.Load(); s != nil && now.Sub(began) >= s.after {
		return now.Round(0).Add(s.by)
	}
	return now
}

// Skew makes this machine's clock wrong from now on, according to a specification.
func Skew(spec string) error {
	s, err := parseSkew(spec)
	if err != nil {
		return err
	}
	skewed.Store(s)
	return nil
}
