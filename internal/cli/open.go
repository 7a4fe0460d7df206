package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
)

func (s *session) openCommand() *cobra.Command {
	var print bool
	c := &cobra.Command{
		Use: "open [SCREEN]", Short: "Open the dashboard, or one of its screens, in a browser", Args: cobra.MaximumNArgs(1), ValidArgs: []string{"jobs", "executions", "dead-letters", "queues", "workers", "forecast", "admin", "docs"},
		Example: "  carillon open\n  carillon open dead-letters\n  carillon open --print",
	}
	s.flags(c)
	c.Flags().BoolVar(&print, "print", false, "only print the address")
	c.RunE = func(_ *cobra.Command, args []string) error {
		p, err := s.where()
		if err != nil {
			return err
		}
		address := p.servers[0] + "/" + strings.TrimPrefix(strings.Join(args, ""), "/")
		if _, err := fmt.Fprintln(s.out, address); err != nil || print || !terminal(s.out) {
			return err
		}
		opener := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
		if opener == nil {
			opener = []string{"xdg-open"}
		}
		if err := exec.Command(opener[0], append(opener[1:], address)...).Start(); err != nil {
			s.say("No browser could be started: %v", err)
		}
		return nil
	}
	return c
}

func (s *session) versionCommand() *cobra.Command {
	var server bool
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	s.flags(c)
	c.Flags().BoolVar(&server, "of-server", false, "that of the server instead")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if !server {
			return s.showVersion(app.Version)
		}
		return s.run(func(ctx context.Context, c *client.Client, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			h, err := c.Health(ctx)
			if err != nil {
				return err
			}
			if h.Version == "" {
				return errors.New("the server does not say which version it has")
			}
			return s.showVersion(h.Version)
		})(cmd, nil)
	}
	return c
}

func (s *session) showVersion(v string) error {
	if s.output == "table" || s.output == "wide" || s.output == "name" {
		_, err := fmt.Fprintln(s.out, v)
		return err
	}
	return s.value(map[string]string{"version": v})
}
