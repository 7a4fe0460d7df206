package worker

import (
	"io/fs"
	"os"
)

var root = os.DirFS("/")

// readMemory returns the resident memory of this process and what it may use, in bytes; 0: unknown.
func readMemory() (used, limit int64) { return residentIn(root), limitIn(root) }

// residentIn reads the resident memory of this process from /proc.
func residentIn(root fs.FS) int64 {
	data, err := fs.ReadFile(root, "proc/self/statm")
	if err != nil {
		return 0
	}
	return pages(string(data)) * int64(os.Getpagesize())
}

// limitIn returns the smallest of the machine's memory and the limits of the process's cgroup and of those above it.
func limitIn(root fs.FS) int64 {
	var least int64
	if data, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		least = memTotal(string(data))
	}
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for _, dir := range cgroups(string(data)) {
		data, err := fs.ReadFile(root, dir+"/memory.max")
		if n := bytesIn(string(data)); err == nil && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}
