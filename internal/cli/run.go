package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/layout"
)

func (s runCommands) runCommand() *cobra.Command {
	return s.noun(&cobra.Command{
		Use: "run", Aliases: []string{"runs"}, Short: "Watch and control runs of workflows",
		Long: "Watch and control runs of workflows. Commands also take a workflow: those that read show its latest run, retry takes the latest that has ended, the others the one that is in flight, if there is only one.",
	}, s.runList(), s.runGet(), s.runWatch(), s.runGantt(), s.runExplain(), s.runItems(), s.runRetry(), s.runCancel(), s.runPause(), s.runUnpause(), s.runApprove(), s.runReject(), s.runSkip(), s.runMark(), s.runLimit())
}

var runStatuses = []string{"WAITING", "PENDING", "RUNNING", "PAUSED", "CANCELLING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "EXPIRED"}

// inFlight are the states of runs that have not ended.
var inFlight = runStatuses[:5]

// findRun finds the run that a person means: by the id of any of its attempts, or the latest of a workflow.
func (s runCommands) findRun(ctx context.Context, c *client.Client, ref string) (client.WorkflowRun, error) {
	return s.runOf(ctx, c, ref, "", nil, false)
}

// runOf finds the run that a person wants to change: by its id, or the latest of a workflow in one of these states.
// With only, it must be the only one.
func (s runCommands) runOf(ctx context.Context, c *client.Client, ref, verb string, states []string, only bool) (client.WorkflowRun, error) {
	if uuid.MatchString(ref) {
		r, err := c.WorkflowRun(ctx, ref)
		if err == nil || !errors.Is(err, client.ErrNotFound) {
			return r, err
		}
		if _, no := c.Workflow(ctx, ref); no != nil {
			return r, err
		}
	}
	w, err := findWorkflow(ctx, c, ref)
	if err != nil {
		return client.WorkflowRun{}, err
	}
	page, err := c.ListWorkflowRuns(ctx, client.WorkflowRunFilter{Workflow: w.WorkflowID, Status: states}, client.Page{Limit: 2})
	switch {
	case err != nil:
		return client.WorkflowRun{}, err
	case len(page.WorkflowRuns) == 0 && verb == "":
		return client.WorkflowRun{}, missing{fmt.Errorf("the workflow %s has no runs yet\n  do: 'carillon workflow trigger %s' begins one", line(w.Name), line(ref))}
	case len(page.WorkflowRuns) == 0:
		return client.WorkflowRun{}, missing{fmt.Errorf("the workflow %s has no run to %s\n  do: 'carillon run list --workflow %s' lists its runs", line(w.Name), verb, line(ref))}
	case only && len(page.WorkflowRuns) > 1:
		return client.WorkflowRun{}, usage{fmt.Errorf("the workflow %s has several runs to %s; want an id from 'carillon run list --workflow %s'", line(w.Name), verb, line(ref))}
	}
	s.say("Run %s, the latest of %s", page.WorkflowRuns[0].WorkflowRunID, line(w.Name))
	return c.WorkflowRun(ctx, page.WorkflowRuns[0].WorkflowRunID)
}

func (s *session) runNames() names {
	return lookup(s, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListWorkflowRuns(ctx, client.WorkflowRunFilter{}, client.Page{Limit: 50})
		for _, r := range page.WorkflowRuns {
			out = append(out, r.WorkflowRunID+"\t"+r.WorkflowName+", "+r.Status)
		}
		return append(out, s.workflowNames()(ctx, "")...)
	})
}

// completeRun completes a run and then one of its suitable nodes.
func (s runCommands) completeRun(c *cobra.Command, suits func(client.WorkflowRunNode) bool) {
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return s.runNames().complete(cmd, prefix)
		case len(args) == 1 && suits != nil:
			return s.nodeNames(args[0], suits).complete(cmd, prefix)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// nodeNames returns the names of a run's suitable nodes.
func (s runCommands) nodeNames(ref string, suits func(client.WorkflowRunNode) bool) names {
	return lookup(s.session, func(ctx context.Context, c *client.Client) (out []string) {
		quiet := *s.session
		quiet.quiet = true
		r, _ := runCommands{&quiet}.findRun(ctx, c, ref)
		for _, n := range r.Nodes {
			if suits(n) {
				out = append(out, n.Key+"\t"+n.Status)
			}
		}
		return out
	})
}

func took(from, to *time.Time, now time.Time) string {
	if from == nil {
		return ""
	}
	return span(max(0, or(to, now).Sub(*from)))
}

func (s *session) runs() view[client.WorkflowRun] {
	return view[client.WorkflowRun]{columns[client.WorkflowRun](
		col("ID", func(r client.WorkflowRun) string { return r.WorkflowRunID }),
		col("WORKFLOW", func(r client.WorkflowRun) string { return r.WorkflowName }),
		col("STATUS", func(r client.WorkflowRun) string { return r.Status }),
		when(s, "STARTED", func(r client.WorkflowRun) time.Time { return instant(r.StartedAt) }),
		col("TOOK", func(r client.WorkflowRun) string { return took(r.StartedAt, r.FinishedAt, s.now()) }),
		col("ATTEMPT", func(r client.WorkflowRun) string { return fmt.Sprint(r.Attempt) }),
		col("VERSION", func(r client.WorkflowRun) string { return fmt.Sprint(r.Version) }),
		wide("SCHEDULED (UTC)", func(r client.WorkflowRun) string { return exact(instant(r.ScheduledTime)) }),
		wide("FINISHED (UTC)", func(r client.WorkflowRun) string { return exact(instant(r.FinishedAt)) }),
		col("ERROR", func(r client.WorkflowRun) string { return errorWords(r.Error) }),
	), func(r client.WorkflowRun) string { return r.WorkflowRunID }}
}

func (s *session) runNodes() view[client.WorkflowRunNode] {
	return view[client.WorkflowRunNode]{columns[client.WorkflowRunNode](
		col("NODE", func(n client.WorkflowRunNode) string { return n.Key }),
		col("STATUS", func(n client.WorkflowRunNode) string { return n.Status }),
		when(s, "STARTED", func(n client.WorkflowRunNode) time.Time { return instant(n.StartedAt) }),
		col("TOOK", func(n client.WorkflowRunNode) string { return took(n.StartedAt, n.FinishedAt, s.now()) }),
		col("ITEMS", func(n client.WorkflowRunNode) string { return mapWords(n.Map) }),
		wide("EXECUTION", func(n client.WorkflowRunNode) string { return or(n.ExecutionID, "") }),
		col("REASON", func(n client.WorkflowRunNode) string { return cmp.Or(errorWords(n.Error), n.Reason) }),
	), func(n client.WorkflowRunNode) string { return n.Key }}
}

// mapWords describes the progress of a map.
func mapWords(m *client.WorkflowRunMap) string {
	if m == nil {
		return ""
	}
	text := fmt.Sprintf("%d/%d", m.Succeeded+m.Failed+m.Skipped, m.Total)
	if m.Failed > 0 {
		text += fmt.Sprintf(", %d failed", m.Failed)
	}
	return text
}

// showRun prints a run, and in a table its nodes.
func (s *session) showRun(r client.WorkflowRun) error {
	err := one(s, s.runs(), r, []field{
		{"Run", r.WorkflowRunID},
		{"Workflow", r.WorkflowName + " (" + r.WorkflowID + ")"},
		{"Status", r.Status},
		{"Attempt", fmt.Sprint(r.Attempt)},
		{"Version", fmt.Sprint(r.Version)},
		{"Scheduled", s.both(instant(r.ScheduledTime))},
		{"Started", s.both(instant(r.StartedAt))},
		{"Finished", s.both(instant(r.FinishedAt))},
		{"Took", took(r.StartedAt, r.FinishedAt, s.now())},
		{"Input", payloadWords(r.Input)},
		{"Output", payloadWords(r.Output)},
		{"Critical path", strings.Join(r.CriticalPath, " → ")},
		{"Error", errorWords(r.Error)},
	})
	if err != nil || s.output != "table" && s.output != "wide" || len(r.Nodes) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(s.out); err != nil {
		return err
	}
	_, err = show(s, s.runNodes(), each(r.Nodes))
	return err
}

// nodeStates returns the states of a run's nodes, for a drawing.
func nodeStates(r client.WorkflowRun) map[string]nodeState {
	out := make(map[string]nodeState, len(r.Nodes))
	for _, n := range r.Nodes {
		out[n.Key] = nodeState{Status: n.Status, Text: mapWords(n.Map), Start: instant(n.StartedAt), End: instant(n.FinishedAt)}
	}
	return out
}

// drawnNodes returns the nodes of a run's version, for a drawing.
func drawnNodes(ctx context.Context, c *client.Client, r client.WorkflowRun) ([]layout.Node, error) {
	g, err := c.WorkflowGraph(ctx, r.WorkflowID, r.Version, "")
	return drawn(g), err
}

func (s runCommands) runList() *cobra.Command {
	var f client.WorkflowRunFilter
	var p paging
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List runs, latest scheduled time first", Args: cobra.NoArgs,
		Example: "  carillon run list --workflow etl --status failed,timed_out\n  carillon run list -o jsonl --all",
	}
	c.Flags().StringVar(&f.Workflow, "workflow", "", "of this workflow, by id, key or name")
	c.Flags().StringSliceVar(&f.Status, "status", nil, "in these states, separated by commas")
	p.flags(c)
	complete(c, "workflow", s.workflowNames())
	complete(c, "status", fixed(runStatuses...))
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		if f.Workflow != "" {
			w, err := findWorkflow(ctx, c, f.Workflow)
			if err != nil {
				return err
			}
			f.Workflow = w.WorkflowID
		}
		return listed(s.session, s.runs(), p, "There are no such runs.", client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.WorkflowRun, client.Pagination, error) {
			page, err := c.ListWorkflowRuns(ctx, f, p)
			return page.WorkflowRuns, page.Pagination, err
		}))
	})
	return c
}

// looking makes a command that looks at a run.
func (s runCommands) looking(c *cobra.Command, do func(ctx context.Context, c *client.Client, r client.WorkflowRun) error) *cobra.Command {
	c.Args = cobra.ExactArgs(1)
	completeArgs(c, s.runNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := s.findRun(ctx, c, args[0])
		if err != nil {
			return err
		}
		return do(ctx, c, r)
	})
	return c
}

func (s runCommands) runGet() *cobra.Command {
	return s.looking(&cobra.Command{Use: "get RUN", Short: "Show a run and its nodes, or the latest of a workflow"}, func(_ context.Context, _ *client.Client, r client.WorkflowRun) error {
		s.link("/workflow-runs/" + r.WorkflowRunID)
		return s.showRun(r)
	})
}

func (s runCommands) runWatch() *cobra.Command {
	var ascii bool
	c := &cobra.Command{
		Use: "watch RUN", Short: "Draw a run until it has ended; exit with 7 unless it succeeded",
		Long:    "Draw a run until it has ended, then show it; exit with 7 unless it succeeded. If standard error is not a terminal, print a line for each change instead.",
		Example: "  carillon run watch etl",
	}
	c.Flags().BoolVar(&ascii, "ascii", false, "draw with ASCII characters only")
	return s.looking(c, func(ctx context.Context, c *client.Client, r client.WorkflowRun) error {
		return s.awaitRun(ctx, c, r.WorkflowRunID, true, ascii)
	})
}

func (s runCommands) runGantt() *cobra.Command {
	var ascii bool
	c := &cobra.Command{Use: "gantt RUN", Short: "Draw when each node of a run waited and ran", Example: "  carillon run gantt etl"}
	c.Flags().BoolVar(&ascii, "ascii", false, "draw with ASCII characters only")
	return s.looking(c, func(ctx context.Context, c *client.Client, r client.WorkflowRun) error {
		if s.output != "table" && s.output != "wide" {
			return s.showRun(r)
		}
		nodes, err := drawnNodes(ctx, c, r)
		if err != nil {
			return err
		}
		now := or(r.FinishedAt, s.now())
		_, err = fmt.Fprint(s.out, newDrawing(s.out, ascii).gantt(nodes, nodeStates(r), or(r.StartedAt, now), now))
		return err
	})
}

func (s runCommands) runExplain() *cobra.Command {
	return s.looking(&cobra.Command{Use: "explain RUN", Short: "Explain the state of a run and its nodes"}, func(ctx context.Context, c *client.Client, r client.WorkflowRun) error {
		x, err := c.ExplainWorkflowRun(ctx, r.WorkflowRunID)
		if err != nil {
			return err
		}
		if s.output != "table" && s.output != "wide" {
			if s.output == "name" {
				_, err := fmt.Fprintln(s.out, plain(x.Status))
				return err
			}
			return s.value(x)
		}
		if _, err := fmt.Fprintln(s.out, plain(x.Summary)); err != nil {
			return err
		}
		for _, n := range x.Nodes {
			text := n.Summary
			if n.ExecutionID != nil && endedBadly(n.Status) {
				text += "; execution " + *n.ExecutionID
			}
			if _, err := fmt.Fprintf(s.out, "  %s (%s): %s\n", plain(n.Key), s.paint(n.Status), plain(text)); err != nil {
				return err
			}
		}
		return nil
	})
}

// endedBadly reports whether a node or an item ended in a way that counts as a failure.
func endedBadly(status string) bool {
	return slices.Contains([]string{"FAILED", "TIMED_OUT", "EXPIRED", "CANCELLED"}, status)
}

func (s runCommands) runItems() *cobra.Command {
	var status []string
	var p paging
	c := &cobra.Command{
		Use: "items RUN NODE", Short: "List the items of a map, in the order of the list", Args: cobra.ExactArgs(2),
		Example: "  carillon run items etl load --status failed",
	}
	c.Flags().StringSliceVar(&status, "status", nil, "in these states, separated by commas")
	complete(c, "status", fixed(append([]string{"NOT_RUN"}, statuses...)...))
	p.flags(c)
	s.completeRun(c, func(n client.WorkflowRunNode) bool { return n.Map != nil })
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := s.findRun(ctx, c, args[0])
		if err != nil {
			return err
		}
		return listed(s.session, view[client.WorkflowRunItem]{columns[client.WorkflowRunItem](
			col("INDEX", func(i client.WorkflowRunItem) string { return fmt.Sprint(i.Index) }),
			col("STATUS", func(i client.WorkflowRunItem) string { return i.Status }),
			col("EXECUTION", func(i client.WorkflowRunItem) string { return or(i.ExecutionID, "") }),
			col("ERROR", func(i client.WorkflowRunItem) string { return errorWords(i.Error) }),
		), func(i client.WorkflowRunItem) string { return or(i.ExecutionID, fmt.Sprint(i.Index)) }}, p, "There are no such items.",
			client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.WorkflowRunItem, client.Pagination, error) {
				page, err := c.ListWorkflowRunItems(ctx, r.WorkflowRunID, args[1], status, p)
				return page.Items, page.Pagination, err
			}))
	})
	return c
}
