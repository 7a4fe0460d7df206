//go:build !unix

package artifact

import "syscall"

// noRoom are the errors of a disk that is full: of Windows ERROR_HANDLE_DISK_FULL and ERROR_DISK_FULL.
var noRoom = []error{syscall.Errno(39), syscall.Errno(112), syscall.ENOSPC}
