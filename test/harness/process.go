package harness

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// binary is the built carillon; Main sets it.
var binary string

// Main builds carillon with the tags and runs the tests of a package that lies in a folder of test. It does not return.
func Main(m *testing.M, tags string) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "carillon-harness-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil { // some tests run it as another user
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = filepath.Join(dir, "carillon")
		build := exec.Command("go", "build", "-buildvcs=false", "-tags", tags, "-o", binary, "../../cmd/carillon")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		if err := os.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config")); err != nil { // no token of a server is left in the settings of the person who runs the tests
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// AtOnce lets n tests run at once. Tests of processes wait more than they compute.
func AtOnce(n int) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// Stores runs a test on each store: where names the database of one installation.
func Stores(t *testing.T, test func(t *testing.T, where string)) { stores(t, Postgres, test) }

// EmptyStores is like Stores with databases that have no schema yet, on PostgreSQL as well.
func EmptyStores(t *testing.T, test func(t *testing.T, where string)) {
	stores(t, func(t *testing.T) string { return postgrestest.URL(t) }, test)
}

func stores(t *testing.T, postgres func(t *testing.T) string, test func(t *testing.T, where string)) {
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db")) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, postgres(t)) })
}

// Postgres is a new database that has its schema.
func Postgres(t *testing.T) string {
	t.Helper()
	return postgrestest.Migrated(t, func(ctx context.Context, url string) error {
		out, err := exec.CommandContext(ctx, binary, "migrate", "up", "--database", url).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// Key is the API key of servers that are started with Settings.
const Key = "a-bootstrap-key-of-thirty-two-characters-or-more"

// ShortLease is the setting for the shortest leases, for tests that lose some on purpose. A busy machine loses
// others, too.
const ShortLease = "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=3"

// Settings is the environment of a server whose sinks are on this machine and whose leases are short, and of its workers,
// with more settings.
func Settings(more ...string) []string {
	return append([]string{
		"CARILLON_BOOTSTRAP_KEY=" + Key, "CARILLON_TOKEN=" + Key, "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=10", "CARILLON_CALLBACKS_ALLOW=127.0.0.0/8",
	}, more...)
}

// Process is a running carillon, and a client of it.
type Process struct {
	*Client
	Out Output

	cmd  *exec.Cmd
	done chan struct{}
	err  error // guarded by done
}

// Output collects a process's output.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

// Write adds to it.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns all of it.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Launch starts carillon with an environment that has nothing else of Carillon, and does not wait for anything.
func Launch(t *testing.T, env []string, args ...string) *Process {
	t.Helper()
	return LaunchWith(t, nil, env, args...)
}

// LaunchWith is Launch of a process that is changed before it starts, such as to run as another user.
func LaunchWith(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *Process {
	t.Helper()
	p := &Process{Client: At(t, ""), cmd: exec.Command(binary, args...), done: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "CARILLON_") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.Out, &p.Out
	p.cmd.Dir = t.TempDir()
	if change != nil {
		change(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		said := p.Out.String()
		if t.Failed() {
			p.stands()
		}
		p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			p.keep("carillon "+strings.Join(args, " "), said)
		}
	})
	return p
}

// Start launches carillon on its own port, and waits until it has greeted.
func Start(t *testing.T, env []string, args ...string) *Process {
	t.Helper()
	return Launch(t, env, append(args, "--listen", "127.0.0.1:0")...).Greeted()
}

// Serve starts a server with Settings.
func Serve(t *testing.T, where string, args ...string) *Process {
	t.Helper()
	return Start(t, Settings(), append([]string{"serve", "--database", where}, args...)...)
}

// stands makes the process print what its goroutines wait for, if it still can. That ends it.
func (p *Process) stands() {
	if p.Send(syscall.SIGQUIT) != nil {
		return
	}
	select {
	case <-p.done:
	case <-time.After(2 * time.Second):
	}
}

// shown limits how much of a process's output is in the log of a failed test.
const shown = 20_000

// keep shows the end of what the process printed by itself, and stores its whole output, including after it was
// ended, in a file.
func (p *Process) keep(what, said string) {
	all := p.Out.String()
	f, err := os.CreateTemp("", "carillon-*.log")
	if err == nil {
		_, err = f.WriteString(all)
		f.Close()
	}
	where := "could not be kept"
	if err == nil {
		where = "is in " + f.Name()
	}
	p.Logf("%s (process %d; all it printed %s) printed in the end:\n%s", what, p.cmd.Process.Pid, where, said[max(0, len(said)-shown):])
	if stood := strings.TrimPrefix(all, said); stood != "" {
		p.Logf("and when it was ended:\n%s", stood[:min(len(stood), shown)])
	}
}

var address = regexp.MustCompile(`Health +(http://[^/\s]+)/readyz`)

// Address returns where a server that has printed its greeting listens, as the base of URLs; "" if it has not greeted
// yet.
func Address(printed string) string {
	m := address.FindStringSubmatch(printed)
	if m == nil {
		return ""
	}
	return m[1]
}

// Greeted waits until the process has said where it listens.
func (p *Process) Greeted() *Process {
	p.Helper()
	Eventually(p.T, 30*time.Second, "a greeting", func() bool {
		ended := p.Exited()
		if p.Base = Address(p.Out.String()); p.Base == "" && ended { // one that greeted may have been killed since
			p.Fatalf("it ended: %v\n%s", p.err, p.Out.String())
		}
		return p.Base != ""
	})
	return p
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Says reports whether the process has printed a text.
func (p *Process) Says(text string) bool { return strings.Contains(p.Out.String(), text) }

// Send sends a signal to a process that may have ended.
func (p *Process) Send(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Signal sends a signal to a process that runs.
func (p *Process) Signal(s os.Signal) {
	p.Helper()
	if err := p.Send(s); err != nil {
		p.Fatal(err)
	}
}

// End sends a signal and waits for the end; it returns the exit code, -1 if a signal ended it.
func (p *Process) End(s os.Signal) int {
	p.Helper()
	p.Signal(s)
	return p.Exit()
}

// Kill ends the process without giving it time for anything.
func (p *Process) Kill() { p.Helper(); p.End(os.Kill) }

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Exit waits for the end and returns the exit code, -1 if a signal ended it.
func (p *Process) Exit() int {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(Hang):
		p.Fatalf("it does not end in %v:\n%s", Hang, p.Out.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// Slack is the factor by which a machine may be slower than usual. Tests wait that much longer, since a passing test
// does not wait; only upper time limits are stricter.
const Slack = 4

// Hang is the time after which waiting for something is given up.
const Hang = time.Minute

// patience returns how long a test waits for what usually happens within a time.
func patience(d time.Duration) time.Duration { return min(Slack*d, max(d, Hang)) }

// Eventually waits for a condition, which something outside this process brings about.
func Eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	if !Within(within, ok) {
		t.Fatalf("waited %v in vain for %s", patience(within), what)
	}
}

// Within waits for a condition that usually holds within a time, and reports whether it did before that time,
// multiplied by Slack, was over.
func Within(d time.Duration, ok func() bool) bool {
	late := time.After(patience(d))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-late:
			return false
		case <-tick.C:
		}
	}
	return true
}

// Binary is the program under test.
func Binary() string { return binary }
