package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// An artifact that one server took is there at every other, with nothing but the database between them: three servers, and a
// worker that knows only the third. Another tenant finds it at none.
func TestArtifactsOfThreeServers(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	var servers []*harness.Process
	for range 3 {
		servers = append(servers, harness.Serve(t, where, "--roles", "api,scheduler", "--allow-commands"))
	}
	acme, other := member(t, servers[0], "acme", "enterprise", "operator"), member(t, servers[0], "other", "enterprise", "admin")
	at := func(c *harness.Client, n int) *harness.Client {
		moved := harness.At(t, servers[n].Base)
		moved.Key = c.Key
		return moved
	}
	program := "#!/bin/sh\necho '{\"size\": '$(wc -c <$0)'}' >$CARILLON_RESULT\nexit 0\n" + strings.Repeat("0123456789abcdef", 100_000) // so that it has several chunks
	id := harness.Want[client.Artifact](acme, 201, "PUT", "/api/v1/artifacts", program).ArtifactID
	for n := range servers {
		if code, body, err := at(acme, n).Ask("GET", "/api/v1/artifacts/"+id, ""); err != nil || code != 200 || body != program {
			t.Errorf("server %d: %d, %d bytes, %v", n, code, len(body), err)
		}
		harness.Want[client.Problem](at(other, n), 404, "GET", "/api/v1/artifacts/"+id, "")
		harness.Want[client.Problem](at(other, n), 404, "DELETE", "/api/v1/artifacts/"+id, "")
	}
	dir, err := os.MkdirTemp("", "carillon-e2e-") // those of a test are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	token := *harness.Want[client.APIKey](servers[0], 201, "POST", "/api/v1/api-keys", `{"tenant_id": "acme", "name": "w", "role": "worker"}`).Key
	harness.Start(t, harness.Settings("CARILLON_COMMANDS_FOLDER="+filepath.Join(dir, "commands"), "CARILLON_TOKEN="+token), "worker", "--server", servers[2].Base, "--allow-commands")
	second := at(acme, 1)
	made := second.Create(fmt.Sprintf(`{"name": "large", "execution": {"target": "command", "artifact_id": %q}}`, id))
	if e := second.Ends(made.ExecutionID, "SUCCEEDED"); string(e.Result) != fmt.Sprintf(`{"size":%d}`, len(program)) {
		t.Errorf("the program read %s", e.Result)
	}
	harness.Want[client.Artifact](at(acme, 2), 200, "DELETE", "/api/v1/artifacts/"+id, "")
	harness.Want[client.Problem](acme, 404, "GET", "/api/v1/artifacts/"+id, "")
}

// Servers that would store artifacts in different places do not run together; one alone may change the place, and says so.
func TestServersShareOnePlaceForArtifacts(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	dir := t.TempDir()
	shared, own := "file:"+filepath.Join(dir, "shared"), "file:"+filepath.Join(dir, "own")
	first := harness.Serve(t, where, "--blobs-url", shared)
	second := harness.Serve(t, where, "--blobs-url", shared)
	id := harness.Want[client.Artifact](first, 201, "PUT", "/api/v1/artifacts", "x").ArtifactID
	if code, _, err := second.Ask("GET", "/api/v1/artifacts/"+id, ""); err != nil || code != 200 {
		t.Errorf("the other server: %d, %v", code, err)
	}
	for _, place := range []string{own, "store:"} {
		p := harness.Launch(t, harness.Settings(), "serve", "--database", where, "--blobs-url", place, "--listen", "127.0.0.1:0")
		if code := p.Exit(); code == 0 || !p.Says("blobs.url") || !p.Says("is not the place that the servers on") || !p.Says(shared) {
			t.Errorf("a server that stores in %s: exit code %d\n%s", place, code, p.Out.String())
		}
	}
	first.Kill()
	second.Kill()
	alone := harness.Serve(t, where, "--blobs-url", own) // it waits until the others are seen as gone
	if !alone.Says("artifacts are stored in another place from now on") {
		t.Errorf("the change is not told:\n%s", alone.Out.String())
	}
	harness.Want[client.Problem](alone, 404, "GET", "/api/v1/artifacts/"+id, "")
}
