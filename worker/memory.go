package worker

import (
	"path"
	"strconv"
	"strings"

	"github.com/carillon-jobs/carillon/client"
)

// Memory returns the resident memory of this process, and the most that it may use: the limit of its cgroup (v2), or
// else all memory of the machine. Unknown values are left out.
func Memory() (m client.Memory) {
	used, limit := readMemory()
	if used > 0 {
		m.MemoryUsed = &used
	}
	if limit > 0 {
		m.MemoryLimit = &limit
	}
	return m
}

// pages reads the number of resident pages from /proc/self/statm; 0: unknown.
func pages(statm string) int64 {
	f := strings.Fields(statm)
	if len(f) < 2 {
		return 0
	}
	return bytesIn(f[1])
}

// memTotal reads the machine's memory from /proc/meminfo, in bytes; 0: unknown.
func memTotal(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			return bytesIn(f[1]) * 1024
		}
	}
	return 0
}

// cgroups lists the folders of a process's cgroup (v2) and of those above it, from /proc/self/cgroup; nil if it has
// none.
func cgroups(list string) (dirs []string) {
	const mount = "sys/fs/cgroup"
	for line := range strings.Lines(list) {
		at, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "0::/")
		if !ok {
			continue
		}
		// Below a cgroup namespace the path may lead out of it ("/../.."): then the mount itself is all there is to read.
		for dir := path.Join("/", at); ; dir = path.Dir(dir) {
			dirs = append(dirs, strings.TrimSuffix(mount+dir, "/"))
			if dir == "/" {
				return dirs
			}
		}
	}
	return nil
}

// bytesIn reads a number; 0: it is none, such as "max".
func bytesIn(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
