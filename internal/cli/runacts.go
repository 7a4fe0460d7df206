package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// changed reports what an action changed in a run, or would change.
func (s runCommands) changed(r client.WorkflowRunChanged, did string, dryRun bool) error {
	if dryRun {
		s.say("Dry run: nothing was changed. It would change %s.", counting(int64(len(r.Changes)), "node"))
	} else {
		s.say("%s; the run %s of %s is %s.", did, r.WorkflowRunID, line(r.WorkflowName), r.Status)
	}
	switch {
	case s.output == "name":
		_, err := fmt.Fprintln(s.out, r.WorkflowRunID)
		return err
	case s.output != "table" && s.output != "wide":
		return s.value(r)
	}
	_, err := show(s.session, view[client.WorkflowNodeChange]{columns[client.WorkflowNodeChange](
		col("NODE", func(n client.WorkflowNodeChange) string { return n.Node }),
		col("FROM", func(n client.WorkflowNodeChange) string { return or(n.From, "new") }),
		col("TO", func(n client.WorkflowNodeChange) string { return or(n.To, "gone") }),
		col("ITEMS", func(n client.WorkflowNodeChange) string {
			if n.Items == 0 {
				return ""
			}
			return fmt.Sprint(n.Items)
		}),
	), func(n client.WorkflowNodeChange) string { return n.Node }}, each(r.Changes))
	return err
}

// overRun makes a command that changes a run in flight.
func (s runCommands) overRun(c *cobra.Command, verb, did string, do func(ctx context.Context, c *client.Client, r client.WorkflowRun, dryRun bool) (client.WorkflowRunChanged, error)) *cobra.Command {
	var w write
	c.Args = cobra.ExactArgs(1)
	w.flags(c)
	completeArgs(c, s.runNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := s.runOf(ctx, c, args[0], verb, inFlight, true)
		if err != nil {
			return err
		}
		out, err := do(ctx, c, r, w.dryRun)
		if err != nil {
			return err
		}
		return s.changed(out, did, w.dryRun)
	})
	return c
}

func (s runCommands) runPause() *cobra.Command {
	return s.overRun(&cobra.Command{
		Use: "pause RUN", Short: "Keep nodes and items of a run from starting", Long: "Keep nodes and items of a run from starting. Running ones continue, and so do timers.",
	}, "pause", "Paused", func(ctx context.Context, c *client.Client, r client.WorkflowRun, dryRun bool) (client.WorkflowRunChanged, error) {
		return c.PauseWorkflowRun(ctx, r.WorkflowRunID, client.WorkflowRunPause{DryRun: dryRun})
	})
}

func (s runCommands) runUnpause() *cobra.Command {
	return s.overRun(&cobra.Command{
		Use: "unpause RUN", Aliases: []string{"resume"}, Short: "Start what a pause held back",
	}, "unpause", "Unpaused", func(ctx context.Context, c *client.Client, r client.WorkflowRun, dryRun bool) (client.WorkflowRunChanged, error) {
		return c.UnpauseWorkflowRun(ctx, r.WorkflowRunID, client.WorkflowRunPause{DryRun: dryRun})
	})
}

func (s runCommands) runCancel() *cobra.Command {
	var force bool
	var reason string
	c := &cobra.Command{
		Use: "cancel RUN", Short: "Cancel a run: cancel its running nodes, skip the rest, and run the finally nodes",
		Example: "  carillon run cancel etl --reason 'wrong day'\n  carillon run cancel etl --force",
	}
	c.Flags().BoolVar(&force, "force", false, "also skip the finally nodes of a run that is being cancelled already")
	c.Flags().StringVar(&reason, "reason", "", "reason, stored with the run")
	return s.overRun(c, "cancel", "Cancelled", func(ctx context.Context, c *client.Client, r client.WorkflowRun, dryRun bool) (client.WorkflowRunChanged, error) {
		return c.CancelWorkflowRun(ctx, r.WorkflowRunID, client.WorkflowRunCancel{Force: force, Reason: reason, DryRun: dryRun})
	})
}

func (s runCommands) runRetry() *cobra.Command {
	var w write
	var in input
	var q client.WorkflowRunRetry
	var latest, wait bool
	c := &cobra.Command{
		Use: "retry RUN", Short: "Run failed nodes of a run again, and the nodes that depend on them", Args: cobra.ExactArgs(1),
		Long: "Run failed nodes of a run again, and the nodes that depend on them; nodes that succeeded are kept. The run keeps its id and begins its next attempt. --dry-run lists which nodes would run.",
		Example: "  carillon run retry etl --dry-run\n  carillon run retry etl --wait\n  carillon run retry 0190a6c8-7b3e-7cc0-8a1b-0123456789ab --node load --only\n" +
			"  carillon run retry etl --latest --input '{\"day\": \"2026-01-31\"}'",
	}
	c.Flags().StringSliceVar(&q.Nodes, "node", nil, "start from these nodes, even if they succeeded (repeatable)")
	c.Flags().BoolVar(&q.Only, "only", false, "with --node: leave nodes that depend on them unchanged")
	c.Flags().BoolVar(&latest, "latest", false, "continue with the current version of the workflow")
	in.flags(c, "JSON to use as the input from now on")
	c.Flags().BoolVar(&wait, "wait", false, "watch the run until it has ended; exit with 7 unless it succeeded")
	w.flags(c)
	completeArgs(c, s.runNames())
	complete(c, "node", func(ctx context.Context, prefix string) []string {
		return s.nodeNames(c.Flags().Arg(0), func(client.WorkflowRunNode) bool { return true })(ctx, prefix)
	})
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		data, err := in.read(s.session)
		if err != nil {
			return err
		}
		q.Input, q.DryRun = data, w.dryRun
		if latest {
			q.Version = "latest"
		}
		r, err := s.runOf(ctx, c, args[0], "retry", finished, false)
		if err != nil {
			return err
		}
		out, err := c.RetryWorkflowRun(ctx, r.WorkflowRunID, q)
		if err != nil {
			return err
		}
		if !wait || w.dryRun {
			return s.changed(out, fmt.Sprintf("Attempt %d has begun", out.Attempt), w.dryRun)
		}
		s.say("Attempt %d has begun: %s again.", out.Attempt, counting(int64(len(out.Changes)), "node"))
		return s.awaitRun(ctx, c, r.WorkflowRunID, true, false)
	})
	return c
}

// overNode makes a command that changes a node of a run. If suits is not nil, the node may be omitted if only one
// suits.
func (s runCommands) overNode(c *cobra.Command, verb, did string, suits func(client.WorkflowRunNode) bool, do func(ctx context.Context, c *client.Client, run, node string, dryRun bool) (client.WorkflowRunChanged, error)) *cobra.Command {
	var w write
	w.flags(c)
	c.Args = cobra.ExactArgs(2)
	completes := func(client.WorkflowRunNode) bool { return true }
	if suits != nil {
		c.Args, completes = cobra.RangeArgs(1, 2), suits
	}
	s.completeRun(c, completes)
	states := inFlight
	if suits == nil { // it may begin a new attempt of a run that has ended
		states = nil
	}
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := s.runOf(ctx, c, args[0], verb, states, suits != nil)
		if err != nil {
			return err
		}
		node := ""
		if len(args) == 2 {
			node = args[1]
		} else if node, err = onlyNode(r, verb, suits); err != nil {
			return err
		}
		out, err := do(ctx, c, r.WorkflowRunID, node, w.dryRun)
		if err != nil {
			return err
		}
		return s.changed(out, did+" "+line(node), w.dryRun)
	})
	return c
}

// onlyNode returns the only suitable node of a run.
func onlyNode(r client.WorkflowRun, verb string, suits func(client.WorkflowRunNode) bool) (string, error) {
	var found []string
	for _, n := range r.Nodes {
		if suits(n) {
			found = append(found, n.Key)
		}
	}
	switch len(found) {
	case 0:
		return "", missing{fmt.Errorf("the run %s has no node to %s", r.WorkflowRunID, verb)}
	case 1:
		return found[0], nil
	}
	return "", usage{fmt.Errorf("the run %s has several nodes to %s; want one of %s after it", r.WorkflowRunID, verb, strings.Join(found, ", "))}
}

func approvable(n client.WorkflowRunNode) bool {
	return n.Wait != nil && n.Wait.Kind == "approval" && !client.Final(n.Status) && n.StartedAt != nil
}

func (s runCommands) runApprove() *cobra.Command {
	var comment, data string
	c := &cobra.Command{
		Use: "approve RUN [NODE]", Short: "Approve what a node waits for", Example: "  carillon run approve etl\n  carillon run approve etl ok --comment 'looks good' --data '{\"limit\": 5}'",
		Long: "Approve what a node waits for. The node may be left out if only one of the run waits for an approval.",
	}
	c.Flags().StringVar(&comment, "comment", "", "comment, stored with the decision")
	c.Flags().StringVar(&data, "data", "", "JSON that the approval asks for: text, @file, or - for standard input")
	return s.overNode(c, "approve", "Approved", approvable, func(ctx context.Context, c *client.Client, run, node string, dryRun bool) (out client.WorkflowRunChanged, err error) {
		r := client.WorkflowDecision{Comment: comment, DryRun: dryRun}
		if data != "" {
			if r.Data, err = s.payload(data, "--data"); err != nil {
				return out, err
			}
		}
		return c.ApproveWorkflowNode(ctx, run, node, r)
	})
}

func (s runCommands) runReject() *cobra.Command {
	var comment string
	c := &cobra.Command{
		Use: "reject RUN [NODE]", Short: "Reject what a node waits for: the node fails", Example: "  carillon run reject etl ok --comment 'wrong totals'",
		Long: "Reject what a node waits for: the node fails. It may be left out if only one of the run waits for an approval.",
	}
	c.Flags().StringVar(&comment, "comment", "", "comment, stored with the decision")
	return s.overNode(c, "reject", "Rejected", approvable, func(ctx context.Context, c *client.Client, run, node string, dryRun bool) (client.WorkflowRunChanged, error) {
		return c.RejectWorkflowNode(ctx, run, node, client.WorkflowDecision{Comment: comment, DryRun: dryRun})
	})
}

func (s runCommands) runSkip() *cobra.Command {
	return s.overNode(&cobra.Command{
		Use: "skip RUN NODE", Short: "Skip a node that has not started, waits, or did not succeed", Example: "  carillon run skip etl publish",
		Long: "Skip a node that has not started, waits, or did not succeed. On a run that has ended, this begins a new attempt.",
	}, "skip", "Skipped", nil, func(ctx context.Context, c *client.Client, run, node string, dryRun bool) (client.WorkflowRunChanged, error) {
		return c.SkipWorkflowNode(ctx, run, node, client.WorkflowNodeSkip{DryRun: dryRun})
	})
}

func (s runCommands) runMark() *cobra.Command {
	var result string
	c := &cobra.Command{
		Use: "mark RUN NODE", Short: "Mark a node as succeeded, with a result", Example: "  carillon run mark etl list --result '{\"files\": []}'",
		Long: "Mark a node as succeeded that has not started, waits, or did not succeed, with a result that other nodes can read. On a run that has ended, this begins a new attempt.",
	}
	c.Flags().StringVar(&result, "result", "", "JSON that is its result (default null): text, @file, or - for standard input")
	return s.overNode(c, "mark", "Marked as succeeded:", nil, func(ctx context.Context, c *client.Client, run, node string, dryRun bool) (out client.WorkflowRunChanged, err error) {
		r := client.WorkflowNodeMark{DryRun: dryRun}
		if result != "" {
			if r.Result, err = s.payload(result, "--result"); err != nil {
				return out, err
			}
		}
		return c.MarkWorkflowNode(ctx, run, node, r)
	})
}

func (s runCommands) runLimit() *cobra.Command {
	var parallel int
	var tolerate string
	c := &cobra.Command{
		Use: "limit RUN NODE", Short: "Change how many items of a map run at once, or may fail", Example: "  carillon run limit etl load --max-parallel 50 --tolerate 5%",
	}
	c.Flags().IntVar(&parallel, "max-parallel", 0, "how many items run at once; 0: no limit")
	c.Flags().StringVar(&tolerate, "tolerate", "", "how many items may fail, as a count such as 3 or a percentage such as 1%")
	set := c.Flags()
	c = s.overNode(c, "limit", "Changed the limits of", func(n client.WorkflowRunNode) bool { return n.Map != nil && !client.Final(n.Status) }, func(ctx context.Context, c *client.Client, run, node string, dryRun bool) (out client.WorkflowRunChanged, err error) {
		r := client.WorkflowMapChange{DryRun: dryRun}
		if set.Changed("max-parallel") {
			r.MaxParallel = &parallel
		}
		if set.Changed("tolerate") {
			if r.Tolerate, err = json.Marshal(tolerate); err != nil {
				return out, err
			}
		}
		if r.MaxParallel == nil && r.Tolerate == nil {
			return out, usage{errors.New("nothing to change; want --max-parallel or --tolerate")}
		}
		return c.ChangeWorkflowMap(ctx, run, node, r)
	})
	c.Args = cobra.ExactArgs(2)
	return c
}
