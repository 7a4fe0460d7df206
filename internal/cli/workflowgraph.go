package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/layout"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/declare"
)

func (s workflowCommands) workflowGraph() *cobra.Command {
	var version int
	var ascii, svg bool
	var file string
	c := &cobra.Command{
		Use: "graph [WORKFLOW]", Short: "Draw a workflow in the terminal, or as SVG", Args: cobra.MaximumNArgs(1),
		Example: "  carillon workflow graph etl\n  carillon workflow graph etl --version 3 --ascii\n  carillon workflow graph -f etl.yaml\n  carillon workflow graph etl --svg > etl.svg",
		Long: "Draw a workflow in the terminal, from left to right or, if that is too wide, as a tree. With -f, draw one from a file, without a server; if the file has several, name one by its key. " +
			"With -o json: its layout in pixels.",
	}
	c.Flags().IntVar(&version, "version", 0, "an older version of its definition")
	c.Flags().StringVarP(&file, "file", "f", "", "draw a workflow of this file, or - for standard input")
	c.Flags().BoolVar(&ascii, "ascii", false, "draw with ASCII characters only")
	c.Flags().BoolVar(&svg, "svg", false, "write an SVG image")
	completeArgs(c, s.workflowNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		var name string
		var nodes []client.WorkflowNode
		switch {
		case file != "" && version != 0:
			return usage{errors.New("--version is of a workflow on the server; want no -f")}
		case file != "":
			w, err := s.workflowOf(file, args)
			if err != nil {
				return err
			}
			name, nodes = w.Name, w.Nodes
		case len(args) == 0:
			return usage{errors.New("nothing to draw; want a workflow, or -f FILE")}
		default:
			w, err := findWorkflow(ctx, c, args[0])
			if err == nil && version != 0 {
				w, err = workflowAt(ctx, c, w, version)
			}
			if err != nil {
				return err
			}
			name, nodes = w.Name, w.Nodes
		}
		return s.drawGraph(name, nodes, ascii, svg)
	})
	return c
}

// workflowOf finds a workflow in a file: the only one, or the one with the given key.
func (s workflowCommands) workflowOf(file string, key []string) (client.WorkflowRequest, error) {
	d, err := declare.Read(s.in, file)
	if err != nil {
		return client.WorkflowRequest{}, usage{err}
	}
	for _, w := range d.Workflows {
		if len(key) == 0 && len(d.Workflows) == 1 || len(key) == 1 && *w.Key == key[0] {
			return w.WorkflowRequest, nil
		}
	}
	if len(key) == 1 {
		return client.WorkflowRequest{}, missing{fmt.Errorf("%s has no workflow with the key %q", file, key[0])}
	}
	return client.WorkflowRequest{}, usage{fmt.Errorf("%s has %s; want the key of one", file, counting(int64(len(d.Workflows)), "workflow"))}
}

func (s workflowCommands) drawGraph(name string, nodes []client.WorkflowNode, ascii, svg bool) error {
	doc, err := json.Marshal(map[string]any{"nodes": nodes})
	if err != nil {
		return err
	}
	var d workflow.Definition
	if err := json.Unmarshal(doc, &d); err != nil {
		return usage{err}
	}
	drawn := layout.Of(d)
	for i := range drawn {
		drawn[i].Text = plain(drawn[i].Text)
	}
	if !svg && (s.output == "table" || s.output == "wide") {
		if _, err := layout.Compute(drawn, layout.Pixels(layout.Right)); err != nil { // a cycle, or a parent that does not exist
			return usage{err}
		}
		_, err := fmt.Fprint(s.out, newDrawing(s.out, ascii).graph(drawn, nil))
		return err
	}
	if s.output == "name" && !svg {
		for _, n := range drawn {
			if _, err := fmt.Fprintln(s.out, plain(n.Key)); err != nil {
				return err
			}
		}
		return nil
	}
	l, err := layout.Compute(drawn, layout.Pixels(layout.Right))
	if err != nil {
		return usage{err}
	}
	if svg {
		_, err := s.out.Write(layout.SVG(l, name, nil))
		return err
	}
	return s.value(l)
}

// drawn returns the nodes of a graph, for a drawing.
func drawn(g client.WorkflowGraph) []layout.Node {
	after := map[string][]string{}
	for _, e := range g.Edges {
		after[e.To] = append(after[e.To], e.From)
	}
	out := make([]layout.Node, len(g.Nodes))
	for i, n := range g.Nodes {
		out[i] = layout.Node{Key: n.Key, After: after[n.Key], Kind: n.Kind, Text: plain(n.Text), Marks: n.Marks, Finally: n.Finally}
	}
	return out
}
