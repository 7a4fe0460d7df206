//go:build unix

package folder

import "syscall"

var (
	noRoom   = []error{syscall.ENOSPC, syscall.EDQUOT}
	readOnly = []error{syscall.EROFS, syscall.ENOTDIR}
	noLinks  = []error{syscall.EMLINK, syscall.ENOTSUP, syscall.ENOSYS}
)
