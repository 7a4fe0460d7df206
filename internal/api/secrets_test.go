package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	corejob "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/service"
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
		{404, "GET", "~0190a6c8-7b3e-7cc0-8a1b-fedcba987654%2Fauthorization", "", ""},
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

// TestVariablesAreSealed follows a command's credentials: into the store, which has none of them, through changes, and to the worker.
func TestVariablesAreSealed(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		var store engine.Store
		f := open(func(c *api.Config, s engine.Store) {
			store = s
			c.Service = service.New(s, clock.System{}, service.Config{LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer, Commands: true, Secrets: c.Secrets})
			c.Authenticate = func(_ context.Context, credential, _ string) (tenant.Principal, error) {
				return tenant.Principal{Tenant: tenant.Default, Role: tenant.Role(cmp.Or(credential, "admin"))}, nil
			}
		})
		const token, dsn, cookie = "canary-token-value", "postgres://app:canary-password@db/shop", "session=canary-cookie"
		kept := func(id string) corejob.Target {
			t.Helper()
			of, err := corejob.ParseID(id)
			if err != nil {
				t.Fatal(err)
			}
			j, err := store.Job(t.Context(), tenant.Default, engine.Ref{ID: of})
			if err != nil {
				t.Fatal(err)
			}
			if s := fmt.Sprint(j.Target); strings.Contains(s, "canary") {
				t.Errorf("the store has %s", s)
			}
			return j.Target
		}
		schedule := `"schedule": {"type": "INTERVAL", "every": "24h"}`
		made := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "a", `+schedule+`, "execution": {"target": "command", "command": ["run"],
			"env": {"API_TOKEN": "`+token+`", "DATABASE_URL": "`+dsn+`", "MODE": "x", "TOKEN_FILE": "/run/token"}}}`)
		if e := made.Execution.Env; e["API_TOKEN"] != "[redacted]" || e["DATABASE_URL"] != "[redacted]" || e["MODE"] != "x" || e["TOKEN_FILE"] != "/run/token" {
			t.Errorf("shown: %v", e)
		}
		kept(made.JobID)
		path := "/api/v1/jobs/" + made.JobID
		want[client.Job](f, 200, "PATCH", path, `{"description": "other"}`)
		want[client.Job](f, 200, "PATCH", path, `{"execution": {"env": {"API_TOKEN": "[redacted]", "DATABASE_URL": "[redacted]", "MODE": "x", "TZ": "Europe/Vienna", "TOKEN_FILE": "/run/token"}}}`)
		if e := kept(made.JobID).Env; e["TZ"] != "Europe/Vienna" || secret.Managed(e["API_TOKEN"]) == "" || secret.Managed(e["DATABASE_URL"]) == "" {
			t.Errorf("patched: %v", e)
		}
		a := f.claims(t, "command", func() { want[client.Triggered](f, 202, "POST", path+"/trigger", "") })
		if e := a.Execution.Env; e["API_TOKEN"] != token || e["DATABASE_URL"] != dsn || e["MODE"] != "x" {
			t.Errorf("the worker was given %v", e)
		}
		f.reportsFailure(a, "cannot reach "+dsn+" with "+token)
		got := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+a.ExecutionID, "")
		if got.Error == nil || got.Error.Message != "cannot reach [redacted] with [redacted]" {
			t.Errorf("the error: %+v", got.Error)
		}
		want[client.Job](f, 200, "PATCH", path, `{"execution": {"env": {"DATABASE_URL": "[redacted]", "MODE": "x", "TOKEN_FILE": "/run/token"}}}`)
		of, _ := corejob.ParseID(made.JobID)
		if _, err := store.Secret(t.Context(), tenant.Default, "~"+of.String()+"/env/API_TOKEN"); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("a variable that is gone is kept: %v", err)
		}
		if e := want[client.Job](f, 200, "PATCH", path, `{"execution": {"env": {"MODE": "z"}}}`); len(e.Execution.Env) != 1 {
			t.Errorf("without: %v", e.Execution.Env)
		}
		for _, body := range []string{`{"API_TOKEN": "[redacted]"}`, `{"DATABASE_URL": "[redacted]"}`, `{"MODE": "${secret:~` + of.String() + `/env/API_TOKEN}"}`} {
			if p := want[client.Problem](f, 422, "PATCH", path, `{"execution": {"env": `+body+`}}`); !strings.HasPrefix(p.Errors[0].Field, "execution.env[") {
				t.Errorf("%s: %+v", body, p.Errors)
			}
		}
		with := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "b", `+schedule+`, "execution": {"callback_url": "https://example.com/", "headers": {"Cookie": "`+cookie+`"}}}`)
		if h := kept(with.JobID).Headers["Cookie"]; with.Execution.Headers["Cookie"] != "[redacted]" || secret.Managed(h) == "" {
			t.Errorf("a cookie is kept as %q", h)
		}
	})
}

// Without a key nothing is stored in the clear that was not before.
func TestVariablesWithoutAKey(t *testing.T) {
	f := newFace(t, func(c *api.Config, s engine.Store) {
		c.Service = service.New(s, clock.System{}, service.Config{LookAhead: 5 * time.Second, Commands: true})
		c.Authenticate = func(context.Context, string, string) (tenant.Principal, error) {
			return tenant.Principal{Tenant: tenant.Default, Role: tenant.Admin}, nil
		}
	})
	p := want[client.Problem](f, 422, "POST", "/api/v1/jobs", `{"name": "a", "execution": {"target": "command", "command": ["run"], "env": {"API_TOKEN": "canary"}}}`)
	if len(p.Errors) != 1 || p.Errors[0].Field != `execution.env["API_TOKEN"]` || !strings.Contains(p.Errors[0].Want, "secrets.key_file") || strings.Contains(fmt.Sprint(p), "canary") {
		t.Errorf("%+v", p)
	}
	want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "a", "execution": {"target": "command", "command": ["run"], "env": {"MODE": "x"}}}`)
}

// claims is the one attempt that a worker for a target is given after something was done.
func (f face) claims(t *testing.T, target string, do func()) client.Attempt {
	t.Helper()
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"targets": ["`+target+`"], "capacity": 1}`, "Authorization", "worker")
	do()
	for range 10 {
		got := want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 1, "wait_seconds": 5}`, "Authorization", "worker", "X-Worker-Session", s.Session)
		if len(got.Attempts) == 1 {
			a := got.Attempts[0]
			a.Kind = s.WorkerID + " " + s.Session
			return a
		}
	}
	t.Fatal("there is nothing to claim")
	return client.Attempt{}
}

// reportsFailure reports an attempt that claims gave as failed for good.
func (f face) reportsFailure(a client.Attempt, message string) {
	f.Helper()
	worker, session, _ := strings.Cut(a.Kind, " ")
	body, _ := json.Marshal(client.CompleteRequest{Outcomes: []client.Outcome{{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Status: client.Failed, Error: &client.Error{Type: "EXIT_CODE", Message: message}}}})
	want[client.Verdicts](f, 200, "POST", "/api/v1/workers/"+worker+"/complete", string(body), "Authorization", "worker", "X-Worker-Session", session)
}
