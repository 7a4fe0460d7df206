package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

var bulkActions = []string{"pause", "resume", "delete", "trigger", "tag", "untag"}

func (s jobCommands) jobBulk() *cobra.Command {
	var w write
	var f client.JobFilter
	var r client.BulkRequest
	var until, payload string
	var add, remove []string
	var rate float64
	var everything, wait bool
	c := &cobra.Command{
		Use: "bulk ACTION", Short: "Pause, resume, delete, trigger, tag or untag all jobs that match a filter, in the background", Args: cobra.ExactArgs(1), ValidArgs: bulkActions,
		Long: "Pause, resume, delete, trigger, tag or untag all jobs that match a filter, in the background. --dry-run counts them and shows the first.",
		Example: `  carillon job bulk pause --tag warehouse --reason "warehouse is moving" --dry-run
  carillon job bulk tag --query report --add reports --wait`,
	}
	c.Flags().StringVar(&f.Status, "status", "", "ACTIVE, PAUSED or COMPLETED")
	c.Flags().StringVar(&f.Tag, "tag", "", "with this tag")
	c.Flags().StringVar(&f.Name, "name", "", "with exactly this name")
	c.Flags().StringVar(&f.ScheduleType, "schedule", "", "with this schedule type: IMMEDIATE, ONE_TIME, CRON, INTERVAL or MANUAL")
	c.Flags().StringVar(&f.Owner, "owner", "", "with exactly this owner")
	c.Flags().BoolVar(&f.Late, "late", false, "that are more than five seconds late")
	c.Flags().StringVar(&f.Q, "query", "", "with this text in name, description or key")
	c.Flags().BoolVar(&everything, "everything", false, "all jobs of the tenant")
	c.Flags().StringVar(&r.Reason, "reason", "", "with pause: reason")
	c.Flags().StringVar(&until, "until", "", "with pause: when to resume automatically, such as +2h")
	c.Flags().StringSliceVar(&add, "add", nil, "tags to add, with tag")
	c.Flags().StringSliceVar(&remove, "remove", nil, "tags to remove, with untag")
	c.Flags().StringVar(&payload, "payload", "", "with trigger: JSON to use instead of each job's payload")
	c.Flags().Float64Var(&rate, "rate", 0, "maximum number per second (default no limit)")
	c.Flags().BoolVar(&wait, "wait", false, "wait until all is done")
	w.destructive(c)
	complete(c, "status", fixed("ACTIVE", "PAUSED", "COMPLETED"))
	complete(c, "schedule", fixed("IMMEDIATE", "ONE_TIME", "CRON", "INTERVAL", "MANUAL"))
	complete(c, "tag", s.tags())
	complete(c, "remove", s.tags())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		if r.Action = strings.ToLower(args[0]); !slices.Contains(bulkActions, r.Action) {
			return usage{fmt.Errorf("%q: want one of %s", args[0], strings.Join(bulkActions, ", "))}
		}
		if r.Action != "tag" && len(add) > 0 || r.Action != "untag" && len(remove) > 0 {
			return usage{fmt.Errorf("--add goes with tag and --remove with untag, not with %s", r.Action)}
		}
		r.Tags = append(add, remove...)
		if f == (client.JobFilter{}) && !everything {
			return usage{errors.New("which jobs? Want a filter such as --tag reports, or --everything")}
		}
		r.Filter = &f
		if until != "" {
			t, err := parseTime(until, time.Local, s.now())
			if err != nil {
				return usage{fmt.Errorf("--until: %w", err)}
			}
			r.Until = &t
		}
		if payload != "" {
			var err error
			if r.PayloadOverride, err = s.payload(payload, "--payload"); err != nil {
				return err
			}
		}
		if rate != 0 {
			r.RatePerS = &rate
		}
		r.DryRun = true
		b, err := c.BulkJobs(ctx, r)
		if err != nil {
			return err
		}
		if w.dryRun {
			return s.bulkSample(b, r.Action)
		}
		if r.Action == "delete" {
			if err := s.confirm(w, fmt.Sprintf("delete %d jobs", b.Count), fmt.Sprint(b.Count)); err != nil {
				return err
			}
		}
		r.DryRun = false
		if b, err = c.BulkJobs(ctx, r); err != nil {
			return err
		}
		return s.begun(ctx, c, client.Begun{OperationID: b.OperationID, Count: b.Count}, r.Action, "job", "", false, wait)
	})
	return c
}

// bulkSample shows the count of a dry run, and the first few.
func (s jobCommands) bulkSample(b client.BulkBegun, action string) error {
	about := ""
	if b.CountIsEstimate {
		about = "about "
	}
	s.say("Dry run: nothing was changed. It would %s %s%s.", action, about, counting(b.Count, "job"))
	if s.output != "table" && s.output != "wide" && s.output != "name" {
		return s.value(b)
	}
	if n := b.Count - int64(len(b.Sample)); n > 0 && len(b.Sample) > 0 {
		s.say("The first ones:")
	}
	_, err := show(s.session, view[client.BulkSample]{columns[client.BulkSample](
		col("ID", func(x client.BulkSample) string { return x.JobID }),
		col("NAME", func(x client.BulkSample) string { return x.Name }),
		col("STATUS", func(x client.BulkSample) string { return x.Status }),
	), func(x client.BulkSample) string { return x.JobID }}, each(b.Sample))
	return err
}
