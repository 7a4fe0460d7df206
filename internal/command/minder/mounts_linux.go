package minder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// seclude prepares the minder's namespaces: a /proc with their own processes, covers over what commands must not see,
// and a loopback device. If /proc is optional and cannot be mounted, as in many containers, it stays the host's.
func seclude(spec Spec) error {
	if spec.Network {
		if err := loopback(); err != nil {
			return fmt.Errorf("start the loopback device: %w", err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		if spec.Proc || len(spec.Mask) > 0 {
			return fmt.Errorf("make mounts private: %w", err)
		}
		return nil
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil && spec.Proc {
		return fmt.Errorf("mount /proc: %w", err)
	}
	own, err := ownFolders(spec)
	if err != nil {
		return err
	}
	for _, path := range spec.Mask {
		if err := cover(path, own); err != nil {
			return fmt.Errorf("cover %s: %w", path, err)
		}
	}
	return nil
}

// ownFolders opens the command's own folders before something covers the path to them.
func ownFolders(spec Spec) (map[string]int, error) {
	own := map[string]int{}
	for _, path := range spec.Own {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		own[path] = fd
	}
	return own, nil
}

// cover puts an empty file or folder over a path; own folders below it stay where they were.
func cover(path string, own map[string]int) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission): // the command cannot reach it either
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return unix.Mount("/dev/null", path, "", unix.MS_BIND, "")
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", path, "tmpfs", flags, "size=1m,mode=0755"); err != nil {
		return err
	}
	for dir, fd := range own {
		if !Within(dir, path) {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(filepath.Join("/proc/self/fd", fmt.Sprint(fd)), dir, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, "")
}

// loopback brings up the only device of a new network.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
