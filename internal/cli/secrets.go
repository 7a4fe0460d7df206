package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

func rekeyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "rekey", Short: "Encrypt every stored secret under the first key",
		Long: "Encrypt every stored secret under the first key of the key file. The old keys must be there behind it; when this is done they may go.\n" +
			"Servers on PostgreSQL may run meanwhile, with both keys. It may be stopped and run again.",
		Args: cobra.NoArgs, Example: "  carillon secrets rekey --database postgres://carillon@db.internal/carillon --secrets-key-file keys",
	}
	s := newSettings(c)
	s.add(c, "database", "database", ": sqlite:PATH or postgres://…")
	s.add(c, "secrets-key-file", "secrets.key_file", "")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := s.load(c, config.Default())
		if err != nil {
			return err
		}
		if cfg.Database == "" {
			return noDatabase
		}
		ctx, cancel := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		context.AfterFunc(ctx, cancel)
		n, err := app.Rekey(ctx, cfg, func(done int) { fmt.Fprintf(c.ErrOrStderr(), "%d secrets are encrypted anew\n", done) })
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "All secrets are encrypted under the first key; %d were under another.\n", n)
		return nil
	}
	return c
}
