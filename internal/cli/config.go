package cli

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/config"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "Check and show the settings", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(configCheck(), configShow())
	return c
}

// whose adds the flag that names the command whose settings are meant.
func whose(c *cobra.Command) *string {
	return c.Flags().String("for", "serve", "the command to check settings for: dev, serve or worker; some defaults differ")
}

func baseOf(command string) (config.Config, error) {
	base, ok := bases[command]
	if !ok {
		return config.Config{}, usage{fmt.Errorf("--for %s: want dev, serve or worker", command)}
	}
	return base(), nil
}

func configCheck() *cobra.Command {
	c := &cobra.Command{
		Use: "check", Short: "Report everything that is wrong with the settings", Args: cobra.NoArgs,
		Long:    "Read the file, the environment and the flags as a server would, and report everything that is wrong with them: unknown keys, invalid values, settings that contradict each other. Nothing is started. Exits with 2 if there is a mistake.",
		Example: "  carillon config check --config /etc/carillon.toml",
	}
	s := newSettings(c)
	s.rest(c)
	command := whose(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		base, err := baseOf(*command)
		if err != nil {
			return err
		}
		_, all, err := config.Explain(base, s.given(c), os.Environ(), s.path())
		for _, note := range config.Strangers(os.Environ()) {
			fmt.Fprintf(c.ErrOrStderr(), "note: %s\n", note)
		}
		set := 0
		for _, x := range all {
			if x.From == "default" {
				continue
			}
			set++
			if slices.Contains(config.Idle, x.Name) {
				fmt.Fprintf(c.ErrOrStderr(), "note: %s (%s) is checked, but nothing uses it yet\n", x.Name, x.From)
			}
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(c.ErrOrStderr(), "The settings are valid: %d set, %d at their default.\n", set, len(all)-set)
		return nil
	}
	return c
}

// shownSetting is a setting as config show -o json prints it.
type shownSetting struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	From        string `json:"from"`
	Default     string `json:"default"`
	Environment string `json:"environment"`
	Flag        string `json:"flag,omitempty"`
	Secret      bool   `json:"secret,omitempty"`
	About       string `json:"about"`
}

func configShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show", Short: "Show every setting and its source", Args: cobra.NoArgs,
		Long:    "Show the value of every setting, as a server would read it, and where it comes from. Secrets are hidden. -o toml prints a settings file without secrets.",
		Example: "  carillon config show --config /etc/carillon.toml\n  carillon config show -o toml > carillon.toml",
	}
	s := newSettings(c)
	s.rest(c)
	command := whose(c)
	form := formFlag(c, "table", "json", "toml")
	c.RunE = func(c *cobra.Command, _ []string) error {
		base, err := baseOf(*command)
		if err != nil {
			return err
		}
		as, err := form()
		if err != nil {
			return err
		}
		_, all, err := config.Explain(base, s.given(c), os.Environ(), s.path())
		if err != nil {
			return err
		}
		switch as {
		case "json":
			out := make([]shownSetting, len(all))
			for i, x := range all {
				out[i] = shownSetting{x.Name, x.Value, x.From, x.Default(), x.Variable(), x.Flag(), x.Secret, x.Doc}
			}
			return encodeJSON(c.OutOrStdout(), out, "  ")
		case "toml":
			fmt.Fprint(c.OutOrStdout(), config.TOML(all))
			return nil
		}
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "KEY\tVALUE\tFROM")
		for _, x := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\n", x.Name, x.Value, x.From)
		}
		return w.Flush()
	}
	return c
}
