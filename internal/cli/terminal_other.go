//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package cli

import (
	"errors"
	"os"
)

// hidden is not supported here: a line cannot be read without echo.
func hidden(*os.File) (string, error) {
	return "", usage{errors.New("this system cannot hide what you type; want it on standard input: carillon … < file")}
}

// terminalWidth is not supported here.
func terminalWidth(*os.File) (columns, rows int) { return 0, 0 }

// keystrokes is not supported here: keys arrive with the whole line.
func keystrokes(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }
