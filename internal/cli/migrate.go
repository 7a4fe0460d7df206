package cli

import (
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func migrateCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "migrate", Short: "Migrate the schema of a database", Args: cobra.NoArgs,
		Long: "Servers migrate when they start, unless store.migrate is false or a step requires running servers to be stopped. Concurrent migrations wait for each other.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(migratePlan(), migrateUp(), migrateStatus())
	return c
}

// overDatabase adds the settings of a command that works on a database directly, and returns a function that loads
// them.
func overDatabase(c *cobra.Command, more ...func(*settings)) func() (config.Config, error) {
	s := newSettings(c)
	for _, add := range more {
		add(s)
	}
	s.add(c, "database", "database", ": sqlite:PATH or postgres://…")
	s.add(c, "allow-async-commit", "store.allow_async_commit", "")
	c.Flags().Lookup("allow-async-commit").Hidden = true
	return func() (config.Config, error) {
		cfg, err := s.load(c, config.Default())
		if err == nil && cfg.Database == "" {
			err = noDatabase
		}
		return cfg, err
	}
}

// shownStep is a step as -o json prints it.
type shownStep struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at"`
	Rolling   bool       `json:"rolling"`
	Known     bool       `json:"known"`
	SQL       string     `json:"sql,omitempty"`
}

func showSteps(c *cobra.Command, steps []engine.Step, form string, sql bool) error {
	if form == "json" {
		out := make([]shownStep, len(steps))
		for i, s := range steps {
			out[i] = shownStep{Version: s.Version, Name: s.Name, Rolling: s.Rolling, Known: s.SQL != ""}
			if !s.At.IsZero() {
				out[i].AppliedAt = &s.At
			}
			if sql {
				out[i].SQL = s.SQL
			}
		}
		return encodeJSON(c.OutOrStdout(), out, "  ")
	}
	if sql {
		for _, s := range steps {
			fmt.Fprintf(c.OutOrStdout(), "-- %04d %s\n%s\n", s.Version, s.Name, s.SQL)
		}
		return nil
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "STEP\tNAME\tAPPLIED\tOLDER SERVERS")
	for _, s := range steps {
		at, older := "no", "must be stopped"
		if s.Rolling {
			older = "may run on"
		}
		if !s.At.IsZero() {
			at = s.At.Format(time.RFC3339)
			if s.SQL != "" {
				older = "" // it is past
			}
		}
		if s.SQL == "" {
			at += " (unknown to this version)"
		}
		fmt.Fprintf(w, "%04d\t%s\t%s\t%s\n", s.Version, s.Name, at, older)
	}
	return w.Flush()
}

func formFlag(c *cobra.Command, forms ...string) func() (string, error) {
	form := c.Flags().StringP("output", "o", forms[0], "output format: "+eitherOf(forms))
	return func() (string, error) {
		if !slices.Contains(forms, *form) {
			return "", usage{fmt.Errorf("-o %s: want %s", *form, eitherOf(forms))}
		}
		return *form, nil
	}
}

// eitherOf joins words with "or".
func eitherOf(words []string) string {
	out := ""
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			out += " or "
		case i > 0:
			out += ", "
		}
		out += w
	}
	return out
}

func migratePlan() *cobra.Command {
	c := &cobra.Command{
		Use: "plan", Short: "List pending steps", Args: cobra.NoArgs,
		Long:    "List the steps that 'carillon migrate up' would apply, and whether servers of the previous version can keep running. Nothing is changed.",
		Example: "  carillon migrate plan --database postgres://carillon@db.internal/carillon --sql",
	}
	load, output := overDatabase(c), formFlag(c, "table", "json")
	sql := c.Flags().Bool("sql", false, "print the SQL")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		form, err := output()
		if err != nil {
			return err
		}
		return missingSteps(c, cfg, form, *sql)
	}
	return c
}

// missingSteps shows the pending steps.
func missingSteps(c *cobra.Command, cfg config.Config, form string, sql bool) error {
	steps, err := app.Steps(c.Context(), cfg)
	if err != nil {
		return err
	}
	steps = slices.DeleteFunc(steps, func(s engine.Step) bool { return !s.At.IsZero() })
	if len(steps) == 0 && form != "json" {
		fmt.Fprintln(c.ErrOrStderr(), "The schema is up to date.")
		return nil
	}
	return showSteps(c, steps, form, sql)
}

func migrateStatus() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "List applied and pending steps", Args: cobra.NoArgs,
		Example: "  carillon migrate status --database sqlite:carillon-data/carillon.db",
	}
	load, output := overDatabase(c), formFlag(c, "table", "json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		form, err := output()
		if err != nil {
			return err
		}
		steps, err := app.Steps(c.Context(), cfg)
		if err != nil {
			return err
		}
		return showSteps(c, steps, form, false)
	}
	return c
}

func migrateUp() *cobra.Command {
	c := &cobra.Command{
		Use: "up", Short: "Apply pending steps", Args: cobra.NoArgs,
		Long: "Apply pending steps, each in one transaction. It is safe to repeat.\n" +
			"A step for which older servers must be stopped ('carillon migrate plan' says which) is refused while servers are running.",
		Example: "  carillon migrate up --database postgres://carillon@db.internal/carillon",
	}
	load := overDatabase(c, func(s *settings) { s.add(c, "app-role", "store.app_role", "") })
	dry := c.Flags().Bool("dry-run", false, "only list them, as 'carillon migrate plan' does")
	force := c.Flags().Bool("force", false, "apply even while servers that must be stopped are running: they keep answering, but are no longer ready")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := load()
		if err != nil {
			return err
		}
		if *dry {
			return missingSteps(c, cfg, "table", false)
		}
		did, err := app.MigrateUp(c.Context(), cfg, *force)
		for _, s := range did {
			fmt.Fprintf(c.ErrOrStderr(), "%04d %s: applied\n", s.Version, s.Name)
		}
		if err != nil {
			return err
		}
		missing := fmt.Sprintf("%d steps were missing", len(did))
		if len(did) == 1 {
			missing = "1 step was missing"
		}
		fmt.Fprintf(c.ErrOrStderr(), "The schema is up to date; %s.\n", missing)
		return nil
	}
	return c
}
