package api_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/declare"
)

// flows is a file of workflows that use each other and a job, in an order that only works the other way round.
const flows = `
workflows:
  - key: outer
    name: outer
    tags: [etl]
    schedule: {type: CRON, cron_expression: "0 2 * * *", timezone: Europe/Berlin}
    timeout: 2h
    on_failure: stop
    overlap: queue
    max_concurrent: 2
    input_schema: {type: object, required: [day]}
    input: {day: "2026-01-31", empty: {}}
    output: nodes.b.result
    nodes:
      - {key: a, job_id: "key:inner"}
      - {key: b, depends_on: [a], map: [1, 2], max_parallel: 2, tolerate: "50%", execution: {target: http, callback_url: "https://example.com/{{ item }}", headers: {Authorization: Bearer geheim, X-A: "{{ index }}"}}, retry_policy: {max_retries: 1}}
      - {key: c, depends_on: [b], wait: {approval: {roles: [operator], min: 2}}, timeout: 1h, on_timeout: skip}
  - key: inner
    name: inner
    tags: [etl]
    paused: true
    nodes:
      - {key: a, job_id: "key:plain", payload_override: {n: 1}}
jobs:
  - key: plain
    name: plain
    tags: [etl]
    schedule: {type: MANUAL}
    execution: {target: simulate, work_kind: noop}
`

func TestWorkflowsInFiles(t *testing.T) {
	_, c := newServer(t)
	p, results := applyText(t, c, flows, "")
	var first strings.Builder
	p.Render(&first)
	if counted(p) != "3 0 0 0" || !strings.Contains(first.String(), "+ node c\n") || !strings.Contains(first.String(), "+ edge a → b\n") || !strings.Contains(first.String(), "+ edge b → c\n") {
		t.Errorf("the first plan: %s\n%s", counted(p), first.String())
	}
	for _, r := range results {
		if !r.Done {
			t.Fatalf("%s %s: %v", r.Kind, r.Key, r.Err)
		}
	}
	again, _ := applyText(t, c, flows, "etl")
	if counted(again) != "0 0 0 3" {
		var b strings.Builder
		again.Render(&b)
		t.Errorf("applied again: %s", b.String())
	}
	if w, err := c.Workflow(t.Context(), "key:inner"); err != nil || w.Status != "PAUSED" || w.Version != 1 {
		t.Errorf("inner: %+v, %v", w, err)
	}

	// What is exported applies without a change.
	var d declare.Declared
	for _, key := range []string{"outer", "inner"} {
		w, err := c.Workflow(t.Context(), "key:"+key)
		if err != nil {
			t.Fatal(err)
		}
		d.Workflows = append(d.Workflows, declare.OfWorkflow(w))
	}
	var out bytes.Buffer
	if err := declare.Write(&out, d); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "geheim") {
		t.Errorf("a credential is exported:\n%s", out.String())
	}
	if p, _ := applyText(t, c, out.String(), ""); counted(p) != "0 0 0 2" {
		t.Errorf("what was exported would change something: %s\n%s", counted(p), out.String())
	}

	// A plan names nodes and edges.
	other := strings.NewReplacer("depends_on: [b], wait", "depends_on: [a], wait", "max_parallel: 2,", "max_parallel: 9,", "timeout: 2h", "timeout: 3h", "paused: true", "paused: false",
		"      - {key: a, job_id: \"key:plain\", payload_override: {n: 1}}", "      - {key: z, execution: {target: simulate, work_kind: noop}}").Replace(flows)
	p, results = applyText(t, c, other, "")
	var b strings.Builder
	p.Render(&b)
	for _, line := range []string{"~ change workflow outer", `timeout: "2h" → "3h"`, "~ node b: max_parallel\n", "+ edge a → c", "- edge b → c", "+ node z", "- node a", "paused: true → false", "0 to create, 2 to change"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("the plan lacks %q:\n%s", line, b.String())
		}
	}
	for _, r := range results {
		if !r.Done {
			t.Errorf("%s %s: %v", r.Kind, r.Key, r.Err)
		}
	}
	if p, _ := applyText(t, c, other, ""); counted(p) != "0 0 0 3" {
		t.Errorf("applied again: %s", counted(p))
	}

	// What is taken out of the files is pruned, jobs behind the workflows that used them.
	without := other[:strings.Index(other, "  - key: inner")]
	without = strings.Replace(without, `job_id: "key:inner"`, "execution: {target: simulate, work_kind: noop}", 1)
	p, results = applyText(t, c, without, "etl")
	if counted(p) != "0 1 2 0" {
		t.Errorf("prune: %s", counted(p))
	}
	for _, r := range results {
		if !r.Done {
			t.Errorf("%s %s: %v", r.Kind, r.Key, r.Err)
		}
	}
}

func TestBadWorkflowsInFiles(t *testing.T) {
	_, c := newServer(t)
	for text, want := range map[string]string{
		"workflows:\n  - name: a\n    nodes: []":                                                    "workflows[0].key",
		"workflows:\n  - {key: a, name: a, nodes: [{key: x}]}":                                      "workflows[0].nodes[0]",
		"workflows:\n  - {key: a, name: a, nodes: [{key: x, job_id: 'key:nobody'}]}":                "workflows[0].nodes[0].job_id",
		"workflows:\n  - {key: a, name: a, nodes: [{key: x, nonsense: 1}]}":                         "workflows[0].nodes[0].nonsense",
		"jobs:\n  - {key: a, name: a, execution: {}}\nworkflows:\n  - {key: a, name: a, nodes: []}": "workflows[0].key",
	} {
		d, err := declare.Read(strings.NewReader(text), "-")
		if err == nil {
			_, err = declare.Make(t.Context(), c, d, "")
		}
		var wrong declare.Problems
		if !errors.As(err, &wrong) || wrong[0].Field != want || wrong[0].Want == "" || wrong[0].Line == 0 {
			t.Errorf("%s: %v; want a problem with %s", text, err, want)
		}
	}
	if page, err := c.ListWorkflows(t.Context(), client.WorkflowFilter{}, client.Page{}); err != nil || len(page.Workflows) != 0 {
		t.Errorf("something was made: %+v, %v", page, err)
	}
}
