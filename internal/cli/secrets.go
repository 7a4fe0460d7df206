package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

func rekeyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "rekey", Short: "Encrypt every stored secret under the first key",
		Long: "Encrypt every stored secret under the first key of the key file. The old keys must be there behind it; when this is done they may go.\n" +
			"Servers on PostgreSQL may run meanwhile, with both keys. It may be stopped and run again.",
		Args: cobra.NoArgs, Example: "  carillon secret rekey --database postgres://carillon@db.internal/carillon --secrets-key-file keys",
	}
	s := newSettings(c)
	s.add(c, "database", "database", ": sqlite:PATH or postgres://…")
	s.add(c, "secrets-key-file", "secrets.key_file", "")
	dry := c.Flags().Bool("dry-run", false, "only count those under another key, and find that each can be opened")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := s.load(c, config.Default())
		if err != nil {
			return err
		}
		if cfg.Database == "" {
			return noDatabase
		}
		ctx, cancel := untilTold(c.Context())
		defer cancel()
		if *dry {
			n, err := app.Rekeying(ctx, cfg)
			if err == nil {
				fmt.Fprintf(c.OutOrStdout(), "Dry run: nothing is changed. %d secrets are under another key than the first, and can be opened.\n", n)
			}
			return err
		}
		n, err := app.Rekey(ctx, cfg, func(done int) { fmt.Fprintf(c.ErrOrStderr(), "%d secrets are encrypted anew\n", done) })
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "All secrets are encrypted under the first key; %d were under another.\n", n)
		return nil
	}
	return c
}

func recoverCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "recover", Short: "Make a key of role system in the database itself, where all keys are lost; it is printed once", Args: cobra.NoArgs,
		Long: "Make an API key of role system in the database itself, for whoever has lost all of them: it asks no server, and whoever has the database may do it.\n" +
			"Servers on PostgreSQL take the key within 5 s; on SQLite the server must be stopped. It is in the audit log. Revoke the lost ones afterwards.",
		Example: "  carillon key recover --database postgres://carillon@db.internal/carillon",
	}
	load := overDatabase(c)
	dry := c.Flags().Bool("dry-run", false, "only see that the database can be reached, and that its schema is this version's")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		if *dry {
			if err := app.Reach(c.Context(), cfg); err != nil {
				return err
			}
			fmt.Fprintln(c.ErrOrStderr(), "Dry run: nothing is changed. It would make a key of role system.")
			return nil
		}
		id, key, err := app.RecoverKey(c.Context(), cfg)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "Made the key %s, of role system. It is shown only this once:\n", id)
		_, err = fmt.Fprintln(c.OutOrStdout(), key)
		return err
	}
	return c
}
