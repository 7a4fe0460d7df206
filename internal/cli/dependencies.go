package cli

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s jobCommands) jobDepend() *cobra.Command {
	var w write
	var on []string
	var none bool
	r := client.DependenciesRequest{Condition: "success"}
	c := &cobra.Command{
		Use: "depend JOB", Short: "Have a job run after others", Args: cobra.ExactArgs(1),
		Long: "Have a job run each time that all the others have ended. --on names them, and replaces those it had; --none removes all. If one of them ends more often, its latest execution counts.\n\n" +
			"When the job is due by its own schedule before that, its execution waits.",
		Example: "  carillon job depend report --on extract --on load\n  carillon job depend cleanup --on import --condition always\n  carillon job depend report --none",
	}
	c.Flags().StringArrayVar(&on, "on", nil, "job to run after, by id, key or name (repeatable)")
	c.Flags().StringVar(&r.Condition, "condition", r.Condition, "how the others must end: success, failure or always")
	c.Flags().BoolVar(&none, "none", false, "depend on nothing")
	c.MarkFlagsMutuallyExclusive("on", "none")
	c.MarkFlagsOneRequired("on", "none")
	complete(c, "on", s.jobNames())
	complete(c, "condition", fixed("success", "failure", "always"))
	w.flags(c)
	completeArgs(c, s.jobNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		j, err := findJob(ctx, c, args[0])
		if err != nil {
			return err
		}
		for _, ref := range on {
			p, err := findJob(ctx, c, ref)
			if err != nil {
				return err
			}
			r.DependsOn = append(r.DependsOn, p.JobID)
		}
		if none {
			if w.dryRun {
				return s.would("remove the dependencies of the job "+j.Name, nil)
			}
			if _, err := c.RemoveJobDependencies(ctx, j.JobID, 0); err != nil {
				return err
			}
			s.say("The job %s depends on nothing.", line(j.Name))
			return nil
		}
		if w.dryRun {
			return s.would("have the job "+j.Name+" depend on "+strings.Join(on, ", "), r)
		}
		d, err := c.SetJobDependencies(ctx, j.JobID, r, 0)
		if err != nil {
			return err
		}
		s.say("The job %s runs each time that all of these have ended (%s):", line(j.Name), or(d.Condition, ""))
		return s.showDependencies(d)
	})
	return c
}

func (s jobCommands) jobDependencies() *cobra.Command {
	c := &cobra.Command{Use: "dependencies JOB", Aliases: []string{"deps"}, Short: "Show the jobs that a job runs after, and which of them have ended", Args: cobra.ExactArgs(1)}
	completeArgs(c, s.jobNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		j, err := findJob(ctx, c, args[0])
		if err != nil {
			return err
		}
		d, err := c.JobDependencies(ctx, j.JobID)
		if err != nil {
			return err
		}
		return s.showDependencies(d)
	})
	return c
}

// showDependencies prints the jobs that one depends on.
func (s jobCommands) showDependencies(d client.JobDependencies) error {
	if s.output != "table" && s.output != "wide" && s.output != "name" {
		return s.value(d)
	}
	v := view[client.JobDependency]{columns[client.JobDependency](
		col("JOB", func(x client.JobDependency) string { return x.Name }),
		col("KEY", func(x client.JobDependency) string { return or(x.Key, "") }),
		col("ENDED", func(x client.JobDependency) string {
			if x.EndedAt == nil {
				return "not yet"
			}
			return ago(*x.EndedAt, s.now())
		}),
		wide("EXECUTION", func(x client.JobDependency) string { return or(x.ExecutionID, "") }),
		wide("JOB ID", func(x client.JobDependency) string { return x.JobID }),
	), func(x client.JobDependency) string { return x.JobID }}
	return listedAll(s.session, v, "The job depends on nothing. Have it run after others: carillon job depend "+cmp.Or(or(d.Key, ""), d.JobID)+" --on JOB", each(d.DependsOn))
}
