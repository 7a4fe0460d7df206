//go:build unix

package command

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

const nonblock = syscall.O_NONBLOCK // a result that is a pipe must not hold the worker up

// lockFile takes the lock on a file, if it is free. The lock ends with the process.
func lockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// trusted returns an error if others could have created or could change a folder.
func trusted(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.IsDir():
		return errors.New("it is not a folder")
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, not to this one, %d", st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write to it (%s)", info.Mode().Perm())
	}
	return nil
}

// owned reports whether a file belongs to the command.
func owned(info os.FileInfo, u *minder.User) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	want := os.Geteuid()
	if u != nil {
		want = u.UID
	}
	return ok && int(st.Uid) == want
}

// unprivileged returns the user that commands run as: if the worker is root, the user of the settings, otherwise the worker's own,
// which is nil.
func unprivileged(name string) (*minder.User, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := lookup(name)
	if err != nil {
		return nil, err
	}
	if u.UID <= 0 || u.GID <= 0 {
		return nil, fmt.Errorf("commands cannot run as %q: it is root, or of root's group", name)
	}
	return u, nil
}

func lookup(name string) (*minder.User, error) {
	uid, gid, numeric := strings.Cut(name, ":")
	if !numeric {
		known, err := user.Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("commands cannot run as %q: %w", name, err)
		}
		uid, gid = known.Uid, known.Gid
	}
	u, err := strconv.Atoi(uid)
	g, bad := strconv.Atoi(gid)
	if err != nil || bad != nil {
		return nil, fmt.Errorf("commands cannot run as %q: want a user's name, or UID:GID", name)
	}
	return &minder.User{UID: u, GID: g}, nil
}

// signalName returns the usual name of a signal.
func signalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}
