package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func (s executionCommands) executionLogs() *cobra.Command {
	var follow, times, streams bool
	var attempt int
	c := &cobra.Command{
		Use: "logs EXECUTION", Aliases: []string{"log"}, Short: "Print the log of an execution, or of the latest one of a job",
		Long:    "Print what the attempts of an execution wrote: stdout to standard output, stderr to standard error. Control characters are escaped. A program's two streams are read separately, so lines that it wrote to both at the same time may appear in either order.",
		Example: "  carillon execution logs 0190a6c8-7b3e-7cc0-8a1b-0123456789ab --follow\n  carillon execution logs report -o jsonl",
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "follow until the execution has finished; exit with 7 unless it succeeded")
	c.Flags().BoolVarP(&times, "timestamps", "t", false, "print the time of each line")
	c.Flags().BoolVar(&streams, "streams", false, "print all lines to standard output, with the stream of each before it")
	c.Flags().IntVar(&attempt, "attempt", 0, "only the attempt with this number")
	s.looking(c, func(ctx context.Context, c *client.Client, e client.Execution) error {
		o := client.LogOptions{Attempt: attempt, Limit: 1000}
		shown := 0 // the attempt of the last line
		print := func(l client.LoggedLine) error {
			if l.Attempt != shown && (l.Attempt > 1 || e.AttemptNumber > 1) && !strings.HasPrefix(s.output, "json") {
				s.say("Attempt %d:", l.Attempt)
			}
			shown = l.Attempt
			return s.logLine(l, times, streams)
		}
		if !follow {
			if err := readLog(ctx, c, e.ExecutionID, o, print); err != nil || shown > 0 {
				return err
			}
			s.say("There is no log: only commands and handlers write one. 'carillon execution attempts %s' shows the response of each attempt, or why it failed.", e.ExecutionID)
			return nil
		}
		status, err := c.FollowLog(ctx, e.ExecutionID, o, print)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
			return nil // Ctrl-C ends the display, not the execution
		case err != nil:
			return err
		case status != "SUCCEEDED":
			return lost{fmt.Errorf("the execution ended as %s", status)}
		}
		return nil
	})
	look := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if attempt < 0 {
			return usage{fmt.Errorf("--attempt is %d; want the number of an attempt, from 1", attempt)}
		}
		return look(c, args)
	}
	return c
}

// readLog shows the log so far.
func readLog(ctx context.Context, cl *client.Client, id string, o client.LogOptions, show func(client.LoggedLine) error) error {
	for {
		page, err := cl.Log(ctx, id, o)
		if err != nil {
			return err
		}
		for _, l := range page.Lines {
			if err := show(l); err != nil {
				return err
			}
		}
		if page.Pagination.NextCursor == nil {
			return nil
		}
		o.After = *page.Pagination.NextCursor
	}
}

// logLine prints a line of a log: as text to the matching stream, or as JSON.
func (s *session) logLine(l client.LoggedLine, times, streams bool) error {
	if strings.HasPrefix(s.output, "json") {
		return encodeJSON(s.out, l, "")
	}
	out := s.out
	if streams {
		l.Text = fmt.Sprintf("%-6s | %s", l.Stream, l.Text)
	} else if l.Stream == "stderr" {
		out = s.err
	}
	return printLine(out, l, times)
}

func printLine(w io.Writer, l client.LoggedLine, times bool) error {
	at := ""
	if times {
		at = l.At.Format("2006-01-02T15:04:05.000000Z07:00") + " "
	}
	_, err := fmt.Fprintln(w, at+plain(l.Text))
	return err
}
