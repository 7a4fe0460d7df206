package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "backup", Short: "Back the embedded store up, and restore it", Args: cobra.NoArgs,
		Long: "Back the embedded store (SQLite) up while it is used, check a backup, and restore one. Artifacts and the keys of secrets are files of their own beside it, which a backup does not hold.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(backupCreate(), backupVerify(), backupRestore())
	return c
}

// overEmbedded adds the settings of a command that works on the embedded store itself.
func overEmbedded(c *cobra.Command) func() (config.Config, error) {
	s := newSettings(c)
	s.add(c, "data", "data", " (default ./carillon-data)")
	s.add(c, "database", "database", ": sqlite:PATH, instead of the one in the data folder")
	return func() (config.Config, error) { return s.load(c, config.Default()) }
}

// interruptible ends a command's context when it is asked to stop.
func interruptible(c *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, cancel := untilTold(c.Context())
	return ctx, cancel
}

// shownBackup is a backup as -o json has it.
type shownBackup struct {
	Path   string           `json:"path"`
	Bytes  int64            `json:"bytes"`
	Schema int              `json:"schema_version"`
	Epoch  int64            `json:"epoch"`
	Tables map[string]int64 `json:"tables"`
}

func backupCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create FILE", Short: "Write everything that the store holds at one instant into a file", Args: cobra.ExactArgs(1),
		Long:    "Write everything that the embedded store holds at one instant into a file, and check that. A server may run on the store, and is not held up. The file is for its owner only; it holds job definitions, history and, sealed, secrets.",
		Example: "  carillon backup create carillon-$(date +%F).db",
	}
	load, form := overEmbedded(c), formFlag(c, "table", "json")
	dry := c.Flags().Bool("dry-run", false, "only say what would be written where")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		if *dry {
			at, bytes, err := app.BackupPlace(cfg, args[0])
			if err == nil {
				fmt.Fprintf(c.ErrOrStderr(), "Dry run: nothing is written. The backup of the store, which has %d bytes now, would be %s.\n", bytes, at)
			}
			return err
		}
		as, err := form()
		if err != nil {
			return err
		}
		ctx, cancel := interruptible(c)
		defer cancel()
		s, err := app.Backup(ctx, cfg, args[0])
		if err != nil {
			return err
		}
		tables := map[string]int64{}
		for _, t := range s.Tables {
			tables[t.Name] = t.Rows
		}
		if as == "json" {
			return encodeJSON(c.OutOrStdout(), shownBackup{s.Path, s.Bytes, s.Version, s.Epoch, tables}, "  ")
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s: %d jobs, %d executions that have not finished, %d that have; %d bytes, checked.\nNot in it: artifacts, and the keys of secrets.\n",
			s.Path, tables["jobs"], tables["live"], tables["executions"], s.Bytes)
		return nil
	}
	return c
}

func backupVerify() *cobra.Command {
	c := &cobra.Command{
		Use: "verify FILE", Short: "Check a backup and say what it holds", Args: cobra.ExactArgs(1),
		Long:    "Check every page and index of a backup, and count what it holds. It exits with 1 if the file is damaged, no backup, or of a newer version.",
		Example: "  carillon backup verify carillon-2026-11-16.db",
	}
	form := formFlag(c, "table", "json")
	c.RunE = func(c *cobra.Command, args []string) error {
		as, err := form()
		if err != nil {
			return err
		}
		ctx, cancel := interruptible(c)
		defer cancel()
		s, err := app.VerifyBackup(ctx, args[0])
		if err != nil {
			return err
		}
		if as == "json" {
			tables := map[string]int64{}
			for _, t := range s.Tables {
				tables[t.Name] = t.Rows
			}
			return encodeJSON(c.OutOrStdout(), shownBackup{s.Path, s.Bytes, s.Version, s.Epoch, tables}, "  ")
		}
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "TABLE\tROWS")
		for _, t := range s.Tables {
			fmt.Fprintf(w, "%s\t%d\n", t.Name, t.Rows)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s is sound: %d bytes, schema %04d, epoch %d.\n", s.Path, s.Bytes, s.Version, s.Epoch)
		return nil
	}
	return c
}

func backupRestore() *cobra.Command {
	c := &cobra.Command{
		Use: "restore FILE", Short: "Put a backup in the place of the store", Args: cobra.ExactArgs(1),
		Long: "Put a backup in the place of the embedded store. No server may run on it. A store that is there is kept under another name, and replaced only with --yes.\n" +
			"What ran when the backup was made runs again; instants that have passed since are caught up with as each job says.",
		Example: "  carillon backup restore carillon-2026-11-16.db --yes",
	}
	load := overEmbedded(c)
	yes := c.Flags().Bool("yes", false, "replace the store that is there")
	dry := c.Flags().Bool("dry-run", false, "only check the backup, and say what would be replaced")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		ctx, cancel := interruptible(c)
		defer cancel()
		if *dry {
			s, path, there, err := app.Restoration(ctx, cfg, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "%s is sound (%d bytes, schema %04d) and would become %s. Nothing was changed.\n", args[0], s.Bytes, s.Version, path)
			if there {
				fmt.Fprintln(c.ErrOrStderr(), "What is there would be kept under another name; --yes is needed for that.")
			}
			return nil
		}
		s, kept, err := app.Restore(ctx, cfg, args[0], *yes)
		if errors.Is(err, engine.ErrConflict) && !*yes {
			return usage{fmt.Errorf("%w; --yes replaces it, and keeps it under another name", err)}
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s is restored from %s; its tokens begin with epoch %d.\n", s.Path, args[0], s.Epoch)
		if kept != "" {
			fmt.Fprintf(c.ErrOrStderr(), "What was there is now %s.\n", kept)
		}
		return nil
	}
	return c
}
