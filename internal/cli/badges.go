package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s jobCommands) badgeCommand() *cobra.Command {
	v := view[client.Badge]{columns[client.Badge](
		col("ID", func(x client.Badge) string { return x.BadgeID }),
		col("JOB", func(x client.Badge) string { return x.JobName }),
		col("LABEL", func(x client.Badge) string {
			if x.Label == nil {
				return ""
			}
			return *x.Label
		}),
		when(s.session, "CREATED", func(x client.Badge) time.Time { return x.CreatedAt }),
		wide("JOB ID", func(x client.Badge) string { return x.JobID }),
	), func(x client.Badge) string { return x.BadgeID }}
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List badges, newest first, without their addresses", Args: cobra.NoArgs}
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listedAll(s.session, v, "There are no badges.", c.Badges(ctx))
	})
	var w write
	var label string
	create := &cobra.Command{
		Use: "create JOB", Short: "Create a public status badge for a job; its address is printed once", Args: cobra.ExactArgs(1),
		Long:    "Create an address at which anybody can see the name of a job, or a label, and its status, without a credential. It is printed once; -o json also prints the address of the same badge as JSON.",
		Example: "  carillon badge create nightly\n  carillon badge create nightly --label 'Nightly report'",
	}
	create.Flags().StringVar(&label, "label", "", "text to show instead of the job's name, up to 80 characters")
	w.flags(create)
	completeArgs(create, s.jobNames())
	create.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		j, err := findJob(ctx, c, args[0])
		if err != nil {
			return err
		}
		r := client.BadgeRequest{JobID: j.JobID}
		if label != "" {
			r.Label = &label
		}
		if w.dryRun {
			return s.would("make a badge of the job "+j.Name, r)
		}
		b, err := c.AddBadge(ctx, r)
		if err != nil {
			return err
		}
		return s.madeBadge(b)
	})
	revoke := remover(s.session, &cobra.Command{
		Use: "revoke ID", Aliases: []string{"rm"}, Short: "Revoke a badge: its address answers 404 within 5 s; cached copies last up to a minute",
	}, "revoke the badge", s.badgeNames(),
		func(ctx context.Context, c *client.Client, id string) (client.Badge, error) {
			for x, err := range c.Badges(ctx) {
				if err != nil || strings.EqualFold(x.BadgeID, id) {
					return x, err
				}
			}
			return client.Badge{}, missing{fmt.Errorf("there is no badge %q; 'carillon badge list' shows the ids", id)}
		},
		func(ctx context.Context, c *client.Client, id string) (client.Badge, error) {
			return c.DeleteBadge(ctx, id)
		})
	return s.noun(&cobra.Command{Use: "badge", Aliases: []string{"badges"}, Short: "Public status badges of jobs"}, list, create, revoke)
}

// madeBadge prints the address of a badge to standard output: it is shown only once.
func (s jobCommands) madeBadge(b client.Badge) error {
	if b.SVG == nil || b.JSON == nil {
		return fmt.Errorf("the badge %s was created, but the response with its address was lost\n  do: revoke it with 'carillon badge revoke %s --yes' and create another", b.BadgeID, b.BadgeID)
	}
	p, err := s.where()
	if err != nil {
		return err
	}
	b.SVG, b.JSON = new(p.servers[0]+*b.SVG), new(p.servers[0]+*b.JSON)
	s.say("Created the badge %s for the job %s. Its address is shown only once:", b.BadgeID, line(b.JobName))
	if s.output == "table" || s.output == "wide" || s.output == "name" {
		_, err := fmt.Fprintln(s.out, *b.SVG)
		return err
	}
	return s.value(b)
}

func (s jobCommands) badgeNames() names {
	return lookup(s.session, func(ctx context.Context, c *client.Client) (out []string) {
		page, _ := c.ListBadges(ctx, client.Page{Limit: 200})
		for _, x := range page.Badges {
			of := x.JobName
			if x.Label != nil {
				of += ", " + *x.Label
			}
			out = append(out, x.BadgeID+"\t"+of)
		}
		return out
	})
}
