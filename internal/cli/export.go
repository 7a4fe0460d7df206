package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// executionFilter holds the flags that select executions.
type executionFilter struct {
	client.ExecutionFilter
	times
}

func (f *executionFilter) flags(s *session, c *cobra.Command) {
	c.Flags().StringVar(&f.Job, "job", "", "of this job, by id, key or name")
	c.Flags().StringSliceVar(&f.Status, "status", nil, "in one of these states")
	c.Flags().StringVar(&f.JobName, "job-name", "", "of all jobs with exactly this name")
	c.Flags().StringVar(&f.Tag, "tag", "", "of jobs with this tag")
	c.Flags().StringVar(&f.Worker, "worker", "", "run by this worker, now or last")
	c.Flags().StringSliceVar(&f.Trigger, "trigger", nil, "api, schedule, manual, catch_up, backfill, retry, redrive or workflow")
	c.Flags().StringVar(&f.Q, "query", "", "with this text in the job's name or the error")
	f.times.flags(c, "scheduled at or after this time, such as -1h or 2026-01-31", "scheduled before this time")
	complete(c, "job", s.jobNames())
	complete(c, "status", fixed(statuses...))
	complete(c, "tag", s.tags())
	complete(c, "worker", s.workerNames())
	complete(c, "trigger", fixed("api", "schedule", "manual", "catch_up", "backfill", "retry", "redrive", "workflow"))
}

func (f *executionFilter) read(ctx context.Context, s *session, c *client.Client) (client.ExecutionFilter, error) {
	out := f.ExecutionFilter
	var err error
	if out.From, out.Until, err = f.times.read(s); err != nil || out.Job == "" {
		return out, err
	}
	j, err := findJob(ctx, c, out.Job)
	out.Job = j.JobID
	return out, err
}

// showText copies text to a terminal, escaping control characters that tenants may have written.
func showText(w io.Writer, r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		text, err := in.ReadString('\n')
		if _, bad := io.WriteString(w, lines(text)); bad != nil {
			return bad
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s executionCommands) executionExport() *cobra.Command {
	var f executionFilter
	format := "jsonl"
	c := &cobra.Command{
		Use: "export", Short: "Write all executions that match a filter to standard output", Args: cobra.NoArgs,
		Example: "  carillon execution export --format csv --from 2026-01-01 --to 2026-02-01 > january.csv",
	}
	c.Flags().StringVar(&format, "format", format, "csv, jsonl or parquet")
	f.flags(s.session, c)
	complete(c, "format", fixed("csv", "jsonl", "parquet"))
	c.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		if format == "parquet" && terminal(s.out) {
			return usage{errors.New("parquet is binary; write it to a file: carillon execution export --format parquet > FILE")}
		}
		filter, err := f.read(ctx, s.session, c)
		if err != nil {
			return err
		}
		r, err := c.ExportExecutions(ctx, format, filter)
		if err != nil {
			return err
		}
		defer r.Close()
		if terminal(s.out) {
			err = showText(s.out, r)
		} else {
			_, err = io.Copy(s.out, r)
		}
		if err != nil {
			return fmt.Errorf("the export is incomplete: %w", err)
		}
		return nil
	})
	return c
}
