package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

func rekeyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "rekey", Short: "Re-encrypt all stored secrets with the first key",
		Long: "Re-encrypt all stored secrets with the first key of the key file. The old keys must follow it in the file; remove them afterwards.\n" +
			"Servers on PostgreSQL can keep running, with both keys. You can stop and repeat it.",
		Args: cobra.NoArgs, Example: "  carillon secret rekey --database postgres://carillon@db.internal/carillon --secrets-key-file keys",
	}
	s := newSettings(c)
	s.add(c, "database", "database", ": sqlite:PATH or postgres://…")
	s.add(c, "secrets-key-file", "secrets.key_file", "")
	dry := c.Flags().Bool("dry-run", false, "count the secrets under other keys and check that each can be decrypted, and do nothing")
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
				fmt.Fprintf(c.OutOrStdout(), "Dry run: nothing was changed. %d secrets are encrypted with other keys, and can be decrypted.\n", n)
			}
			return err
		}
		n, err := app.Rekey(ctx, cfg, func(done int) { fmt.Fprintf(c.ErrOrStderr(), "%d secrets re-encrypted\n", done) })
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "All secrets are encrypted with the first key; %d were re-encrypted.\n", n)
		return nil
	}
	return c
}

func recoverCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "recover", Short: "Create a key with role system directly in the database, if all keys are lost; it is printed once", Args: cobra.NoArgs,
		Long: "Create an API key with role system directly in the database, if you have lost all keys. It needs no server: access to the database is enough.\n" +
			"Servers on PostgreSQL accept the key within 5 s; on SQLite, stop the server first. The audit log records it. Revoke the lost keys afterwards.",
		Example: "  carillon key recover --database postgres://carillon@db.internal/carillon",
	}
	load := overDatabase(c)
	dry := c.Flags().Bool("dry-run", false, "only check that the database is reachable and that its schema matches this version")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		if *dry {
			if err := app.CheckDatabase(c.Context(), cfg); err != nil {
				return err
			}
			fmt.Fprintln(c.ErrOrStderr(), "Dry run: nothing was changed. It would create a key with role system.")
			return nil
		}
		id, key, err := app.RecoverKey(c.Context(), cfg)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "Created the key %s with role system. It is shown only once:\n", id)
		_, err = fmt.Fprintln(c.OutOrStdout(), key)
		return err
	}
	return c
}
