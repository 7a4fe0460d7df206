package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/config"
)

func benchWorkflowsCommand(open opener) *cobra.Command {
	var f goalFlags
	var o bench.WorkflowsOptions
	c := &cobra.Command{
		Use: "workflows", Short: "Measure how fast workflows run",
		Long: `Measure how many nodes per second chains of nodes run, beside plain executions that are triggered one by one; how long a node with
very many children takes, and one with a map of very many items, and how much memory; how soon a node starts after the nodes that it
waits for; and how long the API takes to answer for a run with 1 000 nodes. Check that each run succeeded and each node ran exactly once. What is compared takes turns, and the median counts.` + goalPlace,
		Args: cobra.NoArgs, Example: "  carillon bench workflows\n  carillon bench workflows --only chains --turns 9 --database postgres://carillon@db.internal/carillon -o json",
	}
	f.add(c)
	fs := c.Flags()
	fs.IntVar(&o.Chains, "chains", 1000, "runs of the chain")
	fs.IntVar(&o.Length, "length", 10, "nodes of the chain")
	fs.IntVar(&o.Star, "star", 10_000, "items of the star")
	fs.IntVar(&o.Map, "map", 100_000, "items of the wide map")
	fs.IntVar(&o.Turns, "turns", 3, "how often each measurement is repeated")
	fs.IntVar(&f.Callers, "callers", 200, "concurrent callers that trigger")
	fs.IntVar(&f.Samples, "samples", 200, "samples of how soon a node starts")
	fs.StringSliceVar(&f.Only, "only", nil, "measurements, separated by commas: "+strings.Join(bench.WorkflowParts(), ", ")+" (default all)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		err := f.check([4]any{"chains", o.Chains, 1, 100_000}, [4]any{"length", o.Length, 1, 1000}, [4]any{"star", o.Star, 1, 100_000}, [4]any{"map", o.Map, 1, 100_000},
			[4]any{"turns", o.Turns, 1, 100}, [4]any{"callers", f.Callers, 1, 5000}, [4]any{"samples", f.Samples, 1, 100_000})
		if err != nil {
			return err
		}
		for _, name := range f.Only {
			if !slices.Contains(bench.WorkflowParts(), name) {
				return config.Mistakes{{Key: "only", Value: name, Want: "one or more of " + strings.Join(bench.WorkflowParts(), ", "), From: "flag"}}
			}
		}
		return f.run(c, open, func(ctx context.Context) (bench.GoalReport, error) {
			o.Options = f.Options
			return bench.Workflows(ctx, o)
		})
	}
	return c
}
