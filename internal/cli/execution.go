package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/client"
)

// remote is the server that a command asks.
type remote struct {
	servers []string
	token   string
}

func (r *remote) flags(c *cobra.Command) {
	c.PersistentFlags().StringSliceVar(&r.servers, "server", nil, "address of a server (or CARILLON_SERVER; default http://127.0.0.1:8080)")
	c.PersistentFlags().StringVar(&r.token, "token", "", "API key (or CARILLON_TOKEN); not needed for carillon dev")
}

func (r *remote) client() *client.Client {
	servers, token := r.servers, r.token
	if len(servers) == 0 {
		servers = strings.FieldsFunc(os.Getenv("CARILLON_SERVER"), func(c rune) bool { return c == ',' })
	}
	if len(servers) == 0 {
		servers = []string{"http://127.0.0.1:8080"}
	}
	if token == "" {
		token = os.Getenv("CARILLON_TOKEN")
	}
	return client.New(servers, token)
}

func executionCommand() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use: "execution", Aliases: []string{"exec"}, Short: "Look at executions", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	r.flags(c)
	c.AddCommand(logsCommand(&r))
	return c
}

func logsCommand(r *remote) *cobra.Command {
	var follow, times bool
	var attempt int
	c := &cobra.Command{
		Use: "logs ID", Short: "Print what the attempts of an execution wrote", Args: cobra.ExactArgs(1),
		Long:    "Print what the attempts of an execution wrote, each to standard output or, of the stream stderr, to standard error. Control characters are shown as escapes.",
		Example: "  carillon execution logs 0190a6c8-7b3e-7cc0-8a1b-0123456789ab --follow",
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the execution has finished; exit with 1 unless it succeeded")
	c.Flags().BoolVarP(&times, "timestamps", "t", false, "print when each line was written")
	c.Flags().IntVar(&attempt, "attempt", 0, "only the attempt of this number")
	c.RunE = func(c *cobra.Command, args []string) error {
		if attempt < 0 {
			return usage{fmt.Errorf("--attempt is %d; want the number of an attempt, from 1", attempt)}
		}
		ctx, cancel := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		show := func(l client.LoggedLine) error {
			out := c.OutOrStdout()
			if l.Stream == "stderr" {
				out = c.ErrOrStderr()
			}
			return printLine(out, l, times)
		}
		o := client.LogOptions{Attempt: attempt, Limit: 1000}
		if !follow {
			return readLog(ctx, r.client(), args[0], o, show)
		}
		status, err := r.client().FollowLog(ctx, args[0], o, show)
		switch {
		case err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled):
			return nil // Ctrl-C ends the look, not the execution
		case err != nil:
			return err
		case status != "SUCCEEDED":
			return fmt.Errorf("the execution ended as %s", status)
		}
		return nil
	}
	return c
}

// readLog shows a log as far as it has come.
func readLog(ctx context.Context, cl *client.Client, id string, o client.LogOptions, show func(client.LoggedLine) error) error {
	for {
		page, err := cl.Log(ctx, id, o)
		if err != nil {
			return err
		}
		for _, l := range page.Lines {
			if err := show(l); err != nil {
				return err
			}
		}
		if page.Pagination.NextCursor == nil {
			return nil
		}
		o.After = *page.Pagination.NextCursor
	}
}

func printLine(w io.Writer, l client.LoggedLine, times bool) error {
	at := ""
	if times {
		at = l.At.Format("2006-01-02T15:04:05.000000Z07:00") + " "
	}
	_, err := fmt.Fprintln(w, at+plain(l.Text))
	return err
}

// plain shows control characters as escapes: a log is what somebody else wrote, and a terminal does what these say.
func plain(s string) string {
	if !strings.ContainsFunc(s, control) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		switch {
		case !control(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// control tells what a terminal obeys, or what hides text or turns it round; a tab is harmless.
func control(c rune) bool {
	return c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c))
}
