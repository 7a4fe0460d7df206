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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// minded is a command run by a minder.
type minded struct {
	cmd      *exec.Cmd
	orders   *os.File // to the minder; closing it ends the command
	end      *os.File // from the minder
	out, err *os.File
	group    *cgroup // nil: none
	mu       sync.Mutex
	closed   bool // guarded by mu: orders is
	full     bool // its group ran out of memory; known after wait
}

// start starts a minder within the runner's walls, and sends it the spec.
func (r *Runner) start(spec minder.Spec, in io.Reader) (process, error) {
	w := r.walls.spec
	r.hideAnew(&w)
	spec.User, spec.Files, spec.NoSockets = w.User, w.Files, w.NoSockets
	spec.Namespace, spec.Proc, spec.Mask, spec.Network = w.Namespace, w.Proc, w.Mask, w.Network
	if spec.Limit.Processes > 0 {
		uid := os.Getuid()
		if spec.User != nil {
			uid = spec.User.UID
		}
		spec.Limit.Processes += uint64(tasksOf(uid)) // the kernel counts everything the user runs, not only this command
	}
	group, err := r.walls.groups.make()
	if err != nil {
		return nil, err
	}
	if group != nil {
		spec.Limit.Memory = 0 // the group's limit covers all processes together, and counts memory in use
	}
	p, err := launch(spec, in, group)
	if err != nil {
		return nil, errors.Join(err, group.remove())
	}
	return p, nil
}

// launch starts a minder, in a group if there is one, and sends it the spec.
func launch(spec minder.Spec, in io.Reader, group *cgroup) (_ *minded, err error) {
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
	p := &minded{orders: orders, end: end, out: out, err: errs, group: group}
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{minder.Name}, Env: []string{}, Dir: "/", Stdin: in, Stdout: outWrite, Stderr: errWrite,
		ExtraFiles: []*os.File{told, tell}, WaitDelay: 2 * time.Second, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if spec.Namespace {
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
	if spec.Network {
		p.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	if spec.Namespace && spec.User == nil { // not root, which can create these only in a user namespace
		a := p.cmd.SysProcAttr
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN} // for the minder, to prepare the namespaces
	}
	if err = p.cmd.Start(); err != nil {
		return nil, err
	}
	for _, f := range []*os.File{told, tell, outWrite, errWrite} {
		f.Close()
	}
	if gerr := group.add(p.cmd.Process.Pid); gerr != nil {
		p.kill() // before it was told anything
		p.wait()
		return nil, errors.Join(fmt.Errorf("move a process into its control group: %w", gerr), out.Close(), errs.Close())
	}
	if werr := minder.Write(orders, spec); werr != nil {
		p.kill() // it has ended; wait says so
	}
	return p, nil
}

func (p *minded) outOfMemory() bool { return p.full }

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
		// A minder works in a moment. One that does not has been stopped; in a namespace everything dies with it.
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
	p.full = p.group.full()
	_ = p.group.remove() // a leftover group does not change how the command ended
	for _, f := range []*os.File{p.out, p.err} {
		f.SetReadDeadline(time.Now().Add(3 * time.Second)) // escaped processes may hold them open
	}
	if readErr != nil || json.Unmarshal(said, &e) != nil {
		return e, fmt.Errorf("the minder of the command ended without a word: %w", errors.Join(readErr, waitErr, errMinder))
	}
	return e, nil
}

var errMinder = errors.New("it was killed, or could not begin")

// tasksOf counts a user's threads on this machine.
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
