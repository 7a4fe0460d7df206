//go:build !failpoint || !unix

package failpoint

import "errors"

// Hit does nothing in this build.
func Hit(string) error { return nil }

// Set reports false in this build.
func Set(...string) bool { return false }

// Arm refuses every specification: this build does not support any.
func Arm(spec string) error {
	if spec == "" {
		return nil
	}
	return errors.New("this build has no failpoints; want one built with -tags failpoint, or the variable not set")
}
