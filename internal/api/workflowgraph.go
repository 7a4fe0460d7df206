package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/layout"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
)

const svgType = "image/svg+xml"

var workflowGraphParams = []param{
	{"version", "integer", "An older version of the definition; the current one when omitted."},
	{"direction", "string", "Where edges point to: right (the default), or down."},
}

// graphRoutes lists the calls that draw workflows.
func (s workflowAPI) graphRoutes() []route {
	return []route{{
		method: "GET", path: "/api/v1/workflows/{id}/graph", needs: tenant.Read, group: "Workflows", summary: "Read how a workflow is drawn",
		detail: "The places of nodes and the courses of edges, in pixels. With Accept: image/svg+xml the response is an image, in the colours that the reader's system prefers, light or dark. The same version is always drawn in the same way.",
		params: workflowGraphParams, status: 200, answer: of[client.WorkflowGraph](), handle: s.graph,
	}}
}

func (s workflowAPI) graph(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, workflowGraphParams)
	if err != nil {
		return err
	}
	version := q.number("version", 0, 1, 1<<31-1)
	direction := layout.Right
	switch text := q.text("direction"); text {
	case "", string(layout.Right):
	case string(layout.Down):
		direction = layout.Down
	default:
		q.wrong("direction", text, "right or down")
	}
	if err := q.err(); err != nil {
		return err
	}
	f, err := s.service.Workflow(r.Context(), p, ref, version)
	if err != nil {
		return err
	}
	w.Header().Set("Vary", "Accept")
	svg := strings.Contains(r.Header.Get("Accept"), svgType)
	stored := f.Version.Layout
	if direction != layout.Right {
		stored = nil
	}
	if len(stored) > 0 && !svg {
		return replyRaw(w, 200, stored)
	}
	drawn, err := drawnAs(stored, f.Graph, direction)
	if err != nil {
		return err
	}
	if !svg {
		return reply(w, 200, drawn)
	}
	w.Header().Set("Content-Type", svgType)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	w.Write(layout.SVG(drawn, f.Name, nil)) // an error here means that the caller has gone
	return nil
}

// drawnAs is the layout that is stored, or computed if none is.
func drawnAs(stored []byte, d workflow.Definition, direction layout.Direction) (*layout.Layout, error) {
	if len(stored) == 0 {
		return layout.Compute(layout.Of(d), layout.Pixels(direction))
	}
	var out layout.Layout
	if err := json.Unmarshal(stored, &out); err != nil {
		return nil, fmt.Errorf("read the layout of a workflow: %w", err)
	}
	return &out, nil
}
