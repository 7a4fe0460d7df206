package minder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// become turns this process into the command.
func become() int {
	in, out := os.NewFile(fdIn, "in"), os.NewFile(fdOut, "out")
	spec, err := read(in)
	if err != nil {
		tell(out, End{Failed: "read what to run: " + err.Error()})
		return 1
	}
	if err := confine(spec); err != nil {
		tell(out, End{Failed: err.Error()})
		return 1
	}
	if spec.Probe != nil {
		tell(out, End{Open: reachable(spec.Probe)})
		return 0
	}
	err = run(spec)
	tell(out, End{Failed: wording(spec, err), Program: !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.ENOMEM)})
	return 1
}

// mostOutOfMemory makes the kernel kill a process before all others when memory runs out.
const mostOutOfMemory = "1000"

// confine drops what a command must not have.
func confine(spec Spec) error {
	// First, since the file is root's once the user has changed. A /proc that cannot be written to is no reason not
	// to run.
	os.WriteFile("/proc/self/oom_score_adj", []byte(mostOutOfMemory), 0)
	hide()
	unix.Umask(0o077)
	if err := unix.Chdir(spec.Dir); err != nil {
		return fmt.Errorf("enter the scratch folder: %w", err)
	}
	for _, l := range []struct {
		what int
		most uint64
		set  bool
	}{
		{unix.RLIMIT_CORE, 0, true},
		{unix.RLIMIT_NOFILE, spec.Limit.Files, spec.Limit.Files > 0},
		{unix.RLIMIT_NPROC, spec.Limit.Processes, spec.Limit.Processes > 0},
		{unix.RLIMIT_FSIZE, spec.Limit.FileBytes, spec.Limit.FileBytes > 0},
		{unix.RLIMIT_CPU, spec.Limit.CPU, spec.Limit.CPU > 0},
	} {
		if l.set {
			if err := lower(l.what, l.most); err != nil {
				return err
			}
		}
	}
	if err := dropUser(spec.User); err != nil {
		return err
	}
	unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // an old kernel has none
	var none [2]unix.CapUserData                                            // a minder that is not root has capabilities in its own namespace
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse new privileges: %w", err)
	}
	// After the change of user, which would undo it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the minder: %w", err)
	}
	if unix.Getppid() != spec.Parent {
		return errors.New("the minder is gone")
	}
	if err := closeOnExec(); err != nil {
		return err
	}
	if spec.Files != nil {
		if err := restrict(spec.Files, spec.Own); err != nil {
			return err
		}
	}
	if err := shield(spec); err != nil {
		return err
	}
	if spec.Limit.Memory > 0 { // last: this process has more than most commands need
		return lower(unix.RLIMIT_AS, spec.Limit.Memory)
	}
	return nil
}

// lower sets a limit permanently, unless it is lower already.
func lower(what int, most uint64) error {
	var is syscall.Rlimit
	if err := syscall.Getrlimit(what, &is); err != nil {
		return fmt.Errorf("read limit %d: %w", what, err)
	}
	most = min(most, is.Max)
	if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("set limit %d to %d: %w", what, most, err)
	}
	return nil
}

// dropUser permanently changes to another user, and verifies it.
func dropUser(u *User) error {
	if u == nil {
		return nil
	}
	for c := range uintptr(64) {
		unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // those unknown to the kernel fail
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("leave the groups: %w", err)
	}
	if err := syscall.Setresgid(u.GID, u.GID, u.GID); err != nil {
		return fmt.Errorf("become group %d: %w", u.GID, err)
	}
	if err := syscall.Setresuid(u.UID, u.UID, u.UID); err != nil {
		return fmt.Errorf("become user %d: %w", u.UID, err)
	}
	r, e, s := unix.Getresuid()
	gr, ge, gs := unix.Getresgid()
	groups, err := syscall.Getgroups()
	if err != nil || r != u.UID || e != u.UID || s != u.UID || gr != u.GID || ge != u.GID || gs != u.GID || len(groups) > 0 {
		return fmt.Errorf("the user did not change to %d:%d (%d %d %d, %d %d %d, groups %v)", u.UID, u.GID, r, e, s, gr, ge, gs, groups)
	}
	if syscall.Setuid(0) == nil {
		return errors.New("the user could change back to root")
	}
	return nil
}

// closeOnExec closes every open file but the first three when the command starts.
func closeOnExec() error {
	if unix.CloseRange(fdIn, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the open files: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= fdIn {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// reachable returns the paths that this process can read or change. For a folder it is enough to read one file in it,
// or to create one.
func reachable(paths []string) []string {
	open := []string{}
	for _, path := range paths {
		if reaches(path, 4096) {
			open = append(open, path)
		}
	}
	return open
}

// reaches checks a file, or some of the content of a folder.
func reaches(path string, most int) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if !info.IsDir() { // a file is covered by a device
		return info.Mode().IsRegular() && (opens(path, unix.O_RDONLY) || opens(path, unix.O_WRONLY))
	}
	mine := filepath.Join(path, ".carillon-probe-"+strconv.Itoa(os.Getpid()))
	if fd, err := unix.Open(mine, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
		unix.Close(fd)
		os.Remove(mine) // what could be created can be removed
		return true
	}
	seen, found := 0, false
	filepath.WalkDir(path, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return nil // an inaccessible path is as it should be
		}
		if seen++; seen > most {
			return filepath.SkipAll
		}
		if d.Type().IsRegular() && opens(name, unix.O_RDONLY) {
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	return found
}

func opens(path string, how int) bool {
	fd, err := unix.Open(path, how|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// hide keeps other processes of the user from reading or tracing this one.
func hide() { unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) } // it cannot fail
