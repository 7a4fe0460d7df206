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
		Long: "Move everything from the embedded store (SQLite) to PostgreSQL: jobs with their next instants and counts, what waits, history, logs, keys, sealed secrets. " +
			"No server may run on either. The target must be empty; it is filled in one transaction and compared before that is committed, so that a move that was cut off is simply begun anew.\n" +
			"What ran runs again. Then the old file has another name, so that nothing fires twice. Artifacts and the keys of secrets stay where they are.",
		Example: "  carillon move --data ./carillon-data --to postgres://carillon@db.internal/carillon",
	}
	load, form := overEmbedded(c), formFlag(c, "table", "json")
	to := c.Flags().String("to", "", "where to move: postgres://USER@HOST:PORT/NAME")
	dry := c.Flags().Bool("dry-run", false, "rehearse it: everything is copied and compared, and taken back; where the target has no schema yet, only counted")
	keep := c.Flags().Bool("keep-source", false, "leave the old file its name; a server that is started on it fires everything again")
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
			return usage{fmt.Errorf("--to is missing: want where to move, as postgres://USER@HOST:PORT/NAME")}
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
			fmt.Fprintln(c.ErrOrStderr(), "Everything could be moved, and both sides were alike. It was a rehearsal: nothing was changed.")
			return nil
		case *dry:
			fmt.Fprintln(c.ErrOrStderr(), "So much would be moved. The target can be reached and has no schema yet; 'carillon migrate up' makes one, and then the whole move can be rehearsed. Nothing was changed.")
			return nil
		}
		fmt.Fprintln(c.ErrOrStderr(), "Everything is moved. Start 'carillon serve --database postgres://…' with the same keys of secrets (--secrets-key-file) and the same folder of artifacts (--artifacts-folder).")
		if retired != "" {
			fmt.Fprintf(c.ErrOrStderr(), "The old store is now %s.\n", retired)
		}
		return nil
	}
	return c
}

// shownTable is a table as -o json has it.
type shownTable struct {
	Table    string `json:"table"`
	Rows     int64  `json:"rows"`
	Checksum string `json:"checksum"`
}
