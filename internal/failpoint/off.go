//go:build !failpoint || !unix

package failpoint

import "errors"

// On reports whether this build has failpoints.
const On = false

// Hit does nothing in this build.
func Hit(string) error { return nil }

// Arm refuses every specification: this build does not support any.
func Arm(spec string) error {
	if spec == "" {
		return nil
	}
	return errors.New("this build has no failpoints; want one built with -tags failpoint, or the variable not set")
}
