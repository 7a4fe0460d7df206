//go:build !unix

package folder

import "syscall"

var (
	noRoom            = []error{syscall.Errno(39), syscall.Errno(112), syscall.ENOSPC} // ERROR_HANDLE_DISK_FULL and ERROR_DISK_FULL
	readOnly, noLinks []error
)
