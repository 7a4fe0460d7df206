package api_test

import (
	"os"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// The workflow that the guide shows can be applied as it is, and triggered.
func TestTheWorkflowOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(guide), "```yaml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the guide shows no workflow")
	}
	f, c := newServer(t)
	p, results := applyText(t, c, text, "")
	if counted(p) != "1 0 0 0" {
		t.Errorf("the plan: %s", counted(p))
	}
	for _, r := range results {
		if !r.Done {
			t.Fatalf("%s %s: %v", r.Kind, r.Key, r.Err)
		}
	}
	if run := want[client.WorkflowTriggered](f, 202, "POST", "/api/v1/workflows/key:etl/trigger", "{}"); run.WorkflowRunID == "" {
		t.Errorf("the run: %+v", run)
	}
}
