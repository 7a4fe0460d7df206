package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes the lock on an open file and reports whether it was free; the system releases it when the file is
// closed.
func lockFile(f *os.File) (bool, error) {
	beyond := &windows.Overlapped{OffsetHigh: 1} // so that others may read the file's content
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, beyond)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
