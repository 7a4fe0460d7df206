package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func backupCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "backup [--to URL]", Short: "Back up and restore the embedded store", Args: cobra.NoArgs,
		Long: "Back up the embedded store (SQLite) while it is in use, verify a backup, and restore one. Artifacts are part of it, unless blobs.url names another place for them. The secrets key file is a separate file and not part of a backup.\n" +
			"With --to, store a backup in a folder or bucket, under a name of its own; run that from a timer. 'carillon restore' restores it. Credentials of a bucket come from the environment.",
		Example: "  carillon backup --to s3://backups/carillon --keep 14 --database sqlite:/var/lib/carillon/carillon.db\n  carillon backup create carillon-$(date +%F).db",
	}
	load, form := overEmbedded(c), formFlag(c, "table", "json")
	to := c.Flags().String("to", "", "where to store a backup: file:PATH or s3://BUCKET/PREFIX?endpoint=URL")
	keep := c.Flags().Int("keep", 0, "how many backups of this store to keep there; older ones are deleted (default all)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *to == "" {
			if c.Flags().Changed("keep") {
				return usage{errors.New("want --to beside --keep: where the backups are")}
			}
			return c.Help()
		}
		if *keep < 0 || c.Flags().Changed("keep") && *keep == 0 {
			return usage{fmt.Errorf("--keep %d: want 1 or more", *keep)}
		}
		as, err := form()
		if err != nil {
			return err
		}
		cfg, err := load()
		if err != nil {
			return err
		}
		ctx, cancel := interruptible(c)
		defer cancel()
		p, place, deleted, err := app.BackupTo(ctx, cfg, *to, *keep)
		if err != nil {
			return err
		}
		if as == "json" {
			return encodeJSON(c.OutOrStdout(), storedBackup{p.ID(), place, p.Bytes, p.Began, p.Ended, deleted}, "  ")
		}
		fmt.Fprintf(c.ErrOrStderr(), "Stored the backup %s in %s: %d bytes, everything acknowledged before %s. Deleted %s.\nNot included: the secrets key file, and artifacts if blobs.url names a folder or a bucket.\n",
			p.ID(), place, p.Bytes, p.Began.UTC().Format(exactTime), counting(int64(deleted), "older backup"))
		return nil
	}
	c.AddCommand(backupCreate(), backupVerify(), backupRestore())
	return c
}

// storedBackup is a backup in a folder or bucket as -o json prints it.
type storedBackup struct {
	ID         string    `json:"id"`
	Place      string    `json:"place"`
	Bytes      int64     `json:"bytes"`
	CompleteTo time.Time `json:"complete_to"`
	Ended      time.Time `json:"ended"`
	Deleted    int       `json:"deleted"`
}

// overEmbedded adds the settings of a command that works on the embedded store itself.
func overEmbedded(c *cobra.Command) func() (config.Config, error) {
	s := newSettings(c)
	s.add(c, "data", "data", " (default ./carillon-data)")
	s.add(c, "database", "database", ": sqlite:PATH, instead of the one in the data folder")
	return func() (config.Config, error) { return s.load(c, config.Default()) }
}

// interruptible cancels a command's context on a signal.
func interruptible(c *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, cancel := untilTold(c.Context())
	return ctx, cancel
}

// shownBackup is a backup as -o json prints it.
type shownBackup struct {
	Path   string           `json:"path"`
	Bytes  int64            `json:"bytes"`
	Schema int              `json:"schema_version"`
	Epoch  int64            `json:"epoch"`
	Tables map[string]int64 `json:"tables"`
}

func backupCreate() *cobra.Command {
	c := &cobra.Command{
		Use: "create FILE", Short: "Write a consistent backup of the store to a file", Args: cobra.ExactArgs(1),
		Long:    "Write a consistent backup of the embedded store to a file, and verify it. A server may be running, and is not slowed down. Only its owner can read the file; it holds job definitions, history and encrypted secrets.",
		Example: "  carillon backup create carillon-$(date +%F).db",
	}
	load, form := overEmbedded(c), formFlag(c, "table", "json")
	dry := c.Flags().Bool("dry-run", false, "show what would be written where, and do nothing")
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		if *dry {
			at, bytes, err := app.BackupPlace(cfg, args[0])
			if err == nil {
				fmt.Fprintf(c.ErrOrStderr(), "Dry run: nothing was written. The store has %d bytes; the backup would be %s.\n", bytes, at)
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
		fmt.Fprintf(c.ErrOrStderr(), "%s: %d jobs, %d unfinished and %d finished executions; %d bytes, verified.\nNot included: the secrets key file, and artifacts if blobs.url names a folder or a bucket.\n",
			s.Path, tables["jobs"], tables["live"], tables["executions"], s.Bytes)
		return nil
	}
	return c
}

func backupVerify() *cobra.Command {
	c := &cobra.Command{
		Use: "verify FILE", Short: "Verify a backup and show what it holds", Args: cobra.ExactArgs(1),
		Long:    "Check every page and index of a backup, and count its rows. Exits with 1 if the file is damaged, not a backup, or from a newer version.",
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
		fmt.Fprintf(c.ErrOrStderr(), "%s is valid: %d bytes, schema %04d, epoch %d.\n", s.Path, s.Bytes, s.Version, s.Epoch)
		return nil
	}
	return c
}

func backupRestore() *cobra.Command {
	c := &cobra.Command{
		Use: "restore FILE", Short: "Replace the store with a backup", Args: cobra.ExactArgs(1),
		Long: "Replace the embedded store with a backup. No server may be running on it. An existing store is replaced only with --yes, and kept under another name.\n" +
			"Executions that were running when the backup was made run again. Runs missed since then follow the catch-up policy of each job.",
		Example: "  carillon backup restore carillon-2026-11-16.db --yes",
	}
	load := overEmbedded(c)
	yes := c.Flags().Bool("yes", false, "replace an existing store")
	dry := c.Flags().Bool("dry-run", false, "verify the backup and show what would be replaced, and do nothing")
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
			fmt.Fprintf(c.ErrOrStderr(), "%s is valid (%d bytes, schema %04d) and would become %s. Nothing was changed.\n", args[0], s.Bytes, s.Version, path)
			if there {
				fmt.Fprintln(c.ErrOrStderr(), "The existing store would be kept under another name; that needs --yes.")
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
		fmt.Fprintf(c.ErrOrStderr(), "Restored %s from %s; its fencing tokens start at epoch %d.\n", s.Path, args[0], s.Epoch)
		if kept != "" {
			fmt.Fprintf(c.ErrOrStderr(), "The previous store is now %s.\n", kept)
		}
		return nil
	}
	return c
}
