package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// remoteCommands is a server that takes commands and runs none, a tenant, and what starts workers of that tenant's.
func remoteCommands(t *testing.T) (p *harness.Process, tenant *harness.Client, start func() *harness.Process) {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon-e2e-") // those of a test are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	p = harness.Start(t, harness.Settings("CARILLON_BLOBS_URL=file:"+filepath.Join(data, "blobs")),
		"serve", "--database", "sqlite:"+filepath.Join(data, "c.db"), "--roles", "api,scheduler", "--allow-commands")
	acme := harness.Want[client.Tenant](p, 201, "POST", "/api/v1/tenants", `{"name": "Acme", "tier": "enterprise"}`)
	key := func(role string) string {
		return *harness.Want[client.APIKey](p, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"tenant_id": %q, "name": "test", "role": %q}`, acme.TenantID, role)).Key
	}
	tenant = harness.At(t, p.Base)
	tenant.Key = key("operator")
	token := key("worker")
	return p, tenant, func() *harness.Process {
		t.Helper()
		env := harness.Settings("CARILLON_COMMANDS_FOLDER="+filepath.Join(dir, "commands"), "CARILLON_TOKEN="+token)
		return harness.Start(t, env, "worker", "--server", p.Base, "--allow-commands")
	}
}

// archiveOf is a tar.gz of one program.
func archiveOf(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, text)
	w.Close()
	z.Close()
	return b.String()
}

func texts(c harness.Asker, id string) (out []string) {
	c.Helper()
	for _, l := range harness.Want[client.Log](c, 200, "GET", "/api/v1/executions/"+id+"/logs?limit=1000", "").Lines {
		out = append(out, l.Text)
	}
	return out
}

// A worker elsewhere downloads a tenant's artifact with the tenant's own key, and runs it.
func TestARemoteWorkerRunsAnArtifact(t *testing.T) {
	t.Parallel()
	_, acme, start := remoteCommands(t)
	start()
	id := harness.Want[client.Artifact](acme, 201, "PUT", "/api/v1/artifacts", archiveOf(t, "bin/hello", "#!/bin/sh\necho \"hello $1 of $MODE\"\ncat >&2\necho '{\"n\": 7}' >$CARILLON_RESULT\n")).ArtifactID
	body := fmt.Sprintf(`{"name": "hello", "execution": {"target": "command", "artifact_id": %q, "entrypoint": "bin/hello", "command": ["Ann"], "env": {"MODE": "test"}, "payload": {"a": 1}}}`, id)
	for range 2 { // the second finds it in the worker's cache
		e := acme.Ends(acme.Create(body).ExecutionID, "SUCCEEDED")
		if string(e.Result) != `{"n":7}` || e.AttemptNumber != 1 {
			t.Errorf("%+v: %s", e, e.Result)
		}
		if got := texts(acme, e.ExecutionID); len(got) != 2 || !strings.Contains(strings.Join(got, "|"), "hello Ann of test") || !strings.Contains(strings.Join(got, "|"), `"a"`) {
			t.Errorf("log: %q", got)
		}
	}
	other := harness.At(t, acme.Base) // the tenant default
	harness.Want[client.Problem](other, 404, "GET", "/api/v1/artifacts/"+id, "")
	harness.Want[client.Problem](other, 422, "POST", "/api/v1/jobs", body)
}

// runs reports whether a process with a text in its command line is there.
func runs(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is sound
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

// A worker that is killed takes its command with it, wherever that has hidden; the execution runs again elsewhere.
func TestAKilledWorkersCommandDiesAndRunsAgain(t *testing.T) {
	t.Parallel()
	_, acme, start := remoteCommands(t)
	first := start()
	mark := fmt.Sprintf("86%d.5", os.Getpid())
	j := acme.Create(fmt.Sprintf(`{"name": "stubborn", "execution": {"target": "command", "command":
		["sh", "-c", "trap '' TERM; echo attempt $CARILLON_ATTEMPT_NUMBER; [ $CARILLON_ATTEMPT_NUMBER = 1 ] || exit 0; (setsid sleep %s &); sleep %s"]}}`, mark, mark))
	harness.Eventually(t, 30*time.Second, "the command to begin", func() bool { return runs(mark) && len(texts(acme, j.ExecutionID)) == 1 })
	first.Kill()
	harness.Eventually(t, 10*time.Second, "the command to die", func() bool { return !runs(mark) })
	start()
	e := acme.Ends(j.ExecutionID, "SUCCEEDED")
	if e.AttemptNumber != 2 || e.LostAttempts != 1 {
		t.Errorf("%+v", e)
	}
	if got := strings.Join(texts(acme, j.ExecutionID), "|"); got != "attempt 1|attempt 2" {
		t.Errorf("log: %s", got)
	}
}

// A worker that is asked to stop lets its command end; a cancel and a timeout end one that does not heed them.
func TestCommandsAreStopped(t *testing.T) {
	t.Parallel()
	_, acme, start := remoteCommands(t)
	w := start()
	mark := fmt.Sprintf("87%d.5", os.Getpid())
	stubborn := `"command": ["sh", "-c", "trap '' TERM; (setsid sleep ` + mark + ` &); while :; do sleep 1; done"]`
	j := acme.Create(`{"name": "late", "execution": {"target": "command", "timeout_seconds": 1, ` + stubborn + `}, "retry_policy": {"max_retries": 0}}`)
	acme.Ends(j.ExecutionID, "TIMED_OUT")
	j = acme.Create(`{"name": "asked", "execution": {"target": "command", "command": ["sh", "-c", "trap 'echo bye; exit 1' TERM; echo up; while :; do sleep 0.1; done"]}}`)
	harness.Eventually(t, 30*time.Second, "it to begin", func() bool { return len(texts(acme, j.ExecutionID)) == 1 })
	harness.Want[client.Execution](acme, 202, "POST", "/api/v1/executions/"+j.ExecutionID+"/cancel", "")
	acme.Ends(j.ExecutionID, "CANCELLED")
	// Some shells report the death of the sleep, too.
	if got := texts(acme, j.ExecutionID); got[0] != "up" || !slices.Contains(got, "bye") {
		t.Errorf("log: %q", got)
	}
	harness.Eventually(t, 10*time.Second, "what was left to die", func() bool { return !runs(mark) })
	j = acme.Create(`{"name": "ends", "execution": {"target": "command", "command": ["sh", "-c", "echo up; sleep 3; echo done"]}}`)
	harness.Eventually(t, 30*time.Second, "it to begin", func() bool { return len(texts(acme, j.ExecutionID)) == 1 })
	if code := w.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if e := acme.Execution(j.ExecutionID); e.Status != "SUCCEEDED" || e.AttemptNumber != 1 {
		t.Errorf("%+v", e)
	}
}
