package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// Every example is a worker that works, and leaves when it is asked to.
func TestExamples(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"go":     {goExample(t)},
		"python": {"python3", "../../examples/python/worker.py"},
		"node":   {"node", "../../examples/node/worker.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(command[0])
			if err != nil {
				t.Skipf("there is no %s here", command[0])
			}
			p := harness.Start(t, nil, "dev", "--data", t.TempDir())
			greet := p.Create(`{"name": "greet", "execution": {"target": "worker", "kind": "greet", "payload": {"name": "Ann"}}}`)
			flaky := p.Create(`{"name": "flaky", "execution": {"target": "worker", "kind": "flaky"}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 0, "max_delay_ms": 0}}`)
			w := exec.Command(path, command[1:]...)
			w.Env = append(os.Environ(), "CARILLON_SERVER="+p.Base, "CARILLON_TOKEN=none")
			var out bytes.Buffer
			w.Stdout, w.Stderr = &out, &out
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- w.Wait() }()
			t.Cleanup(func() {
				w.Process.Kill()
				if t.Failed() {
					t.Logf("the worker printed:\n%s", out.String())
				}
			})
			if e := p.Ends(greet.ExecutionID, "SUCCEEDED"); string(e.Result) != `{"text":"Hello, Ann!"}` {
				t.Errorf("result: %s", e.Result)
			}
			if e := p.Ends(flaky.ExecutionID, "SUCCEEDED"); e.AttemptNumber != 2 {
				t.Errorf("flaky: attempt %d", e.AttemptNumber)
			}
			lines := harness.Want[client.Log](p, 200, "GET", "/api/v1/executions/"+greet.ExecutionID+"/logs", "").Lines
			if len(lines) != 1 || lines[0].Stream != "log" || !bytes.Contains([]byte(lines[0].Text), []byte("Ann")) {
				t.Errorf("log: %+v", lines)
			}
			if err := w.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(harness.Slack * 20 * time.Second):
				t.Fatal("it does not leave")
			}
			for _, x := range harness.Want[client.Workers](p, 200, "GET", "/api/v1/workers", "").Workers {
				if len(x.Kinds) > 0 && x.Status != "DEAD" {
					t.Errorf("the worker is %s", x.Status)
				}
			}
		})
	}
}

// goExample builds the example in Go.
func goExample(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../../examples/go")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build: %w\n%s", err, text))
	}
	return path
}
