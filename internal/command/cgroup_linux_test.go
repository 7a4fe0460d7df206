package command

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/internal/command/minder"
)

func TestWhereTheControlGroupIs(t *testing.T) {
	t.Parallel()
	const mounts = "25 1 0:22 / /proc rw - proc proc rw\n30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	for _, tt := range []struct{ mounts, own, want string }{
		{mounts, "0::/system.slice/carillon.service\n", "/sys/fs/cgroup/system.slice/carillon.service"},
		{mounts, "5:memory:/x\n0::/\n", "/sys/fs/cgroup"},
		{mounts, "5:memory:/x\n", ""},
		{"25 1 0:22 / /proc rw - proc proc rw\n", "0::/\n", ""},
		{"30 25 0:26 /machine /cg rw shared:1 - cgroup2 none rw\n", "0::/machine/a\n", "/cg/a"},
		{"30 25 0:26 /other /cg rw - cgroup2 none rw\n", "0::/machine/a\n", ""},
	} {
		if got := groupFolder(tt.mounts, tt.own); got != tt.want {
			t.Errorf("%q, %q: %q, want %q", tt.mounts, tt.own, got, tt.want)
		}
	}
}

// What is written where, on a folder that stands for the kernel's.
func TestACommandsControlGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpu pids\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	limit := minder.Limit{Memory: 64 << 20, Processes: 10}
	if _, err := divide(dir, 1, limit); err == nil {
		t.Error("a group without the controller of memory was divided")
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.controllers"), []byte("cpu memory pids\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := divide(dir, 4711, limit)
	if err != nil {
		t.Fatal(err)
	}
	if got := file(mainGroup+"/cgroup.procs") + " " + file("cgroup.subtree_control"); got != "4711 +memory +pids" {
		t.Errorf("got %q", got)
	}
	g, err := c.make()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.add(4712); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(g.dir)
	if got := file(name+"/memory.max") + " " + file(name+"/pids.max") + " " + file(name+"/cgroup.procs"); got != "67108864 42 4712" {
		t.Errorf("got %q", got)
	}
	if g.full() {
		t.Error("it is full before anything happened")
	}
	if err := os.WriteFile(filepath.Join(g.dir, "memory.events"), []byte("low 0\noom 1\noom_kill 1\n"), 0o644); err != nil || !g.full() {
		t.Errorf("it is not full: %v", err)
	}
	var none *cgroups
	if g, err := none.make(); g != nil || err != nil || g.add(1) != nil || g.full() || g.remove() != nil {
		t.Error("no groups are some")
	}
}

// In a real group of the kernel, where this machine gives one away.
func TestAMemoryHogEndsInItsControlGroup(t *testing.T) {
	limit := minder.Limit{Memory: 64 << 20, Processes: 50}
	g := findCgroups(limit, slog.New(slog.DiscardHandler))
	if g == nil {
		t.Skip("this process has no control group (v2) of its own with memory and pids to divide")
	}
	r := runner(t, func(c *Config) { c.Limit = limit })
	e, err := r.Run(t.Context(), shell(`x=$(head -c 1000000000 /dev/zero | tr '\0' x); echo "${#x}"`))
	if err != nil || !e.Full {
		t.Errorf("%+v, %v", e, err)
	}
}

// When memory runs out for a server and its commands together, the kernel ends the command.
func TestTheKernelEndsTheCommandFirst(t *testing.T) {
	if os.Getenv("CARILLON_TEST_SERVER") != "" { // in the group: the server
		r := runner(t, nil)
		// More than the command comes to have; not Go's own memory, of which the race detector keeps several times as much.
		ballast, err := unix.Mmap(-1, 0, 240<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(ballast)
		e, err := r.Run(t.Context(), shell(`x=$(head -c 1000000000 /dev/zero | tr '\0' x); echo "${#x}"`))
		if err != nil || e.Exit == 0 && e.Signal == "" {
			t.Errorf("%+v, %v", e, err)
		}
		return
	}
	group, procs := memoryGroup(t, 400<<20)
	c := exec.Command("/bin/sh", "-c", `echo $$ > `+procs+` && exec "$0" "$@"`, "", "-test.run", "^TestTheKernelEndsTheCommandFirst$", "-test.v")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.Args[3] = self
	c.Env = append(os.Environ(), "CARILLON_TEST_SERVER=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("in %s: %v\n%s", group, err, out)
	}
}

// memoryGroup makes a control group (of either version) of so much memory, and says what takes processes into it.
func memoryGroup(t *testing.T, bytes int) (dir, procs string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to make a control group")
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	limit := "memory.limit_in_bytes"
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line[strings.Index(line, ":")+1:]), "memory:"); ok {
			dir = filepath.Join("/sys/fs/cgroup/memory", path)
		}
	}
	if dir == "" {
		dir, limit = "/sys/fs/cgroup", "memory.max"
	}
	dir = filepath.Join(dir, "carillon-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no control group can be made: %v", err)
	}
	t.Cleanup(func() { until(t, "the group to be empty", func() bool { return os.Remove(dir) == nil }) })
	if err := os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(bytes)), 0o644); err != nil {
		t.Skipf("no memory can be set: %v", err)
	}
	return dir, filepath.Join(dir, "cgroup.procs")
}
