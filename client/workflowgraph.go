package client

import (
	"context"
	"net/url"
	"strconv"
)

// WorkflowGraph is the drawing of a workflow, in pixels.
type WorkflowGraph struct {
	Width     int                 `json:"width"`
	Height    int                 `json:"height"`
	Direction string              `json:"direction" enum:"right,down" doc:"Where edges point to."`
	Layers    int                 `json:"layers" doc:"How many columns there are, or rows where edges point down."`
	Nodes     []WorkflowGraphNode `json:"nodes" doc:"In the order of the definition."`
	Edges     []WorkflowGraphEdge `json:"edges"`
	Finally   *WorkflowGraphArea  `json:"finally,omitempty" doc:"Around the finally nodes."`
}

// WorkflowGraphNode is the place of a node.
type WorkflowGraphNode struct {
	Key     string   `json:"key"`
	X       int      `json:"x" doc:"The left border."`
	Y       int      `json:"y" doc:"The upper border."`
	W       int      `json:"w"`
	H       int      `json:"h"`
	Layer   int      `json:"layer"`
	Kind    string   `json:"kind,omitempty" doc:"What it runs: a target, job, approval, timer or event."`
	Text    string   `json:"text,omitempty" doc:"The same in a few words."`
	Marks   []string `json:"marks,omitempty" doc:"What is special: map, if, or the trigger unless it is all_success."`
	Finally bool     `json:"finally,omitempty"`
}

// WorkflowGraphEdge is the path of an edge, from the border of a parent to that of its child.
type WorkflowGraphEdge struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Points [][]int `json:"points" doc:"Pairs of x and y."`
}

// WorkflowGraphArea is a rectangle.
type WorkflowGraphArea struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// WorkflowGraph reads the drawing of a version of a workflow; 0 is the current version. The direction is right or
// down; empty is right.
func (c *Client) WorkflowGraph(ctx context.Context, ref string, version int, direction string) (WorkflowGraph, error) {
	q := url.Values{}
	if version > 0 {
		q.Set("version", strconv.Itoa(version))
	}
	if direction != "" {
		q.Set("direction", direction)
	}
	path := "/workflows/" + seg(ref) + "/graph"
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return get[WorkflowGraph](ctx, c, path)
}
