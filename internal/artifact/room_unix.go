//go:build unix

package artifact

import "syscall"

// noRoom are the errors of a disk, or of a share of one, that is full.
var noRoom = []error{syscall.ENOSPC, syscall.EDQUOT}
