package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

func archiveDayView() view[client.ArchiveDay] {
	return view[client.ArchiveDay]{columns[client.ArchiveDay](
		col("DAY", func(d client.ArchiveDay) string { return d.Day }),
		col("EXECUTIONS", func(d client.ArchiveDay) string { return fmt.Sprint(d.Executions) }),
		col("LOG LINES", func(d client.ArchiveDay) string { return fmt.Sprint(d.LogLines) }),
		col("FILES", func(d client.ArchiveDay) string { return fmt.Sprint(d.Files) }),
		col("BYTES", func(d client.ArchiveDay) string { return fmt.Sprint(d.Bytes) }),
		col("STATE", func(d client.ArchiveDay) string {
			if d.Settled {
				return "ARCHIVED"
			}
			return "MOVING"
		}),
	), func(d client.ArchiveDay) string { return d.Day }}
}

// archiveCommand is about the place that days of history move to.
func (s operateCommands) archiveCommand() *cobra.Command {
	status := &cobra.Command{Use: "status", Short: "Show what the archive has, and whether it is behind", Args: cobra.NoArgs}
	status.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		a, err := c.Archive(ctx)
		if err != nil {
			return err
		}
		return s.showArchive(a)
	})
	run := &cobra.Command{
		Use: "run", Short: "Move what is due to the archive now", Args: cobra.NoArgs,
		Long: "Make a server look now, rather than within the hour, for days to move and for files whose retention is over. 'carillon archive status' shows the progress.",
	}
	run.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		if _, err := c.RunArchive(ctx); err != nil {
			return err
		}
		s.say("Asked for it. 'carillon archive status' shows the progress.")
		return nil
	})
	verify := &cobra.Command{
		Use: "verify", Short: "Read every archived file and compare it with the catalogue", Args: cobra.NoArgs,
		Long: "Read every archived file whole, compare its checksum and its rows with the catalogue, and list objects that the catalogue does not know. Exits with 1 if anything is wrong.",
	}
	verify.RunE = s.run(func(ctx context.Context, c *client.Client, _ []string) error {
		var req client.ArchiveVerify
		files, bad := 0, 0
		for {
			v, err := c.VerifyArchive(ctx, req)
			if err != nil {
				return err
			}
			files += v.Files
			for _, p := range v.Problems {
				bad++
				fmt.Fprintf(s.out, "%s: %s\n", p.File, p.Problem)
			}
			if req.After = v.Next; req.After == "" {
				break
			}
			s.say("%d files read, at %s", files, v.Next)
		}
		if bad > 0 {
			return fmt.Errorf("%d problems in %d archived files", bad, files)
		}
		s.say("%d archived files are as they were written.", files)
		return nil
	})
	return s.noun(&cobra.Command{Use: "archive", Short: "Look after archived history"}, status, run, verify)
}

func (s operateCommands) showArchive(a client.Archive) error {
	if s.output != "table" && s.output != "wide" {
		return one(s.session, view[client.Archive]{columns[client.Archive](col("PLACE", func(a client.Archive) string { return a.Place })), func(a client.Archive) string { return a.Place }}, a, nil)
	}
	s.say("%s, layout %s; days move %d days after they end. %d executions have moved.", a.Place, a.Layout, a.HotDays, a.Moved)
	if m := a.Moving; m != nil {
		s.say("Moving %s (%s): %d executions so far.", m.Day, m.Step, m.Rows)
	}
	if a.OverdueSince != nil {
		s.say("BEHIND since %s, by %s.", *a.OverdueSince, span(time.Duration(a.LagSeconds*float64(time.Second))))
	}
	if a.Error != nil {
		s.say("The last attempt failed: %s", *a.Error)
	}
	for _, f := range a.ForeignFiles {
		s.say("%s is unknown to the catalogue and left alone: it is not Carillon's, or was written after the backup that the database was restored from.", f)
	}
	return listedAll(s.session, archiveDayView(), "Nothing has moved yet.", func(yield func(client.ArchiveDay, error) bool) {
		for _, d := range a.Days {
			if !yield(d, nil) {
				return
			}
		}
	})
}
