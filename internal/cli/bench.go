package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// opener makes a throwaway store beside the one that a URL names.
type opener func(ctx context.Context, url string) (engine.Store, func(context.Context) error, error)

// benchFlags holds the flags of the command bench.
type benchFlags struct {
	bench.Options
	database string
	output   string
}

func benchCommand(open opener) *cobra.Command {
	// Four inserters are enough that one batch is made while another is written.
	f := benchFlags{Options: bench.Options{RateFor: 5 * time.Second, Load: bench.Load{Inserters: 4}}}
	c := &cobra.Command{
		Use: "bench", Short: "Measure throughput and latency on this machine",
		Long: `Measure how many jobs per second this machine and database can create, run, and create and run at the same time; and how soon a job
starts when the system is idle and at a given rate. After each measurement, check that no job was lost or ran twice; exit with 1 if one was.

The measurements use temporary storage that is removed at the end, even after Ctrl-C: a separate database (or schema) on the PostgreSQL
server, or a folder next to the SQLite file. The database that the URL names is never opened, but its server gets busy.`,
		Args: cobra.NoArgs, Example: "  carillon bench\n  carillon bench --database postgres://carillon@db.internal/carillon --jobs 500000\n  carillon bench --only idle,rate --rate 5000 -o json",
	}
	fs := c.Flags()
	fs.StringVar(&f.database, "database", "", "where to measure: sqlite:PATH or postgres://… (default SQLite in the working folder)")
	fs.IntVar(&f.Jobs, "jobs", 100_000, "jobs in each measurement of throughput")
	fs.IntVar(&f.Batch, "batch", 1000, "jobs created at once")
	fs.IntVar(&f.Payload, "payload", 256, "bytes of each job's payload")
	fs.IntVar(&f.Slots, "slots", 8, "executions run at once")
	fs.IntVar(&f.Callers, "callers", 200, "concurrent callers that create one job at a time")
	fs.IntVar(&f.Samples, "samples", 200, "samples of the start latency when idle")
	fs.IntVar(&f.Rate, "rate", 1000, "jobs per second in the measurement 'rate'; 0 skips it")
	fs.StringSliceVar(&f.Only, "only", nil, "measurements, separated by commas: "+strings.Join(bench.Names(), ", ")+" (default all)")
	fs.StringVarP(&f.output, "output", "o", "table", "table or json")
	c.AddCommand(benchSchedulesCommand(open), benchHerdCommand(open), benchPagesCommand(open), benchHistoryCommand(open), benchWorkflowsCommand(open))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		ctx, cancel := untilTold(c.Context())
		defer cancel()
		return runBench(ctx, f, open, c.OutOrStdout(), c.ErrOrStderr())
	}
	return c
}

// check returns everything that is wrong with the flags.
func (f *benchFlags) check() error {
	var wrong config.Mistakes
	number := func(flag string, v, least, most int) {
		if v < least || v > most {
			wrong = append(wrong, config.Mistake{Key: flag, Value: strconv.Itoa(v), Want: fmt.Sprintf("a whole number from %d to %d", least, most), From: "flag"})
		}
	}
	number("jobs", f.Jobs, 1, 100_000_000)
	number("batch", f.Batch, 1, 10_000)
	number("payload", f.Payload, 0, 1<<20)
	number("slots", f.Slots, 1, 10_000)
	number("callers", f.Callers, 1, 5000)
	number("samples", f.Samples, 1, 1_000_000)
	number("rate", f.Rate, 0, 1_000_000)
	for _, name := range f.Only {
		if !slices.Contains(bench.Names(), name) {
			wrong = append(wrong, config.Mistake{Key: "only", Value: name, Want: "one or more of " + strings.Join(bench.Names(), ", "), From: "flag"})
		}
	}
	if f.Rate == 0 && slices.Equal(f.Only, []string{"rate"}) {
		wrong = append(wrong, config.Mistake{Key: "rate", Value: "0", Want: "a rate of 1 or more, since nothing else would be measured", From: "flag"})
	}
	wrong = append(wrong, checkPlace(f.database, f.output)...)
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// checkPlace checks where to measure, and how to print.
func checkPlace(database, output string) (wrong config.Mistakes) {
	if path, ok := strings.CutPrefix(database, "sqlite:"); database != "" && !(ok && path != "") && !strings.HasPrefix(database, "postgres://") && !strings.HasPrefix(database, "postgresql://") {
		wrong = append(wrong, config.Mistake{Key: "database", Value: "(not shown)", Want: "sqlite:PATH or postgres://USER@HOST:PORT/NAME", From: "flag"})
	}
	if output != "table" && output != "json" {
		wrong = append(wrong, config.Mistake{Key: "output", Value: output, Want: "table or json", From: "flag"})
	}
	return wrong
}

// watcher shows the progress of a run if somebody is watching.
func watcher(w io.Writer, output string) bench.Watcher {
	switch {
	case drawable(w):
		return &bench.Bar{Out: w, Colour: coloured(w)}
	case output == "table":
		return bench.Lines{Out: w}
	}
	return nil
}

func runBench(ctx context.Context, f benchFlags, open opener, stdout, stderr io.Writer) error {
	url := f.database
	if url == "" {
		url = "sqlite:./carillon.db"
	}
	f.Singles = max(f.Jobs/5, 1)
	f.Open = func(ctx context.Context) (engine.Store, func(context.Context) error, error) { return open(ctx, url) }
	f.Watch = watcher(stderr, f.output)
	rep, err := bench.Run(ctx, f.Options)
	if wrong := (bench.Wrong{}); err != nil && !errors.As(err, &wrong) {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped before the end: %w", err)
		}
		return err
	}
	kind, _, _ := strings.Cut(url, ":")
	rep.Version = app.Version
	rep.Config = bench.Config{
		Database: kind, Jobs: f.Jobs, Singles: f.Singles, Batch: f.Batch, Payload: f.Payload, Slots: f.Slots, Callers: f.Callers, Samples: f.Samples, Rate: f.Rate,
	}
	return errors.Join(err, f.print(rep, stdout))
}

func (f benchFlags) print(rep bench.Report, w io.Writer) error {
	if f.output == "table" {
		return rep.WriteTable(w, coloured(w))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rep)
}

// drawable reports whether lines on w can be redrawn.
func drawable(w io.Writer) bool { return terminal(w) && os.Getenv("TERM") != "dumb" }

// coloured reports whether w shows colours and its reader wants them.
func coloured(w io.Writer) bool { return drawable(w) && os.Getenv("NO_COLOR") == "" }

// terminal reports whether w is a character device other than the null device.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	is, err := f.Stat()
	if err != nil || is.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(is, null)
}
