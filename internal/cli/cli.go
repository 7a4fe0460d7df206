// Package cli is the command line. Commands that run a server read flags, fill the settings, and hand over to app.
// All others are ordinary clients of the API (session) and never open a store, except those that maintain one:
// migrate, backup, move, rekey. Output for people goes to standard error, output for programs to standard output,
// except for the greeting of a server.
//
// Exit codes: 0 done, 1 failed, 2 bad usage or settings, 3 not found, 4 denied, 5 conflict, 6 unavailable, 7 the
// awaited result was not a success, 130 stopped by Ctrl-C.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

// Main runs the command line and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	app.Roomy()
	return run(args, &session{in: os.Stdin, out: stdout, err: stderr, now: time.Now})
}

func run(args []string, s *session) int {
	c := root(s)
	c.SetArgs(args)
	c.SetOut(s.out)
	c.SetErr(s.err)
	ran, err := c.ExecuteContextC(context.Background())
	return exit(ran, err, s.err)
}

// root returns the tree of all commands.
func root(s *session) *cobra.Command {
	jobs, executions, workflows, runs, operate, access := jobCommands{s}, executionCommands{s}, workflowCommands{s}, runCommands{s}, operateCommands{s}, accessCommands{s}
	c := &cobra.Command{
		Use: "carillon", Short: "A distributed job scheduler and durable job queue",
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"run", "Run Carillon:", []*cobra.Command{dev(), serve(), workerCommand()}},
		{"use", "Work with jobs:", []*cobra.Command{jobs.jobCommand(), jobs.applyCommand(), jobs.planCommand(), jobs.importCommand(), executions.executionCommand(), workflows.workflowCommand(), runs.runCommand(), runs.approvalsCommand(), runs.eventCommand(), executions.dlqCommand(), executions.operationCommand(), operate.forecastCommand(), access.calendarCommand(), operate.artifactCommand(), cronCommand()}},
		{"look", "Operate:", []*cobra.Command{operate.topCommand(), operate.doctorCommand(), operate.supportCommand(), operate.healthCommand(), operate.queueCommand(), operate.archiveCommand(), operate.workersCommand(), operate.notificationCommand(), jobs.badgeCommand(), configCommand(), migrateCommand(), backupCommand(), restoreCommand(), moveCommand(), benchCommand(app.OpenScratch)}},
		{"access", "Access:", []*cobra.Command{access.loginCommand(), access.contextCommand(), access.keyCommand(), access.signInCommand(), access.secretCommand(), operate.signingCommand(), access.tenantCommand(), access.holdCommand(), operate.auditCommand()}},
	} {
		c.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, sub := range g.commands {
			sub.GroupID = g.id
			c.AddCommand(sub)
		}
	}
	c.AddCommand(access.openCommand(), access.versionCommand(), docsCommand(s))
	misused(c)
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if name := c.Flags().Arg(0); name != "" && c.HasSubCommands() { // the flag may belong to the command that was meant
			return usage{noCommand(c, name)}
		}
		return usage{err}
	})
	return c
}

// misused makes a command and its subcommands explain what they want when given too few or too many arguments.
func misused(c *cobra.Command) {
	for _, sub := range c.Commands() {
		misused(sub)
	}
	check := c.Args
	if check == nil || !c.HasParent() { // the root lists the existing commands
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		switch {
		case err == nil:
			return nil
		case c.HasSubCommands() && len(args) > 0:
			return usage{noCommand(c, args[0])}
		}
		want := strings.TrimSuffix(c.UseLine(), " [flags]")
		switch {
		case errors.As(err, new(usage)):
			return err
		case len(args) == 0:
			return usage{fmt.Errorf("no arguments; want %s", want)}
		case want == c.CommandPath(): // it takes none
			return usage{fmt.Errorf("unexpected argument %q; want %s", args[0], want)}
		}
		return usage{fmt.Errorf("got %s; want %s", counting(int64(len(args)), "argument"), want)}
	}
}

// noCommand suggests existing commands in place of an unknown one.
func noCommand(c *cobra.Command, name string) error {
	c.SuggestionsMinimumDistance = 2
	if like := c.SuggestionsFor(name); len(like) > 0 {
		return fmt.Errorf("unknown command %q for %s; did you mean %s?", name, c.CommandPath(), strings.Join(like, " or "))
	}
	var all []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q for %s; want one of %s", name, c.CommandPath(), strings.Join(all, ", "))
}

func dev() *cobra.Command {
	var demo bool
	c := &cobra.Command{
		Use: "dev", Short: "Run everything in one process, with nothing else to install",
		Long: "Run API, scheduler and workers in one process on the embedded store. It listens on loopback only and needs no sign-in.",
		Args: cobra.NoArgs, Example: "  carillon dev --demo",
	}
	s := newSettings(c)
	s.add(c, "listen", "listen", "; loopback only (default 127.0.0.1:8080)")
	s.add(c, "data", "data", " (default ./carillon-data)")
	s.add(c, "replicate", "replicate.url", "")
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
		if at := cfg.Metrics.Listen; at != "" && !onLoopback(at) {
			return config.Mistakes{{Key: "metrics.listen", Value: at, Want: "a loopback address such as 127.0.0.1:9090, since dev asks for no sign-in", From: "as set"}}
		}
		cfg.Database, cfg.Roles = app.DevDatabase(cfg.Data), config.Roles
		return start(c, cfg, app.Options{Dev: true, Demo: demo, ConfigFile: s.path()})
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
	s.add(c, "tls-client-ca", "tls.client_ca", "")
	s.add(c, "secrets-key-file", "secrets.key_file", "")
	s.add(c, "metrics-listen", "metrics.listen", "")
	s.add(c, "replicate", "replicate.url", "")
	allowCallback(c)
	allowCommands(c, s)
	s.add(c, "commands-risk-server", "commands.risk_server", "")
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
		return start(c, cfg, app.Options{ConfigFile: s.path()})
	}
	return c
}

// start serves until the process is told to stop; a second signal ends it at once.
func start(c *cobra.Command, cfg config.Config, o app.Options) error {
	if !strings.HasPrefix(cfg.Database, "sqlite:") {
		conceal(cfg.Database) // it may hold a password
	}
	ctx, cancel := untilTold(c.Context())
	defer cancel()
	log := app.NewLog(cfg, c.ErrOrStderr())
	o.Config, o.Out, o.Logger, o.Log = cfg, c.OutOrStdout(), log.Logger, log
	return app.Run(ctx, o)
}

// onLoopback reports whether a listen address is reachable only from this machine.
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
