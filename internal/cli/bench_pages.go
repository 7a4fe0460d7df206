package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/config"
)

func benchPagesCommand(open opener) *cobra.Command {
	var f goalFlags
	var o bench.PagesOptions
	c := &cobra.Command{
		Use: "pages", Short: "Measure how long API and dashboard pages take with a large history",
		Long: `Store realistic jobs and executions, most of them of one tenant, some of them failed. Then request over HTTP what the
dashboard requests: lists with each filter, including filters that match little or nothing, later pages, histories, plots and whole
screens; first one request at a time, then with several callers at once.` + goalPlace,
		Args: cobra.NoArgs, Example: "  carillon bench pages\n  carillon bench pages --jobs 1000000 --executions 10000000 --samples 100 --database postgres://carillon@db.internal/carillon --strict",
	}
	f.add(c)
	f.Slots = 64
	c.Flags().Lookup("slots").DefValue = strconv.Itoa(f.Slots)
	c.Flags().IntVar(&f.Jobs, "jobs", 20_000, "jobs to store, up to 10 000 000")
	c.Flags().IntVar(&o.Executions, "executions", 100_000, "executions to store, at least as many as jobs, up to 100 000 000")
	c.Flags().DurationVar(&o.Settle, "settle", 0, "how long to pause after loading, up to 2h; 0s: 6 s per million executions, at most a minute")
	c.Flags().IntVar(&f.Samples, "samples", 50, "requests per page, and then the same number with several callers at once")
	c.Flags().IntVar(&f.Callers, "callers", 8, "concurrent callers")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if o.Settle < 0 || o.Settle > 2*time.Hour {
			return config.Mistakes{{Key: "settle", Value: o.Settle.String(), Want: "0s to 2h", From: "flag"}}
		}
		if err := f.check([4]any{"jobs", f.Jobs, 1, 10_000_000}, [4]any{"executions", o.Executions, 1, 100_000_000}, [4]any{"samples", f.Samples, 1, 100_000}, [4]any{"callers", f.Callers, 1, 1000}); err != nil {
			return err
		}
		if o.Executions < f.Jobs {
			return config.Mistakes{{Key: "executions", Value: strconv.Itoa(o.Executions), Want: "at least as many as jobs, of which there are " + strconv.Itoa(f.Jobs), From: "flag"}}
		}
		return f.run(c, open, func(ctx context.Context) (bench.GoalReport, error) {
			o.Options = f.Options
			return bench.Pages(ctx, o)
		})
	}
	return c
}
