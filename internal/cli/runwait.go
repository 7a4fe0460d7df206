package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/layout"
)

// input holds the flags for the input of a run.
type input struct{ text, file string }

func (i *input) flags(c *cobra.Command, what string) {
	c.Flags().StringVar(&i.text, "input", "", what+": text, @file, or - for standard input")
	c.Flags().StringVar(&i.file, "input-file", "", "file with the JSON of --input")
}

// read returns the input; nil: none was given.
func (i input) read(s *session) ([]byte, error) {
	switch {
	case i.file != "" && i.text != "":
		return nil, usage{errors.New("--input and --input-file are both given; want one of them")}
	case i.file != "":
		return s.payload("@"+i.file, "--input-file")
	case i.text != "":
		return s.payload(i.text, "--input")
	}
	return nil, nil
}

func (s workflowCommands) workflowTrigger() *cobra.Command {
	var w write
	var in input
	var unique, once string
	var wait bool
	c := &cobra.Command{
		Use: "trigger WORKFLOW", Aliases: []string{"run"}, Short: "Begin a run of a workflow",
		Example: "  carillon workflow trigger etl --wait\n  carillon workflow trigger etl --input '{\"day\": \"2026-01-31\"}'\n  carillon workflow trigger etl --input-file input.json --unique-key 2026-01-31",
	}
	in.flags(c, "JSON to use as the input of the run")
	c.Flags().StringVar(&unique, "unique-key", "", "while a run with the same key has not ended, begin no other")
	c.Flags().StringVar(&once, "idempotency-key", "", "a repeated request with this key within 24 hours begins nothing")
	c.Flags().BoolVar(&wait, "wait", false, "watch the run until it has ended; exit with 7 unless it succeeded")
	w.flags(c)
	return s.looking(c, func(ctx context.Context, c *client.Client, x client.Workflow) error {
		data, err := in.read(s.session)
		if err != nil {
			return err
		}
		r := client.WorkflowTrigger{Input: data, UniqueKey: unique}
		if w.dryRun {
			return s.would("begin a run of the workflow "+x.Name+" ("+x.WorkflowID+")", r)
		}
		if once != "" {
			ctx = client.WithIdempotencyKey(ctx, once)
		}
		t, err := c.TriggerWorkflow(ctx, x.WorkflowID, r)
		if err != nil {
			return err
		}
		if t.Deduplicated {
			s.say("Nothing was started: the run %s holds the unique key and has not ended.", t.WorkflowRunID)
		} else {
			s.say("Run %s of %s", t.WorkflowRunID, line(x.Name))
		}
		s.link("/workflow-runs/" + t.WorkflowRunID)
		if wait {
			return s.awaitRun(ctx, c, t.WorkflowRunID, true, false)
		}
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			_, err := fmt.Fprintln(s.out, t.WorkflowRunID)
			return err
		}
		return s.value(t)
	})
}

// awaitRun waits for a run, and shows its progress and its end; with draw as a graph, if there is a terminal.
func (s *session) awaitRun(ctx context.Context, c *client.Client, id string, draw, ascii bool) error {
	var nodes []layout.Node
	version := 0
	p := panel{progress: progress{s: s}, drawing: newDrawing(s.err, ascii)}
	f, _ := s.err.(*os.File)
	if f != nil {
		_, p.rows = terminalWidth(f)
	}
	draw = draw && !s.quiet && drawable(s.err)
	asked := map[string]bool{}
	r, err := c.WaitForWorkflowRun(ctx, id, func(r client.WorkflowRun) {
		if draw && version != r.Version { // a retry may continue with another version
			nodes, version = nil, r.Version
			if found, err := drawnNodes(ctx, c, r); err == nil {
				nodes = found
			}
		}
		p.show(nodes, r)
		for _, n := range r.Nodes {
			if n.Wait != nil && n.Wait.Kind == "approval" && n.Status == "RUNNING" && !asked[n.Key] && !draw {
				asked[n.Key] = true
				s.say("The node %s waits for an approval: carillon run approve %s %s", n.Key, r.WorkflowRunID, n.Key)
			}
		}
	})
	p.close()
	if err != nil {
		return err
	}
	if err := s.showRun(r); err != nil {
		return err
	}
	return endOfRun(r)
}

// endOfRun returns the error of a run that did not succeed.
func endOfRun(r client.WorkflowRun) error {
	if r.Status == "SUCCEEDED" {
		return nil
	}
	why := ""
	if r.Error != nil {
		why = ": " + cut(line(headline(r.Error.Message)), 300)
	}
	return lost{fmt.Errorf("the run ended as %s%s\n  do: 'carillon run explain %s' says why, 'carillon run retry %s' runs the failed nodes again", r.Status, why, r.WorkflowRunID, r.WorkflowRunID)}
}

// panel shows the progress of a run: on a terminal as a graph that is redrawn, if it fits; else as a line.
type panel struct {
	progress
	drawing
	rows  int // of the terminal
	lines int // that the graph takes
	text  string
}

func (p *panel) show(nodes []layout.Node, r client.WorkflowRun) {
	if nodes == nil {
		p.tell(runLine(r))
		return
	}
	text := runLine(r) + "\n" + p.graph(nodes, nodeStates(r))
	if strings.Count(text, "\n") >= cmp.Or(p.rows, 24) {
		p.wipe()
		p.tell(runLine(r))
		return
	}
	if text == p.text {
		return
	}
	p.wipe()
	p.end()
	p.last = ""
	fmt.Fprint(p.s.err, text)
	p.text, p.lines = text, strings.Count(text, "\n")
}

// wipe removes the graph.
func (p *panel) wipe() {
	if p.lines > 0 {
		fmt.Fprintf(p.s.err, "\x1b[%dA\r\x1b[J", p.lines)
	}
	p.text, p.lines = "", 0
}

// close leaves the graph in its last state, and wipes the line.
func (p *panel) close() { p.end() }

// runLine describes the state of a run, in a line.
func runLine(r client.WorkflowRun) string {
	ended := 0
	var live []string
	for _, n := range r.Nodes {
		switch {
		case client.Final(n.Status) || n.Status == "NOT_RUN":
			ended++
		case n.Status != "WAITING":
			live = append(live, strings.TrimSpace(n.Key+" "+mapWords(n.Map)))
		}
	}
	text := fmt.Sprintf("%s, %d of %d nodes ended", r.Status, ended, len(r.Nodes))
	if more := len(live) - 5; more > 0 {
		live = append(live[:5], fmt.Sprintf("and %d more", more))
	}
	if len(live) > 0 {
		text += ": " + strings.Join(live, ", ")
	}
	return text
}
