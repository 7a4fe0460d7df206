//go:build unix

package app

import (
	"io/fs"
	"syscall"
)

// ownedByRoot reports whether a file belongs to the superuser.
func ownedByRoot(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}
