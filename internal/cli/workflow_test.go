package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/declare"
)

const workflowFile = `
workflows:
  - key: cli-etl
    name: Nightly ETL
    tags: [cli-workflows]
    schedule: {type: CRON, cron_expression: "0 2 * * *", timezone: Europe/Berlin}
    input: {day: "2026-01-31"}
    nodes:
      - {key: list, execution: {target: simulate, work_kind: noop}}
      - {key: load, depends_on: [list], map: 3, execution: {target: simulate, work_kind: noop}}
      - {key: check, depends_on: [list], if: "run.input.day != ''", execution: {target: simulate, work_kind: noop}}
      - {key: sum, depends_on: [load, check], execution: {target: simulate, work_kind: noop}}
      - {key: clean, finally: true, execution: {target: simulate, work_kind: noop}}
`

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWorkflowsFromTheCommandLine(t *testing.T) {
	c := at(t, "--server", devServer(t))
	file := writeFile(t, workflowFile)
	if out := c.ok("workflow", "lint", "-f", file); !strings.HasPrefix(out, "cli-etl, node sum: ") || !strings.Contains(c.err, "1 workflow checked, 1 warning.") {
		t.Errorf("lint: %s%s", out, c.err)
	}
	if found := read[[]declare.Warning](c, "workflow", "lint", "-f", file); len(found) != 1 || found[0].Node != "sum" {
		t.Errorf("lint: %+v", found)
	}
	c.fails(misuse, "nothing to read", "workflow", "lint")
	c.fails(misuse, ":10: workflows[0].nodes[1].depends_on[0] is lost, want the key of a node", "workflow", "lint", "-f", writeFile(t, strings.Replace(workflowFile, "depends_on: [list], map", "depends_on: [lost], map", 1)))

	if out := c.ok("workflow", "apply", "-f", file, "--dry-run"); !strings.Contains(out, "+ node load") {
		t.Errorf("plan: %s", out)
	}
	c.fails(notFound, "", "workflow", "get", "cli-etl")
	c.ok("workflow", "apply", "-f", file)
	w := read[client.Workflow](c, "workflow", "get", "cli-etl")
	for _, ref := range []string{w.WorkflowID, "key:cli-etl", "Nightly ETL"} {
		if got := read[client.Workflow](c, "workflow", "get", ref); got.WorkflowID != w.WorkflowID || len(got.Nodes) != 5 {
			t.Errorf("%s: %+v", ref, got)
		}
	}
	if out := c.ok("workflow", "get", "cli-etl"); !strings.Contains(out, "Nodes         5, 1 of them finally\n") || !strings.Contains(c.err, "Dashboard: "+devServer(t)+"/workflows/"+w.WorkflowID) {
		t.Errorf("get:\n%s%s", out, c.err)
	}
	c.fails(notFound, "carillon workflow list", "workflow", "get", "no such")

	c.ok("workflow", "apply", "-f", writeFile(t, strings.Replace(workflowFile, "map: 3", "map: 4", 1)))
	if out := c.ok("workflow", "versions", "cli-etl", "-o", "name"); out != "2\n1" {
		t.Errorf("versions: %q", out)
	}
	if old := read[client.Workflow](c, "workflow", "get", "cli-etl", "--version", "1"); old.Version != 1 || string(old.Nodes[1].Map) != "3" {
		t.Errorf("version 1: %+v", old)
	}
	c.fails(notFound, "has no version 17; its current one is", "workflow", "get", "cli-etl", "--version", "17")
	c.fails(notFound, "has no version 17", "workflow", "graph", "cli-etl", "--version", "17")

	golden(t, "workflow-graph.txt", c.ok("workflow", "graph", "cli-etl")+"\n")
	if out := c.ok("workflow", "graph", "cli-etl", "--ascii"); strings.ContainsFunc(out, func(r rune) bool { return r > 126 }) {
		t.Errorf("not ASCII:\n%s", out)
	}
	if g := read[client.WorkflowGraph](c, "workflow", "graph", "cli-etl", "--version", "1"); len(g.Nodes) != 5 || len(g.Edges) != 4 {
		t.Errorf("layout: %+v", g)
	}
	if out := c.ok("workflow", "graph", "cli-etl", "-o", "name"); out != "list\nload\ncheck\nsum\nclean" {
		t.Errorf("nodes: %q", out)
	}
	if out := c.ok("workflow", "graph", "cli-etl", "--svg"); !strings.HasPrefix(out, "<svg ") || !strings.Contains(out, ">load<") {
		t.Errorf("SVG: %.200s", out)
	}
	golden(t, "workflow-graph.txt", c.ok("workflow", "graph", "-f", file)+"\n")
	c.ok("workflow", "graph", "-f", file, "cli-etl")
	c.fails(notFound, "no workflow with the key", "workflow", "graph", "-f", file, "other")
	c.fails(misuse, "nothing to draw", "workflow", "graph")
	c.fails(misuse, "lost", "workflow", "graph", "-f", writeFile(t, strings.Replace(workflowFile, "depends_on: [list], map", "depends_on: [lost], map", 1)))
	if all := c.ok("workflow", "list", "--tag", "cli-workflows", "-o", "name"); all != w.WorkflowID {
		t.Errorf("list: %q", all)
	}
	if out := c.ok("workflow", "list", "--query", "nightly etl"); !strings.Contains(out, "0 2 * * * Europe/Berlin") {
		t.Errorf("list:\n%s", out)
	}
	if n := c.ok("workflow", "backfill", "cli-etl", "--from", "-72h", "--to", "now", "--dry-run"); n != "3" && n != "2" && n != "4" {
		t.Errorf("backfill: %q, %s", n, c.err)
	}
	c.fails(misuse, "want --from and --to", "workflow", "backfill", "cli-etl")

	c.ok("workflow", "delete", "cli-etl", "--dry-run")
	c.fails(misuse, "--yes", "workflow", "delete", "cli-etl")
	c.fails(misuse, "want leave or cancel", "workflow", "delete", "cli-etl", "--runs", "stop", "--yes")
	c.ok("workflow", "delete", "cli-etl", "--yes")
	if w := read[client.Workflow](c, "workflow", "get", w.WorkflowID); w.Status != "DELETED" {
		t.Errorf("deleted: %+v", w)
	}
}
