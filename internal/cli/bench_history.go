package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/config"
)

func benchHistoryCommand(open opener) *cobra.Command {
	var f goalFlags
	var o bench.HistoryOptions
	c := &cobra.Command{
		Use: "history", Short: "Measure how fast a day of history moves to files, and is read there",
		Long: `Store executions that have finished, and move their day to files in a temporary folder, while a hundred jobs a second are created.
Measure how many executions move each second, how much longer creating a job takes meanwhile, and how large the files are, compared with
what the store took; then how long it takes to read from them: single executions, a page of a job, and a search of the whole day.` + goalPlace,
		Args: cobra.NoArgs, Example: "  carillon bench history\n  carillon bench history --executions 10000000 --jobs 100000 --database postgres://carillon@db.internal/carillon --strict",
	}
	f.add(c)
	f.Slots = 64
	c.Flags().Lookup("slots").DefValue = strconv.Itoa(f.Slots)
	c.Flags().IntVar(&f.Jobs, "jobs", 2000, "jobs to store, up to 10 000 000")
	c.Flags().IntVar(&o.Executions, "executions", 200_000, "executions to store, at least as many as jobs, up to 100 000 000")
	c.Flags().IntVar(&f.Samples, "samples", 100, "executions, and pages of jobs, to read")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.check([4]any{"jobs", f.Jobs, 1, 10_000_000}, [4]any{"executions", o.Executions, 1, 100_000_000}, [4]any{"samples", f.Samples, 1, 2000}); err != nil {
			return err
		}
		if o.Executions < f.Jobs {
			return config.Mistakes{{Key: "executions", Value: strconv.Itoa(o.Executions), Want: "at least as many as jobs, of which there are " + strconv.Itoa(f.Jobs), From: "flag"}}
		}
		return f.run(c, open, func(ctx context.Context) (bench.GoalReport, error) {
			o.Options = f.Options
			return bench.History(ctx, o)
		})
	}
	return c
}
