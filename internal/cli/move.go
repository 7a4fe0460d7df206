package cli

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/move"
)

func moveCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "move --to postgres://…", Short: "Move everything from the embedded store to PostgreSQL", Args: cobra.NoArgs,
		Long: "Move everything from the embedded store (SQLite) to PostgreSQL: jobs with their next run times and counts, waiting executions, history, logs, keys, encrypted secrets. " +
			"No server may be running on either. The target must be empty. It is filled in one transaction and compared before the commit, so you can simply repeat an interrupted move.\n" +
			"Executions that were running run again. The old file is renamed, so that nothing runs twice. Artifacts move along, unless blobs.url names another place for them. The secrets key file stays where it is.",
		Example: "  carillon move --data ./carillon-data --to postgres://carillon@db.internal/carillon",
	}
	load, form := overEmbedded(c), formFlag(c, "table", "json")
	to := c.Flags().String("to", "", "where to move: postgres://USER@HOST:PORT/NAME")
	dry := c.Flags().Bool("dry-run", false, "rehearse it: copy and compare everything, then roll back; if the target has no schema yet, only count")
	keep := c.Flags().Bool("keep-source", false, "do not rename the old file; a server started on it would run everything again")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		as, err := form()
		if err != nil {
			return err
		}
		if *to == "" {
			return usage{fmt.Errorf("--to is missing; want postgres://USER@HOST:PORT/NAME")}
		}
		ctx, cancel := interruptible(c)
		defer cancel()
		var tell move.Progress = bench.Lines{Out: c.ErrOrStderr()}
		if w := c.ErrOrStderr(); drawable(w) {
			tell = &bench.Bar{Out: w, Colour: coloured(w)}
		}
		var moved []move.Moved
		var retired string
		rehearsed := false
		if *dry {
			moved, rehearsed, err = app.RehearseMove(ctx, cfg, *to, tell)
		} else {
			moved, retired, err = app.Move(ctx, cfg, *to, *keep, tell)
		}
		if err != nil {
			return err
		}
		if as == "json" {
			out := make([]shownTable, len(moved))
			for i, m := range moved {
				out[i] = shownTable{m.Table, m.Rows, m.Checksum}
			}
			if err := encodeJSON(c.OutOrStdout(), out, "  "); err != nil {
				return err
			}
		} else {
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "TABLE\tROWS\tCHECKSUM ON BOTH SIDES")
			for _, m := range moved {
				fmt.Fprintf(w, "%s\t%d\t%s\n", m.Table, m.Rows, m.Checksum)
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
		switch {
		case rehearsed:
			fmt.Fprintln(c.ErrOrStderr(), "Dry run: everything could be moved, and both sides matched. Nothing was changed.")
			return nil
		case *dry:
			fmt.Fprintln(c.ErrOrStderr(), "This is what would be moved. The target is reachable but has no schema yet; run 'carillon migrate up' to rehearse the whole move. Nothing was changed.")
			return nil
		}
		fmt.Fprintln(c.ErrOrStderr(), "Everything has been moved. Start 'carillon serve --database postgres://…' with the same secrets key file (--secrets-key-file) and, if you set it, the same place for artifacts (--blobs-url).")
		if retired != "" {
			fmt.Fprintf(c.ErrOrStderr(), "The old store is now %s.\n", retired)
		}
		return nil
	}
	return c
}

// shownTable is a table as -o json prints it.
type shownTable struct {
	Table    string `json:"table"`
	Rows     int64  `json:"rows"`
	Checksum string `json:"checksum"`
}
