package minder

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unlisted is the error of a program that is not on the list.
type unlisted struct{ path, digest string }

func (u *unlisted) Error() string {
	return fmt.Sprintf("the program %q may not be run: its SHA-256 is %s, which commands.digests does not list", u.path, u.digest)
}

// run becomes the program. It returns only if that fails.
func run(spec Spec) error {
	path, err := find(spec)
	if err != nil {
		return err
	}
	if spec.Digests != nil {
		if path, err = listed(path, spec.Digests); err != nil {
			return err
		}
	}
	return &os.PathError{Op: "run", Path: path, Err: syscall.Exec(path, spec.Args, spec.Env)}
}

// listed returns a path through which exactly the examined program is run, if its digest is on the list. The path
// names an open file, so a replacement is not run; and a file that the command's user could write to is copied first.
func listed(path string, digests []string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", &os.PathError{Op: "run", Path: path, Err: syscall.EACCES}
	}
	if unix.Access(path, unix.X_OK) != nil {
		return "", &os.PathError{Op: "run", Path: path, Err: syscall.EACCES}
	}
	var start [2]byte
	if _, err := f.ReadAt(start[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	script := string(start[:]) == "#!"
	sum, to := sha256.New(), -1
	into := io.Writer(sum)
	if script || writable(f, info) {
		if to, err = memory(script); err != nil {
			return "", fmt.Errorf("copy the program: %w", err)
		}
		into = io.MultiWriter(sum, fdWriter(to))
	}
	if _, err := io.Copy(into, f); err != nil {
		return "", err
	}
	if digest := hex.EncodeToString(sum.Sum(nil)); !slices.Contains(digests, digest) {
		return "", &unlisted{path, digest}
	}
	if to < 0 {
		return fmt.Sprintf("/proc/self/fd/%d", f.Fd()), nil
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(to), unix.F_ADD_SEALS, seals); err != nil {
		return "", fmt.Errorf("seal a copy of the program: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", to), nil
}

// writable reports whether this user may change a file, or could allow itself to.
func writable(f *os.File, info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Geteuid() || unix.Access(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.W_OK) == nil
}

// memory opens an anonymous file. That of a script stays open, for its interpreter.
func memory(script bool) (int, error) {
	flags := unix.MFD_ALLOW_SEALING | unix.MFD_CLOEXEC
	if script {
		flags &^= unix.MFD_CLOEXEC
	}
	fd, err := unix.MemfdCreate("program", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // a kernel that knows only executable ones
		fd, err = unix.MemfdCreate("program", flags)
	}
	return fd, err
}

// fdWriter writes to an open file.
type fdWriter int

func (w fdWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := unix.Write(int(w), p[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// find returns the program's path: as given, or from the command's own PATH.
func find(spec Spec) (string, error) {
	name := spec.Args[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	var seen error = syscall.ENOENT
	for _, e := range spec.Env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			if !filepath.IsAbs(dir) {
				continue // files that a job left in its folder are not programs of the machine
			}
			full := filepath.Join(dir, name)
			info, err := os.Stat(full)
			if err != nil || info.IsDir() {
				continue
			}
			if unix.Access(full, unix.X_OK) == nil {
				return full, nil
			}
			seen = syscall.EACCES
		}
	}
	return "", &os.PathError{Op: "find", Path: name, Err: seen}
}

// wording describes why a program did not start.
func wording(spec Spec, err error) string {
	name, more := spec.Args[0], ""
	if spec.Files != nil {
		more = ", or it is not under a path that commands may read (commands.paths)"
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Sprintf("the program %q was not found on this worker, or the interpreter named in its first line is missing", name)
	case errors.Is(err, syscall.EACCES):
		return fmt.Sprintf("the program %q cannot be run: it is not executable, or its folder is not accessible%s", name, more)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Sprintf("this machine cannot run the program %q", name)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Sprintf("the program %q was given more arguments and environment than the system allows", name)
	}
	return err.Error()
}
