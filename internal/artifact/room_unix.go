//go:build unix

package artifact

import "syscall"

// noRoom lists the errors of a disk or a disk quota that is full.
var noRoom = []error{syscall.ENOSPC, syscall.EDQUOT}
