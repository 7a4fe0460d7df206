// Package e2e drives the built binary as its users do: processes, signals,
// HTTP, and both stores. What needs no process is tested beside its code.
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "carillon-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "carillon")
		build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "../../cmd/carillon")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// stores runs a test on each store: where names the database of one installation.
func stores(t *testing.T, test func(t *testing.T, where string)) {
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db")) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, postgrestest.URL(t)) })
}

const key = "a-bootstrap-key-of-thirty-two-characters-or-more"

// process is a running carillon.
type process struct {
	*testing.T
	cmd  *exec.Cmd
	base string // http://host:port
	key  string

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

var settings = []string{
	"CARILLON_BOOTSTRAP_KEY=" + key, "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=3", "CARILLON_CALLBACKS_ALLOW=127.0.0.0/8",
}

// launch starts carillon with the arguments and does not wait for anything.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{T: t, cmd: exec.Command(binary, args...), key: key, done: make(chan struct{})}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "CARILLON_") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Env = append(p.cmd.Env, env...)
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
			t.Logf("carillon %s printed:\n%s", strings.Join(args, " "), p.out.String())
		}
	})
	return p
}

var address = regexp.MustCompile(`Health +(http://[^/\s]+)/readyz`)

// start runs carillon until it has greeted.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, append(args, "--listen", "127.0.0.1:0")...)
	eventually(t, 30*time.Second, "the greeting of carillon "+strings.Join(args, " "), func() bool {
		select {
		case <-p.done:
			t.Fatalf("it ended: %v\n%s", p.err, p.out.String())
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

func serve(t *testing.T, where string, args ...string) *process {
	t.Helper()
	return start(t, settings, append([]string{"serve", "--database", where}, args...)...)
}

// eventually waits for a condition, which something outside this process brings about.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	late := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-late:
			t.Fatalf("waited %v in vain for %s", within, what)
		case <-tick.C:
		}
	}
}

// signal sends a signal and waits for the end; it returns the exit code, -1 where a signal ended it.
func (p *process) signal(s os.Signal) int {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
	return p.exit()
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(60 * time.Second):
		p.cmd.Process.Signal(syscall.SIGQUIT)
		p.Fatalf("it does not end:\n%s", p.out.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// ask sends a request and returns status and body; an error where there is no answer.
func (p *process) ask(method, path, body string, headers ...string) (int, string, error) {
	r, err := http.NewRequest(method, p.base+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	return w.StatusCode, string(b), err
}

// want asks for an answer of a status and a type.
func want[T any](p *process, status int, method, path, body string) T {
	p.Helper()
	code, text, err := p.ask(method, path, body)
	if err != nil || code != status {
		p.Fatalf("%s %s: got %d, %v, want %d: %s", method, path, code, err, status, text)
	}
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		p.Fatal(err)
	}
	return v
}

func (p *process) create(body string) client.Job {
	p.Helper()
	return want[client.Job](p, 201, "POST", "/api/v1/jobs", body)
}

func (p *process) execution(id string) client.Execution {
	p.Helper()
	return want[client.Execution](p, 200, "GET", "/api/v1/executions/"+id, "")
}

// ends waits until an execution is in the state, as a caller does: a 503 means to come again.
func (p *process) ends(id, status string) client.Execution {
	p.Helper()
	var e client.Execution
	eventually(p.T, 40*time.Second, "execution "+id+" to be "+status, func() bool {
		code, text, err := p.ask("GET", "/api/v1/executions/"+id, "")
		if err == nil && code == 503 {
			return false
		}
		if err == nil {
			err = json.Unmarshal([]byte(text), &e)
		}
		if err != nil || code != 200 {
			p.Fatalf("execution %s: got %d, %v: %s", id, code, err, text)
		}
		return e.Status == status
	})
	return e
}

// arrival is one call of a sink.
type arrival struct {
	at     time.Time
	header http.Header
	body   string
}

// sink is a callback target that remembers who called.
type sink struct {
	*httptest.Server
	mu       sync.Mutex
	arrivals []arrival                                    // guarded by mu
	answer   func(w http.ResponseWriter, r *http.Request) // guarded by mu
}

func newSink(t *testing.T) *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.arrivals = append(s.arrivals, arrival{time.Now(), r.Header.Clone(), string(b)})
		answer := s.answer
		s.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func (s *sink) set(answer func(http.ResponseWriter, *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *sink) seen() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.arrivals...)
}

// call is the body of a job that calls the sink.
func (s *sink) call(more string) string {
	return fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q, "payload": {"n": 1}}%s}`, s.URL, more)
}
