package cli

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
)

func (s accessCommands) openCommand() *cobra.Command {
	var print bool
	c := &cobra.Command{
		Use: "open [SCREEN]", Short: "Open the dashboard, or one of its screens, in a browser", Args: cobra.MaximumNArgs(1), ValidArgs: []string{"jobs", "executions", "dead-letters", "queues", "workers", "forecast", "admin", "docs"},
		Example: "  carillon open\n  carillon open dead-letters\n  carillon open --print",
	}
	s.flags(c)
	c.Flags().BoolVar(&print, "print", false, "only print the address")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := s.where()
		if err != nil {
			return err
		}
		address := p.servers[0] + "/" + strings.TrimPrefix(strings.Join(args, ""), "/")
		token := neededToken(cmd.Context(), p.servers[0])
		if token != "" {
			address += "?token=" + token
		}
		if _, err := fmt.Fprintln(s.out, address); err != nil || print || !terminal(s.out) {
			return err
		}
		if token != "" { // other users can see the arguments of processes
			if address, err = redirectPage(address); err != nil {
				return err
			}
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

// neededToken returns the token of the user's own 'carillon dev', if the server does not recognise its user by the
// connection; else "".
func neededToken(ctx context.Context, server string) string {
	token := client.DevToken(server)
	if token == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := client.New([]string{server}, "", client.WithRetries(client.Retries{})).WhoAmI(ctx)
	if !errors.Is(err, client.ErrUnauthorized) {
		return ""
	}
	return token
}

// redirectPage writes a page that redirects to an address, readable only by its owner, and returns its own address.
func redirectPage(to string) (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "carillon", "dev", "open.html")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	page := fmt.Sprintf("<!doctype html><meta charset=utf-8><title>Carillon</title><meta http-equiv=refresh content=\"0; url=%[1]s\"><a href=\"%[1]s\">Open Carillon</a>\n", html.EscapeString(to))
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(file), "/")}).String(), nil
}

func (s accessCommands) versionCommand() *cobra.Command {
	var server bool
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	s.flags(c)
	c.Flags().BoolVar(&server, "of-server", false, "print the server's version")
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
				return errors.New("the server does not report its version")
			}
			return s.showVersion(h.Version)
		})(cmd, nil)
	}
	return c
}

func (s accessCommands) showVersion(v string) error {
	if s.output == "table" || s.output == "wide" || s.output == "name" {
		_, err := fmt.Fprintln(s.out, v)
		return err
	}
	return s.value(map[string]string{"version": v})
}
