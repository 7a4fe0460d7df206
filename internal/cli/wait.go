package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// waiting reports whether to wait for the result.
type waiting struct{ wait, follow bool }

func (w *waiting) flags(c *cobra.Command) {
	c.Flags().BoolVar(&w.wait, "wait", false, "wait until the execution has finished; exit with 7 unless it succeeded")
	c.Flags().BoolVar(&w.follow, "follow", false, "print the log of the execution until it has finished; exit as with --wait")
}

func (w waiting) any() bool { return w.wait || w.follow }

// await waits for an execution, and shows its progress and outcome.
func (s *session) await(ctx context.Context, c *client.Client, id string, w waiting) error {
	if w.follow {
		_, err := c.FollowLog(ctx, id, client.LogOptions{}, func(l client.LoggedLine) error { return s.logLine(l, false, false) })
		if err != nil {
			return err
		}
	}
	p := progress{s: s}
	e, err := c.WaitForExecution(ctx, id, func(e client.Execution) { p.tell(executionLine(e)) })
	p.end()
	if err != nil {
		return err
	}
	if !w.follow || s.output != "table" {
		if err := s.showExecution(e); err != nil {
			return err
		}
	}
	return endOf(e)
}

// endOf returns the error of an execution that did not succeed.
func endOf(e client.Execution) error {
	if e.Status == "SUCCEEDED" {
		return nil
	}
	why := ""
	if e.Error != nil {
		why = ": " + e.Error.Type + ": " + cut(line(headline(e.Error.Message)), 300)
	}
	return lost{fmt.Errorf("the execution ended as %s%s\n  do: 'carillon execution timeline %s' shows what happened, 'carillon execution logs %s' what it wrote", e.Status, why, e.ExecutionID, e.ExecutionID)}
}

// executionLine describes the state of an execution, in a line.
func executionLine(e client.Execution) string {
	text := e.Status
	if e.AttemptNumber > 1 || e.Status == "RETRYING" {
		text += fmt.Sprintf(", attempt %d of %d", e.AttemptNumber, e.MaxAttempts)
	}
	if p := e.Progress; p != nil && !client.Final(e.Status) {
		text += fmt.Sprintf(" %s %d%% %s", bar(int64(p.Percent), 100, 20), p.Percent, p.Message)
	}
	return text
}

// counted formats the count of a dry run.
func counted(b client.Begun) string {
	switch {
	case b.CountIsMinimum:
		return fmt.Sprintf("at least %d", b.Count)
	case b.CountIsEstimate:
		return fmt.Sprintf("about %d", b.Count)
	}
	return fmt.Sprint(b.Count)
}

// begun reports an operation that has begun, or the count of a dry run, and waits for it if asked to. what names one
// thing, of which of adds detail.
func (s *session) begun(ctx context.Context, c *client.Client, b client.Begun, do, what, of string, dryRun, wait bool) error {
	if dryRun {
		s.say("Dry run: nothing was changed. It would %s %s %s%s.", do, counted(b), plural(b.Count, what), line(of))
		if s.output == "table" || s.output == "wide" {
			_, err := fmt.Fprintln(s.out, b.Count)
			return err
		}
		return s.value(b)
	}
	s.say("Operation %s has begun to %s %s%s.", b.OperationID, do, counting(b.Count, what), line(of))
	if wait {
		return s.awaitOperation(ctx, c, b.OperationID)
	}
	if s.output == "table" || s.output == "wide" || s.output == "name" {
		_, err := fmt.Fprintln(s.out, b.OperationID)
		return err
	}
	return s.value(b)
}

// awaitOperation waits for an operation, with a progress bar on a terminal.
func (s *session) awaitOperation(ctx context.Context, c *client.Client, id string) error {
	p := progress{s: s}
	o, err := c.WaitForOperation(ctx, id, func(o client.Operation) { p.tell(operationLine(o)) })
	p.end()
	if err != nil {
		return err
	}
	if err := s.showOperation(o); err != nil {
		return err
	}
	if o.State != "SUCCEEDED" {
		return lost{errors.New("the operation ended as " + o.State)}
	}
	return nil
}

func operationLine(o client.Operation) string {
	return fmt.Sprintf("%s %s %d/%d %s", o.Kind, bar(o.Done+o.Passed, o.Total, 30), o.Done+o.Passed, o.Total, o.State)
}
