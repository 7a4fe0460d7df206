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

func (s jobCommands) jobTrigger() *cobra.Command {
	var w write
	var wt waiting
	var payload, once string
	c := &cobra.Command{
		Use: "trigger JOB", Aliases: []string{"run"}, Short: "Run a job now", Args: cobra.ExactArgs(1),
		Example: "  carillon job trigger report --wait\n  carillon job trigger report --payload '{\"day\": \"2026-01-31\"}' --follow",
	}
	c.Flags().StringVar(&payload, "payload", "", "JSON to use instead of the job's payload: text, @file, or - for standard input")
	c.Flags().StringVar(&once, "idempotency-key", "", "a repeated request with this key within 24 hours runs nothing")
	w.flags(c)
	wt.flags(c)
	completeArgs(c, s.jobNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		var r client.TriggerRequest
		var err error
		if payload != "" {
			if r.PayloadOverride, err = s.payload(payload, "--payload"); err != nil {
				return err
			}
		}
		j, err := findJob(ctx, c, args[0])
		if err != nil {
			return err
		}
		if w.dryRun {
			return s.would("run the job "+j.Name+" ("+j.JobID+") now", r)
		}
		if once != "" {
			ctx = client.WithIdempotencyKey(ctx, once)
		}
		t, err := c.TriggerJob(ctx, j.JobID, r)
		if err != nil {
			return err
		}
		return s.triggered(ctx, c, t, j.Name, wt)
	})
	return c
}

// triggered reports a new execution, and waits for it if asked to.
func (s *session) triggered(ctx context.Context, c *client.Client, t client.Triggered, name string, wt waiting) error {
	if t.Deduplicated {
		s.say("Nothing was started: the execution %s holds the unique key and has not finished.", t.ExecutionID)
	} else {
		s.say("Execution %s of %s", t.ExecutionID, line(name))
	}
	if wt.any() {
		return s.await(ctx, c, t.ExecutionID, wt)
	}
	if s.output == "table" || s.output == "wide" || s.output == "name" {
		_, err := fmt.Fprintln(s.out, t.ExecutionID)
		return err
	}
	return s.value(t)
}

func (s jobCommands) jobNext() *cobra.Command {
	n := 10
	c := &cobra.Command{Use: "next JOB", Short: "Describe a job's schedule and list its next run times", Args: cobra.ExactArgs(1)}
	c.Flags().IntVarP(&n, "number", "n", n, "how many times to show, 1 to 1000")
	completeArgs(c, s.jobNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		j, err := findJob(ctx, c, args[0])
		if err != nil {
			return err
		}
		p, err := c.NextOfJob(ctx, j.JobID, n)
		if err != nil {
			return err
		}
		if s.output != "table" && s.output != "wide" && s.output != "name" {
			return s.value(p)
		}
		s.say("%s", line(p.Description))
		for _, w := range p.Warnings {
			s.warn("%s", line(w.Message))
		}
		return listedAll(s.session, view[client.PreviewMoment]{columns[client.PreviewMoment](
			col("LOCAL", func(m client.PreviewMoment) string { return m.Local }),
			col("UTC", func(m client.PreviewMoment) string { return m.UTC.Format(time.RFC3339) }),
			col("WHEN", func(m client.PreviewMoment) string { return ago(m.UTC, s.now()) }),
			col("NOTE", func(m client.PreviewMoment) string {
				note := or(m.Flag, "")
				if j.Status != "PAUSED" || j.PausedUntil != nil && !m.UTC.Before(*j.PausedUntil) {
					return note
				}
				return strings.TrimPrefix(note+", paused: does not fire", ", ")
			}),
		), func(m client.PreviewMoment) string { return m.UTC.Format(time.RFC3339) }}, "It does not fire any more.", each(p.Next))
	})
	return c
}

// times holds the two flags of a time range.
type times struct{ from, to string }

func (t *times) flags(c *cobra.Command, from, to string) {
	c.Flags().StringVar(&t.from, "from", "", from)
	c.Flags().StringVar(&t.to, "to", "", to)
}

func (t times) read(s *session) (from, to time.Time, err error) {
	for flag, p := range map[string]struct {
		text string
		into *time.Time
	}{"--from": {t.from, &from}, "--to": {t.to, &to}} {
		if p.text != "" {
			if *p.into, err = parseTime(p.text, time.Local, s.now()); err != nil {
				return from, to, usage{fmt.Errorf("%s: %w", flag, err)}
			}
		}
	}
	return from, to, nil
}

func (s jobCommands) jobOccurrences() *cobra.Command {
	var t times
	var p paging
	c := &cobra.Command{
		Use: "occurrences JOB", Short: "List the scheduled times of a job and whether it ran", Args: cobra.ExactArgs(1),
		Example: "  carillon job occurrences report --from -48h --to now",
	}
	t.flags(c, "first time to list, such as -48h or 2026-01-31 (default a day ago)", "list times before this one (default a day from now)")
	p.flags(c)
	completeArgs(c, s.jobNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		from, to, err := t.read(s.session)
		if err != nil {
			return err
		}
		j, err := findJob(ctx, c, args[0])
		if err != nil {
			return err
		}
		return listed(s.session, view[client.Occurrence]{columns[client.Occurrence](
			when(s.session, "INSTANT", func(o client.Occurrence) time.Time { return o.ScheduledTime }),
			col("OUTCOME", func(o client.Occurrence) string { return o.Outcome }),
			col("STATUS", func(o client.Occurrence) string { return or(o.Status, "") }),
			col("EXECUTION", func(o client.Occurrence) string { return or(o.ExecutionID, "") }),
			col("REASON", func(o client.Occurrence) string { return or(o.Reason, "") }),
		), func(o client.Occurrence) string { return or(o.ExecutionID, exact(o.ScheduledTime)) }}, p, "There are no instants in that time.",
			client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.Occurrence, client.Pagination, error) {
				page, err := c.ListOccurrences(ctx, j.JobID, client.OccurrenceFilter{From: from, To: to}, p)
				return page.Occurrences, page.Pagination, err
			}))
	})
	return c
}

func (s jobCommands) jobBackfill() *cobra.Command {
	c := &cobra.Command{
		Use: "backfill JOB --from TIME --to TIME", Short: "Run past scheduled times of a job, in the background",
		Long:    "Run past scheduled times of a job, in the background; by default only those that did not run. --dry-run counts them.",
		Example: "  carillon job backfill report --from 2026-01-01 --to 2026-02-01 --dry-run\n  carillon job backfill report --from -48h --to now --rate 5 --wait",
	}
	completeArgs(c, s.jobNames())
	return s.backfilling(c, func(ctx context.Context, c *client.Client, ref string) (id, name string, err error) {
		j, err := findJob(ctx, c, ref)
		return j.JobID, j.Name, err
	})
}

// backfilling makes a command that runs past scheduled times of the jobs that find returns.
func (s *session) backfilling(c *cobra.Command, find func(ctx context.Context, c *client.Client, ref string) (id, name string, err error)) *cobra.Command {
	var w write
	var t times
	var rate float64
	var everything, wait bool
	c.Args = cobra.ExactArgs(1)
	t.flags(c, "first time to run, such as -7d", "run times before this one")
	c.Flags().Float64Var(&rate, "rate", 0, "maximum number per second (default no limit)")
	c.Flags().BoolVar(&everything, "everything", false, "also those that already ran")
	c.Flags().BoolVar(&wait, "wait", false, "wait until all have been created")
	w.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		from, to, err := t.read(s)
		if err != nil {
			return err
		}
		if from.IsZero() || to.IsZero() {
			return usage{errors.New("want --from and --to, such as --from 2026-01-01 --to 2026-02-01, or --from -48h --to now")}
		}
		id, name, err := find(ctx, c, args[0])
		if err != nil {
			return err
		}
		r := client.BackfillRequest{From: from, To: to, OnlyMissing: new(!everything), DryRun: w.dryRun}
		if rate != 0 {
			r.RatePerS = &rate
		}
		b, err := c.BackfillJob(ctx, id, r)
		if err != nil {
			return err
		}
		return s.begun(ctx, c, b, "fire", "instant", " of "+name, w.dryRun, wait)
	})
	return c
}
