//go:build !failpoint || !unix

package clock

import (
	"errors"
	"time"
)

// host returns the time of this machine's clock.
func host() time.Time { return time.Now() }

// Skew refuses every specification: this build does not support it.
func Skew(spec string) error {
	if spec == "" {
		return nil
	}
	return errors.New("this build has the machine's clock only; want one built with -tags failpoint, or the variable not set")
}
