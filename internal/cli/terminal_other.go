//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package cli

import (
	"errors"
	"os"
)

// hidden would read a line without showing it; here that is not known how.
func hidden(*os.File) (string, error) {
	return "", usage{errors.New("this system cannot hide what you type; want it on standard input: carillon … < file")}
}

// terminalWidth is not known here.
func terminalWidth(*os.File) (columns, rows int) { return 0, 0 }

// keystrokes is not known how to do here: keys come with the line.
func keystrokes(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }
