package minder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	readRights = landlock.AccessFSExecute | landlock.AccessFSReadFile | landlock.AccessFSReadDir
	nodeRights = landlock.AccessFSMakeChar | landlock.AccessFSMakeBlock
	fileRights = landlock.AccessFSExecute | landlock.AccessFSWriteFile | landlock.AccessFSReadFile | landlock.AccessFSTruncate | landlock.AccessFSIoctlDev | landlock.AccessFSResolveUnix

	scopes = 1<<0 | 1<<1 // abstract Unix sockets and signals of others
)

// devices lists the device files that every program may expect.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// Landlock returns the version of the kernel's Landlock interface; 0: it has none, or it is turned off.
func Landlock() int {
	abi, err := landlock.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return max(abi, 0)
}

// Landlock versions that added something a command's walls depend on.
const (
	TruncateABI = 3 // before it, truncate(2) needs no right
	SignalABI   = 6 // before it, a command can signal other processes of its user
	SocketABI   = 9 // before it, named Unix sockets need no right
)

// handledBy returns every file right that a version of Landlock can deny.
func handledBy(abi int) uint64 {
	switch {
	case abi >= SocketABI:
		return 1<<17 - 1
	case abi >= 5:
		return 1<<16 - 1
	case abi >= TruncateABI:
		return 1<<15 - 1
	case abi == 2:
		return 1<<14 - 1
	}
	return 1<<13 - 1
}

// restrict denies this thread, and what it executes, every file that f does not list and that is not its own.
func restrict(f *Files, own []string) error {
	abi := Landlock()
	if abi == 0 {
		return errors.New("restrict files: the kernel has no Landlock, or it is turned off")
	}
	attr := landlock.RulesetAttr{HandledAccessFS: handledBy(abi)}
	if abi >= SignalABI {
		attr.Scoped = scopes
	}
	set, err := landlock.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	defer unix.Close(set)
	all := attr.HandledAccessFS &^ nodeRights
	for _, g := range []struct {
		paths  []string
		rights uint64
	}{
		{carve(f.Read, f.Hidden), readRights},
		{carve(f.Write, f.Hidden), all},
		{own, all},
		{devices, readRights | landlock.AccessFSWriteFile | landlock.AccessFSTruncate},
	} {
		for _, path := range g.paths {
			if err := allow(set, path, g.rights&attr.HandledAccessFS); err != nil {
				return fmt.Errorf("restrict files: allow %s: %w", path, err)
			}
		}
	}
	if err := landlock.LandlockRestrictSelf(set, 0); err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	return nil
}

// allow adds a rule for a path; one that does not exist needs none.
func allow(set int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES), errors.Is(err, unix.ELOOP):
		return nil
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	return landlock.LandlockAddPathBeneathRule(set, &landlock.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0)
}

// carve returns the roots without what is hidden below them: a folder that contains something hidden is replaced by
// the rest of its content. Landlock can only allow, and allows everything below a folder.
func carve(roots, hidden []string) (out []string) {
	for _, root := range roots {
		real, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue // not there, or closed to this user
		}
		out = append(out, without(real, hidden)...)
	}
	return out
}

func without(dir string, hidden []string) (out []string) {
	holds := false
	for _, h := range hidden {
		if Within(dir, h) {
			return nil
		}
		holds = holds || Within(h, dir)
	}
	if !holds {
		return []string{dir}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 {
			continue // its target is judged at its own path
		}
		out = append(out, without(filepath.Join(dir, e.Name()), hidden)...)
	}
	return out
}

// Within reports whether a clean path is a folder, or lies in it.
func Within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
