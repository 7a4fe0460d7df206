package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// goalFlags holds the common flags of benchmarks with goals.
type goalFlags struct {
	bench.Options
	database string
	output   string
	strict   bool
}

func (f *goalFlags) add(c *cobra.Command) {
	f.Load = bench.Load{Inserters: 4}
	fs := c.Flags()
	fs.StringVar(&f.database, "database", "", "where to measure: sqlite:PATH or postgres://… (default SQLite in the working folder)")
	fs.IntVar(&f.Batch, "batch", 1000, "jobs created at once")
	fs.IntVar(&f.Slots, "slots", 8, "executions run at once")
	fs.StringVarP(&f.output, "output", "o", "table", "table or json")
	fs.BoolVar(&f.strict, "strict", false, "exit with 1 if a goal is missed")
}

// check returns everything that is wrong with the flags, and with the command's own numbers: flag, value, minimum,
// maximum.
func (f *goalFlags) check(numbers ...[4]any) error {
	var wrong config.Mistakes
	for _, n := range append(numbers, [4]any{"batch", f.Batch, 1, 10_000}, [4]any{"slots", f.Slots, 1, 10_000}) {
		if v := n[1].(int); v < n[2].(int) || v > n[3].(int) {
			wrong = append(wrong, config.Mistake{Key: n[0].(string), Value: strconv.Itoa(v), Want: fmt.Sprintf("a whole number from %d to %d", n[2], n[3]), From: "flag"})
		}
	}
	wrong = append(wrong, checkPlace(f.database, f.output)...)
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// run measures and prints.
func (f *goalFlags) run(c *cobra.Command, open opener, measure func(ctx context.Context) (bench.GoalReport, error)) error {
	ctx, cancel := untilTold(c.Context())
	defer cancel()
	url := f.database
	if url == "" {
		url = "sqlite:./carillon.db"
	}
	f.Open = func(ctx context.Context) (engine.Store, func(context.Context) error, error) { return open(ctx, url) }
	f.Watch = watcher(c.ErrOrStderr(), f.output)
	rep, err := measure(ctx)
	var wrong bench.Wrong
	var unanswered bench.Unanswered
	if err != nil && !errors.As(err, &wrong) && !errors.As(err, &unanswered) {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped before the end: %w", err)
		}
		return err
	}
	rep.Version = app.Version
	rep.Config["database"], _, _ = strings.Cut(url, ":")
	if err == nil && f.strict {
		err = rep.Check()
	}
	return errors.Join(err, f.print(rep, c.OutOrStdout()))
}

func (f *goalFlags) print(rep bench.GoalReport, w io.Writer) error {
	if f.output == "table" {
		return rep.WriteTable(w, coloured(w))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rep)
}

const goalPlace = `

Like carillon bench, it uses temporary storage that is removed at the end. Exit with 1 if anything was lost, ran twice or early, or got no
answer; with --strict, also if a goal was missed.`

func benchSchedulesCommand(open opener) *cobra.Command {
	var f goalFlags
	var o bench.SchedulesOptions
	var seconds int
	c := &cobra.Command{
		Use: "schedules", Short: "Measure how late jobs fire when there are many recurring jobs",
		Long: `Load many recurring jobs, some of them due each second and the rest far in the future. Measure how long after their scheduled times
they can be claimed and start, and how much memory that takes, and check that each fired exactly once and none early.` + goalPlace,
		Args: cobra.NoArgs, Example: "  carillon bench schedules\n  carillon bench schedules --schedules 10000000 --database postgres://carillon@db.internal/carillon --strict",
	}
	f.add(c)
	c.Flags().IntVar(&o.Schedules, "schedules", 100_000, "recurring jobs, up to 10 000 000")
	c.Flags().IntVar(&o.DueRate, "due", 1000, "how many of them are due each second")
	c.Flags().IntVar(&seconds, "seconds", 60, "how long to measure")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check([4]any{"schedules", o.Schedules, 1, 10_000_000}, [4]any{"due", o.DueRate, 1, 100_000}, [4]any{"seconds", seconds, 1, 86_400}); err != nil {
			return err
		}
		return f.run(c, open, func(ctx context.Context) (bench.GoalReport, error) {
			o.Options, o.For = f.Options, time.Duration(seconds)*time.Second
			return bench.Schedules(ctx, o)
		})
	}
	return c
}

func benchHerdCommand(open opener) *cobra.Command {
	var f goalFlags
	var o bench.HerdOptions
	c := &cobra.Command{
		Use: "herd", Short: "Measure what happens when very many jobs are due in the same second",
		Long: `Load recurring jobs that are all due in the same second, while another tenant keeps running a few jobs. Measure how soon
all can be claimed, how soon all have run and how long the other tenant waits, and check that each ran exactly once and none early.` + goalPlace,
		Args: cobra.NoArgs, Example: "  carillon bench herd\n  carillon bench herd --herd 50000 --database postgres://carillon@db.internal/carillon -o json",
	}
	f.add(c)
	c.Flags().IntVar(&o.Herd, "herd", 500_000, "jobs that are due in the same second, up to 10 000 000")
	c.Flags().IntVar(&o.Trickle, "trickle", 20, "executions per second of another tenant")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check([4]any{"herd", o.Herd, 1, 10_000_000}, [4]any{"trickle", o.Trickle, 1, 1000}); err != nil {
			return err
		}
		return f.run(c, open, func(ctx context.Context) (bench.GoalReport, error) {
			o.Options = f.Options
			return bench.Herd(ctx, o)
		})
	}
	return c
}
