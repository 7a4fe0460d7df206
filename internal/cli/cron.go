package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/core/schedule"
)

// cronFlags holds the flags of the cron commands.
type cronFlags struct {
	zone, day, from string
	n               int
}

func cronCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "cron", Short: "Explain, preview and check cron expressions, without a server", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		cronAction("explain", "Explain an expression in words, with warnings and the next runs", 5, explain),
		cronAction("next", "List the next times an expression fires", 10, next),
		cronAction("lint", "Warn about surprises in an expression", 0, lint),
	)
	return c
}

// cronAction is a command over one expression. It writes to standard output; n is how many instants it shows.
func cronAction(name, short string, n int, do func(io.Writer, schedule.Plan, time.Time, int) error) *cobra.Command {
	var f cronFlags
	c := &cobra.Command{
		Use: name + " EXPRESSION", Short: short, Example: fmt.Sprintf("  carillon cron %s '30 2 * * MON-FRI' --timezone Europe/Berlin", name),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage{errors.New("which expression? Quote it: carillon cron " + name + " '30 4 * * *'")}
			}
			return nil
		},
	}
	c.Flags().StringVar(&f.zone, "timezone", "UTC", "time zone of the expression, such as Europe/Berlin")
	c.Flags().StringVar(&f.day, "day", string(schedule.Vixie), "how the two day fields combine: vixie, or, and")
	c.Flags().StringVar(&f.from, "from", "", "list times after this, such as 2026-03-28T00:00:00Z (default now)")
	if n > 0 {
		c.Flags().IntVarP(&f.n, "number", "n", n, "how many times to show, 1 to 1000")
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		text := strings.Join(args, " ") // also if the quotes were forgotten and the shell left the stars alone
		from := time.Now().UTC()
		if f.from != "" {
			var err error
			if from, err = time.Parse(time.RFC3339, f.from); err != nil {
				return usage{fmt.Errorf("--from %q: want a time such as 2026-03-28T00:00:00Z", f.from)}
			}
		}
		if n > 0 && (f.n < 1 || f.n > schedule.MaxPreview) {
			return usage{fmt.Errorf("-n %d: want 1 to %d", f.n, schedule.MaxPreview)}
		}
		x, err := schedule.NewCache(time.LoadLocation).Cron(text, f.zone, schedule.Day(f.day))
		var bad *schedule.Error
		if errors.As(err, &bad) {
			return usage{pointed{text, bad}}
		}
		if err != nil {
			return err
		}
		return do(c.OutOrStdout(), schedule.Plan{Cron: x, Anchor: from}, from, f.n)
	}
	return c
}

// pointed is an error in an expression, with a caret under its position.
type pointed struct {
	expression string
	err        *schedule.Error
}

func (p pointed) Error() string {
	e := p.err
	if e.Position < 1 || e.Position > len(p.expression)+1 {
		return e.Error()
	}
	var b strings.Builder
	width := 0
	for i, r := range p.expression {
		if r < ' ' {
			r = ' ' // a tab would shift the caret
		}
		b.WriteRune(r)
		if i < e.Position-1 {
			width++
		}
	}
	item := max(1, min(len([]rune(e.Value)), 20))
	fmt.Fprintf(&b, "\n  %s%s\n", strings.Repeat(" ", width), strings.Repeat("^", item))
	fmt.Fprintf(&b, "%s: %q is not valid; want %s", e.Field, e.Value, e.Want)
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return "the expression cannot be used:\n  " + b.String()
}

func explain(w io.Writer, p schedule.Plan, from time.Time, n int) error {
	fmt.Fprintln(w, p.Cron.Describe())
	if ws := p.Lint(from); len(ws) > 0 {
		fmt.Fprintln(w)
		warn(w, ws)
	}
	fmt.Fprintln(w)
	return next(w, p, from, n)
}

func next(w io.Writer, p schedule.Plan, from time.Time, n int) error {
	all, err := p.Preview(from, n)
	if err != nil {
		return usage{err}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LOCAL\tUTC\tNOTE")
	for _, x := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\n", x.Local.Format("Mon 2006-01-02 15:04:05 -07:00"), x.UTC.Format(time.RFC3339), x.Flag)
	}
	return t.Flush()
}

func lint(w io.Writer, p schedule.Plan, from time.Time, _ int) error {
	ws := p.Lint(from)
	if len(ws) == 0 {
		fmt.Fprintln(w, "No warnings.")
	}
	warn(w, ws)
	return nil
}

func warn(w io.Writer, ws []schedule.Warning) {
	for _, x := range ws {
		fmt.Fprintf(w, "warning %s: %s\n", x.Code, x.Message)
	}
}
