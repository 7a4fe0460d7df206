package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s accessCommands) holdCommand() *cobra.Command {
	v := view[client.Hold]{columns[client.Hold](
		col("ID", func(x client.Hold) string { return x.HoldID }),
		col("HOLDS", func(x client.Hold) string {
			switch {
			case x.JobID == nil:
				return "tenant " + x.TenantID
			case x.JobName == nil:
				return "job " + *x.JobID
			}
			return "job " + *x.JobName
		}),
		col("REASON", func(x client.Hold) string { return x.Reason }),
		col("BY", func(x client.Hold) string { return x.By }),
		when(s.session, "SINCE", func(x client.Hold) time.Time { return x.At }),
	), func(x client.Hold) string { return x.HoldID }}
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List legal holds, oldest first", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, v, "There are no holds.", c.Holds(ctx))
	})
	var w write
	var tenant, reason string
	add := &cobra.Command{
		Use: "add [JOB]", Short: "Keep the history of a job, or with --whole-tenant of a tenant, from being purged", Args: cobra.MaximumNArgs(1),
		Long:    "Keep the history of a job, or with --whole-tenant that of all of a tenant, from being purged, whatever its retention. A job that is held cannot be deleted either. Holding a tenant takes a key of the role system.",
		Example: "  carillon hold add nightly --reason 'Case 4711'\n  carillon hold add --whole-tenant acme --reason 'Case 4711'",
	}
	add.Flags().StringVar(&tenant, "whole-tenant", "", "hold everything of the tenant with this id")
	add.Flags().StringVar(&reason, "reason", "", "why, such as the number of a case; up to 500 characters")
	w.flags(add)
	completeArgs(add, s.jobNames())
	add.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if (len(args) == 0) == (tenant == "") {
			return errors.New("name a job, or a tenant with --whole-tenant")
		}
		if reason == "" {
			return errors.New("say why with --reason")
		}
		r := client.HoldRequest{Reason: reason}
		what := "the tenant " + tenant
		if tenant != "" {
			r.TenantID = &tenant
		} else {
			j, err := findJob(ctx, c, args[0])
			if err != nil {
				return err
			}
			r.JobID, what = &j.JobID, "the job "+j.Name
		}
		if w.dryRun {
			return s.would("hold the history of "+what, r)
		}
		h, err := c.PutHold(ctx, r)
		if err != nil {
			return err
		}
		s.say("The history of %s is on hold. Its id: %s", line(what), h.HoldID)
		return s.told(h)
	})
	remove := remover(s.session, &cobra.Command{
		Use: "remove ID", Aliases: []string{"rm"}, Short: "End a legal hold: what is past its retention is purged within about 10 minutes",
	}, "remove the hold", s.holdIDs(),
		func(ctx context.Context, c *client.Client, id string) (client.Hold, error) {
			for x, err := range c.Holds(ctx) {
				if err != nil || strings.EqualFold(x.HoldID, id) {
					return x, err
				}
			}
			return client.Hold{}, missing{fmt.Errorf("there is no hold %q; 'carillon hold list' shows the ids", id)}
		},
		func(ctx context.Context, c *client.Client, id string) (client.Hold, error) {
			return c.DeleteHold(ctx, id)
		})
	return s.noun(&cobra.Command{Use: "hold", Aliases: []string{"holds"}, Short: "Legal holds: history that is not purged"}, list, add, remove)
}

func (s accessCommands) holdIDs() names {
	return lookup(s.session, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListHolds(ctx, client.Page{Limit: 200})
		for _, x := range page.Holds {
			out = append(out, x.HoldID+"\t"+x.Reason)
		}
		return out
	})
}
