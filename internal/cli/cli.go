// Package cli is the command line: it reads flags, fills the settings, and
// hands over to app. What commands print for people goes to standard error,
// what programs may read to standard output, but for the greeting of a server.
//
// Exit codes: 0 done, 1 failed, 2 bad usage or settings.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

// The exit codes.
const (
	done   = 0
	failed = 1
	misuse = 2
)

// usage is an error that better arguments or settings would mend.
type usage struct{ error }

// Main runs the command line and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	app.Roomy()
	root := &cobra.Command{
		Use: "carillon", Short: "A distributed job scheduler and durable job queue",
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(dev(), serve(), workerCommand(), artifactCommand(), benchCommand(app.OpenScratch), configCommand(), migrateCommand(), backupCommand(), moveCommand(), cronCommand(), executionCommand(), secretsCommand(), version())
	misused(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	return exit(root.ExecuteContext(context.Background()), stderr)
}

// misused has a command, and those below it, say what they want where they are given too few arguments or too many.
func misused(c *cobra.Command) {
	for _, sub := range c.Commands() {
		misused(sub)
	}
	check := c.Args
	if check == nil || !c.HasParent() { // the root knows what commands there are
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usage{fmt.Errorf("%w; want: %s", err, c.UseLine())}
		}
		return nil
	}
}

// exit tells what went wrong and returns the exit code.
func exit(err error, stderr io.Writer) int {
	if err == nil {
		return done
	}
	var u usage
	var wrong config.Mistakes
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "carillon: the settings are wrong:\n%s\n", indent(wrong.Error()))
		return misuse
	case errors.As(err, &u) || strings.HasPrefix(err.Error(), "unknown command"):
		fmt.Fprintf(stderr, "carillon: %v\nRun 'carillon --help' for what there is.\n", err)
		return misuse
	}
	fmt.Fprintf(stderr, "carillon: %v\n", err)
	return failed
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

func version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), app.Version) },
	}
}

func dev() *cobra.Command {
	var demo bool
	c := &cobra.Command{
		Use: "dev", Short: "Run everything in one process, with no other software",
		Long: "Run API, scheduler and workers in one process on the embedded store. It listens on loopback only and asks for no sign-in.",
		Args: cobra.NoArgs, Example: "  carillon dev --demo",
	}
	s := newSettings(c)
	s.add(c, "listen", "listen", "; loopback only (default 127.0.0.1:8080)")
	s.add(c, "data", "data", " (default ./carillon-data)")
	s.rest(c, "database", "roles")
	c.Flags().BoolVar(&demo, "demo", false, "add a few sample jobs, one of which fails on purpose")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := s.load(c, bases["dev"]())
		if err != nil {
			return err
		}
		if !onLoopback(cfg.Listen) {
			return config.Mistakes{{Key: "listen", Value: cfg.Listen, Want: "a loopback address such as 127.0.0.1:8080, since dev asks for no sign-in; for others there is 'carillon serve'", From: "as set"}}
		}
		cfg.Database, cfg.Roles = app.DevDatabase(cfg.Data), config.Roles
		return run(c, cfg, app.Options{Dev: true, Demo: demo})
	}
	return c
}

func serve() *cobra.Command {
	c := &cobra.Command{
		Use: "serve", Short: "Run a server on a database, with sign-in",
		Long: "Run the chosen roles on PostgreSQL (or SQLite). Every request needs an API key: the first start prints one, or takes CARILLON_BOOTSTRAP_KEY.",
		Args: cobra.NoArgs, Example: "  carillon serve --database postgres://carillon@db.internal/carillon",
	}
	s := newSettings(c)
	s.add(c, "listen", "listen", " (default :8080)")
	s.add(c, "database", "database", ": sqlite:PATH or postgres://…")
	s.add(c, "roles", "roles", " (default api,scheduler,worker)")
	s.add(c, "tls-cert", "tls.cert", "")
	s.add(c, "tls-key", "tls.key", "")
	s.add(c, "secrets-key-file", "secrets.key_file", "")
	allowCallback(c)
	allowCommands(c, s)
	s.add(c, "allow-async-commit", "store.allow_async_commit", "")
	s.add(c, "migrate", "store.migrate", " (default true)")
	s.rest(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := s.load(c, bases["serve"]())
		if err != nil {
			return err
		}
		if cfg.Database == "" {
			return noDatabase
		}
		return run(c, cfg, app.Options{})
	}
	return c
}

// run serves until the process is told to stop; being told twice ends it at once.
func run(c *cobra.Command, cfg config.Config, o app.Options) error {
	ctx, cancel := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(ctx, cancel)
	o.Config, o.Out, o.Logger = cfg, c.OutOrStdout(), logger(cfg, c.ErrOrStderr())
	return app.Run(ctx, o)
}

func logger(cfg config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		level = slog.LevelInfo // the settings were checked
	}
	o := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// onLoopback reports whether an address to listen on is only for this machine.
func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback()
	}
	return host == "localhost"
}
