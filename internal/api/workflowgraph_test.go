package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/layout"
)

func TestWorkflowGraph(t *testing.T) {
	f := newFace(t)
	simulate := `"execution": {"target": "simulate", "work_kind": "noop"}`
	node := func(key, more string) string { return `{"key": "` + key + `", ` + more + simulate + `}` }
	want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"key": "drawn", "name": "<drawn>", "nodes": [`+node("a", "")+`,`+node("b", `"depends_on": ["a"], "map": [1, 2], `)+`,`+node("c", `"depends_on": ["a", "b"], `)+`]}`)
	path := "/api/v1/workflows/key:drawn/graph"

	g := want[client.WorkflowGraph](f, 200, "GET", path, "")
	if len(g.Nodes) != 3 || len(g.Edges) != 3 || g.Direction != "right" || g.Layers != 3 || g.Width == 0 || g.Height == 0 {
		t.Errorf("the graph: %+v", g)
	}
	if b := g.Nodes[1]; b.Key != "b" || b.Layer != 1 || b.Kind != "simulate" || strings.Join(b.Marks, ",") != "map" {
		t.Errorf("its second node: %+v", b)
	}
	if down := want[client.WorkflowGraph](f, 200, "GET", path+"?direction=down&version=1", ""); down.Direction != "down" || down.Nodes[2].Y <= down.Nodes[1].Y {
		t.Errorf("downwards: %+v", down)
	}

	image := f.ask("GET", path, "", "Accept", "image/svg+xml")
	if image.Code != 200 || image.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(image.Body.String(), "<svg ") || strings.Contains(image.Body.String(), "<drawn>") {
		t.Errorf("the image: %d %v %s", image.Code, image.Header(), image.Body)
	}
	if v := image.Header().Get("Vary"); !strings.Contains(v, "Accept") {
		t.Errorf("Vary is %q: caches would mix the two forms", v)
	}

	var stored layout.Layout
	if err := json.Unmarshal(f.ask("GET", path, "").Body.Bytes(), &stored); err != nil {
		t.Fatal(err)
	}
	if got, want := image.Body.String(), string(layout.SVG(&stored, "<drawn>", nil)); got != want {
		t.Errorf("the image is\n%s\nand of what is stored\n%s", got, want)
	}

	// A version is drawn as it was.
	want[client.Workflow](f, 200, "PATCH", "/api/v1/workflows/key:drawn", `{"nodes": [`+node("alone", "")+`]}`)
	if now, then := want[client.WorkflowGraph](f, 200, "GET", path, ""), want[client.WorkflowGraph](f, 200, "GET", path+"?version=1", ""); len(now.Nodes) != 1 || len(now.Edges) != 0 || now.Edges == nil || len(then.Nodes) != 3 {
		t.Errorf("now %+v, then %+v", now, then)
	}
	if p := want[client.Problem](f, 400, "GET", path+"?direction=up", ""); len(p.Errors) != 1 || p.Errors[0].Field != "direction" || p.Errors[0].Want != "right or down" {
		t.Errorf("a bad direction: %+v", p)
	}
	want[client.Problem](f, 404, "GET", path+"?version=9", "")
	want[client.Problem](f, 404, "GET", "/api/v1/workflows/key:none/graph", "")
}
