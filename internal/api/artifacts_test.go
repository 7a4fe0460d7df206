package api_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// commanding is a face that takes commands. A credential is a tenant and a role, as "acme operator".
func commanding(t *testing.T) face {
	return newFace(t, func(c *api.Config, s engine.Store) {
		c.MaxArtifact = 1 << 20
		c.Service = service.New(s, clock.System{}, service.Config{
			LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer, Commands: true, Secrets: c.Secrets, Artifacts: artifact.NewStore(folder.New(filepath.Join(t.TempDir(), "a")), t.TempDir(), c.MaxArtifact, 2<<20),
		})
		c.Authenticate = func(_ context.Context, credential, _ string) (tenant.Principal, error) {
			who, role, _ := strings.Cut(credential, " ")
			return tenant.Principal{Tenant: tenant.ID(who), Role: tenant.Role(role)}, nil
		}
	})
}

func TestArtifacts(t *testing.T) {
	f := commanding(t)
	operator := []string{"Authorization", "default operator"}
	sum := sha256.Sum256([]byte("a program"))
	id := hex.EncodeToString(sum[:])
	for _, status := range []int{201, 200} {
		if a := want[client.Artifact](f, status, "PUT", "/api/v1/artifacts", "a program", operator...); a.ArtifactID != id || a.Size != 9 {
			t.Errorf("%+v", a)
		}
	}
	for _, who := range []string{"default viewer", "default worker", "default operator", "default system"} {
		w := f.ask("GET", "/api/v1/artifacts/"+id, "", "Authorization", who)
		h := w.Header()
		if w.Code != 200 || w.Body.String() != "a program" || h.Get("Content-Length") != "9" || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %d %s %v", who, w.Code, w.Body, h)
		}
	}
	for _, x := range []struct {
		status                  int
		method, path, body, who string
	}{
		{404, "GET", id, "", "other admin"},
		{404, "GET", id, "", "other worker"},
		{404, "GET", strings.Repeat("0", 64), "", "default admin"},
		{404, "GET", strings.ToUpper(id), "", "default admin"},
		{404, "GET", "..%2F..%2Fdefault%2F" + id, "", "default admin"},
		{404, "GET", "..%2F" + id, "", "default admin"},
		{404, "GET", "%2e%2e%2f" + id, "", "default admin"},
		{403, "PUT", "", "x", "default viewer"},
		{403, "PUT", "", "x", "default worker"},
		{422, "PUT", "", "", "default operator"},
		{413, "PUT", "", strings.Repeat("x", 1<<20+1), "default operator"},
	} {
		path := "/api/v1/artifacts"
		if x.path != "" {
			path += "/" + x.path
		}
		if w := f.ask(x.method, path, x.body, "Authorization", x.who); w.Code != x.status {
			t.Errorf("%s %s as %s: %d, want %d: %s", x.method, x.path, x.who, w.Code, x.status, w.Body)
		}
	}
}

func TestCommandJobsAreCheckedAtOnce(t *testing.T) {
	f := commanding(t)
	me := []string{"Authorization", "default operator"}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"bin/run", "data"} {
		w.WriteHeader(&tar.Header{Name: name, Size: 1, Mode: 0o755, Typeflag: tar.TypeReg})
		io.WriteString(w, "x")
	}
	w.Close()
	put := func(data string) string {
		return want[client.Artifact](f, 201, "PUT", "/api/v1/artifacts", data, me...).ArtifactID
	}
	archive, program, bad := put(b.String()), put("#!/bin/sh"), put(strings.Replace(b.String(), "bin/run", "../../x", 1))
	const job = `{"name": "c", "execution": {"target": "command", %s}}`
	for _, x := range []struct{ body, field string }{
		{`"command": ["true"]`, ""},
		{fmt.Sprintf(`"artifact_id": %q, "entrypoint": "bin/run"`, archive), ""},
		{fmt.Sprintf(`"artifact_id": %q, "command": ["python3", "data"]`, archive), ""},
		{fmt.Sprintf(`"artifact_id": %q`, program), ""},
		{fmt.Sprintf(`"artifact_id": %q, "entrypoint": "tool", "command": ["-v"]`, program), ""},
		{fmt.Sprintf(`"artifact_id": %q`, archive), "execution.entrypoint"},
		{fmt.Sprintf(`"artifact_id": %q, "entrypoint": "bin"`, archive), "execution.entrypoint"},
		{fmt.Sprintf(`"artifact_id": %q, "entrypoint": "../data"`, archive), "execution.entrypoint"},
		{fmt.Sprintf(`"artifact_id": %q, "entrypoint": "data"`, bad), "execution.artifact_id"},
		{fmt.Sprintf(`"artifact_id": %q, "entrypoint": "x"`, strings.Repeat("0", 64)), "execution.artifact_id"},
	} {
		body := fmt.Sprintf(job, x.body)
		if x.field == "" {
			want[client.Job](f, 201, "POST", "/api/v1/jobs", body, me...)
			continue
		}
		if p := want[client.Problem](f, 422, "POST", "/api/v1/jobs", body, me...); len(p.Errors) != 1 || p.Errors[0].Field != x.field {
			t.Errorf("%s: %+v, want %s", x.body, p.Errors, x.field)
		}
	}
	if p := want[client.Problem](f, 422, "POST", "/api/v1/jobs", fmt.Sprintf(job, fmt.Sprintf(`"artifact_id": %q`, program)), "Authorization", "other operator"); p.Errors[0].Field != "execution.artifact_id" {
		t.Errorf("another tenant runs it: %+v", p)
	}
	made := want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(job, `"command": ["echo", "a b"], "env": {"MODE": "x", "API_TOKEN": "canary"}`), me...)
	if x := made.Execution; len(x.Command) != 2 || x.Command[1] != "a b" || x.Env["MODE"] != "x" || x.Env["API_TOKEN"] != "[redacted]" {
		t.Errorf("answered: %+v", x)
	}
	patched := want[client.Job](f, 200, "PATCH", "/api/v1/jobs/"+made.JobID, `{"execution": {"env": {"MODE": "y", "API_TOKEN": "[redacted]"}}}`, me...)
	if x := patched.Execution; x.Env["MODE"] != "y" || len(x.Command) != 2 {
		t.Errorf("patched: %+v", x)
	}
	if p := want[client.Problem](f, 422, "PATCH", "/api/v1/jobs/"+made.JobID, fmt.Sprintf(`{"execution": {"artifact_id": %q}}`, strings.Repeat("0", 64)), me...); p.Errors[0].Field != "execution.artifact_id" {
		t.Errorf("patched: %+v", p)
	}
}

func TestCommandsAreOffUnlessAllowed(t *testing.T) {
	f := newFace(t)
	p := want[client.Problem](f, 422, "POST", "/api/v1/jobs", `{"name": "c", "execution": {"target": "command", "command": ["true"]}}`)
	if len(p.Errors) != 1 || p.Errors[0].Field != "execution.target" || !strings.Contains(p.Errors[0].Want, "--allow-commands") {
		t.Errorf("%+v", p)
	}
	shared := `{"host": "box", "targets": ["http", "command"]}`
	f = commanding(t)
	if p := want[client.Problem](f, 422, "POST", "/api/v1/workers", shared, "Authorization", "default system"); p.Errors[0].Field != "targets[1]" {
		t.Errorf("a worker of every tenant takes commands: %+v", p)
	}
	want[client.Session](f, 201, "POST", "/api/v1/workers", shared, "Authorization", "default worker")
}

// A place for artifacts that cannot be used is told as such, whatever needs it, and without its path.
func TestAPlaceThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("no folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFace(t, func(c *api.Config, s engine.Store) {
		c.Service = service.New(s, clock.System{}, service.Config{Hint: c.Dispatch.Offer, Commands: true, Secrets: c.Secrets, Artifacts: artifact.NewStore(folder.New(file), t.TempDir(), 1<<20, 1<<20)})
	})
	for _, x := range []struct{ method, path, body string }{
		{"PUT", "/api/v1/artifacts", "x"},
		{"GET", "/api/v1/artifacts/" + strings.Repeat("0", 64), ""},
		{"DELETE", "/api/v1/artifacts/" + strings.Repeat("0", 64), ""},
		{"POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "c", "execution": {"target": "command", "artifact_id": %q}}`, strings.Repeat("0", 64))},
	} {
		if p := want[client.Problem](f, 503, x.method, x.path, x.body); p.Code != "unavailable" || !strings.Contains(p.Detail, "artifacts") || strings.Contains(p.Detail, dir) {
			t.Errorf("%s %s: %+v", x.method, x.path, p)
		}
	}
}

func TestArtifactsAreDeletedAndCounted(t *testing.T) {
	f := commanding(t)
	me, other := []string{"Authorization", "default operator"}, []string{"Authorization", "other operator"}
	put := func(text string, who ...string) string {
		return want[client.Artifact](f, 201, "PUT", "/api/v1/artifacts", text, who...).ArtifactID
	}
	id := put("#!/bin/sh", me...)
	put("#!/bin/sh", other...)
	at := "/api/v1/artifacts/" + id
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "nightly", "schedule": {"type": "INTERVAL", "every": "24h"}, "execution": {"target": "command", "artifact_id": %q}}`, id), me...)
	for _, pause := range []bool{false, true} {
		if pause {
			want[client.Job](f, 200, "POST", "/api/v1/jobs/"+j.JobID+"/pause", "", me...)
		}
		if p := want[client.Problem](f, 409, "DELETE", at, "", me...); p.Code != "cannot_delete" || !strings.Contains(p.Detail, j.JobID) || !strings.Contains(p.Detail, "nightly") {
			t.Errorf("while a job names it: %+v", p)
		}
	}
	for who, status := range map[string]int{"default viewer": 403, "default worker": 403, "third operator": 404} {
		want[client.Problem](f, status, "DELETE", at, "", "Authorization", who)
	}
	want[client.Problem](f, 404, "DELETE", "/api/v1/artifacts/..%2Fother%2F"+id, "", me...)
	want[client.Job](f, 200, "DELETE", "/api/v1/jobs/"+j.JobID, "", me...)
	if a := want[client.Artifact](f, 200, "DELETE", at, "", me...); a.ArtifactID != id || a.Size != 9 {
		t.Errorf("deleted %+v", a)
	}
	want[client.Problem](f, 404, "DELETE", at, "", me...)
	want[client.Problem](f, 404, "GET", at, "", me...)
	want[client.Problem](f, 422, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "c", "execution": {"target": "command", "artifact_id": %q}}`, id), me...)
	if w := f.ask("GET", at, "", other...); w.Code != 200 {
		t.Errorf("another tenant's is gone, too: %d", w.Code)
	}

	big := strings.Repeat("x", 1<<20)
	first := put(big, me...)
	put("2"+big[1:], me...)
	if p := want[client.Problem](f, 403, "PUT", "/api/v1/artifacts", "3", me...); p.Code != "over_quota" || !strings.Contains(p.Detail, "2097152 bytes together") {
		t.Errorf("past the quota: %+v", p)
	}
	want[client.Artifact](f, 200, "PUT", "/api/v1/artifacts", big, me...) // it is there, and takes no more room
	put("3", other...)
	want[client.Artifact](f, 200, "DELETE", "/api/v1/artifacts/"+first, "", me...)
	put("3", me...)
}
