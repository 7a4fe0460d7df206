package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// byFilter holds the flags that apply a command to all executions a filter selects, in the background.
type byFilter struct {
	filter     []string
	everything bool
	rate       float64
	wait       bool
}

// flags adds the flags; a command with its own --wait passes it to run.
func (b *byFilter) flags(c *cobra.Command, wait bool) {
	c.Flags().StringArrayVar(&b.filter, "filter", nil, "instead of ids, in the background: NAME=VALUE, with NAME one of status, job, job-name, tag, worker, trigger, from, until and q (repeatable)")
	c.Flags().BoolVar(&b.everything, "everything", false, "instead of ids: all executions of the tenant")
	c.Flags().Float64Var(&b.rate, "rate", 0, "with --filter: maximum number per second (default no limit)")
	if wait {
		c.Flags().BoolVar(&b.wait, "wait", false, "with --filter: wait until all are done")
	}
	complete(c, "filter", fixed("status=", "job=", "job-name=", "tag=", "worker=", "trigger=", "from=", "until=", "q="))
}

// used reports whether a filter was given instead of ids.
func (b *byFilter) used() bool { return len(b.filter) > 0 || b.everything }

// args accepts as many ids as a command takes, or none with a filter.
func (b *byFilter) args(ids cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if b.used() {
			return cobra.NoArgs(c, args)
		}
		return ids(c, args)
	}
}

// selection returns the filter.
func (b *byFilter) selection() (*client.ExecutionSelection, error) {
	var f client.ExecutionSelection
	members := map[string]*string{
		"status": &f.Status, "job": &f.JobID, "job-name": &f.JobName, "tag": &f.Tag, "worker": &f.WorkerID, "trigger": &f.Trigger, "from": &f.StartDate, "until": &f.EndDate, "q": &f.Q,
	}
	for _, text := range b.filter {
		name, value, ok := strings.Cut(text, "=")
		member := members[name]
		if !ok || member == nil || value == "" || *member != "" {
			return nil, usage{fmt.Errorf("--filter %q: want NAME=VALUE, each name once: %s", text, strings.Join(slices.Sorted(maps.Keys(members)), ", "))}
		}
		*member = value
	}
	return &f, nil
}

// executionsCount formats the count of a dry run.
func executionsCount(b client.ExecutionBulkBegun) string {
	if b.CountIsEstimate {
		return fmt.Sprintf("about %d", b.Count)
	}
	return fmt.Sprint(b.Count)
}

// overExecutions cancels or retries all executions that the filter selects, after showing how many there are. Before
// cancelling it asks for confirmation.
func (s executionCommands) overExecutions(ctx context.Context, c *client.Client, b byFilter, w write, r client.ExecutionBulkRequest) error {
	var err error
	if r.Filter, err = b.selection(); err != nil {
		return err
	}
	if b.rate != 0 {
		r.RatePerS = &b.rate
	}
	r.DryRun = true
	got, err := c.BulkExecutions(ctx, r)
	if err != nil {
		return err
	}
	if w.dryRun {
		return s.executionsSample(got, r.Action)
	}
	if r.Action == "cancel" {
		if err := s.confirm(w, fmt.Sprintf("cancel %s %s", executionsCount(got), plural(got.Count, "execution")), fmt.Sprint(got.Count)); err != nil {
			return err
		}
	} else {
		s.say("This will %s %s %s.", r.Action, executionsCount(got), plural(got.Count, "execution"))
	}
	r.DryRun = false
	if got, err = c.BulkExecutions(ctx, r); err != nil {
		return err
	}
	return s.begun(ctx, c, client.Begun{OperationID: got.OperationID, Count: got.Count}, r.Action, "execution", "", false, b.wait)
}

// executionsSample shows the count of a dry run, and the first few.
func (s executionCommands) executionsSample(b client.ExecutionBulkBegun, action string) error {
	s.say("Dry run: nothing was changed. It would %s %s %s.", action, executionsCount(b), plural(b.Count, "execution"))
	if s.output != "table" && s.output != "wide" && s.output != "name" {
		return s.value(b)
	}
	if n := b.Count - int64(len(b.Sample)); n > 0 && len(b.Sample) > 0 {
		s.say("The first ones:")
	}
	_, err := show(s.session, view[client.ExecutionSample]{columns[client.ExecutionSample](
		col("ID", func(x client.ExecutionSample) string { return x.ExecutionID }),
		col("JOB", func(x client.ExecutionSample) string { return x.JobName }),
		col("STATUS", func(x client.ExecutionSample) string { return x.Status }),
	), func(x client.ExecutionSample) string { return x.ExecutionID }}, each(b.Sample))
	return err
}
