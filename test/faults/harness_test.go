// Package faults proves, with processes of the built binary, what holds when
// they are killed, stopped, cut off or run out of disk: nothing that was
// accepted is lost, nothing runs twice without a recorded reason, and all of it
// ends. docs/faults.md lists what is proven.
//
// A test records what its clients were told and what its target saw, none of
// it inside the processes that fail, and compares it in the end with what
// the API and the tables say. go test runs a slice of the points; with
// CARILLON_FAULTS=all it runs them all.
package faults

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

var (
	binary string
	all    = os.Getenv("CARILLON_FAULTS") == "all"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait for leases more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "carillon-faults-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "carillon")
		build := exec.Command("go", "build", "-buildvcs=false", "-tags", "failpoint", "-o", binary, "../../cmd/carillon")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// stores runs a test on each store, beside all others: where names the database of one installation.
func stores(t *testing.T, test func(t *testing.T, where string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db")) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, postgrestest.URL(t)) })
}

const (
	key   = "a-bootstrap-key-of-thirty-two-characters-or-more"
	lease = 3 * time.Second // the shortest there is
)

var settings = []string{
	"CARILLON_BOOTSTRAP_KEY=" + key, "CARILLON_TOKEN=" + key, "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=3", "CARILLON_CALLBACKS_ALLOW=127.0.0.0/8",
	"CARILLON_SCHEDULER_LOOK_AHEAD_SECONDS=1", "CARILLON_WORKERS_POISON_AFTER=20",
}

// process is a running carillon.
type process struct {
	*testing.T
	cmd  *exec.Cmd
	base string // http://host:port
	out  output
	done chan struct{}
	err  error // guarded by done
}

// output collects what a process prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// launch starts carillon and does not wait for anything. failpoints may be "".
func launch(t *testing.T, failpoints string, args ...string) *process {
	t.Helper()
	return launchWith(t, nil, failpoints, args...)
}

// launchWith is launch with more settings.
func launchWith(t *testing.T, env []string, failpoints string, args ...string) *process {
	t.Helper()
	p := &process{T: t, cmd: exec.Command(binary, args...), done: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "CARILLON_") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Env = slices.Concat(p.cmd.Env, settings, env, []string{"CARILLON_FAILPOINTS=" + failpoints})
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Dir = t.TempDir()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("carillon %s with %q printed:\n%s", strings.Join(args, " "), failpoints, p.out.String())
		}
	})
	return p
}

var address = regexp.MustCompile(`Health +(http://[^/\s]+)/readyz`)

// greeted waits until the process has said where it listens.
func (p *process) greeted() *process {
	p.Helper()
	eventually(p.T, 30*time.Second, "a greeting", func() bool {
		select {
		case <-p.done:
			p.Fatalf("it ended: %v\n%s", p.err, p.out.String())
		default:
		}
		m := address.FindStringSubmatch(p.out.String())
		if m != nil {
			p.base = m[1]
		}
		return m != nil
	})
	return p
}

// ended waits for the end of the process and returns its exit code, -1 where a signal ended it.
func (p *process) ended() int {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(60 * time.Second):
		p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
		p.Fatal("it does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

func (p *process) says(text string) bool { return strings.Contains(p.out.String(), text) }

// eventually waits for a condition, which something outside this process brings about.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	late := time.After(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-late:
			t.Fatalf("waited %v in vain for %s", within, what)
		case <-tick.C:
		}
	}
}

// caller gives up on an answer after a while, as callers do.
var caller = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// ask sends a request and returns status, header and body; an error where there is no answer.
func ask(base, method, path, body string, headers ...string) (int, http.Header, []byte, error) {
	r, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := caller.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	return w.StatusCode, w.Header, b, err
}

// read asks until there is an answer of status 200, and decodes it.
func read[T any](t *testing.T, base, path string) T {
	t.Helper()
	var v T
	eventually(t, 30*time.Second, "an answer of "+path, func() bool {
		code, _, body, err := ask(base, "GET", path, "")
		if err != nil || code >= 500 {
			return false
		}
		if code != 200 {
			t.Fatalf("GET %s: %d %s", path, code, body)
		}
		if err := json.Unmarshal(body, &v); err != nil {
			t.Fatalf("GET %s: %v", path, err)
		}
		return true
	})
	return v
}

// want asks once for an answer of a status.
func want[T any](t *testing.T, base string, status int, method, path, body string) T {
	t.Helper()
	var v T
	code, _, answer, err := ask(base, method, path, body)
	if err == nil && code == status {
		err = json.Unmarshal(answer, &v)
	}
	if err != nil || code != status {
		t.Fatalf("%s %s: %d %s, %v", method, path, code, answer, err)
	}
	return v
}
