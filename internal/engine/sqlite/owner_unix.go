//go:build unix

package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// give gives a file that the superuser created to the owner of its folder, whose server could not open it otherwise.
func give(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	to, ok := folder.Sys().(*syscall.Stat_t)
	is, also := info.Sys().(*syscall.Stat_t)
	if !ok || !also || is.Uid == to.Uid {
		return nil
	}
	// The folder's owner may link somebody else's file there under another name.
	if !info.Mode().IsRegular() || is.Nlink != 1 {
		return errors.New(path + " was replaced meanwhile")
	}
	return f.Chown(int(to.Uid), int(to.Gid))
}

// inode returns the number of a file in its file system.
func inode(info os.FileInfo) uint64 {
	if is, ok := info.Sys().(*syscall.Stat_t); ok {
		return is.Ino
	}
	return 0
}
