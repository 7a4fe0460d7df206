//go:build unix && !linux

package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// group is a command in its own process group.
type group struct {
	cmd      *exec.Cmd
	out, err *os.File
}

// start starts a command. There is no minder on this system: no limits, no other user, and processes that leave the
// group escape.
func (r *Runner) start(spec minder.Spec, in io.Reader) (process, error) {
	if r.user != nil {
		return nil, errors.New("a worker that is root cannot run commands on this system; start it as another user")
	}
	out, outWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errs, errWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, out.Close(), outWrite.Close())
	}
	defer outWrite.Close()
	defer errWrite.Close()
	path := spec.Args[0]
	g := &group{out: out, err: errs}
	if found, err := exec.LookPath(path); err == nil {
		path = found
	}
	g.cmd = &exec.Cmd{
		Path: path, Args: spec.Args, Env: spec.Env, Dir: spec.Dir, Stdin: in, Stdout: outWrite, Stderr: errWrite,
		WaitDelay: 2 * time.Second, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	err = g.cmd.Start()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		err = &NotRun{"the program cannot be run: " + err.Error()}
	}
	if err != nil {
		return nil, errors.Join(err, out.Close(), errs.Close())
	}
	return g, nil
}

func (g *group) outOfMemory() bool { return false }

func (g *group) streams() (out, err io.ReadCloser) { return g.out, g.err }

func (g *group) term() { syscall.Kill(-g.cmd.Process.Pid, syscall.SIGTERM) }

func (g *group) kill() { syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) }

func (g *group) wait() (e minder.End, err error) {
	err = g.cmd.Wait()
	g.kill() // what is left of the group
	for _, f := range []*os.File{g.out, g.err} {
		f.SetReadDeadline(time.Now().Add(3 * time.Second))
	}
	var bad *exec.ExitError
	if err != nil && !errors.As(err, &bad) {
		return e, err
	}
	if s, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		e.Signal = int(s.Signal())
	} else {
		e.Exit = g.cmd.ProcessState.ExitCode()
	}
	return e, nil
}
