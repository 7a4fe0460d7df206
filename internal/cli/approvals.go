package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s runCommands) approvalsCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use: "approvals", Aliases: []string{"approval"}, Short: "List what waits for your approval, oldest first", Args: cobra.NoArgs,
		Example: "  carillon approvals\n  carillon run approve etl ok",
	}
	s.flags(c)
	p.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		some := false
		err := listed(s.session, view[client.PendingApproval]{columns[client.PendingApproval](
			col("RUN", func(a client.PendingApproval) string { return a.WorkflowRunID }),
			col("NODE", func(a client.PendingApproval) string { some = true; return a.Node }),
			col("WORKFLOW", func(a client.PendingApproval) string { return a.WorkflowName }),
			when(s.session, "SINCE", func(a client.PendingApproval) time.Time { return a.Since }),
			col("APPROVED", func(a client.PendingApproval) string { return fmt.Sprintf("%d of %d", a.Approved, a.Min) }),
			wide("ROLES", func(a client.PendingApproval) string {
				return strings.Join(slices.Sorted(slices.Values(a.Roles)), ", ")
			}),
		), func(a client.PendingApproval) string { return a.WorkflowRunID + " " + a.Node }}, p, "Nothing waits for you.",
			client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.PendingApproval, client.Pagination, error) {
				page, err := c.ListApprovals(ctx, p)
				return page.Approvals, page.Pagination, err
			}))
		if err == nil && some {
			s.say("Decide with 'carillon run approve RUN NODE' or 'carillon run reject RUN NODE'.")
		}
		return err
	})
	return c
}

func (s runCommands) eventCommand() *cobra.Command {
	var w write
	var match, payload, once string
	c := &cobra.Command{
		Use: "send EVENT", Short: "Send an event to the runs that wait for it", Args: cobra.ExactArgs(1),
		Long:    "Send an event to the runs that wait for it. Nodes that begin to wait within the next 24 hours receive it too.",
		Example: "  carillon event send order.paid --match '\"o-17\"' --payload '{\"amount\": 12}'",
	}
	c.Flags().StringVar(&match, "match", "", "JSON value that waiting nodes compare with their match: text, @file, or - for standard input")
	c.Flags().StringVar(&payload, "payload", "", "JSON value that becomes the result of the nodes it releases: text, @file, or - for standard input")
	c.Flags().StringVar(&once, "idempotency-key", "", "a repeated request with this key within 24 hours sends nothing")
	w.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) (err error) {
		r := client.EventRequest{Event: args[0], DryRun: w.dryRun}
		if match != "" {
			if r.Match, err = s.payload(match, "--match"); err != nil {
				return err
			}
		}
		if payload != "" {
			if r.Payload, err = s.payload(payload, "--payload"); err != nil {
				return err
			}
		}
		if once != "" {
			ctx = client.WithIdempotencyKey(ctx, once)
		}
		sent, err := c.SendEvent(ctx, r)
		if err != nil {
			return err
		}
		switch n := int64(len(sent.WorkflowRuns)); {
		case w.dryRun:
			s.say("Dry run: nothing was sent. %s would continue.", counting(n, "run"))
		case n == 0:
			s.say("Sent %s. No run waits for it now; nodes that begin to wait within the next 24 hours receive it.", line(args[0]))
		default:
			s.say("Sent %s: %s continued.", line(args[0]), counting(n, "run"))
		}
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			for _, id := range sent.WorkflowRuns {
				if _, err := fmt.Fprintln(s.out, id); err != nil {
					return err
				}
			}
			return nil
		}
		return s.value(sent)
	})
	return s.noun(&cobra.Command{Use: "event", Aliases: []string{"events"}, Short: "Send events to runs that wait for them"}, c)
}
