//go:build linux || darwin

package cli

import "golang.org/x/sys/unix"

// room returns how many bytes of a folder's disk are free for users other than root, and how many there are.
func room(dir string) (free, all uint64, ok bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), true
}
