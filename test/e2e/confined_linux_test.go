package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// plainUser is the user that servers of these tests run as: not root, and with nothing else on this machine.
const plainUser = 64_200

// installation is a folder with the key of secrets and room for a database, of a user who is not root, where commands can run.
type installation struct {
	dir, key, config string
	env              []string
}

func install(t *testing.T) installation {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	i := installation{dir: dir, key: filepath.Join(dir, "data", "secrets.key"), config: filepath.Join(dir, "carillon.toml")}
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "data"), 0o700), os.Mkdir(filepath.Join(dir, "commands"), 0o700), os.Chmod(dir, 0o755),
		os.WriteFile(i.key, []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))), 0o600),
		os.WriteFile(i.config, []byte("[log]\nlevel = \"debug\"\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		for _, name := range []string{"", "data", "data/secrets.key", "commands", "carillon.toml"} {
			if err := os.Chown(filepath.Join(dir, name), plainUser, plainUser); err != nil {
				t.Fatal(err)
			}
		}
	}
	i.env = harness.Settings("CARILLON_COMMANDS_FOLDER="+filepath.Join(dir, "commands"), "CARILLON_DATA="+filepath.Join(dir, "data"), "HOME="+dir)
	return i
}

// plain is the arguments of a server of the installation that allows commands.
func (i installation) plain(more ...string) []string {
	return append([]string{
		"serve", "--database", "sqlite:" + filepath.Join(i.dir, "data", "c.db"), "--secrets-key-file", i.key, "--config", i.config, "--allow-commands", "--listen", "127.0.0.1:0",
	}, more...)
}

// serve is the arguments of a server of the installation that runs commands.
func (i installation) serve(more ...string) []string {
	return i.plain(append([]string{"--commands-risk-server"}, more...)...)
}

// as runs a process of the installation as its user, on a kernel with or without Landlock.
func (i installation) as(landlock bool) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.Dir = i.dir
		if os.Getuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plainUser, Gid: plainUser}}
		}
		if !landlock {
			c.Args = append([]string{c.Path, withoutLandlock, c.Path}, c.Args[1:]...)
			c.Path = i.dir + "/test"
		}
	}
}

// withoutLandlock is the argument with which this test's binary runs another on a kernel that seems to have no Landlock.
const withoutLandlock = "carillon-without-landlock"

func init() {
	if len(os.Args) < 3 || os.Args[1] != withoutLandlock {
		return
	}
	runtime.LockOSThread()
	load := uint16(unix.BPF_LD | unix.BPF_W | unix.BPF_ABS)
	f := []unix.SockFilter{
		{Code: load, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)), 0, 0)
	}
	if err == nil {
		err = syscall.Exec(os.Args[2], os.Args[2:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(99)
}

// landlocked reports whether the kernel has Landlock.
func landlocked() bool {
	const version = 1
	abi, _, err := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	return err == 0 && abi > 0
}

// ran creates a job of a shell script and waits for its end.
func ran(p *harness.Process, script string) (e client.Execution) {
	p.Helper()
	id := p.Create(fmt.Sprintf(`{"name": "script", "execution": {"target": "command", "command": ["sh", "-c", %q]}, "retry_policy": {"max_retries": 0}}`, script)).ExecutionID
	harness.Eventually(p.T, 30*time.Second, "an end", func() bool {
		e = p.Execution(id)
		return e.Status == "SUCCEEDED" || e.Status == "FAILED" || e.Status == "DEAD_LETTER"
	})
	return e
}

// A command of a server that is not root read secrets.key and wrote itself a key of role system.
func TestACommandCannotTakeOverItsServer(t *testing.T) {
	t.Parallel()
	if !landlocked() {
		t.Skip("this kernel has no Landlock; such a server refuses to start, which TestAServerRefusesCommandsThatItCannotConfine shows")
	}
	i := install(t)
	p := harness.LaunchWith(t, i.as(true), i.env, i.serve()...).Greeted()
	if e := ran(p, "echo 1 > $CARILLON_RESULT"); e.Status != "SUCCEEDED" {
		t.Fatalf("an honest command: %+v", e)
	}
	data := filepath.Join(i.dir, "data")
	for name, script := range map[string]string{
		"the key of secrets":                   "grep . " + i.key,
		"the database":                         "grep -a . " + data + "/c.db",
		"the database's log":                   "grep -a . " + data + "/c.db-wal",
		"the settings":                         "grep level " + i.config,
		"a write to the database":              "test -e " + data + "/c.db && echo >> " + data + "/c.db",
		"a file beside it":                     "echo > " + data + "/new",
		"the artifacts":                        "mkdir " + data + "/blobs",
		"another command's folder":             "ls " + i.dir + "/commands | grep artifacts",
		"variables of any process of the user": `for f in /proc/[0-9]*/environ; do grep -aq CARILLON_BOOTSTRAP_KEY $f && exit 0; done; exit 1`,
		"a user namespace":                     "unshare -Ur true",
		"a signal to the server":               fmt.Sprintf("kill -0 %d", p.PID()),
	} {
		if e := ran(p, script); e.Status == "SUCCEEDED" {
			t.Errorf("a command could reach %s", name)
		}
	}
	harness.Want[client.Overview](p, 200, "GET", "/api/v1/overview", "") // the server lives
	if !p.Says("confined=true") {
		t.Error("the server does not say that commands are confined")
	}
}

// In dev commands read the folder in which it was started and write temporary files, and do not get at its store.
func TestCommandsOfDevDoTheirWork(t *testing.T) {
	t.Parallel()
	if !landlocked() {
		t.Skip("this kernel has no Landlock; dev warns, which TestAServerRefusesCommandsThatItCannotConfine shows")
	}
	i := install(t)
	if err := os.WriteFile(filepath.Join(i.dir, "project.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(i.dir, "tmp") // the system's holds this test's data
	if err := errors.Join(os.Mkdir(temp, 0o700), os.Chmod(temp, 0o777)); err != nil {
		t.Fatal(err)
	}
	i.env = append(i.env, "HOME="+t.TempDir(), "TMPDIR="+temp, "XDG_CONFIG_HOME="+filepath.Join(i.dir, "settings"))
	p := harness.LaunchWith(t, i.as(true), i.env, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(i.dir, "data")).Greeted()
	token, err := os.ReadFile(filepath.Join(i.dir, "data", "dev-token"))
	if err != nil {
		t.Fatal(err)
	}
	p.Key = strings.TrimSpace(string(token))
	if e := ran(p, "grep mine "+i.dir+"/project.txt && echo x > "+temp+"/mark"); e.Status != "SUCCEEDED" {
		t.Errorf("an honest command: %+v", e)
	}
	for _, file := range []string{"data/secrets.key", "data/dev-token", "data/carillon.db"} {
		if e := ran(p, "grep -a . "+filepath.Join(i.dir, file)); e.Status == "SUCCEEDED" {
			t.Errorf("a command could read %s", file)
		}
	}
	if e := ran(p, "echo > "+i.dir+"/project.txt"); e.Status == "SUCCEEDED" {
		t.Error("a command could change the folder in which dev was started")
	}
}

// A server, which holds the store, runs commands only if it is told so in so many words, even where they would be
// confined. It names the ways out, and each of them works.
func TestAServerRunsCommandsOnlyIfToldSo(t *testing.T) {
	t.Parallel()
	i := install(t)
	launch := func(args ...string) *harness.Process { return harness.LaunchWith(t, i.as(true), i.env, args...) }
	p := launch(i.plain()...)
	if code := p.Exit(); code != 2 {
		t.Errorf("exit code %d, want 2:\n%s", code, p.Out.String())
	}
	for _, want := range []string{"commands.allow", "the secrets key", "--roles api,scheduler", "carillon worker --allow-commands", "--commands-risk-server"} {
		if !p.Says(want) {
			t.Errorf("it does not say %q:\n%s", want, p.Out.String())
		}
	}
	const loud = "COMMANDS RUN IN A SERVER"
	p = launch(i.plain("--roles", "api,scheduler")...).Greeted() // it accepts them, and runs none
	if p.Says(loud) {
		t.Error("a server that runs no commands warns of them")
	}
	p.Kill()
	if d := launch("dev", "--listen", "127.0.0.1:0").Greeted(); d.Says(loud) {
		t.Errorf("dev warns:\n%s", d.Out.String())
	}
	if !landlocked() {
		t.Skip("this kernel has no Landlock, so there is nothing more to see")
	}
	if p = launch(i.serve()...).Greeted(); !p.Says(loud) {
		t.Errorf("a server that runs commands does not warn:\n%s", p.Out.String())
	}
}

// Where commands cannot be confined, a server refuses to start and names the ways out. Each of them works.
func TestAServerRefusesCommandsThatItCannotConfine(t *testing.T) {
	t.Parallel()
	i := install(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.dir+"/test", self, 0o755); err != nil {
		t.Fatal(err)
	}
	launch := func(args ...string) *harness.Process { return harness.LaunchWith(t, i.as(false), i.env, args...) }
	p := launch(i.serve()...)
	if code := p.Exit(); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	for _, want := range []string{"commands.allow", "no Landlock", "carillon worker --allow-commands", "as root", "--commands-unconfined"} {
		if !p.Says(want) {
			t.Errorf("it does not say %q:\n%s", want, p.Out.String())
		}
	}
	p = launch(i.serve("--roles", "api,scheduler", "--commands-shared")...).Greeted() // it accepts commands, and runs none
	const loud = "COMMANDS ARE NOT CONFINED"
	if p.Says(loud) {
		t.Error("a server that runs no commands warns of them")
	}
	w := launch("worker", "--server", p.Base, "--allow-commands", "--commands-shared").Greeted()
	if !w.Says(loud) {
		t.Errorf("a worker does not warn:\n%s", w.Out.String())
	}
	w.Kill()
	p.Kill()
	p = launch(i.serve("--commands-unconfined")...).Greeted()
	if !p.Says(loud) {
		t.Errorf("an unconfined server does not warn:\n%s", p.Out.String())
	}
	if e := ran(p, "grep . "+i.key); e.Status != "SUCCEEDED" {
		t.Errorf("an unconfined command: %+v", e)
	}
	p.Kill()
	if d := launch("dev", "--listen", "127.0.0.1:0").Greeted(); !d.Says(loud) {
		t.Errorf("dev does not warn:\n%s", d.Out.String())
	}
}
