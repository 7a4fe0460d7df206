package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	corejob "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// document holds the parts of the OpenAPI document that TestExamples reads.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]any `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Name, In string
		Example  string
	} `json:"parameters"`
	RequestBody struct {
		Content map[string]media `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]media `json:"content"`
	} `json:"responses"`
}

type media struct {
	Schema  any             `json:"schema"`
	Example json.RawMessage `json:"example"`
}

// sampleID stands for any id in an example.
const sampleID = "0190a6c8-7b3e-7cc0-8a1b-0123456789ab"

// examples has something of everything in the state that its call asks for.
type examples struct {
	*matrix
	doc document
}

func newExamples(t *testing.T) *examples {
	x := &examples{matrix: newMatrix(t)}
	x.things["/api/v1/jobs/"] = want[client.Job](x.face, 201, "POST", "/api/v1/jobs",
		`{"name": "nightly report", "key": "nightly", "schedule": {"type": "CRON", "cron_expression": "0 10 * * *", "timezone": "America/New_York"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, x.by(tenant.Admin)...).JobID
	x.things["/api/v1/executions/"] = x.dead()
	x.things["/api/v1/dead-letters/"] = x.things["/api/v1/executions/"]
	x.runs()
	x.things["/api/v1/workflow-runs/"] = x.begun(asks)
	if w := x.ask("GET", "/openapi.json", ""); json.Unmarshal(w.Body.Bytes(), &x.doc) != nil || len(x.doc.Paths) == 0 {
		t.Fatalf("the document: %d, %.300s", w.Code, w.Body)
	}
	return x
}

func (x *examples) by(role tenant.Role) []string {
	return []string{"Authorization", x.keys[mine][role]}
}

// asks is a node that asks for an approval, and one after it.
const asks = `{"key": "first", "wait": {"approval": {"roles": ["operator"]}}, "timeout": "24h"}, {"key": "deploy", "depends_on": ["first"], "execution": {"target": "worker", "kind": "deploy"}}`

// begun is a run of a workflow of these nodes that is under way.
func (x *examples) begun(nodes string) string {
	x.Helper()
	w := want[client.Workflow](x.face, 201, "POST", "/api/v1/workflows", `{"name": "release", "nodes": [`+nodes+`]}`, x.by(tenant.Admin)...)
	run := want[client.WorkflowTriggered](x.face, 202, "POST", "/api/v1/workflows/"+w.WorkflowID+"/trigger", `{"input": {"version": "1.4"}}`, x.by(tenant.Admin)...)
	for deadline := time.Now().Add(2 * time.Minute); x.run(run.WorkflowRunID, x.by(tenant.Admin)...).Status != "RUNNING"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.Fatal("the run does not begin")
		}
	}
	return run.WorkflowRunID
}

// lease is an execution that a worker holds, its token, and what the worker sends.
func (x *examples) lease() (execution string, token int64, worker client.Session, by []string) {
	x.Helper()
	want[client.Job](x.face, 201, "POST", "/api/v1/jobs", `{"name": "send", "execution": {"target": "worker", "kind": "send-email", "payload": {"to": "ann@example.com"}}, "retry_policy": {"max_retries": 0}}`, x.by(tenant.Admin)...)
	worker, by = x.register("send-email")
	got := want[client.Claimed](x.face, 200, "POST", "/api/v1/workers/"+worker.WorkerID+"/claim", `{"max": 1, "wait_seconds": 10}`, by...)
	if len(got.Attempts) != 1 {
		x.Fatalf("claimed: %+v", got)
	}
	return got.Attempts[0].ExecutionID, got.Attempts[0].FencingToken, worker, by
}

// item is an item of a map that a worker holds, below a node that has a result.
func (x *examples) item() (execution string, token int64, worker client.Session, by []string) {
	x.Helper()
	x.begun(`{"key": "list", "execution": {"target": "worker", "kind": "list-invoices"}},
		{"key": "load", "depends_on": ["list"], "map": "nodes.list.result.files", "execution": {"target": "worker", "kind": "load-invoice"}}`)
	claim := func(kind string) client.Attempt {
		worker, by = x.register(kind)
		got := want[client.Claimed](x.face, 200, "POST", "/api/v1/workers/"+worker.WorkerID+"/claim", `{"max": 1, "wait_seconds": 30}`, by...)
		if len(got.Attempts) != 1 {
			x.Fatalf("claimed: %+v", got)
		}
		return got.Attempts[0]
	}
	a := claim("list-invoices")
	want[client.Verdicts](x.face, 200, "POST", "/api/v1/workers/"+worker.WorkerID+"/complete",
		fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, "status": "SUCCEEDED", "result": {"files": ["a.csv"]}}]}`, a.ExecutionID, a.FencingToken), by...)
	a = claim("load-invoice")
	return a.ExecutionID, a.FencingToken, worker, by
}

// after is a job that depends on another, whose key is extract.
func (x *examples) after() string {
	x.Helper()
	const extract = `{"name": "extract", "key": "extract", "schedule": {"type": "MANUAL"}, "execution": {"target": "simulate", "work_kind": "noop"}}`
	x.ask("POST", "/api/v1/jobs", extract, x.by(tenant.Admin)...) // or it is there
	j := want[client.Job](x.face, 201, "POST", "/api/v1/jobs", `{"name": "report", "schedule": {"type": "MANUAL"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, x.by(tenant.Admin)...)
	want[client.JobDependencies](x.face, 200, "PUT", "/api/v1/jobs/"+j.JobID+"/dependencies", `{"depends_on": ["key:extract"]}`, x.by(tenant.Admin)...)
	return j.JobID
}

func (x *examples) register(kind string) (client.Session, []string) {
	x.Helper()
	s := want[client.Session](x.face, 201, "POST", "/api/v1/workers", fmt.Sprintf(`{"host": "box-1", "kinds": [%q], "capacity": 20}`, kind), x.by(tenant.Worker)...)
	return s, append(x.by(tenant.Worker), "X-Worker-Session", s.Session)
}

// dead is an execution that failed for good, with a log.
func (x *examples) dead() string {
	x.Helper()
	id, token, worker, by := x.lease()
	at := "/api/v1/workers/" + worker.WorkerID
	want[client.LogAnswer](x.face, 200, "POST", at+"/logs", fmt.Sprintf(`{"execution_id": %q, "fencing_token": %d, "offset": 0, "lines": [{"stream": "stderr", "text": "no route to the mail server"}]}`, id, token), by...)
	v := want[client.Verdicts](x.face, 200, "POST", at+"/complete", fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, "status": "FAILED", "error": {"type": "HANDLER_ERROR", "message": "no route to the mail server"}}]}`, id, token), by...)
	if v.Verdicts[0].Verdict != client.Accepted {
		x.Fatalf("%+v", v)
	}
	return id
}

// token returns the token that a target completes an execution with.
func (x *examples) token(execution string, token int64) string {
	x.Helper()
	id, err := corejob.ParseExecutionID(execution)
	if err != nil {
		x.Fatal(err)
	}
	return x.tokens.Make(mine, corejob.Lease{Execution: id, Token: corejob.Token(token)})
}

// request returns the example of an operation, with ids that exist.
func (x *examples) request(method, path string, op operation) (target, body string, headers []string) {
	x.Helper()
	for _, m := range op.RequestBody.Content {
		body = string(m.Example)
	}
	var needs tenant.Permission
	for _, r := range x.table {
		if r.Method == method && r.Path == path {
			needs = r.Needs
			target, _ = x.path(r)
		}
	}
	switch needs {
	case tenant.Run, tenant.Scale:
		headers = x.by(tenant.System)
	case tenant.Work:
		headers = x.by(tenant.Worker)
	case tenant.Open, tenant.Enter, tenant.Callback:
	default:
		headers = x.by(tenant.Admin)
	}
	held := func(text string, id string, token int64) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, sampleID, id), `"fencing_token":7`, fmt.Sprintf(`"fencing_token":%d`, token))
	}
	worker := func() {
		id, token, w, by := x.lease()
		target, body, headers = strings.Replace(path, "{id}", w.WorkerID, 1), held(body, id, token), by
	}
	switch method + " " + path {
	case "POST /api/v1/workers/{id}/claim":
		want[client.Job](x.face, 201, "POST", "/api/v1/jobs", `{"name": "send", "execution": {"target": "worker", "kind": "send-email", "payload": {"to": "ann@example.com"}}}`, x.by(tenant.Admin)...)
		w, by := x.register("send-email")
		target, headers = strings.Replace(path, "{id}", w.WorkerID, 1), by
	case "POST /api/v1/workers/{id}/beat", "POST /api/v1/workers/{id}/complete", "POST /api/v1/workers/{id}/logs", "POST /api/v1/workers/{id}/release":
		worker()
	case "POST /api/v1/workers/{id}/node", "POST /api/v1/workers/{id}/result":
		id, token, w, by := x.item()
		target, body, headers = strings.Replace(path, "{id}", w.WorkerID, 1), held(body, id, token), by
	case "GET /api/v1/jobs/{id}/dependencies", "PUT /api/v1/jobs/{id}/dependencies", "DELETE /api/v1/jobs/{id}/dependencies":
		target = strings.Replace(path, "{id}", x.after(), 1)
	case "DELETE /api/v1/workers/{id}", "POST /api/v1/workers/{id}/drain":
		w, by := x.register("send-email")
		target = strings.Replace(path, "{id}", w.WorkerID, 1)
		if method == "DELETE" {
			headers = by
		}
	case "POST /api/v1/executions/{id}/start":
		id, token, w, by := x.lease()
		target, body, headers = strings.Replace(path, "{id}", id, 1), held(body, id, token), append(by, "X-Worker-ID", w.WorkerID)
	case "POST /api/v1/executions/{id}/complete":
		id, token, _, _ := x.lease()
		target, headers = strings.Replace(path, "{id}", id, 1), []string{"Authorization", "Bearer " + x.token(id, token)}
	case "POST /api/v1/executions/{id}/cancel":
		t := want[client.Triggered](x.face, 202, "POST", "/api/v1/jobs/key:nightly/trigger", "", x.by(tenant.Admin)...)
		target = strings.Replace(path, "{id}", t.ExecutionID, 1)
	case "POST /api/v1/executions/{id}/retry", "POST /api/v1/dead-letters/{id}/redrive":
		target = strings.Replace(path, "{id}", x.dead(), 1)
	case "POST /api/v1/dead-letters:discard":
		body = strings.ReplaceAll(body, sampleID, x.dead())
	case "PATCH /api/v1/jobs/{id}/resume", "POST /api/v1/jobs/{id}/resume":
		want[client.Job](x.face, 200, "POST", "/api/v1/jobs/key:nightly/pause", "", x.by(tenant.Admin)...)
	case "POST /api/v1/workflow-runs/{id}/nodes/{key}/approve", "POST /api/v1/workflow-runs/{id}/nodes/{key}/reject", "POST /api/v1/workflow-runs/{id}/nodes/{key}/skip", "POST /api/v1/workflow-runs/{id}/nodes/{key}/mark",
		"POST /api/v1/workflow-runs/{id}/pause", "POST /api/v1/workflow-runs/{id}/unpause", "POST /api/v1/workflow-runs/{id}/cancel":
		target = strings.Replace(target, x.things["/api/v1/workflow-runs/"], x.begun(asks), 1)
	case "GET /api/v1/workflow-runs/{id}/nodes/{key}/items", "PATCH /api/v1/workflow-runs/{id}/nodes/{key}":
		target = strings.Replace(target, x.things["/api/v1/workflow-runs/"], x.begun(`{"key": "first", "map": ["a.csv", "b.csv"], "max_parallel": 1, "execution": {"target": "worker", "kind": "load"}}`), 1)
	case "POST /api/v1/workflow-runs/{id}/retry":
		run := x.begun(asks)
		want[client.WorkflowRunChanged](x.face, 200, "POST", "/api/v1/workflow-runs/"+run+"/nodes/first/reject", "", headers...)
		target = strings.Replace(target, x.things["/api/v1/workflow-runs/"], run, 1)
	case "POST /api/v1/sign-in":
		body = strings.Replace(body, "car_live_the-text-of-a-key", strings.TrimPrefix(x.keys[mine][tenant.Admin], "Bearer "), 1)
	case "POST /api/v1/signing-secrets/{id}/reveal":
		all := func() []client.SigningSecret {
			return want[client.SigningSecrets](x.face, 200, "GET", "/api/v1/signing-secrets", "", x.by(tenant.Admin)...).SigningSecrets
		}
		for _, s := range all() {
			want[client.SigningSecret](x.face, 200, "DELETE", "/api/v1/signing-secrets/"+s.ID, "", x.by(tenant.Admin)...)
		}
		x.things["/api/v1/signing-secrets/"] = all()[0].ID // made when there was none, and shown to nobody
		target = strings.Replace(path, "{id}", all()[0].ID, 1)
	case "DELETE /api/v1/holds/{id}": // the job of another example is on hold, and is to be deleted later
		hs := want[client.Holds](x.face, 200, "GET", "/api/v1/holds", "", x.by(tenant.Admin)...).Holds
		for _, h := range hs[1:] {
			want[client.Hold](x.face, 200, "DELETE", "/api/v1/holds/"+h.HoldID, "", x.by(tenant.Admin)...)
		}
		target = "/api/v1/holds/" + hs[0].HoldID
	case "POST /api/v1/sign-out":
		headers = []string{"Cookie", signInWith(x.face, x.keys[mine][tenant.Viewer])}
	case "PUT /api/v1/artifacts":
		body = "#!/bin/sh\necho hello\n"
	case "GET /api/v1/jobs:runs":
		target += "?ids=" + x.things["/api/v1/jobs/"]
	case "POST /api/v1/jobs/{id}/revisions/{revision}/restore":
		target = strings.Replace(target, "{revision}", "1", 1)
	case "GET /api/v1/sign-ins":
		target += "?limit=1"
	case "GET /api/v1/forecast":
		target += "?hours=1"
	case "GET /api/v1/admin/queue/status":
		target += "?minutes=1"
	}
	return target, body, headers
}

// TestExamples asks for what each operation of the document gives as an example, of a real server, and holds request and
// answer against the schemas. The answers that the document shows were such ones: -update writes them again.
func TestExamples(t *testing.T) {
	x := newExamples(t)
	answers, paths := map[string]json.RawMessage{}, map[string]string{}
	order := map[string]int{"get": 0, "put": 1, "patch": 2, "post": 3, "delete": 4} // what is deleted is asked for before
	type call struct {
		method, path string
		op           operation
	}
	var calls []call
	for path, ops := range x.doc.Paths {
		for method, op := range ops {
			calls = append(calls, call{method, path, op})
		}
	}
	slices.SortFunc(calls, func(a, b call) int {
		if d := order[a.method] - order[b.method]; d != 0 {
			return d
		}
		return strings.Compare(a.path, b.path)
	})
	for _, c := range calls {
		name := strings.ToUpper(c.method) + " " + c.path
		for _, m := range c.op.RequestBody.Content {
			if m.Schema == nil {
				continue // bytes
			}
			if wrong := x.fits(m.Schema, decoded(t, m.Example), "request"); wrong != "" {
				t.Errorf("%s: its example does not fit its schema: %s", name, wrong)
			}
		}
		target, body, headers := x.request(strings.ToUpper(c.method), c.path, c.op)
		w := x.answer(strings.ToUpper(c.method), target, body, headers)
		said, ok := c.op.Responses[fmt.Sprint(w.Code)]
		if !ok || w.Code >= 400 {
			t.Errorf("%s: %d, which its document does not have: %s", name, w.Code, w.Body)
			continue
		}
		kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		shown, ok := said.Content[kind]
		text := w.Body.Bytes()
		if raw, bytes := said.Content["application/octet-stream"]; bytes {
			shown, ok = raw, true
		}
		switch {
		case ok && shown.Schema == nil:
			text, _ = json.Marshal(string(text))
		case !ok:
			t.Errorf("%s answers with %s; its document has %v", name, kind, slices.Collect(maps.Keys(said.Content)))
			continue
		case kind == "text/event-stream":
			text, _ = json.Marshal(string(text))
		default:
			if wrong := x.fits(shown.Schema, decoded(t, text), "answer"); wrong != "" {
				t.Errorf("%s: the answer does not fit its schema: %s\n%s", name, wrong, text)
			}
			if wrong := x.fits(shown.Schema, decoded(t, shown.Example), "example"); wrong != "" && !*update {
				t.Errorf("%s: the answer that the document shows does not fit its schema: %s; run the test with -update", name, wrong)
			}
		}
		if len(shown.Example) == 0 && !*update {
			t.Errorf("%s: the document shows no answer; run the test with -update", name)
		}
		answers[c.op.ID] = tidied(text)
		if before, rest, ok := strings.Cut(c.path, "{"); ok {
			_, after, _ := strings.Cut(rest, "}")
			paths[c.path] = string(tidied([]byte(strings.TrimSuffix(strings.TrimPrefix(target, before), after))))
		}
	}
	if *update {
		data, err := json.MarshalIndent(map[string]any{"paths": paths, "answers": answers}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("examples.json", append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// answer asks; of what goes on and on, the beginning.
func (x *examples) answer(method, target, body string, headers []string) *httptest.ResponseRecorder {
	q := made{method: method, target: target, body: body, headers: map[string]string{"Content-Type": "application/json"}}
	for i := 0; i+1 < len(headers); i += 2 {
		q.headers[headers[i]] = headers[i+1]
	}
	if !strings.HasSuffix(target, "/stream") {
		delete(q.headers, "Content-Type")
		return x.ask(method, target, body, headers...)
	}
	w, _ := (&corpus{matrix: x.matrix}).send(q)
	return w
}

// standIns replace values in examples that differ each time, or are private.
var standIns = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), sampleID},
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "2026-01-31T15:04:05Z"},
	{regexp.MustCompile(`car_live_[a-z2-7]{8}_[a-z2-7]{40,}`), "car_live_abcdefgh_the-text-of-a-key"},
	{regexp.MustCompile(`car_live_[a-z2-7]{8}_`), "car_live_abcdefgh_"},
	{regexp.MustCompile(`cbg_[a-z2-7]{32}`), "cbg_the-token"},
	{regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`), "whsec_the-secret"},
	{regexp.MustCompile(`"(key_id|sign_in_id|id)": ?"[a-z0-9]{8,16}"`), `"$1":"abcdefgh"`},
	{regexp.MustCompile(`"(session|next_cursor|prefix|head)": ?"[^"]{12,}"`), `"$1":"…"`},
	{regexp.MustCompile(`"object": ?"[a-z0-9]{8,16}"`), `"object":"abcdefgh"`},
	{regexp.MustCompile(`"(trigger_delay_ms|queue_wait_ms|running_ms|total_ms|duration_ms|between_attempts_ms)": ?\d+`), `"$1":12`},
	{regexp.MustCompile(`"fencing_token": ?\d+`), `"fencing_token":7`},
	{regexp.MustCompile(`"(heap_bytes|memory_bytes)": ?\d+`), `"$1":12582912`},
	{regexp.MustCompile(`"(cpus|goroutines|collections)": ?\d+`), `"$1":8`},
	{regexp.MustCompile(`"go": ?"[^"]+","platform": ?"[^"]+"`), `"go":"go1.26","platform":"linux/amd64"`},
	{regexp.MustCompile(`"metrics": ?"(\\.|[^"\\])*"`), `"metrics":"# TYPE carillon_queue_depth gauge\n…"`},
}

func tidied(text []byte) json.RawMessage {
	for _, s := range standIns {
		text = s.from.ReplaceAll(text, []byte(s.to))
	}
	return text
}

func decoded(t *testing.T, text []byte) (v any) {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return v
}

// fits says why a value does not fit a schema of the document; "" if it does. It knows what the document uses of JSON Schema.
func (x *examples) fits(schema, v any, at string) string {
	s, ok := schema.(map[string]any)
	if !ok {
		return at + " has no schema"
	}
	if ref, ok := s["$ref"].(string); ok {
		return x.fits(x.doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")], v, at)
	}
	if any, ok := s["anyOf"].([]any); ok {
		var why string
		for _, one := range any {
			if why = x.fits(one, v, at); why == "" {
				return ""
			}
		}
		return why
	}
	if types := s["type"]; types != nil && !isOf(types, v) {
		return fmt.Sprintf("%s is %v, want %v", at, v, types)
	}
	if enum, ok := s["enum"].([]any); ok && v != nil {
		of := []any{v}
		if list, ok := v.([]any); ok {
			of = list
		}
		for _, one := range of {
			if !slices.Contains(enum, one) {
				return fmt.Sprintf("%s is %v, want one of %v", at, one, enum)
			}
		}
	}
	switch v := v.(type) {
	case string:
		if s["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339Nano, v); err != nil {
				return fmt.Sprintf("%s is %q, no time", at, v)
			}
		}
	case []any:
		for i, one := range v {
			if why := x.fits(s["items"], one, fmt.Sprintf("%s[%d]", at, i)); why != "" {
				return why
			}
		}
	case map[string]any:
		return x.objectFits(s, v, at)
	}
	return ""
}

func (x *examples) objectFits(s, v map[string]any, at string) string {
	properties, _ := s["properties"].(map[string]any)
	if required, ok := s["required"].([]any); ok && !strings.HasPrefix(at, "request") {
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				return fmt.Sprintf("%s lacks %s", at, name)
			}
		}
	}
	for name, one := range v {
		schema, ok := properties[name]
		if !ok {
			if schema, ok = s["additionalProperties"].(map[string]any); !ok {
				if s["additionalProperties"] == false {
					return fmt.Sprintf("%s has %s, which nobody knows", at, name)
				}
				continue
			}
		}
		if why := x.fits(schema, one, at+"."+name); why != "" {
			return why
		}
	}
	return ""
}

// isOf reports whether a value is of a type, or of one of several.
func isOf(types, v any) bool {
	if list, ok := types.([]any); ok {
		return slices.ContainsFunc(list, func(t any) bool { return isOf(t, v) })
	}
	switch v := v.(type) {
	case nil:
		return types == "null"
	case bool:
		return types == "boolean"
	case string:
		return types == "string"
	case float64:
		return types == "number" || types == "integer" && v == float64(int64(v))
	case []any:
		return types == "array"
	case map[string]any:
		return types == "object"
	}
	return false
}
