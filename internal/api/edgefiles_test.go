package api_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/declare"
)

// chained is a file of jobs that run after others, which come later in it.
const chained = `
jobs:
  - {key: report, name: report, tags: [etl], depends_on: [flow, {job: "key:load"}], condition: always, execution: {target: simulate, work_kind: noop}}
  - {key: load, name: load, tags: [etl], depends_on: [extract], schedule: {type: INTERVAL, every: 1h}, execution: {target: simulate, work_kind: noop}}
  - {key: extract, name: extract, tags: [etl], schedule: {type: MANUAL}, execution: {target: simulate, work_kind: noop}}
workflows:
  - {key: flow, name: flow, tags: [etl], depends_on: ["key:load"], nodes: [{key: x, execution: {target: simulate, work_kind: noop}}]}
`

// rendered is a plan as people see it.
func rendered(p declare.Plan) string {
	var b strings.Builder
	p.Render(&b)
	return b.String()
}

// applied applies a file, all of which must be done.
func applied(t *testing.T, c *client.Client, text, prune string) string {
	t.Helper()
	p, results := applyText(t, c, text, prune)
	for _, r := range results {
		if !r.Done {
			t.Errorf("%s %s: %v\n%s", r.Kind, r.Key, r.Err, rendered(p))
		}
	}
	return rendered(p)
}

// exported returns the file that carillon job export writes for jobs and workflows.
func exported(t *testing.T, c *client.Client, keys ...string) string {
	t.Helper()
	var d declare.Declared
	for _, key := range keys {
		j := must(c.Job(t.Context(), "key:"+key))
		after := declare.OfDependencies(must(c.JobDependencies(t.Context(), j.JobID)))
		if j.Execution.Target == "workflow" {
			flow := declare.OfWorkflow(must(c.Workflow(t.Context(), j.JobID)))
			flow.After = after
			d.Workflows = append(d.Workflows, flow)
			continue
		}
		plain := declare.Of(j)
		plain.After = after
		d.Jobs = append(d.Jobs, plain)
	}
	var b bytes.Buffer
	if err := declare.Write(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func expectLines(t *testing.T, what, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("%s lacks %q:\n%s", what, line, text)
		}
	}
}

func TestDependenciesInFiles(t *testing.T) {
	f, c := newServer(t)
	expectLines(t, "the first plan", applied(t, c, chained, ""), "+ create job report", "~ change dependencies of report\n      + edge flow → report\n      + edge load → report\n", "+ edge extract → load", "+ edge load → flow", "4 to create, 3 to change")
	d := must(c.JobDependencies(t.Context(), "key:report"))
	if len(d.DependsOn) != 2 || *d.DependsOn[0].Key != "flow" || *d.Condition != "always" {
		t.Errorf("report: %s", encoded(d))
	}
	if load := must(c.JobDependencies(t.Context(), "key:load")); len(load.Dependants) != 2 || load.Dependants[0].Name == "" {
		t.Errorf("load: %s", encoded(load))
	}
	if j := must(c.Job(t.Context(), "key:report")); j.Schedule.Type != "MANUAL" || j.Stats.TotalRuns != 0 || len(j.DependsOn) != 2 {
		t.Errorf("report: %s", encoded(j))
	}
	for name, text := range map[string]string{"again": chained, "what was exported": exported(t, c, "report", "load", "extract", "flow")} {
		if got := applied(t, c, text, "etl"); got != "Nothing would change: 4 are as declared.\n" {
			t.Errorf("%s: %s\n%s", name, got, text)
		}
	}

	// Edges that turn around never make a cycle on the way. One that is exported by its id has no key.
	plain := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "plain", "schedule": {"type": "MANUAL"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
	turned := strings.NewReplacer(`depends_on: [flow, {job: "key:load"}], condition: always, `, "", "depends_on: [extract], ", "depends_on: [flow], ", `depends_on: ["key:load"], `, `depends_on: [report, {job: `+plain.JobID+`}], condition: failure, `).Replace(chained)
	expectLines(t, "the plan of a turn", applied(t, c, turned, ""), "- edge flow → report", "- edge load → report", "- edge extract → load", "+ edge flow → load", "+ edge report → flow", "+ edge "+plain.JobID+" → flow", "- edge load → flow", "condition: success → failure")
	text := exported(t, c, "report", "load", "extract", "flow")
	expectLines(t, "the export", text, `depends_on: ["report",{"job":"`+plain.JobID+`"}]`, "condition: failure", "depends_on: [flow]")
	if got := applied(t, c, text, ""); got != "Nothing would change: 4 are as declared.\n" && !strings.Contains(got, "schedule.type") {
		t.Errorf("what was exported: %s\n%s", got, text)
	}

	// What is no longer in the files is pruned, also jobs on which others depended, and those first that depended on them.
	left := turned[:strings.Index(turned, "  - {key: load")] + "  - {key: extract, name: extract, tags: [etl], schedule: {type: MANUAL}, depends_on: [report], execution: {target: simulate, work_kind: noop}}\n"
	expectLines(t, "the plan to prune", applied(t, c, left, "etl"), "- delete job load", "- delete job flow", "+ edge report → extract", "0 to create, 1 to change, 2 to delete")
	want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"key": "other", "name": "other", "tags": ["etl"], "schedule": {"type": "MANUAL"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
	if _, err := declare.Make(t.Context(), c, readText(t, strings.Replace(left, "[report]", "[other]", 1)), "etl"); err == nil || !strings.Contains(err.Error(), "want a job that --prune does not delete") {
		t.Errorf("a job that is pruned: %v", err)
	}
}

// Somebody else's change is not overwritten, and a job that could not be changed gets no dependencies.
func TestDependenciesThatSomebodyElseChanges(t *testing.T) {
	f, c := newServer(t)
	applied(t, c, chained, "")
	other := strings.Replace(chained, "depends_on: [extract], ", "", 1)
	p := must(declare.Make(t.Context(), c, readText(t, other), ""))
	want[client.Job](f, 200, "PATCH", "/api/v1/jobs/key:load", `{"priority": 3}`)
	results := declare.Apply(t.Context(), c, p, func(declare.Result) {})
	var failed []string
	for _, r := range results {
		if !r.Done {
			failed = append(failed, r.Kind+" "+r.Key)
			if !errors.Is(r.Err, client.ErrConflict) {
				t.Errorf("%s %s: %v", r.Kind, r.Key, r.Err)
			}
		}
	}
	if got := strings.Join(failed, ", "); got != "dependencies load" {
		t.Errorf("failed: %s", got)
	}
	if d := must(c.JobDependencies(t.Context(), "key:load")); len(d.DependsOn) != 1 {
		t.Errorf("load: %s", encoded(d))
	}
}

func TestBadDependenciesInFiles(t *testing.T) {
	_, c := newServer(t)
	applied(t, c, "jobs:\n  - {key: on-server, name: x, schedule: {type: MANUAL}, execution: {target: simulate, work_kind: noop}}\n  - {key: above, name: x, depends_on: [on-server], execution: {target: simulate, work_kind: noop}}", "")
	job := func(key, more string) string {
		return "  - {key: " + key + ", name: n, execution: {target: simulate, work_kind: noop}, " + more + "}\n"
	}
	many := "depends_on: [" + strings.Repeat("a, ", 101) + "]"
	for text, want := range map[string]declare.Problem{
		job("a", "depends_on: [nobody]"):                          {Line: 2, Field: "jobs[0].depends_on[0]", Value: `"nobody"`},
		job("a", "depends_on: [on-server, 5]"):                    {Line: 2, Field: "jobs[0].depends_on[1]", Value: "5"},
		job("a", "depends_on: [{jobb: x}]"):                       {Line: 2, Field: "jobs[0].depends_on[0]", Value: `{"jobb":"x"}`},
		job("a", `depends_on: [""]`):                              {Line: 2, Field: "jobs[0].depends_on[0]", Value: `""`},
		job("a", "depends_on: [{job: x/../y}]"):                   {Line: 2, Field: "jobs[0].depends_on[0]", Value: `{"job":"x/../y"}`},
		job("a", "depends_on: [on-server, on-server]"):            {Line: 2, Field: "jobs[0].depends_on[1]", Value: `"on-server"`},
		job("a", "depends_on: [a]"):                               {Line: 2, Field: "jobs[0].depends_on", Value: "a → a"},
		job("b", "depends_on: [a]") + job("a", "depends_on: [b]"): {Line: 2, Field: "jobs[0].depends_on", Value: "b → a → b"},
		job("a", "") + job("on-server", "depends_on: [above]"):    {Line: 3, Field: "jobs[1].depends_on", Value: "on-server → above → on-server"},
		job("a", "depends_on: [on-server], condition: maybe"):     {Line: 2, Field: "jobs[0].condition", Value: `"maybe"`},
		job("a", "condition: failure"):                            {Line: 2, Field: "jobs[0].condition", Value: `"failure"`},
		job("a", many):                                            {Line: 2, Field: "jobs[0].depends_on", Value: "101 jobs"},
	} {
		d, err := declare.Read(strings.NewReader("jobs:\n"+text), "-")
		if err == nil {
			_, err = declare.Make(t.Context(), c, d, "")
		}
		var wrong declare.Problems
		if !errors.As(err, &wrong) || wrong[0].Want == "" {
			t.Errorf("%s: %v; want %+v", text, err, want)
			continue
		}
		got := wrong[0]
		got.Want, got.File = "", ""
		if got != want {
			t.Errorf("%s: %+v; want %+v", text, got, want)
		}
	}
}
