package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// nightly is the workflow of the documentation, over jobs that exist.
const nightly = `{"key": "etl", "name": "Nightly ETL", "schedule": {"type": "CRON", "cron_expression": "0 2 * * *", "timezone": "Europe/Berlin"}, "overlap": "queue", "timeout": "2h", "on_failure": "continue",
	"input_schema": {"type": "object", "required": ["day"]}, "output": "nodes.sum.result", "tags": ["etl"],
	"nodes": [
		{"key": "list", "execution": {"target": "worker", "kind": "list", "payload": {"day": "{{ run.input.day }}"}}, "retry_policy": {"max_retries": 1}},
		{"key": "load", "depends_on": ["list"], "map": "nodes.list.result.files", "max_parallel": 20, "tolerate": "1%", "execution": {"target": "worker", "kind": "load", "payload": {"file": "{{ item }}"}}},
		{"key": "ok", "depends_on": ["load"], "if": "run.input.publish", "wait": {"approval": {"roles": ["operator"]}}, "timeout": "24h"},
		{"key": "sum", "depends_on": ["load", "ok"], "trigger": "none_failed", "job_id": "key:summary"},
		{"key": "clean", "finally": true, "execution": {"target": "http", "callback_url": "https://example.com/{{ run.id }}", "headers": {"Authorization": "Bearer abc123", "X-Run": "{{ run.id }}"}}}]}`

const summary = `{"key": "summary", "name": "summary", "schedule": {"type": "MANUAL"}, "execution": {"target": "simulate", "work_kind": "noop"}}`

func TestWorkflowsOverHTTP(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open()
		sum := want[client.Job](f, 201, "POST", "/api/v1/jobs", summary)
		if sum.Status != "ACTIVE" || sum.ExecutionID != "" || sum.Schedule.Type != "MANUAL" || sum.Schedule.NextRunAt != nil {
			t.Errorf("a manual job: %+v", sum)
		}
		made := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", nightly)
		if made.Version != 1 || made.Revision != 1 || made.Status != "ACTIVE" || len(made.Nodes) != 5 || made.Schedule.NextRunAt == nil || made.Timeout != "2h" || made.Output != "nodes.sum.result" {
			t.Errorf("made: %+v", made)
		}
		if h := made.Nodes[4].Execution.Headers; h["Authorization"] != "[redacted]" || h["X-Run"] != "{{ run.id }}" {
			t.Errorf("its headers: %v", h)
		}
		if len(made.Warnings) != 1 || !strings.Contains(made.Warnings[0].Message, "input") {
			t.Errorf("warnings: %+v", made.Warnings)
		}
		got := want[client.Workflow](f, 200, "GET", "/api/v1/workflows/key:etl", "")
		if a, b := encoded(got.Nodes), encoded(made.Nodes); a != b || got.WorkflowID != made.WorkflowID {
			t.Errorf("read:\n%s\nmade:\n%s", a, b)
		}

		// It is a job, and its inline nodes are nobody's.
		j := want[client.Job](f, 200, "GET", "/api/v1/jobs/key:etl", "")
		if j.JobID != made.WorkflowID || j.Execution.Target != "workflow" {
			t.Errorf("as a job: %+v", j)
		}
		if jobs := want[client.Jobs](f, 200, "GET", "/api/v1/jobs", ""); len(jobs.Jobs) != 2 || jobs.Pagination.Total != 2 {
			t.Errorf("%d jobs are listed, of %d", len(jobs.Jobs), jobs.Pagination.Total)
		}
		if ws := want[client.Workflows](f, 200, "GET", "/api/v1/workflows", ""); len(ws.Workflows) != 1 || ws.Workflows[0].WorkflowID != made.WorkflowID || ws.Workflows[0].Nodes != nil {
			t.Errorf("listed: %+v", ws)
		}
		if ws := want[client.Workflows](f, 200, "GET", "/api/v1/workflows?tag=other", ""); len(ws.Workflows) != 0 {
			t.Errorf("listed: %+v", ws)
		}
		id := must(core.ParseID(made.WorkflowID))
		v := must(f.store.WorkflowVersion(t.Context(), tenant.Default, id, 1))
		if strings.Contains(string(v.Definition), "abc123") {
			t.Errorf("a credential is stored in the clear: %s", v.Definition)
		}
		node := must(f.store.Job(t.Context(), tenant.Default, engine.Ref{ID: v.Jobs[0]}))
		if node.Name != "Nightly ETL/list" || node.Retry.MaxRetries != 1 || node.Target.Handler != "list" {
			t.Errorf("the job of a node: %+v", node)
		}
		for _, c := range []struct{ method, path string }{{"GET", ""}, {"DELETE", ""}, {"POST", "/trigger"}, {"POST", "/pause"}} {
			want[client.Problem](f, 404, c.method, "/api/v1/jobs/"+node.ID.String()+c.path, "")
		}
		want[client.Problem](f, 404, "GET", "/api/v1/workflows/"+sum.JobID, "")
		want[client.Problem](f, 404, "GET", "/api/v1/workflows/key:etl?version=2", "")

		// Deleting what it uses is refused.
		p := want[client.Problem](f, 409, "DELETE", "/api/v1/jobs/key:summary", "")
		if p.Code != "in_use" || !strings.Contains(p.Detail, "key:etl") {
			t.Errorf("deleting a used job: %+v", p)
		}

		// Nothing new is no new version; what differs is one.
		if same := want[client.Workflow](f, 200, "PUT", "/api/v1/workflows/key:etl", strings.ReplaceAll(nightly, "Bearer abc123", "[redacted]")); same.Version != 1 || same.Revision != 1 {
			t.Errorf("put again: version %d, revision %d", same.Version, same.Revision)
		}
		if named := want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/key:etl", `{"name": "ETL", "tags": null}`); named.Version != 1 || named.Revision != 2 || named.Name != "ETL" || len(named.Tags) != 0 {
			t.Errorf("renamed: %+v", named)
		}
		nodes := encoded(made.Nodes)
		changed := want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/key:etl", `{"nodes": `+strings.Replace(nodes, `"max_parallel":20`, `"max_parallel":5`, 1)+`}`, "If-Match", "2")
		if changed.Version != 2 || changed.Revision != 3 || changed.Nodes[1].MaxParallel != 5 {
			t.Errorf("changed: %+v", changed)
		}
		v2 := must(f.store.WorkflowVersion(t.Context(), tenant.Default, id, 2))
		for i := range v.Jobs {
			if v.Jobs[i] != v2.Jobs[i] {
				t.Errorf("node %d, whose execution stayed, has another job", i)
			}
		}
		want[client.Problem](f, 412, "PATCH", "/api/v1/workflows/key:etl", `{"timeout": "3h"}`, "If-Match", "2")
		p = want[client.Problem](f, 422, "PATCH", "/api/v1/workflows/key:etl", `{"nodes": `+strings.Replace(nodes, "https://example.com", "https://example.org", 1)+`}`)
		if p.Errors[0].Field != `nodes[4].execution.headers["Authorization"]` || !strings.Contains(p.Errors[0].Want, "another origin") {
			t.Errorf("a credential that would move: %+v", p)
		}
		vs := want[client.WorkflowVersions](f, 200, "GET", "/api/v1/workflows/key:etl/versions?limit=1", "")
		if len(vs.Versions) != 1 || vs.Versions[0].Version != 2 || !vs.Versions[0].Current || vs.Pagination.NextCursor == nil || vs.Pagination.Total != 2 {
			t.Errorf("versions: %+v", vs)
		}
		vs = want[client.WorkflowVersions](f, 200, "GET", "/api/v1/workflows/key:etl/versions?cursor="+*vs.Pagination.NextCursor, "")
		if len(vs.Versions) != 1 || vs.Versions[0].Version != 1 || vs.Versions[0].Nodes[1].MaxParallel != 20 {
			t.Errorf("older versions: %+v", vs)
		}
		if old := want[client.Workflow](f, 200, "GET", "/api/v1/workflows/key:etl?version=1", ""); old.Version != 1 || old.Nodes[1].MaxParallel != 20 {
			t.Errorf("version 1: %+v", old)
		}

		// Runs.
		p = want[client.Problem](f, 422, "POST", "/api/v1/workflows/key:etl/trigger", `{"input": {"publish": true}}`)
		if p.Errors[0].Field != "input" || !strings.Contains(p.Errors[0].Want, "day") {
			t.Errorf("a wrong input: %+v", p)
		}
		p = want[client.Problem](f, 422, "POST", "/api/v1/jobs/key:etl/trigger", "")
		if p.Errors[0].Field != "payload_override" {
			t.Errorf("a wrong input by /jobs: %+v", p)
		}
		run := want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/key:etl/trigger", `{"input": {"day": "2026-01-31"}, "unique_key": "day-31"}`)
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+run.WorkflowRunID, ""); e.JobID != made.WorkflowID || e.MaxAttempts != 1 {
			t.Errorf("the run: %+v", e)
		}
		again := f.ask("POST", "/api/v1/workflows/key:etl/trigger", `{"input": {"day": "2026-01-31"}, "unique_key": "day-31"}`)
		if again.Code != 202 || again.Header().Get("Carillon-Deduplicated") != "true" || !strings.Contains(again.Body.String(), run.WorkflowRunID) {
			t.Errorf("the same unique key: %d %s", again.Code, again.Body)
		}
		want[client.Triggered](f, 202, "POST", "/api/v1/jobs/key:etl/trigger", `{"payload_override": {"day": "2026-02-01"}}`)
		want[client.Problem](f, 404, "POST", "/api/v1/workflows/key:summary/trigger", "")

		// The calls of jobs work on it, but for what it runs.
		if j := want[client.Job](f, 200, "PATCH", "/api/v1/jobs/key:etl", `{"priority": 3}`); j.Priority != 3 || j.Execution.Target != "workflow" {
			t.Errorf("changed as a job: %+v", j)
		}
		want[client.Problem](f, 422, "PATCH", "/api/v1/jobs/key:etl", `{"execution": {"target": "http", "callback_url": "https://example.com/"}}`)
		if j := want[client.Job](f, 200, "POST", "/api/v1/jobs/key:etl/pause", ""); j.Status != "PAUSED" {
			t.Errorf("paused: %+v", j)
		}

		gone := want[client.Workflow](f, 200, "DELETE", "/api/v1/workflows/key:etl", "")
		if gone.Status != "DELETED" {
			t.Errorf("deleted: %+v", gone)
		}
		want[client.Job](f, 200, "DELETE", "/api/v1/jobs/key:summary", "")
	})
}

// A page of versions ends early where their definitions are long.
func TestLongVersions(t *testing.T) {
	f := newFace(t)
	made := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"key": "long", "name": "long", "nodes": [{"key": "n", "execution": {"target": "simulate", "work_kind": "noop"}}]}`)
	id := must(core.ParseID(made.WorkflowID))
	first := must(f.store.WorkflowVersion(t.Context(), tenant.Default, id, 1))
	for range 3 {
		j := must(f.store.Job(t.Context(), tenant.Default, engine.Ref{ID: id}))
		j.Target.Version++
		v := first
		v.Version = j.Target.Version
		v.Definition = []byte(strings.Replace(string(first.Definition), "{", `{"input_schema": {"description": "`+strings.Repeat("x", engine.PageBytes*2/5)+`"}, `, 1))
		must(f.store.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: j, Revision: j.Revision, AsOf: j.UpdatedAt, Workflow: &v}))
	}
	const path = "/api/v1/workflows/key:long/versions?limit=1000"
	page := want[client.WorkflowVersions](f, 200, "GET", path, "")
	if p := page.Pagination; len(page.Versions) != 3 || !p.Partial || p.NextCursor == nil || p.Total != 4 {
		t.Fatalf("%d versions: %+v", len(page.Versions), p)
	}
	page = want[client.WorkflowVersions](f, 200, "GET", path+"&cursor="+*page.Pagination.NextCursor, "")
	if p := page.Pagination; len(page.Versions) != 1 || page.Versions[0].Version != 1 || p.Partial || p.NextCursor != nil {
		t.Errorf("%d versions: %+v", len(page.Versions), p)
	}
}

func TestSubWorkflows(t *testing.T) {
	f := newFace(t)
	flow := func(key string, uses ...string) string {
		var nodes []string
		for i, u := range uses {
			nodes = append(nodes, fmt.Sprintf(`{"key": "n%d", "job_id": "key:%s"}`, i, u))
		}
		if len(uses) == 0 {
			nodes = []string{`{"key": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`}
		}
		return fmt.Sprintf(`{"key": %q, "name": %q, "nodes": [%s]}`, key, key, strings.Join(nodes, ","))
	}
	want[client.Workflow](f, 201, "POST", "/api/v1/workflows", flow("w0"))
	for i := 1; i < 8; i++ {
		want[client.Workflow](f, 201, "POST", "/api/v1/workflows", flow(fmt.Sprint("w", i), fmt.Sprint("w", i-1)))
	}
	p := want[client.Problem](f, 422, "POST", "/api/v1/workflows", flow("w8", "w7"))
	if !strings.Contains(p.Errors[0].Want, "8") {
		t.Errorf("too deep: %+v", p.Errors)
	}
	p = want[client.Problem](f, 422, "PUT", "/api/v1/workflows/key:w0", flow("w0", "w2"))
	if !strings.Contains(p.Errors[0].Value, "key:w0 → key:w2 → key:w1 → key:w0") {
		t.Errorf("a cycle: %+v", p.Errors)
	}
	p = want[client.Problem](f, 422, "PUT", "/api/v1/workflows/key:w0", flow("w0", "w0"))
	if !strings.Contains(p.Errors[0].Value, "key:w0 → key:w0") {
		t.Errorf("a cycle of one: %+v", p.Errors)
	}
	want[client.Workflow](f, 201, "POST", "/api/v1/workflows", flow("leaf"))
	want[client.Workflow](f, 201, "POST", "/api/v1/workflows", flow("twig", "leaf"))
	p = want[client.Problem](f, 422, "PUT", "/api/v1/workflows/key:w0", flow("w0", "twig"))
	if !strings.Contains(p.Errors[0].Want, "8") {
		t.Errorf("too deep below what others use: %+v", p.Errors)
	}
	if p := want[client.Problem](f, 409, "DELETE", "/api/v1/workflows/key:leaf", ""); p.Code != "in_use" || !strings.Contains(p.Detail, "key:twig") {
		t.Errorf("deleting a used workflow: %+v", p)
	}
}

func TestBadWorkflows(t *testing.T) {
	f, _ := newServer(t)
	want[client.Job](f, 201, "POST", "/api/v1/jobs", summary)
	node := func(key, rest string) string {
		return fmt.Sprintf(`{"key": %q, "execution": {"target": "simulate", "work_kind": "noop"}%s}`, key, rest)
	}
	var many []string
	for i := range 1001 {
		many = append(many, node(fmt.Sprint("n", i), ""))
	}
	for _, c := range []struct {
		name, nodes, field, says string
	}{
		{"no nodes", ``, "nodes", "at least one"},
		{"1001 nodes", strings.Join(many, ","), "nodes", "at most 1000"},
		{"a cycle", node("a", `, "depends_on": ["b"]`) + "," + node("b", `, "depends_on": ["a"]`), "nodes", "a → b → a"},
		{"a cycle of one", node("a", `, "depends_on": ["a"]`), "nodes[0].depends_on[0]", "a → a"},
		{"a long cycle beside good nodes", node("x", "") + "," + node("a", `, "depends_on": ["x", "c"]`) + "," + node("b", `, "depends_on": ["a"]`) + "," + node("c", `, "depends_on": ["b"]`), "nodes", "a → b → c → a"},
		{"a parent twice", node("a", "") + "," + node("b", `, "depends_on": ["a", "a"]`), "nodes[1].depends_on[1]", "once"},
		{"a wrong key", node("A-1", ""), "nodes[0].key", "1 to 64 of a-z"},
		{"an unknown trigger", node("a", `, "trigger": "sometimes"`), "nodes[0].trigger", "all_success"},
		{"a finally node between others", node("z", `, "finally": true`) + "," + node("b", `, "depends_on": ["z"]`), "nodes[1].depends_on[0]", "finally"},
		{"a finally node behind others", node("a", "") + "," + node("z", `, "finally": true, "depends_on": ["a"]`), "nodes[1].depends_on[0]", "finally"},
		{"a wrong on_failure", node("a", `, "on_failure": "shrug"`), "nodes[0].on_failure", "continue"},
		{"a wrong tolerance", node("a", `, "map": 3, "tolerate": "most"`), "nodes[0].tolerate", "1%"},
		{"a map of an object", node("a", `, "map": {"x": 1}`), "nodes[0].map", "a list"},
		{"an item outside of a map", node("a", `, "if": "item > 1"`), "nodes[0].if", "item"},
		{"two waits", `{"key": "a", "wait": {"timer": "1h", "event": "e"}}`, "nodes[0].wait", "exactly one"},
		{"a wrong timer", `{"key": "a", "wait": {"timer": "soon"}}`, "nodes[0].wait.timer", "a duration"},
		{"an unknown role", `{"key": "a", "wait": {"approval": {"roles": ["boss"]}}}`, "nodes[0].wait.approval.roles[0]", "operator"},
		{"an unknown parent", node("a", `, "depends_on": ["x"]`), "nodes[0].depends_on[0]", "of this workflow"},
		{"a key twice", node("a", "") + "," + node("a", ""), "nodes[1].key", "no other node"},
		{"a node that is no ancestor", node("a", "") + "," + node("b", `, "if": "nodes.a.result"`), "nodes[1].if", "ancestor"},
		{"an eager trigger with if", node("a", "") + "," + node("b", `, "depends_on": ["a"], "trigger": "one_success", "if": "nodes.a.result"`), "nodes[1].if", "beside the trigger one_success"},
		{"an unknown job", `{"key": "a", "job_id": "key:nobody"}`, "nodes[0].job_id", "exists"},
		{"nothing to run", `{"key": "a"}`, "nodes[0]", "exactly one"},
		{"a wrong URL", `{"key": "a", "execution": {"callback_url": "ftp://{{ run.id }}"}}`, "nodes[0].execution.callback_url", "http"},
		{"a wrong kind", `{"key": "a", "execution": {"target": "worker", "kind": "a b"}}`, "nodes[0].execution.kind", "kind"},
		{"a workflow inline", `{"key": "a", "execution": {"target": "workflow"}}`, "nodes[0].execution.target", "job_id"},
		{"too many retries", `{"key": "a", "execution": {"target": "simulate", "work_kind": "noop"}, "retry_policy": {"max_retries": 1000}}`, "nodes[0].retry_policy.max_retries", "100"},
		{"an unknown secret", `{"key": "a", "execution": {"callback_url": "https://example.com/", "headers": {"X-A": "${secret:nope}"}}}`, `nodes[0].execution.headers["X-A"]`, "secret"},
		{"a credential for any host", `{"key": "a", "execution": {"callback_url": "https://{{ run.id }}.example.com/", "headers": {"Authorization": "Bearer abc123"}}}`, "nodes[0].execution.callback_url", "${secret:name}"},
		{"a credential for any URL", `{"key": "a", "execution": {"callback_url": "{{ run.id }}", "headers": {"X-API-Key": "abc123"}}}`, "nodes[0].execution.callback_url", "without expressions"},
		{"a credential for any port", `{"key": "a", "execution": {"callback_url": "https://example.com{{ run.id }}/", "headers": {"Authorization": "Bearer abc123"}}}`, "nodes[0].execution.callback_url", "without expressions"},
		{"a credential for any scheme", `{"key": "a", "execution": {"callback_url": "http{{ run.id }}://example.com/", "headers": {"Authorization": "Bearer abc123"}}}`, "nodes[0].execution.callback_url", ""},
		{"a variable for any command", `{"key": "a", "execution": {"target": "command", "command": ["sh", "-c", "{{ run.id }}"], "env": {"API_TOKEN": "abc123"}}}`, "nodes[0].execution.command", "no expressions"},
		{"a variable for any payload", `{"key": "a", "execution": {"target": "command", "command": ["bash"], "env": {"API_TOKEN": "abc123"}}}`, "nodes[0].execution.payload", "script file"},
		{"an unknown secret in a payload", `{"key": "a", "execution": {"callback_url": "https://example.com/", "payload": {"x": "$\u007bsecret:nope}", "y": "{{ run.id }}"}}}`, "nodes[0].execution.payload", "secret"},
		{"an unknown secret for a job", `{"key": "a", "job_id": "key:summary", "payload_override": {"x": "${secret:nope}"}}`, "nodes[0].payload_override", "secret"},
		{"a hidden credential for a job", `{"key": "a", "job_id": "key:summary", "payload_override": {"x": "$\u007bsecret:~0190/authorization}"}}`, "nodes[0].payload_override", "a reference such as"},
		{"a credential that would be shown", `{"key": "a", "execution": {"callback_url": "https://example.com/", "headers": {"Authorization": "Bearer abc123{{ run.id }}"}}}`, `nodes[0].execution.headers["Authorization"]`, "${secret:name}"},
		{"a broken expression", node("a", `, "if": "run.input."`), "nodes[0].if", ""},
		{"too wide a map", node("a", `, "map": 100001`), "nodes[0].map", "100000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `{"name": "bad", "nodes": [` + c.nodes + `]}`
			for _, path := range []string{"/api/v1/workflows", "/api/v1/workflows:lint"} {
				p := want[client.Problem](f, 422, "POST", path, body)
				if len(p.Errors) == 0 || p.Errors[0].Field != c.field || !strings.Contains(p.Errors[0].Value+"; want "+p.Errors[0].Want, c.says) || p.Errors[0].Want == "" {
					t.Errorf("%s: %+v; want a problem with %s that says %q", path, p.Errors, c.field, c.says)
				}
			}
		})
	}
	for _, c := range []struct{ body, field string }{
		{`{"name": "bad", "nodes": [{"key": 5}]}`, "nodes[0].key"},
		{`{"name": "bad", "nodes": [{"key": "a", "nonsense": 1}]}`, "nodes[0].nonsense"},
		{`{"name": "bad", "nodes": {}}`, "nodes"},
		{`{"name": "bad", "nodes": [5]}`, "nodes[0]"},
		{`{"name": "bad", "nodes": [{"key": "a", "depends_on": "b"}]}`, "nodes[0].depends_on"},
		{`{"name": "bad", "nodes": [{"key": "a", "if": true}]}`, "nodes[0].if"},
		{`{"name": "bad", "nodes": [{"key": "a", "max_parallel": "many"}]}`, "nodes[0].max_parallel"},
		{`{"name": "bad", "nodes": [{"key": "a", "wait": {"approval": {"min": "two"}}}]}`, "nodes[0].wait.approval.min"},
	} {
		if p := want[client.Problem](f, 400, "POST", "/api/v1/workflows", c.body); p.Errors[0].Field != c.field {
			t.Errorf("%s: %+v", c.body, p.Errors)
		}
	}
	for _, c := range []struct{ body, field string }{
		{`{"nodes": [` + node("a", "") + `]}`, "name"},
		{`{"name": "a", "timeout": "soon", "nodes": [` + node("a", "") + `]}`, "timeout"},
		{`{"name": "a", "on_failure": "ignore", "nodes": [` + node("a", "") + `]}`, "on_failure"},
		{`{"name": "a", "input_schema": {"type": "nonsense"}, "nodes": [` + node("a", "") + `]}`, "input_schema"},
		{`{"name": "a", "input_schema": {"type": "object"}, "input": 5, "nodes": [` + node("a", "") + `]}`, "input"},
		{`{"name": "a", "input": {"x": "${secret:nope}"}, "nodes": [` + node("a", "") + `]}`, "input"},
		{`{"name": "a", "schedule": {"type": "CRON", "cron_expression": "x"}, "nodes": [` + node("a", "") + `]}`, "schedule.cron_expression"},
	} {
		if p := want[client.Problem](f, 422, "POST", "/api/v1/workflows", c.body); p.Errors[0].Field != c.field {
			t.Errorf("%s: %+v", c.body, p.Errors)
		}
	}
	if jobs := want[client.Jobs](f, 200, "GET", "/api/v1/jobs", ""); len(jobs.Jobs) != 1 {
		t.Errorf("%d jobs: something was half made", len(jobs.Jobs))
	}
	if p := want[client.Problem](f, 422, "POST", "/api/v1/jobs", `{"name": "a", "execution": {"target": "workflow"}}`); !strings.Contains(p.Errors[0].Want, "POST /workflows") {
		t.Errorf("a workflow by POST /jobs: %+v", p)
	}
	want[client.Problem](f, 409, "POST", "/api/v1/workflows", `{"name": "a", "key": "summary", "nodes": [`+node("a", "")+`]}`)
}

func encoded(v any) string { return string(must(json.Marshal(v))) }
