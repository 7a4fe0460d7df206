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

func (s executionCommands) dlqCommand() *cobra.Command {
	return s.noun(&cobra.Command{Use: "dlq", Aliases: []string{"dead-letters"}, Short: "Dead letters: executions that failed for good, until they are redriven or discarded"},
		s.dlqList(), s.dlqShow(), s.dlqRedrive(), s.dlqDiscard())
}

// deadFilter holds the flags that select dead letters.
type deadFilter struct {
	job, reason, query string
	times
}

func (f *deadFilter) add(s *session, c *cobra.Command) {
	c.Flags().StringVar(&f.job, "job", "", "of this job, by id, key or name")
	c.Flags().StringVar(&f.reason, "reason", "", "ATTEMPTS_EXHAUSTED, NOT_RETRYABLE or POISON")
	c.Flags().StringVar(&f.query, "query", "", "with this text in the last error")
	f.times.flags(c, "that died at or after this time, such as -24h", "that died before this time")
	complete(c, "job", s.jobNames())
	complete(c, "reason", fixed("ATTEMPTS_EXHAUSTED", "NOT_RETRYABLE", "POISON"))
}

func (f deadFilter) any() bool { return f != deadFilter{} }

func (f deadFilter) read(ctx context.Context, s *session, c *client.Client) (client.DeadLetterFilter, error) {
	out := client.DeadLetterFilter{Reason: strings.ToUpper(f.reason), Q: f.query}
	from, to, err := f.times.read(s)
	if err != nil {
		return out, err
	}
	for _, x := range []struct {
		at   time.Time
		into *string
	}{{from, &out.StartDate}, {to, &out.EndDate}} {
		if !x.at.IsZero() {
			*x.into = x.at.UTC().Format(time.RFC3339Nano)
		}
	}
	if f.job != "" {
		j, err := findJob(ctx, c, f.job)
		if err != nil {
			return out, err
		}
		out.JobID = j.JobID
	}
	return out, nil
}

func lastError(d client.DeadLetter) string {
	if len(d.Errors) == 0 {
		return ""
	}
	return errorWords(d.Errors[len(d.Errors)-1].Error)
}

func (s executionCommands) deadLetters() view[client.DeadLetter] {
	return view[client.DeadLetter]{columns[client.DeadLetter](
		col("EXECUTION", func(d client.DeadLetter) string { return d.ExecutionID }),
		col("JOB", func(d client.DeadLetter) string { return d.JobName }),
		col("REASON", func(d client.DeadLetter) string { return d.Reason }),
		when(s.session, "DIED", func(d client.DeadLetter) time.Time { return d.DeadLetteredAt }),
		col("ATTEMPTS", func(d client.DeadLetter) string { return fmt.Sprint(d.TotalAttempts) }),
		wide("JOB ID", func(d client.DeadLetter) string { return d.JobID }),
		col("LAST ERROR", lastError),
	), func(d client.DeadLetter) string { return d.ExecutionID }}
}

func (s executionCommands) dlqList() *cobra.Command {
	var f deadFilter
	var p paging
	c := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List dead letters, latest first", Args: cobra.NoArgs}
	f.add(s.session, c)
	p.flags(c)
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		filter, err := f.read(ctx, s.session, c)
		if err != nil {
			return err
		}
		return listed(s.session, s.deadLetters(), p, "There are no dead letters.", client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.DeadLetter, client.Pagination, error) {
			page, err := c.ListDeadLetters(ctx, filter, p)
			return page.DeadLetters, page.Pagination, err
		}))
	})
	return c
}

func (s executionCommands) dlqShow() *cobra.Command {
	c := &cobra.Command{Use: "show EXECUTION", Aliases: []string{"get"}, Short: "Show a dead letter, or the latest of a job: every attempt and its error", Args: cobra.ExactArgs(1)}
	completeArgs(c, s.deadLetterNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		var e client.Execution
		if uuid.MatchString(args[0]) {
			var err error
			if e, err = c.Execution(ctx, args[0]); err != nil {
				return err
			}
		} else {
			j, err := findJob(ctx, c, args[0])
			if err != nil {
				return err
			}
			e.JobID, e.JobName = j.JobID, j.Name
		}
		for d, err := range c.DeadLetters(ctx, client.DeadLetterFilter{JobID: e.JobID}) {
			if err != nil {
				return err
			}
			if e.ExecutionID != "" && d.ExecutionID != e.ExecutionID {
				continue
			}
			f := []field{
				{"Execution", d.ExecutionID},
				{"Job", d.JobName + " (" + d.JobID + ")"},
				{"Status", d.Status},
				{"Reason", d.Reason},
				{"Died", s.both(d.DeadLetteredAt)},
				{"Attempts", fmt.Sprint(d.TotalAttempts)},
			}
			for _, a := range d.Errors {
				f = append(f, field{fmt.Sprintf("Attempt %d", a.AttemptNumber), exact(a.StartedAt) + ", after " + spanMS(a.DurationMS) + ": " + errorWords(a.Error)})
			}
			return one(s.session, s.deadLetters(), d, f)
		}
		if e.ExecutionID == "" {
			return missing{fmt.Errorf("the job %s has no dead letters", line(e.JobName))}
		}
		return missing{fmt.Errorf("the execution %s of %s is %s, not a dead letter", e.ExecutionID, line(e.JobName), e.Status)}
	})
	return c
}

// deadLetterOf finds the dead letter to change: by its id, or the only one of a job.
func (s *session) deadLetterOf(ctx context.Context, c *client.Client, ref string) (id string, err error) {
	if uuid.MatchString(ref) {
		return ref, nil
	}
	j, err := findJob(ctx, c, ref)
	if err != nil {
		return "", err
	}
	for d, err := range c.DeadLetters(ctx, client.DeadLetterFilter{JobID: j.JobID}) {
		switch {
		case err != nil:
			return "", err
		case id != "":
			return "", usage{fmt.Errorf("the job %s has several dead letters; want an id from 'carillon dlq list --job %s', or --job %s for all of them", line(j.Name), line(ref), line(ref))}
		}
		id = d.ExecutionID
	}
	if id == "" {
		return "", missing{fmt.Errorf("the job %s has no dead letters", line(j.Name))}
	}
	s.say("Dead letter %s of %s", id, line(j.Name))
	return id, nil
}

// chosen returns the dead letters that a command applies to.
func (s executionCommands) chosen(ctx context.Context, c *client.Client, f deadFilter, everything bool, args []string) (client.DeadLetterRequest, error) {
	var r client.DeadLetterRequest
	switch {
	case len(args) > 0 && (f.any() || everything):
		return r, usage{errors.New("both ids and a filter are given; want one of them")}
	case len(args) > 0:
		for i, ref := range args {
			id, err := s.deadLetterOf(ctx, c, ref)
			if err != nil {
				return r, err
			}
			args[i] = id
		}
		r.IDs = args
		return r, nil
	case !f.any() && !everything:
		return r, usage{errors.New("which dead letters? Want ids, a filter such as --job report or --from -24h, or --everything")}
	}
	filter, err := f.read(ctx, s.session, c)
	r.Filter = &filter
	return r, err
}

func (s executionCommands) dlqRedrive() *cobra.Command {
	var f deadFilter
	var w write
	var rate float64
	var everything, wait bool
	c := &cobra.Command{
		Use: "redrive [EXECUTION]...", Short: "Redrive dead letters, as new executions: some by id, or many by a filter, in the background",
		Example: "  carillon dlq redrive 0190a6c8-7b3e-7cc0-8a1b-0123456789ab\n  carillon dlq redrive --job report --from -24h --dry-run\n  carillon dlq redrive --everything --rate 10 --wait",
	}
	f.add(s.session, c)
	c.Flags().BoolVar(&everything, "everything", false, "all dead letters of the tenant")
	c.Flags().Float64Var(&rate, "rate", 0, "maximum number per second (default no limit)")
	c.Flags().BoolVar(&wait, "wait", false, "wait until all have been redriven")
	w.flags(c)
	completeArgs(c, s.deadLetterNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := s.chosen(ctx, c, f, everything, args)
		if err != nil {
			return err
		}
		if rate != 0 {
			r.RatePerS = &rate
		}
		if len(args) == 1 && !w.dryRun && rate == 0 {
			t, err := c.RedriveDeadLetter(ctx, args[0])
			if err != nil {
				return err
			}
			return s.triggered(ctx, c, t, "the dead letter "+args[0], waiting{wait: wait})
		}
		r.DryRun = w.dryRun
		b, err := c.RedriveDeadLetters(ctx, r)
		if err != nil {
			return err
		}
		return s.begun(ctx, c, b, "redrive", "dead letter", "", w.dryRun, wait)
	})
	return c
}

func (s executionCommands) dlqDiscard() *cobra.Command {
	var f deadFilter
	var w write
	var everything, wait bool
	c := &cobra.Command{Use: "discard [EXECUTION]...", Short: "Discard dead letters; their executions stay in history"}
	f.add(s.session, c)
	c.Flags().BoolVar(&everything, "everything", false, "all dead letters of the tenant")
	c.Flags().BoolVar(&wait, "wait", false, "wait until all are discarded")
	w.destructive(c)
	completeArgs(c, s.deadLetterNames())
	c.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := s.chosen(ctx, c, f, everything, args)
		if err != nil {
			return err
		}
		r.DryRun = true
		count, err := c.DiscardDeadLetters(ctx, r)
		if err != nil {
			return err
		}
		if w.dryRun {
			return s.begun(ctx, c, count.Begun, "discard", "dead letter", "", true, false)
		}
		if err := s.confirm(w, fmt.Sprintf("discard %s %s", counted(count.Begun), plural(count.Count, "dead letter")), fmt.Sprint(count.Count)); err != nil {
			return err
		}
		r.DryRun = false
		d, err := c.DiscardDeadLetters(ctx, r)
		if err != nil {
			return err
		}
		if d.OperationID != "" {
			return s.begun(ctx, c, d.Begun, "discard", "dead letter", "", false, wait)
		}
		s.say("Discarded %s.", counting(int64(d.Discarded), "dead letter"))
		if s.output == "table" || s.output == "wide" || s.output == "name" {
			return nil
		}
		return s.value(client.Discarded{Discarded: d.Discarded})
	})
	return c
}

func (s *session) operations() view[client.Operation] {
	return view[client.Operation]{columns[client.Operation](
		col("ID", func(o client.Operation) string { return o.OperationID }),
		col("KIND", func(o client.Operation) string { return o.Kind }),
		col("STATE", func(o client.Operation) string { return o.State }),
		col("DONE", func(o client.Operation) string { return fmt.Sprintf("%d/%d", o.Done, o.Total) }),
		col("PASSED", func(o client.Operation) string { return fmt.Sprint(o.Passed) }),
		when(s, "BEGAN", func(o client.Operation) time.Time { return o.CreatedAt }),
		wide("FINISHED (UTC)", func(o client.Operation) string { return exact(instant(o.FinishedAt)) }),
		col("BY", func(o client.Operation) string { return o.CreatedBy }),
		col("ERROR", func(o client.Operation) string { return or(o.Error, "") }),
	), func(o client.Operation) string { return o.OperationID }}
}

func (s *session) showOperation(o client.Operation) error {
	rate := ""
	if o.RatePerS != nil {
		rate = fmt.Sprintf("%g a second", *o.RatePerS)
	}
	return one(s, s.operations(), o, []field{
		{"Operation", o.OperationID},
		{"Kind", o.Kind},
		{"State", o.State},
		{"Done", fmt.Sprintf("%d of %d, %d passed over", o.Done, o.Total, o.Passed)},
		{"Rate", rate},
		{"By", o.CreatedBy},
		{"Began", s.both(o.CreatedAt)},
		{"Finished", s.both(instant(o.FinishedAt))},
		{"Error", or(o.Error, "")},
	})
}

func (s executionCommands) operationCommand() *cobra.Command {
	var p paging
	list := &cobra.Command{Use: "list", Aliases: []string{"ls"}, Short: "List operations, newest first", Args: cobra.NoArgs}
	p.flags(list)
	list.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		return listed(s.session, s.operations(), p, "There are no operations.", client.Walk(ctx, p.page(), func(ctx context.Context, p client.Page) ([]client.Operation, client.Pagination, error) {
			page, err := c.ListOperations(ctx, p)
			return page.Operations, page.Pagination, err
		}))
	})
	get := &cobra.Command{Use: "get ID", Short: "Show an operation and its progress", Args: cobra.ExactArgs(1)}
	get.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		o, err := c.Operation(ctx, args[0])
		if err != nil {
			return err
		}
		return s.showOperation(o)
	})
	watch := &cobra.Command{Use: "watch ID", Short: "Wait until an operation has finished; exit with 7 unless it succeeded", Args: cobra.ExactArgs(1)}
	watch.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		return s.awaitOperation(ctx, c, args[0])
	})
	var w write
	cancel := &cobra.Command{Use: "cancel ID", Short: "Cancel an operation; what it has done stays", Args: cobra.ExactArgs(1)}
	w.flags(cancel)
	cancel.RunE = s.run(func(ctx context.Context, c *client.Client, args []string) error {
		o, err := c.Operation(ctx, args[0])
		if err != nil {
			return err
		}
		if w.dryRun {
			return s.would(fmt.Sprintf("cancel the %s %s, which is %s with %d of %d done", o.Kind, o.OperationID, o.State, o.Done, o.Total), nil)
		}
		if o, err = c.CancelOperation(ctx, args[0]); err != nil {
			return err
		}
		s.say("The %s is %s.", o.Kind, o.State)
		if s.output == "table" {
			return nil
		}
		return s.showOperation(o)
	})
	for _, c := range []*cobra.Command{get, watch, cancel} {
		completeArgs(c, s.operationNames())
	}
	return s.noun(&cobra.Command{Use: "operation", Aliases: []string{"op", "operations"}, Short: "Background operations: backfills, redrives, discards"}, list, get, watch, cancel)
}
