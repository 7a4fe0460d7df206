package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/config"
)

// bases holds the defaults of commands whose settings differ from the general ones.
var bases = map[string]func() config.Config{
	"dev":    func() config.Config { c := config.Default(); c.Commands.Allow = true; return c },
	"serve":  func() config.Config { c := config.Default(); c.Listen = ":8080"; return c },
	"worker": func() config.Config { c := config.Default(); c.Listen = "127.0.0.1:0"; return c },
}

var noDatabase = config.Mistakes{{Key: "database", Want: "where to store the data: --database (or CARILLON_DATABASE) as sqlite:PATH or postgres://USER@HOST:PORT/NAME", From: "not set"}}

// settings binds flags of a command to keys, and loads them all.
type settings struct {
	keys map[string]string // flag → key
	file string
}

func newSettings(c *cobra.Command) *settings {
	s := &settings{keys: map[string]string{}}
	c.Flags().StringVar(&s.file, "config", "", "settings file (TOML; or CARILLON_CONFIG)")
	s.add(c, "log-level", "log.level", " (default info)")
	s.add(c, "log-format", "log.format", " (default text)")
	return s
}

func (s *settings) add(c *cobra.Command, flag, key, shown string) {
	i := slices.IndexFunc(config.Keys, func(k config.Key) bool { return k.Name == key })
	if i < 0 {
		panic("cli: no setting " + key)
	}
	k := config.Keys[i]
	c.Flags().String(flag, "", k.Doc+shown)
	if k.Kind == config.Truth {
		c.Flags().Lookup(flag).NoOptDefVal = "true"
	}
	s.keys[flag] = key
}

// rest adds hidden flags for almost all settings that have none yet. There are too many to list.
func (s *settings) rest(c *cobra.Command, but ...string) {
	for _, k := range config.Keys {
		flag := k.Flag()
		if flag == "" || slices.Contains(but, k.Name) || c.Flags().Lookup(flag) != nil {
			continue
		}
		s.add(c, flag, k.Name, "")
		c.Flags().Lookup(flag).Hidden = true
	}
	c.Long += "\n\nEvery setting can be given as a flag (--workers-max-count), a variable (CARILLON_WORKERS_MAX_COUNT) or a key in the settings file; 'carillon config show' lists them."
}

// given returns the values of the flags, by key.
func (s *settings) given(c *cobra.Command) map[string]string {
	given := map[string]string{}
	for flag, key := range s.keys {
		if f := c.Flags().Lookup(flag); f.Changed {
			given[key] = strings.Clone(f.Value.String()) // the arguments may be overwritten
		}
	}
	if f := c.Flags().Lookup("allow-callback"); f != nil && f.Changed {
		if all, err := c.Flags().GetStringSlice("allow-callback"); err == nil {
			given["callbacks.allow"] = strings.Join(all, ",")
		}
	}
	return given
}

// path is the settings file, if there is one.
func (s *settings) path() string {
	if s.file != "" {
		return s.file
	}
	return os.Getenv("CARILLON_CONFIG")
}

func (s *settings) load(c *cobra.Command, base config.Config) (config.Config, error) {
	return config.Load(base, s.given(c), os.Environ(), s.path())
}

// allowCallback adds the flag of ranges that callbacks may reach.
func allowCallback(c *cobra.Command) {
	c.Flags().StringSlice("allow-callback", nil, "private address range that callbacks may reach, such as 10.0.0.0/8 (repeatable)")
}

// allowCommands adds the flag that turns commands on.
func allowCommands(c *cobra.Command, s *settings) {
	c.Flags().Bool("allow-commands", false, "accept and run command jobs: anyone who can change jobs can then run programs on the workers")
	s.keys["allow-commands"] = "commands.allow"
	s.add(c, "commands-unconfined", "commands.unconfined", "")
}
