//go:build !unix

package artifact

import "syscall"

// noRoom lists the errors of a full disk: on Windows ERROR_HANDLE_DISK_FULL and ERROR_DISK_FULL.
var noRoom = []error{syscall.Errno(39), syscall.Errno(112), syscall.ENOSPC}
