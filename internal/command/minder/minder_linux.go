package minder

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The names under which the binary runs in another role.
const (
	Name    = "carillon-minder"
	becomer = "carillon-command"
)

// The open files of both: instructions come in through one, results go out through the other.
const (
	fdIn  = 3
	fdOut = 4
)

// This is an init, not a call in main, so that every binary that can start commands, including test binaries, can be
// its own minder.
func init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case Name:
		runtime.LockOSThread() // what the kernel ties to a thread must outlive the command
		os.Exit(mind())
	case becomer:
		runtime.LockOSThread()
		os.Exit(become())
	}
}

// Write sends a spec to a minder.
func Write(w io.Writer, s Spec) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

func read(r io.Reader) (s Spec, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return s, err
	}
	data := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, data); err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// tell reports how it ended.
func tell(w io.Writer, e End) {
	data, err := json.Marshal(e)
	if err == nil {
		w.Write(data) // a worker that has gone needs no answer
	}
}

// mind runs a command to its end.
func mind() int {
	in, out := os.NewFile(fdIn, "in"), os.NewFile(fdOut, "out")
	unix.CloseOnExec(fdIn)
	unix.CloseOnExec(fdOut)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE) // only the worker decides when it is over
	spec, err := read(in)
	if err != nil {
		tell(out, End{Failed: "the minder was not told what to run: " + err.Error()})
		return 1
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		tell(out, End{Failed: "become the parent of orphans: " + err.Error()})
		return 1
	}
	hide()
	if spec.Namespace {
		if err := seclude(spec); err != nil {
			tell(out, End{Failed: err.Error()})
			return 1
		}
	}
	main, failed := start(spec)
	if failed != nil && main == 0 {
		tell(out, *failed)
		return 1
	}
	go obey(in, main, spec.Namespace)
	e := reap(main)
	e.Left = sweep(spec.Namespace)
	if failed != nil {
		e = *failed
	}
	tell(out, e)
	return 0
}

// start starts the process that becomes the command, in its own session, and waits until it has.
func start(spec Spec) (pid int, failed *End) {
	spec.Parent = os.Getpid()
	var how, what [2]int
	if err := errors.Join(unix.Pipe2(how[:], unix.O_CLOEXEC), unix.Pipe2(what[:], unix.O_CLOEXEC)); err != nil {
		return 0, &End{Failed: "open a pipe: " + err.Error()}
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{becomer}, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2, uintptr(how[0]), uintptr(what[1])}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	unix.Close(how[0])
	unix.Close(what[1])
	if err != nil {
		return 0, &End{Failed: "start a process: " + err.Error()}
	}
	forget()
	to := os.NewFile(uintptr(how[1]), "to")
	err = Write(to, spec)
	to.Close()
	said, _ := io.ReadAll(os.NewFile(uintptr(what[0]), "from")) // ends when the command has begun
	var e End
	switch {
	case len(said) > 0 && json.Unmarshal(said, &e) == nil:
		return pid, &e
	case err != nil:
		return pid, &End{Failed: "tell a process what to run: " + err.Error()}
	}
	return pid, nil
}

// forget closes the command's input and output, so that they end with the command.
func forget() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err == nil {
			unix.Dup2(null, fd)
		} else {
			unix.Close(fd)
		}
	}
}

// obey carries out the worker's orders: 'T' asks the command to end; when the pipe ends, everything is killed.
func obey(in io.Reader, main int, namespace bool) {
	b := make([]byte, 1)
	for {
		n, err := in.Read(b)
		if n == 1 && b[0] == 'T' {
			unix.Kill(-main, unix.SIGTERM)
		}
		if err != nil {
			break
		}
	}
	for { // until the minder ends, since a dying process may have started another
		unix.Kill(-main, unix.SIGKILL)
		killAll(namespace)
		time.Sleep(10 * time.Millisecond)
	}
}

// reap waits for the command, and for every orphan that ends before it.
func reap(main int) (e End) {
	for {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-1, &s, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return End{Failed: "wait for the command: " + err.Error()}
		}
		if pid != main || !s.Exited() && !s.Signaled() {
			continue
		}
		if s.Signaled() {
			return End{Signal: int(s.Signal())}
		}
		return End{Exit: s.ExitStatus()}
	}
}

// sweep kills what the command left behind, and returns how many processes that was.
func sweep(namespace bool) int {
	left := 0
	for range 2000 { // two seconds and more
		killAll(namespace)
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if errors.Is(err, unix.ECHILD) {
				return left
			}
			if pid <= 0 {
				break
			}
			left++
		}
		time.Sleep(time.Millisecond)
	}
	return left
}

// killAll kills every process below the minder that one scan finds.
func killAll(namespace bool) {
	if namespace {
		unix.Kill(-1, unix.SIGKILL) // all in the namespace but its first process
		return
	}
	me := os.Getpid()
	parents := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			parents[pid] = parentOf(pid)
		}
	}
	for pid := range parents {
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == me {
				unix.Kill(pid, unix.SIGKILL)
				break
			}
		}
	}
}

// parentOf returns the parent of a process; 0 if it has ended.
func parentOf(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	at := bytes.LastIndexByte(data, ')') // the name before it may contain anything
	if at < 0 {
		return 0
	}
	fields := strings.Fields(string(data[at+1:]))
	if len(fields) < 2 {
		return 0
	}
	ppid, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return ppid
}
