package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
	"github.com/carillon-jobs/carillon/internal/telemetry"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// matrix is two tenants with a key of each role, and one thing of every kind that belongs to the first.
type matrix struct {
	face
	table  []api.Route
	system string
	keys   map[tenant.ID]map[tenant.Role]string
	jars   map[tenant.ID]map[tenant.Role]string // the cookies of browsers that signed in with them
	things map[string]string                    // by the beginning of a path: what stands for {…} in it
	worker client.Session
	tokens *sign.Tokens
	runs   func() // begins and advances runs from now on
}

const (
	mine  tenant.ID = "mine"
	other tenant.ID = "other"
)

func newMatrix(t testing.TB) *matrix {
	return newMatrixBehind(t, func(change func(*api.Config, engine.Store)) face { return newFace(t, change) })
}

func newMatrixBehind(t testing.TB, open func(change func(*api.Config, engine.Store)) face) *matrix {
	m := &matrix{keys: map[tenant.ID]map[tenant.Role]string{}, jars: map[tenant.ID]map[tenant.Role]string{}}
	ring, err := seal.NewRing([]byte(strings.Repeat("k", seal.KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	m.face = open(func(c *api.Config, store engine.Store) {
		if m.system, err = access.Bootstrap(context.Background(), store, "", time.Now()); err != nil {
			t.Fatal(err)
		}
		if c.Tokens, err = sign.LoadTokens(t.Context(), store, ring); err != nil {
			t.Fatal(err)
		}
		m.tokens = c.Tokens
		c.MaxArtifact = 1 << 20
		c.Metrics, c.Log = telemetry.NewMetrics("test"), telemetry.NewLog(io.Discard, "text", "info")
		c.Support = &api.Support{Host: "box-1", Store: "SQLite, carillon.db", Roles: []string{"api", "scheduler"}, StartedAt: time.Now(), Settings: []client.SupportSetting{{Key: "log.level", Value: "info"}}}
		c.Failures = 1 << 30
		c.Ready = func(ctx context.Context) error { return store.Ping(context.WithoutCancel(ctx)) } // the two seconds of a probe are few on a busy machine
		flows := workflows.New(store, clock.System{}, workflows.Config{Hint: c.Dispatch.Offer, Settled: c.Dispatch.Settled, Refuse: service.RefusePayload, Log: c.Logger})
		d := c.Dispatch
		m.runs = func() { keepRuns(t, flows, d) }
		c.Service = service.New(store, clock.System{}, service.Config{
			Runs:      flows,
			LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer, Secrets: c.Secrets, Sealer: ring, Commands: true,
			Artifacts: artifact.NewStore(folder.New(filepath.Join(t.TempDir(), "a")), t.TempDir(), c.MaxArtifact, 1<<30),
		})
		c.SignIns = access.New(store, clock.System{}, nil)
		c.Authenticate = c.SignIns.Authenticate
	})
	m.table = slices.DeleteFunc(m.http.(*api.Server).Table(), func(r api.Route) bool { return strings.HasPrefix(r.Path, "/assets/") }) // those may not have been built
	m.system = "Bearer " + m.system
	for _, of := range []tenant.ID{mine, other} {
		want[client.Tenant](m.face, 201, "POST", "/api/v1/tenants", fmt.Sprintf(`{"name": %q, "tier": "pro"}`, of), "Authorization", m.system)
		want[client.Tenant](m.face, 200, "PATCH", "/api/v1/tenants/"+string(of), `{"quotas": {"requests_per_second": -1}}`, "Authorization", m.system)
		m.keys[of] = map[tenant.Role]string{tenant.System: m.system}
		for _, role := range []tenant.Role{tenant.Viewer, tenant.Operator, tenant.Admin, tenant.Worker} {
			k := want[client.APIKey](m.face, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"tenant_id": %q, "name": "k", "role": %q}`, of, role), "Authorization", m.system)
			m.keys[of][role] = "Bearer " + *k.Key
		}
		m.jars[of] = map[tenant.Role]string{}
		for role, key := range m.keys[of] {
			m.jars[of][role] = signInWith(m.face, key)
		}
	}
	m.fill()
	return m
}

// heldJob is a job of which nothing waits: no worker is given it.
const heldJob = `{"name": "held", "schedule": {"type": "MANUAL"}, "execution": {"target": "simulate", "work_kind": "noop"}}`

// fill makes one thing of each kind.
func (m *matrix) fill() {
	f, admin := m.face, []string{"Authorization", m.keys[mine][tenant.Admin]}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop, admin...)
	key := want[client.APIKey](f, 201, "POST", "/api/v1/api-keys", `{"name": "spare", "role": "viewer"}`, admin...)
	secret := want[client.SigningSecret](f, 201, "POST", "/api/v1/signing-secrets", "", admin...)
	hold := want[client.Hold](f, 200, "PUT", "/api/v1/holds", fmt.Sprintf(`{"job_id": %q, "reason": "Case 4711"}`, want[client.Job](f, 201, "POST", "/api/v1/jobs", heldJob, admin...).JobID), admin...)
	badge := want[client.Badge](f, 201, "POST", "/api/v1/badges", fmt.Sprintf(`{"job_id": %q}`, j.JobID), admin...)
	op := want[client.Begun](f, 202, "POST", "/api/v1/dead-letters:redrive", `{"filter": {}}`, admin...)
	art := want[client.Artifact](f, 201, "PUT", "/api/v1/artifacts", "#!/bin/sh\n", admin...)
	want[client.Calendar](f, 200, "PUT", "/api/v1/calendars/things", `{"weekdays": ["SAT"]}`, admin...)
	want[client.Secret](f, 200, "PUT", "/api/v1/secrets/things", `{"value": "hidden thing"}`, admin...)
	want[client.NotificationRule](f, 200, "PUT", "/api/v1/notification-rules/things", `{"events": ["failed"], "callback_url": "https://example.com/"}`, admin...)
	flow := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "flow", "nodes": [{"key": "first", "map": 3, "execution": {"target": "simulate", "work_kind": "noop"}}]}`, admin...)
	run := want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/"+flow.WorkflowID+"/trigger", "", admin...)
	want[client.Limit](f, 200, "PUT", "/api/v1/limits/queues/things", `{"max_concurrent": 5}`, admin...)
	signInWith(f, m.keys[mine][tenant.Viewer]) // in a browser that nothing else is asked from
	in := want[client.SignIns](f, 200, "GET", "/api/v1/sign-ins?limit=1", "", admin...)
	m.worker = want[client.Session](f, 201, "POST", "/api/v1/workers", `{}`, "Authorization", m.keys[mine][tenant.Worker])
	m.things = map[string]string{
		"/api/v1/jobs/": j.JobID, "/api/v1/executions/": j.ExecutionID, "/api/v1/dead-letters/": j.ExecutionID, "/api/v1/operations/": op.OperationID,
		"/api/v1/calendars/": "things", "/api/v1/secrets/": "things", "/api/v1/notification-rules/": "things", "/api/v1/limits/queues/": "things", "/api/v1/queues/": "things",
		"/api/v1/artifacts/": art.ArtifactID, "/api/v1/signing-secrets/": secret.ID, "/api/v1/api-keys/": key.KeyID, "/api/v1/tenants/": string(mine),
		"/api/v1/workers/": m.worker.WorkerID, "/api/v1/badges/": badge.BadgeID, "/badges/": strings.TrimPrefix(*badge.SVG, "/badges/"), "/api/v1/sign-ins/": in.SignIns[0].SignInID, "/api/v1/workflows/": flow.WorkflowID,
		"/api/v1/workflow-runs/": run.WorkflowRunID, "/api/v1/holds/": hold.HoldID,
	}
}

// path is a route's with the thing of the first tenant in it, and whether there is one.
func (m *matrix) path(r api.Route) (path string, names bool) {
	m.Helper()
	before, rest, names := strings.Cut(r.Path, "{")
	if !names || before == "/" { // the home page
		return strings.TrimSuffix(r.Path, "{$}"), false
	}
	thing, ok := m.things[before]
	if !ok && !strings.HasPrefix(before, "/api/") { // a page
		thing, ok = "things", true
	}
	if !ok {
		m.Fatalf("%s %s: no thing of this kind is made by this test; make one", r.Method, r.Path)
	}
	_, after, _ := strings.Cut(rest, "}")
	return before + thing + strings.Replace(after, "{key}", "first", 1), true
}

// credentials are the ways to be someone: a key, and the cookie of a browser that signed in with it.
func (m *matrix) credentials(of tenant.ID, role tenant.Role) [][]string {
	return [][]string{{"Authorization", m.keys[of][role]}, {"Cookie", m.jars[of][role]}}
}

// refused sends a request and checks that it is refused with a problem that says so.
func (m *matrix) refused(status int, code, method, path, body string, headers ...string) {
	m.Helper()
	w := m.ask(method, path, body, headers...)
	var p client.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != status || p.Status != status || p.Detail == "" || code != "" && p.Code != code {
		m.Errorf("%s %s %s %q: %d %s, want %d %s", method, path, body, headers, w.Code, w.Body, status, code)
	}
}

// Every route of the table is asked for without a credential, with one of each role that may not, and, where it names
// something, for what is another tenant's. A new route is in the table, and so in here.
func TestEveryRouteIsGuarded(t *testing.T) {
	m := newMatrix(t)
	before := m.seen()
	for _, r := range m.table {
		path, names := m.path(r)
		switch r.Needs {
		case tenant.Open:
			if w := m.ask(r.Method, path, r.Sample); w.Code >= 400 {
				t.Errorf("%s %s is open, and answers %d", r.Method, r.Path, w.Code)
			}
			continue
		case tenant.Callback, tenant.Enter:
			m.refused(401, "", r.Method, path, r.Sample)
			for role, key := range m.keys[mine] {
				m.refused(401, "", r.Method, path, r.Sample, "Authorization", key)
				m.refused(401, "", r.Method, path, r.Sample, "Cookie", m.jars[mine][role])
			}
			continue
		}
		m.refused(401, "", r.Method, path, r.Sample)
		m.refused(401, "", r.Method, path, r.Sample, "X-Tenant-ID", string(mine))
		for _, wrong := range []string{"Bearer", "Bearer nonsense", "Basic " + strings.TrimPrefix(m.system, "Bearer "), m.system + "x", "Bearer " + m.worker.Session} {
			m.refused(401, "", r.Method, path, r.Sample, "Authorization", wrong)
		}
		cookie := m.jars[mine][tenant.System]
		for _, wrong := range []string{"carillon=nonsense", "carillon=cas_" + strings.Repeat("a", 52), cookie + "x", cookie[:len(cookie)-1], "carillon=" + strings.TrimPrefix(m.system, "Bearer "), "session=" + cookie} {
			m.refused(401, "", r.Method, path, r.Sample, "Cookie", wrong)
		}
		m.refused(401, "", r.Method, path, r.Sample, "Cookie", cookie, "Authorization", "Bearer nonsense") // which goes before
		m.refused(401, "", r.Method, path, r.Sample, "Authorization", "Bearer "+strings.TrimPrefix(cookie, "carillon="))
		if r.Method != "GET" {
			m.refused(403, "cross_origin", r.Method, path, r.Sample, "Cookie", cookie, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		}
		for _, role := range tenant.Roles() {
			for _, by := range m.credentials(mine, role) {
				if !role.Allows(r.Needs) {
					m.refused(403, "forbidden", r.Method, path, r.Sample, by...)
				}
			}
			for _, by := range m.credentials(other, role) {
				if role != tenant.System {
					m.refused(403, "", r.Method, path, r.Sample, append(by, "X-Tenant-ID", string(mine))...)
				}
			}
		}
		for _, by := range m.credentials(mine, tenant.System) {
			m.refused(404, "", r.Method, path, r.Sample, append(by, "X-Tenant-ID", "nobody")...)
		}
		if !names || r.Needs == tenant.Run {
			continue
		}
		for _, role := range tenant.Roles() {
			if !role.Allows(r.Needs) {
				continue
			}
			for _, by := range m.credentials(other, role) {
				by = append(by, "X-Worker-Session", m.worker.Session)
				if r.Method == "PUT" && !strings.HasPrefix(path, "/api/v1/workflows/") && !strings.HasPrefix(path, "/api/v1/jobs/") || strings.HasPrefix(path, "/api/v1/queues/") { // under a name of its own tenant's
					if w := m.ask(r.Method, path, r.Sample, by...); w.Code != 200 && w.Code != 422 {
						t.Errorf("%s %s of another tenant: %d, %s", r.Method, path, w.Code, w.Body)
					}
					m.ask("DELETE", path, "", by...)
					continue
				}
				m.refused(404, "not_found", r.Method, path, r.Sample, by...)
				m.refused(404, "not_found", r.Method, path, `{"nonsense": 1}`, by...) // before the body is judged
			}
		}
	}
	for path, now := range m.seen() {
		if before[path] != now {
			t.Errorf("GET %s was\n%s\nand is\n%s", path, before[path], now)
		}
	}
}

// seen returns what the first tenant sees of its own data, which must be all of it.
func (m *matrix) seen() map[string]string {
	m.Helper()
	out := map[string]string{}
	for _, r := range m.table {
		path, names := m.path(r)
		if r.Method != "GET" || !names || r.Needs == tenant.Run {
			continue
		}
		w := m.ask("GET", path, "", "Authorization", m.keys[mine][tenant.Admin])
		if w.Code != 200 && !(w.Code == 422 && strings.HasSuffix(path, "/next") || strings.HasSuffix(path, "/occurrences")) {
			m.Errorf("GET %s of its own: %d, %s", path, w.Code, w.Body)
		}
		if !strings.Contains(path, "/operations/") && !strings.HasSuffix(path, "/report") && !strings.HasSuffix(path, "/explain") { // which continue by themselves
			out[path] = w.Body.String()
		}
	}
	w := m.ask("GET", "/api/v1/limits", "", "Authorization", m.keys[mine][tenant.Admin])
	out["/api/v1/limits"] = w.Body.String()
	return out
}

// A worker's key lets it speak of what it was given, and of nothing else, whatever it knows of another's.
func TestAWorkerKeyIsOfNoUseForAnothersLease(t *testing.T) {
	m := newMatrix(t)
	register := func(key string) (client.Session, []string) {
		s := want[client.Session](m.face, 201, "POST", "/api/v1/workers", `{"targets": ["simulate"], "capacity": 5}`, "Authorization", key)
		return s, []string{"Authorization", key, "X-Worker-Session", s.Session}
	}
	owner, by := register(m.keys[mine][tenant.Worker])
	got := want[client.Claimed](m.face, 200, "POST", "/api/v1/workers/"+owner.WorkerID+"/claim", `{"max": 5, "wait_seconds": 5}`, by...)
	if len(got.Attempts) != 1 {
		t.Fatalf("claimed %+v", got)
	}
	lease := fmt.Sprintf(`"execution_id": %q, "fencing_token": %d`, got.Attempts[0].ExecutionID, got.Attempts[0].FencingToken)
	for _, key := range []string{m.keys[other][tenant.Worker], m.keys[mine][tenant.Worker], m.system} {
		thief, by := register(key)
		at := "/api/v1/workers/" + thief.WorkerID
		for _, status := range []string{"SUCCEEDED", "FAILED", "CANCELLED", "PARKED", `SNOOZED", "retry_after_ms": 5, "result": "x`} {
			v := want[client.Verdicts](m.face, 200, "POST", at+"/complete", `{"outcomes": [{`+lease+`, "status": "`+status+`"}]}`, by...).Verdicts[0]
			if v.Verdict != client.Refused || v.Reason != "unknown_execution" {
				t.Errorf("%s: %+v", status, v)
			}
		}
		want[struct{}](m.face, 200, "POST", at+"/release", `{"executions": [{`+lease+`}]}`, by...)
		want[client.Problem](m.face, 409, "POST", at+"/logs", `{`+lease+`, "lines": [{"text": "x"}]}`, by...)
		if o := want[client.Orders](m.face, 200, "POST", at+"/beat", `{"executions": [{`+lease+`, "progress": {"percent": 99}}]}`, by...); len(o.Lost) != 1 {
			t.Errorf("orders: %+v", o)
		}
	}
	viewer := []string{"Authorization", m.keys[mine][tenant.Viewer]}
	x := want[client.Execution](m.face, 200, "GET", "/api/v1/executions/"+got.Attempts[0].ExecutionID, "", viewer...)
	if x.Status != "RUNNING" || x.AttemptNumber != 1 || x.Progress != nil {
		t.Errorf("it is %+v", x)
	}
	v := want[client.Verdicts](m.face, 200, "POST", "/api/v1/workers/"+owner.WorkerID+"/complete", `{"outcomes": [{`+lease+`, "status": "Succeeded"}]}`, by...).Verdicts[0]
	if v.Verdict != client.Accepted {
		t.Errorf("its own: %+v", v)
	}
}

func TestNoCommandsForAWorkerOfEverybodys(t *testing.T) {
	m := newMatrix(t)
	k := want[client.APIKey](m.face, 201, "POST", "/api/v1/api-keys", `{"tenant_id": "*", "name": "fleet", "role": "worker"}`, "Authorization", m.system)
	for _, key := range []string{"Bearer " + *k.Key, m.system} {
		p := want[client.Problem](m.face, 422, "POST", "/api/v1/workers", `{"targets": ["http", "command"]}`, "Authorization", key)
		if len(p.Errors) != 1 || p.Errors[0].Field != "targets[1]" {
			t.Errorf("%+v", p)
		}
	}
	want[client.Session](m.face, 201, "POST", "/api/v1/workers", `{"targets": ["command"]}`, "Authorization", m.keys[mine][tenant.Worker])
}
