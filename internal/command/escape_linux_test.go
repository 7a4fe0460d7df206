package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

// prisoner is the name under which this test's binary is a command that tries to get out.
const prisoner = "carillon-prisoner"

func init() {
	if len(os.Args) > 1 && os.Args[1] == prisoner {
		os.Exit(escape())
	}
}

// tries are the ways out. Each gets where the server's things are.
var tries = map[string]func(plan) error{
	"read the key":                func(p plan) error { return reads(p.Data + "/secrets.key") },
	"read the database":           func(p plan) error { return reads(p.Data + "/carillon.db") },
	"read the settings":           func(p plan) error { return reads(p.Settings) },
	"read a file through a link":  func(p plan) error { return errors.Join(os.Symlink(p.Data+"/secrets.key", "link"), reads("link")) },
	"link a file into its folder": func(p plan) error { return errors.Join(os.Link(p.Data+"/secrets.key", "hard"), reads("hard")) },
	"write to the database": func(p plan) error {
		f, err := os.OpenFile(p.Data+"/carillon.db", os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		return err
	},
	"truncate the database":        func(p plan) error { return unix.Truncate(p.Data+"/carillon.db", 0) },
	"remove the database":          func(p plan) error { return os.Remove(p.Data + "/carillon.db") },
	"make a file in the folder":    func(p plan) error { return os.WriteFile(p.Data+"/new", nil, 0o600) },
	"read the server's variables":  func(p plan) error { return reads(fmt.Sprintf("/proc/%d/environ", p.Server)) },
	"read the server's memory":     func(p plan) error { return opens(fmt.Sprintf("/proc/%d/mem", p.Server)) },
	"list the server's open files": func(p plan) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Server)); return err },
	"trace the server":             func(p plan) error { return unix.PtraceAttach(p.Server) },
	"trace its minder":             func(plan) error { return unix.PtraceAttach(os.Getppid()) },
	"read its minder's memory":     func(plan) error { return opens(fmt.Sprintf("/proc/%d/mem", os.Getppid())) },
	"copy the server's memory": func(p plan) error {
		b := make([]byte, 8)
		local := []unix.Iovec{{Base: &b[0], Len: 8}}
		_, err := unix.ProcessVMReadv(p.Server, local, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b[0])), Len: 8}}, 0)
		return err
	},
	"change the server's limits": func(p plan) error {
		return unix.Prlimit(p.Server, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0}, nil)
	},
	"signal the server":        func(p plan) error { return unix.Kill(p.Server, 0) },
	"make a user namespace":    func(plan) error { return clones(unix.CLONE_NEWUSER) },
	"make a mount namespace":   func(plan) error { return clones(unix.CLONE_NEWNS | unix.CLONE_NEWUSER) },
	"unshare a user namespace": func(plan) error { return calls(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) },
	"unshare a time namespace": func(plan) error { return calls(unix.SYS_UNSHARE, unix.CLONE_NEWTIME) },
	"enter a namespace":        func(plan) error { return calls(unix.SYS_SETNS, 0, 0) },
	"mount":                    func(plan) error { return unix.Mount("tmpfs", ".", "tmpfs", 0, "") },
	"uncover a folder":         func(p plan) error { return unix.Unmount(p.Data, unix.MNT_DETACH) },
	"change its root":          func(plan) error { return unix.Chroot(".") },
	"become root":              func(plan) error { return calls(unix.SYS_SETUID, 0) },
	"set up io_uring": func(plan) error {
		var b [120]byte
		return calls(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&b)))
	},
	"load a BPF program":                      func(plan) error { return calls(unix.SYS_BPF, 5, 0, 0) },
	"watch the machine":                       func(plan) error { return calls(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0) },
	"handle page faults":                      func(plan) error { return calls(unix.SYS_USERFAULTFD, 1) },
	"use a keyring":                           func(plan) error { return calls(unix.SYS_KEYCTL, 0, ^uintptr(3)) },
	"load a module":                           func(plan) error { return calls(unix.SYS_FINIT_MODULE, 0, 0, 0) },
	"open by handle":                          func(plan) error { return calls(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) },
	"reach a socket of its own":               func(p plan) error { return dials(p.Socket) },
	"lower its chance to be the first to end": func(plan) error { return os.WriteFile("/proc/self/oom_score_adj", []byte("0"), 0) },
}

// plan tells a confined process what to do.
type plan struct {
	Data, Settings, Socket string
	Server                 int
}

// escape tries everything, and writes what came of it to the result.
func escape() int {
	var p plan
	if json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&p) != nil {
		return 2
	}
	got := map[string]string{}
	for name, try := range tries {
		runtime.LockOSThread() // what a try does to its thread stays there
		err := try(p)
		got[name] = ""
		if err != nil {
			got[name] = err.Error()
		}
	}
	data, err := json.Marshal(got)
	if err != nil || os.WriteFile(os.Getenv("CARILLON_RESULT"), data, 0o600) != nil {
		return 3
	}
	return 0
}

// reads reads the beginning of a file; one that is covered is empty.
func reads(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

func opens(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

func calls(nr uintptr, args ...uintptr) error {
	var a [5]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], 0); e != 0 {
		return e
	}
	return nil
}

func clones(flags uintptr) error {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: flags}})
	if err == nil {
		syscall.Wait4(pid, nil, 0, nil)
	}
	return err
}

func dials(path string) error {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// jail is a runner over the folder of something like a server, and a copy of this binary that commands can run.
func jail(t *testing.T, change func(*Config)) (r *Runner, p plan, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon-jail-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, bin := filepath.Join(dir, "data"), filepath.Join(dir, "bin")
	program = filepath.Join(bin, "program")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	p = plan{Data: data, Settings: filepath.Join(dir, "carillon.toml"), Socket: filepath.Join(bin, "socket"), Server: os.Getpid()}
	if err := errors.Join(
		os.Chmod(dir, 0o755), os.Mkdir(data, 0o755), os.Mkdir(bin, 0o755), os.WriteFile(program, self, 0o755),
		os.WriteFile(filepath.Join(data, "secrets.key"), []byte("the key"), 0o600), os.WriteFile(filepath.Join(data, "carillon.db"), []byte("rows"), 0o600),
		os.WriteFile(p.Settings, []byte(`database = "postgres://carillon:password@db/carillon"`), 0o644), // as people leave them
	); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", p.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r = runner(t, func(c *Config) {
		c.Hidden, c.Read = []string{data, p.Settings, filepath.Join(data, "carillon.db-wal")}, []string{bin}
		c.Limit.Processes = 0
		if change != nil {
			change(c)
		}
	})
	return r, p, program
}

// A command reaches nothing of the process that started it: as another user, and as the same one with and without namespaces.
func TestNothingEscapes(t *testing.T) {
	if os.Getuid() == 0 {
		t.Run("root", func(t *testing.T) { escapes(t, nil) })
		t.Run("root without namespaces", func(t *testing.T) { escapes(t, func(c *Config) { c.plain = true }) })
		asUser(t, 64_125)
		return
	}
	if minder.Landlock() == 0 {
		t.Skip("this kernel has no Landlock, so commands of the same user are not confined")
	}
	t.Run("namespaces", func(t *testing.T) { escapes(t, nil) })
	t.Run("no namespaces", func(t *testing.T) { escapes(t, func(c *Config) { c.plain = true }) })
}

func escapes(t *testing.T, change func(*Config)) {
	r, p, program := jail(t, change)
	if err := r.Open(); err != nil {
		t.Fatalf("not confined: %v", err)
	}
	if err := r.Harden(); err != nil {
		t.Fatal(err)
	}
	a := attempt(program, prisoner)
	var err error
	if a.Payload, err = json.Marshal(p); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if err := json.Unmarshal([]byte(result(t, r, a)), &got); err != nil || len(got) != len(tries) {
		t.Fatalf("%v: %d of %d tries", err, len(got), len(tries))
	}
	for name, failure := range got {
		allowed := name == "reach a socket of its own" && os.Getuid() == 0 || // another user's socket lets in whom its owner lets in
			name == "signal the server" && r.cfg.plain && os.Getuid() != 0 && minder.Landlock() < minder.SignalABI
		if failure == "" && !allowed {
			t.Errorf("it could %s (walls: %s)", name, r.Walls())
		}
	}
	for file, want := range map[string]string{"secrets.key": "the key", "carillon.db": "rows"} {
		if data, err := os.ReadFile(filepath.Join(p.Data, file)); err != nil || string(data) != want {
			t.Errorf("%s holds %q, %v", file, data, err)
		}
	}
}

// What the tests above rely on: without walls the same program gets at the key of a process of its own user.
func TestUnconfinedCommandsReachWhatTheProcessCan(t *testing.T) {
	if os.Getuid() == 0 {
		asUser(t, 64_126)
		return
	}
	r, p, _ := jail(t, func(c *Config) { c.Unconfined = true })
	if r.Open() == nil {
		t.Error("it says that commands are confined")
	}
	if e, err := r.Run(t.Context(), attempt("cat", p.Data+"/secrets.key")); err != nil || e.Exit != 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

// The other folders of the system are readable, its own is writable, and a program elsewhere says which setting it needs.
func TestConfinedCommandsDoTheirWork(t *testing.T) {
	if os.Getuid() == 0 {
		asUser(t, 64_127)
		return
	}
	if minder.Landlock() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	shared, err := os.MkdirTemp("", "carillon-shared-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(shared)
	for _, plain := range []bool{false, true} {
		r, _, _ := jail(t, func(c *Config) { c.plain, c.Write = plain, []string{shared} })
		for name, script := range map[string]string{
			"a pipe and a loop":   `for i in 1 2 3; do echo $i; done | sort -r | tail -1`,
			"temporary files":     `f=$(mktemp) && echo x > $f && mv $f there && cp there again && ln there linked && rm again && mkdir -p a/b && mv there a/b/`,
			"devices":             `echo x > /dev/null; head -c 8 /dev/urandom > r; test -s r`,
			"a folder of Write":   `echo x > ` + shared + `/out && rm ` + shared + `/out`,
			"a look at itself":    `cat /proc/self/status /etc/passwd > copy; ls /usr/bin | head -1; ls / >/dev/null 2>&1 || true`,
			"a background child":  `sleep 0.01 & wait`,
			"a program as a file": `cp /bin/echo mine && ./mine hello`,
		} {
			if e, err := r.Run(t.Context(), shell("set -e\n"+script)); err != nil || e.Exit != 0 {
				t.Errorf("plain %v: %s: %+v, %v", plain, name, e, err)
			}
		}
		outside := filepath.Join(t.TempDir(), "tool")
		if err := os.WriteFile(outside, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := r.Run(t.Context(), attempt(outside))
		if err == nil || !strings.Contains(err.Error(), "commands.paths") {
			t.Errorf("a program elsewhere: %v", err)
		}
	}
}

// A process that is not dumpable can still start commands, and cannot be read by others of its user.
func TestAHardenedProcessStillRunsCommands(t *testing.T) {
	if os.Getuid() == 0 {
		asUser(t, 64_128)
		return
	}
	r, _, _ := jail(t, func(c *Config) { c.plain = true })
	if err := r.Harden(); err != nil {
		t.Fatal(err)
	}
	if e, err := r.Run(t.Context(), shell("exit 7")); err != nil || e.Exit != 7 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, file := range []string{"stat", "limits", "status", "mountinfo", "cgroup"} { // what metrics and this package read of themselves
		if _, err := os.ReadFile("/proc/self/" + file); err != nil {
			t.Errorf("it no longer reads its own %s: %v", file, err)
		}
	}
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		t.Errorf("it no longer lists its open files: %v", err)
	}
	c := shell("cat /proc/" + strconv.Itoa(os.Getpid()) + "/environ")
	free, _, _ := jail(t, func(c *Config) { c.plain, c.Unconfined = true, true })
	if e, err := free.Run(t.Context(), c); err != nil || e.Exit == 0 {
		t.Errorf("an unconfined command of the same user reads its environment: %+v, %v", e, err)
	}
}

// A network of its own holds nothing but loopback.
func TestNoNetwork(t *testing.T) {
	r, _, _ := jail(t, func(c *Config) { c.NoNetwork = true })
	got := result(t, r, shell(`cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' \n' > "$CARILLON_RESULT"`))
	if got != "lo" {
		t.Errorf("devices: %q", got)
	}
	cfg := r.cfg
	cfg.plain, cfg.Folder = true, filepath.Join(t.TempDir(), "c")
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "commands.network") {
		t.Errorf("without namespaces: %v", err)
	}
}

// One that uses more memory than it may ends alone.
func TestAMemoryHogEndsAlone(t *testing.T) {
	t.Parallel()
	r := runner(t, func(c *Config) { c.Limit.Memory = 256 << 20 })
	e, err := r.Run(t.Context(), shell(`cat /proc/self/oom_score_adj; x=$(head -c 1000000000 /dev/zero | tr '\0' x); echo "${#x}"`))
	if err != nil || e.Exit == 0 && e.Signal == "" {
		t.Errorf("%+v, %v", e, err)
	}
	if got := result(t, r, shell(`cat /proc/self/oom_score_adj > "$CARILLON_RESULT"`)); got != "1000" {
		t.Errorf("oom_score_adj %s, want 1000", got)
	}
}

// The processor's other ways to make a call are closed: a filter that knows one way lets no other through.
func TestTheFilterKnowsOneWayIn(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("x32 is a way of amd64")
	}
	r, _, program := jail(t, nil)
	e, err := r.Run(t.Context(), attempt(program, "carillon-x32"))
	if err != nil || e.Signal != "SIGSYS" {
		t.Errorf("a call by x32: %+v, %v; want SIGSYS", e, err)
	}
}

func init() {
	if len(os.Args) > 1 && os.Args[1] == "carillon-x32" {
		unix.Syscall(0x4000_0000|unix.SYS_GETPID, 0, 0, 0)
		os.Exit(0)
	}
}
