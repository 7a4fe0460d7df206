package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// minded is a command that a minder looks after.
type minded struct {
	cmd      *exec.Cmd
	orders   *os.File // to the minder; its end is the end of the command
	end      *os.File // from the minder
	out, err *os.File
	mu       sync.Mutex
	closed   bool // guarded by mu: orders is
}

// noNamespaces says that this process may not make namespaces.
var noNamespaces atomic.Bool

// start starts a minder, and tells it what to run.
func start(spec minder.Spec, in io.Reader) (process, error) {
	if spec.Limit.Processes > 0 {
		uid := os.Getuid()
		if spec.User != nil {
			uid = spec.User.UID
		}
		spec.Limit.Processes += uint64(tasksOf(uid)) // the kernel counts all that the user runs, not what this command does
	}
	if !noNamespaces.Load() {
		spec.Namespace = true
		p, err := launch(spec, in)
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.ENOSYS) {
			return p, err
		}
		noNamespaces.Store(true)
		spec.Namespace = false
	}
	return launch(spec, in)
}

func launch(spec minder.Spec, in io.Reader) (_ process, err error) {
	var files []*os.File
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				files = append(files, r, w)
			}
		}
		return r, w
	}
	told, orders := pipe()
	end, tell := pipe()
	out, outWrite := pipe()
	errs, errWrite := pipe()
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	p := &minded{orders: orders, end: end, out: out, err: errs}
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{minder.Name}, Env: []string{}, Dir: "/", Stdin: in, Stdout: outWrite, Stderr: errWrite,
		ExtraFiles: []*os.File{told, tell}, WaitDelay: 2 * time.Second, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if spec.Namespace {
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
	if spec.Namespace && spec.User == nil { // not root, which may make these in a namespace of users only
		a := p.cmd.SysProcAttr
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // for the minder, to show the namespace its own processes
	}
	if err = p.cmd.Start(); err != nil {
		return nil, err
	}
	for _, f := range []*os.File{told, tell, outWrite, errWrite} {
		f.Close()
	}
	if werr := minder.Write(orders, spec); werr != nil {
		p.kill() // it has ended; wait says so
	}
	return p, nil
}

func (p *minded) streams() (out, err io.ReadCloser) { return p.out, p.err }

func (p *minded) term() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.orders.Write([]byte{'T'}) // a minder that is gone has nothing left to end
	}
}

func (p *minded) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.orders.Close()
		// A minder does its work in a moment. One that does not has been stopped; in a namespace all dies with it.
		time.AfterFunc(killPatience, func() { p.cmd.Process.Kill() })
	}
}

const killPatience = 4 * time.Second

func (p *minded) wait() (e minder.End, err error) {
	said, readErr := io.ReadAll(io.LimitReader(p.end, 1<<16))
	waitErr := p.cmd.Wait()
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.orders.Close()
	}
	p.mu.Unlock()
	p.end.Close()
	for _, f := range []*os.File{p.out, p.err} {
		f.SetReadDeadline(time.Now().Add(3 * time.Second)) // what escaped may hold them open
	}
	if readErr != nil || json.Unmarshal(said, &e) != nil {
		return e, fmt.Errorf("the minder of the command ended without a word: %w", errors.Join(readErr, waitErr, errMinder))
	}
	return e, nil
}

var errMinder = errors.New("it was killed, or could not begin")

// tasksOf counts what a user runs on this machine.
func tasksOf(uid int) (n int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
			tasks, err := os.ReadDir("/proc/" + e.Name() + "/task")
			if err == nil {
				n += len(tasks)
			}
		}
	}
	return n
}
