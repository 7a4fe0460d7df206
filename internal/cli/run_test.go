package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

const runFile = `
workflows:
  - key: cli-run
    name: Publish
    input_schema: {type: object, properties: {day: {type: string}}}
    output: run.input
    nodes:
      - {key: list, execution: {target: simulate, work_kind: noop}}
      - {key: load, depends_on: [list], map: [a, b, c], execution: {target: simulate, work_kind: noop}}
      - {key: ok, depends_on: [load], wait: {approval: {schema: {type: object, required: [limit]}}}}
      - {key: publish, depends_on: [ok], execution: {target: simulate, work_kind: noop}}
  - key: cli-fails
    name: Fails
    nodes:
      - {key: good, execution: {target: simulate, work_kind: noop}}
      - {key: bad, depends_on: [good], execution: {target: simulate, work_kind: fail_permanent}, retry_policy: {max_retries: 0}}
      - {key: after, depends_on: [bad], execution: {target: simulate, work_kind: noop}}
  - key: cli-waits
    name: Waits
    nodes:
      - {key: paid, wait: {event: cli.paid, match: run.input.order}}
      - {key: many, map: 50, max_parallel: 1, execution: {target: simulate, work_kind: hang}}
      - {key: clean, finally: true, execution: {target: simulate, work_kind: noop}}
`

// node waits until a node of a run has a status, and returns the run.
func (c *console) node(run, key string, status ...string) client.WorkflowRun {
	c.Helper()
	for began := time.Now(); ; <-time.After(20 * time.Millisecond) {
		r := read[client.WorkflowRun](c, "run", "get", run)
		for _, n := range r.Nodes {
			for _, s := range status {
				if n.Key == key && n.Status == s {
					return r
				}
			}
		}
		if time.Since(began) > time.Minute {
			c.Fatalf("the node %s never was %q: %+v", key, status, r)
		}
	}
}

func TestARunFromTheCommandLine(t *testing.T) {
	c := at(t, "--server", devServer(t))
	c.ok("workflow", "apply", "-f", writeFile(t, runFile))
	c.fails(notFound, "has no runs yet", "run", "get", "cli-run")
	c.ok("workflow", "trigger", "cli-run", "--dry-run")
	c.fails(misuse, "--input", "workflow", "trigger", "cli-run", "--input", "{")
	c.fails(misuse, "want one of them", "workflow", "trigger", "cli-run", "--input", "{}", "--input-file", "x")
	c.fails(misuse, "want", "workflow", "trigger", "cli-run", "--input", `{"day": 7}`)
	id := c.ok("workflow", "trigger", "cli-run", "--input-file", writeFile(t, `{"day": "2026-01-31"}`), "--unique-key", "day")
	if !uuid.MatchString(id) || !strings.Contains(c.err, "Dashboard: "+devServer(t)+"/workflow-runs/"+id) {
		t.Errorf("%q, %q", id, c.err)
	}
	if again := c.ok("workflow", "trigger", "cli-run", "--input", `{"day": "2026-01-31"}`, "--unique-key", "day"); again != id || !strings.Contains(c.err, "Nothing was started") {
		t.Errorf("again: %q, %q", again, c.err)
	}
	r := c.node(id, "ok", "RUNNING")
	if r.WorkflowRunID != id || payloadWords(r.Input) != `{"day":"2026-01-31"}` {
		t.Errorf("run: %+v", r)
	}
	if out := c.ok("run", "get", id); !strings.Contains(out, "Workflow       Publish (") || !strings.Contains(out, "3/3") {
		t.Errorf("get:\n%s", out)
	}
	if out := c.ok("run", "list", "--workflow", "cli-run", "--status", "running", "-o", "name"); out != id {
		t.Errorf("list: %q", out)
	}
	if out := c.ok("run", "items", id, "load", "--limit", "2"); strings.Count(out, "SUCCEEDED") != 2 || !strings.Contains(c.err, "Only the first 2 shown") {
		t.Errorf("items:\n%s%s", out, c.err)
	}
	if out := c.ok("run", "explain", id); !strings.Contains(out, "ok (RUNNING): ") {
		t.Errorf("explain:\n%s", out)
	}
	if out := c.ok("run", "gantt", id, "--ascii"); !strings.Contains(out, "list") || !strings.Contains(out, "~ approval, timer or event") {
		t.Errorf("gantt:\n%s", out)
	}
	if out := c.ok("approvals", "-o", "name"); !strings.Contains(out, id+" ok") {
		t.Errorf("approvals: %q", out)
	}
	if out := c.ok("approvals"); !strings.Contains(out, "0 of 1") || !strings.Contains(c.err, "carillon run approve RUN NODE") {
		t.Errorf("approvals:\n%s%s", out, c.err)
	}
	c.fails(misuse, "data: want", "run", "approve", id)
	if out := c.ok("run", "approve", "cli-run", "--data", `{"limit": 5}`, "--dry-run"); !strings.Contains(out, "ok       RUNNING") {
		t.Errorf("dry run:\n%s", out)
	}
	c.ok("run", "approve", "cli-run", "--data", `{"limit": 5}`, "--comment", "fine")
	if !strings.Contains(c.err, "Approved ok; the run "+id+" of Publish is RUNNING.") && !strings.Contains(c.err, "is SUCCEEDED") {
		t.Errorf("approved: %s", c.err)
	}
	c.fails(conflict, "already", "run", "approve", id, "ok", "--data", `{"limit": 5}`)
	c.ok("run", "watch", id)
	if !strings.Contains(c.out, "Status         SUCCEEDED") || !strings.Contains(c.out, `"2026-01-31"`) || !strings.Contains(c.err, "4 of 4 nodes ended") {
		t.Errorf("watched:\n%s\n%s", c.out, c.err)
	}
	c.fails(notFound, "has no run to cancel", "run", "cancel", "cli-run")
	c.fails(conflict, "", "run", "cancel", id)
	c.fails(notFound, "carillon run list", "run", "get", "0190a6c8-7b3e-7cc0-8a1b-0123456789ab")
}

func TestARunThatFailsFromTheCommandLine(t *testing.T) {
	c := at(t, "--server", devServer(t))
	c.ok("workflow", "apply", "-f", writeFile(t, runFile))
	c.fails(runFailed, "ended as FAILED", "workflow", "trigger", "cli-fails", "--wait")
	if !strings.Contains(c.err, "carillon run retry") {
		t.Errorf("no remedy: %s", c.err)
	}
	c.fails(runFailed, "ended as FAILED", "run", "watch", "cli-fails")
	if out := c.ok("run", "retry", "cli-fails", "--dry-run"); !strings.Contains(out, "bad") || !strings.Contains(out, "after") || strings.Contains(out, "good") || !strings.Contains(c.err, "It would change 2 nodes.") {
		t.Errorf("dry run:\n%s%s", out, c.err)
	}
	c.fails(runFailed, "ended as FAILED", "run", "retry", "cli-fails", "--wait")
	if r := read[client.WorkflowRun](c, "run", "get", "cli-fails"); r.Attempt != 2 {
		t.Errorf("attempt %d, want 2", r.Attempt)
	}
	c.fails(misuse, "--node", "run", "retry", "cli-fails", "--node", "lost")
	c.fails(misuse, "--only is", "run", "retry", "cli-fails", "--only")
	c.fails(notFound, "carillon run get RUN", "run", "mark", "cli-fails", "lost")
	if out := c.ok("run", "explain", "cli-fails"); !strings.Contains(out, "  bad (FAILED): HANDLER_ERROR: ") || strings.Index(out, "bad (FAILED): ") > strings.Index(out, "after (NOT_RUN): ") {
		t.Errorf("explain:\n%s", out)
	}
	c.ok("run", "retry", "cli-fails", "--node", "good", "--only", "--wait", "--dry-run")
	c.ok("run", "mark", "cli-fails", "bad", "--result", `{"n": 1}`)
	c.ok("run", "watch", "cli-fails")
	if r := read[client.WorkflowRun](c, "run", "get", "cli-fails"); r.Attempt != 3 || r.Status != "SUCCEEDED" {
		t.Errorf("marked: %+v", r)
	}
	if changed := read[client.WorkflowRunChanged](c, "run", "retry", "cli-fails", "--node", "bad", "--latest"); changed.Attempt != 4 || len(changed.Changes) != 2 {
		t.Errorf("retried from a node: %+v", changed)
	}
	c.try("run", "watch", "cli-fails")
	c.ok("run", "skip", "cli-fails", "bad")
	c.ok("run", "watch", "cli-fails")
}

func TestARunIsSteeredFromTheCommandLine(t *testing.T) {
	c := at(t, "--server", devServer(t))
	c.ok("workflow", "apply", "-f", writeFile(t, runFile))
	run := c.ok("workflow", "trigger", "cli-waits", "--input", `{"order": "o-17"}`)
	c.node(run, "many", "RUNNING")
	c.ok("run", "limit", "cli-waits", "many", "--max-parallel", "2", "--tolerate", "10%")
	c.fails(misuse, "want --max-parallel or --tolerate", "run", "limit", "cli-waits", "many")
	c.ok("run", "pause", "cli-waits", "--dry-run")
	c.ok("run", "pause", "cli-waits")
	if !strings.Contains(c.err, "is PAUSED") {
		t.Errorf("paused: %s", c.err)
	}
	c.ok("run", "unpause", "cli-waits")
	if id := c.ok("event", "send", "cli.paid", "--match", `"o-17"`, "--dry-run"); !uuid.MatchString(id) || !strings.Contains(c.err, "nothing was sent") {
		t.Errorf("dry run: %q, %s", id, c.err)
	}
	if out := c.ok("event", "send", "cli.paid", "--match", `"o-18"`); out != "" || !strings.Contains(c.err, "No run waits for it now") {
		t.Errorf("of another order: %q, %s", out, c.err)
	}
	if sent := read[client.EventSent](c, "event", "send", "cli.paid", "--match", `"o-17"`, "--payload", `{"amount": 12}`); len(sent.WorkflowRuns) != 1 || sent.EventID == "" {
		t.Errorf("sent: %+v", sent)
	}
	c.node("cli-waits", "paid", "SUCCEEDED")
	if out := c.ok("run", "cancel", "cli-waits", "--reason", "tests"); !strings.Contains(out, "many") {
		t.Errorf("cancelled:\n%s", out)
	}
	c.fails(runFailed, "ended as CANCELLED", "run", "watch", "cli-waits")
	complete := func(args ...string) string {
		t.Helper()
		t.Setenv("CARILLON_SERVER", devServer(t))
		return at(t).try(append([]string{"__complete"}, args...)...).out
	}
	id := read[client.WorkflowRun](c, "run", "get", "cli-waits").WorkflowRunID
	if out := complete("run", "get", id[:20]); !strings.Contains(out, id+"\tWaits, CANCELLED") {
		t.Errorf("runs: %s", out)
	}
	if out := complete("run", "items", id, "m"); !strings.Contains(out, "many\tCANCELLED") || strings.Contains(out, "clean") {
		t.Errorf("nodes that are maps: %s", out)
	}
	if out := complete("run", "retry", id, "--node", "p"); !strings.HasPrefix(out, "paid\t") {
		t.Errorf("nodes: %s", out)
	}
	if out := complete("workflow", "get", "cli-w"); !strings.HasPrefix(out, "cli-waits\tWaits") {
		t.Errorf("workflows: %s", out)
	}
}
