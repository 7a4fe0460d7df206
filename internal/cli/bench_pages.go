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
		Use: "pages", Short: "Measure how long pages of the API and of the dashboard take over much history",
		Long: `Store jobs and executions as they are in life, most of them one tenant's, of which some failed; then ask over HTTP for whatever the
dashboard asks for: lists with each filter, also with filters that choose little or nothing, pages far down, histories, plots, and whole
screens; one request at a time, and again by several callers at once.` + goalPlace,
		Args: cobra.NoArgs, Example: "  carillon bench pages\n  carillon bench pages --jobs 1000000 --executions 10000000 --samples 100 --database postgres://carillon@db.internal/carillon --strict",
	}
	f.add(c)
	f.Slots = 64
	c.Flags().Lookup("slots").DefValue = strconv.Itoa(f.Slots)
	c.Flags().IntVar(&f.Jobs, "jobs", 20_000, "jobs that are stored, up to 10 000 000")
	c.Flags().IntVar(&o.Executions, "executions", 100_000, "executions that are stored, at least as many as jobs, up to 100 000 000")
	c.Flags().DurationVar(&o.Settle, "settle", 0, "how long nothing is asked after loading, up to 2h; 0s: 6 s for each million executions, a minute at the most")
	c.Flags().IntVar(&f.Samples, "samples", 50, "requests for each page, and then as many by several callers at once")
	c.Flags().IntVar(&f.Callers, "callers", 8, "callers at once")
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
