package command

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// cgroups makes a control group for each command, if systemd or a container has delegated a part of the tree (cgroup
// v2) to this process.
type cgroups struct {
	dir   string
	limit minder.Limit
	n     atomic.Int64
}

const (
	mainGroup  = "carillon-main" // this process moves here, since a group with subgroups may hold no processes
	ownThreads = 32              // of the minder, which is in the group, too
)

// findCgroups divides this process's group; nil if it may not.
func findCgroups(limit minder.Limit, log *slog.Logger) *cgroups {
	if limit.Memory == 0 && limit.Processes == 0 {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	dir := groupFolder(string(mounts), string(own))
	if dir == "" || !delegated(dir) {
		return nil
	}
	g, err := divide(dir, os.Getpid(), limit)
	if err != nil {
		log.Debug("commands get no control groups; rlimits bound each process", "folder", dir, "error", err)
		return nil
	}
	return g
}

// groupFolder returns the folder of a process's control group, by its lists of mounts and of groups.
func groupFolder(mounts, own string) string {
	group := ""
	for line := range strings.Lines(own) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			group = path
		}
	}
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-")
		if len(fields) < 5 || dash < 0 || dash+1 >= len(fields) || fields[dash+1] != "cgroup2" || group == "" {
			continue
		}
		if rel, err := filepath.Rel(fields[3], group); err == nil && !strings.HasPrefix(rel, "..") {
			return filepath.Join(fields[4], rel)
		}
	}
	return ""
}

// delegated reports whether this process may divide a group: systemd says so (Delegate=yes), or it is the container's
// own.
func delegated(dir string) bool {
	if unix.Access(filepath.Join(dir, "cgroup.subtree_control"), unix.W_OK) != nil || unix.Access(dir, unix.W_OK) != nil {
		return false
	}
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var v [8]byte
		if n, err := unix.Getxattr(dir, name, v[:]); err == nil && string(v[:n]) == "1" {
			return true
		}
	}
	_, err := os.Stat(filepath.Join(dir, "cgroup.type")) // the topmost has none
	return errors.Is(err, os.ErrNotExist)
}

// divide creates subgroups in dir; this process moves into one of them.
func divide(dir string, pid int, limit minder.Limit) (*cgroups, error) {
	there, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	has := strings.Fields(string(there))
	if !slices.Contains(has, "memory") || !slices.Contains(has, "pids") {
		return nil, fmt.Errorf("the group has the controllers %q, not memory and pids", has)
	}
	main := filepath.Join(dir, mainGroup)
	if err := os.Mkdir(main, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err := set(main, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return nil, err
	}
	if err := set(dir, "cgroup.subtree_control", "+memory +pids"); err != nil {
		return nil, errors.Join(err, set(dir, "cgroup.procs", strconv.Itoa(pid)), os.Remove(main))
	}
	return &cgroups{dir: dir, limit: limit}, nil
}

func set(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644)
}

// cgroup is the group of one command.
type cgroup struct{ dir string }

// make makes a group; nil: there are none.
func (c *cgroups) make() (*cgroup, error) {
	if c == nil {
		return nil, nil
	}
	g := &cgroup{filepath.Join(c.dir, fmt.Sprintf("carillon-command-%d-%d", os.Getpid(), c.n.Add(1)))}
	err := os.Mkdir(g.dir, 0o755)
	if err == nil && c.limit.Memory > 0 {
		err = set(g.dir, "memory.max", strconv.FormatUint(c.limit.Memory, 10))
		if e := set(g.dir, "memory.swap.max", "0"); !errors.Is(e, os.ErrNotExist) { // without swap there is no such file
			err = errors.Join(err, e)
		}
	}
	if err == nil && c.limit.Processes > 0 {
		err = set(g.dir, "pids.max", strconv.FormatUint(c.limit.Processes+ownThreads, 10))
	}
	if err != nil {
		g.remove()
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	return g, nil
}

// add moves a process into the group.
func (g *cgroup) add(pid int) error {
	if g == nil {
		return nil
	}
	return set(g.dir, "cgroup.procs", strconv.Itoa(pid))
}

// full reports whether the kernel killed a process in the group because it was out of memory.
func (g *cgroup) full() bool {
	if g == nil {
		return false
	}
	data, _ := os.ReadFile(filepath.Join(g.dir, "memory.events")) // none: none was
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && n != "0" {
			return true
		}
	}
	return false
}

// remove kills what is left in the group, and removes it.
func (g *cgroup) remove() error {
	if g == nil {
		return nil
	}
	set(g.dir, "cgroup.kill", "1") // old kernels lack it; the minder has killed its own processes
	var err error
	for range 100 { // killed processes take a moment
		if err = syscall.Rmdir(g.dir); err == nil || !errors.Is(err, syscall.EBUSY) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}
