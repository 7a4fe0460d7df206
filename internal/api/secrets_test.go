package api_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func TestSecretsOverHTTP(t *testing.T) {
	f := newFace(t)
	if list := want[client.Secrets](f, 200, "GET", "/api/v1/secrets", ""); len(list.Secrets) != 0 {
		t.Errorf("listed: %+v", list)
	}
	made := want[client.Secret](f, 200, "PUT", "/api/v1/secrets/db.password-1", `{"value": "topsecret"}`)
	if made.Name != "db.password-1" || made.Version != 1 || made.CreatedAt.IsZero() {
		t.Errorf("made: %+v", made)
	}
	if again := want[client.Secret](f, 200, "PUT", "/api/v1/secrets/db.password-1", `{"value": "topsecret"}`); again.Version != 1 {
		t.Errorf("the same again: %+v", again)
	}
	if next := want[client.Secret](f, 200, "PUT", "/api/v1/secrets/db.password-1", `{"value": "other"}`); next.Version != 2 || !next.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("another value: %+v", next)
	}
	want[client.Secret](f, 200, "GET", "/api/v1/secrets/db.password-1", "")
	for _, c := range []struct {
		code                   int
		method, path, body, in string
	}{
		{422, "PUT", "Big", `{"value": "topsecret"}`, "name"}, {422, "PUT", "a", `{"value": ""}`, "value"}, {422, "PUT", "a", `{"value": "x\u0000"}`, "value"},
		{422, "PUT", "a", `{"value": "` + strings.Repeat("x", 64<<10+1) + `"}`, "value"}, {400, "PUT", "a", `{"value": {"topsecret": 1}}`, "value"},
		{400, "PUT", "a", `{"value": 123456789}`, "value"}, {400, "PUT", "a", `{"vlaue": "topsecret"}`, "vlaue"}, {404, "GET", "a", "", ""}, {404, "DELETE", "a", "", ""},
		{404, "GET", "~0190a6c8-7b3e-7cc0-8a1b-0123456789ab%2Fauthorization", "", ""},
	} {
		w := f.ask(c.method, "/api/v1/secrets/"+c.path, c.body)
		if text := w.Body.String(); w.Code != c.code || strings.Contains(text, "topsecret") || strings.Contains(text, "123456789") || !strings.Contains(text, c.in) {
			t.Errorf("%s %s %.40s: %d %s", c.method, c.path, c.body, w.Code, text)
		}
	}
	want[client.Secret](f, 200, "DELETE", "/api/v1/secrets/db.password-1", "")
	want[client.Problem](f, 404, "DELETE", "/api/v1/secrets/db.password-1", "")
}

func TestReferencesAreChecked(t *testing.T) {
	f := newFace(t)
	want[client.Secret](f, 200, "PUT", "/api/v1/secrets/known", `{"value": "topsecret"}`)
	const to = `"execution": {"callback_url": "https://example.com/"`
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "x", `+to+`, "headers": {"X-A": "${secret:known}", "X-Api-Key": "k ${secret:known}", "X-Token": "literal-token"}, "payload": ["$${secret:none}"]}}`)
	if h := j.Execution.Headers; h["X-A"] != "${secret:known}" || h["X-Api-Key"] != "k ${secret:known}" || h["X-Token"] != "[redacted]" {
		t.Errorf("headers: %v", h)
	}
	path := "/api/v1/jobs/" + j.JobID
	for _, c := range []struct{ method, path, body, field string }{
		{"POST", "/api/v1/jobs", `{"name": "x", ` + to + `, "payload": {"a": "${secret:none}"}}}`, "execution.payload"},
		{"POST", "/api/v1/jobs", `{"name": "x", ` + to + `, "headers": {"X-A": "${secret:none}"}}}`, `execution.headers["X-A"]`},
		{"POST", "/api/v1/jobs", `{"name": "x", ` + to + `, "headers": {"X-Token": "[redacted]"}}}`, `execution.headers["X-Token"]`},
		{"POST", "/api/v1/jobs", `{"name": "x", ` + to + `, "headers": {"X-A": "${secret:~` + j.JobID + `/x-token}"}}}`, `execution.headers["X-A"]`},
		{"POST", "/api/v1/jobs", `{"name": "x", "execution": {"callback_url": "https://example.com/${secret:known}"}}`, "execution.callback_url"},
		{"POST", "/api/v1/jobs:batch", `[{"name": "x", ` + to + `}}, {"name": "x", ` + to + `, "payload": "${secret:none}"}}]`, "[1].execution.payload"},
		{"PATCH", path, `{"execution": {"payload": "${secret:none}"}}`, "execution.payload"},
		{"PATCH", path, `{"execution": {"headers": {"X-A": "${secret:}"}}}`, `execution.headers["X-A"]`},
		{"POST", path + "/trigger", `{"payload_override": "${secret:none}"}`, "payload_override"},
	} {
		p := want[client.Problem](f, 422, c.method, c.path, c.body)
		if len(p.Errors) != 1 || p.Errors[0].Field != c.field {
			t.Errorf("%s %s: %+v", c.method, c.body, p.Errors)
		}
	}
	name := "~" + j.JobID + "/x-token"
	if s := must(f.store.Secret(t.Context(), tenant.Default, name)); s.Version != 1 || strings.Contains(string(s.Sealed), "literal-token") {
		t.Errorf("kept: %+v", s)
	}
	want[client.Job](f, 200, "PATCH", path, `{"execution": {"headers": {"X-Token": "literal-two", "X-A": "plain"}}}`)
	if s := must(f.store.Secret(t.Context(), tenant.Default, name)); s.Version != 2 {
		t.Errorf("replaced: %+v", s)
	}
	want[client.Job](f, 200, "PATCH", path, `{"execution": {"headers": {"X-A": "plain"}}}`)
	if _, err := f.store.Secret(t.Context(), tenant.Default, name); err == nil {
		t.Error("a header that is gone left its secret")
	}
	if w := f.ask("GET", path, ""); strings.Contains(w.Body.String(), "literal") {
		t.Errorf("shown: %s", w.Body)
	}
}

func TestRolesOfSecrets(t *testing.T) {
	role := tenant.Viewer
	f := newFace(t, func(c *api.Config, _ engine.Store) {
		c.Authenticate = func(context.Context, string, string) (tenant.Principal, error) {
			return tenant.Principal{Tenant: tenant.Default, Role: role, Name: "test"}, nil
		}
	})
	for r, put := range map[tenant.Role]int{tenant.Viewer: 403, tenant.Operator: 403, tenant.Worker: 403, tenant.Admin: 200, tenant.System: 200} {
		role = r
		body, _ := json.Marshal(client.SecretRequest{Value: string(r)})
		if w := f.ask("PUT", "/api/v1/secrets/a", string(body)); w.Code != put {
			t.Errorf("%s: PUT %d", r, w.Code)
		}
		if w := f.ask("DELETE", "/api/v1/secrets/a", ""); w.Code != put {
			t.Errorf("%s: DELETE %d", r, w.Code)
		}
	}
}
