package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/bench/report"
)

// measure runs one system once, with the given number of jobs and additional arguments.
type measure func(ctx context.Context, sys system, jobs int, more []string) (report.Numbers, error)

// rounds lets the systems take turns. Each run starts with another one, so that neither drift of the machine nor the
// order favours any of them.
func rounds(ctx context.Context, s settings, systems []system, once measure, progress io.Writer) (report.Measured, error) {
	results := make([][]report.Numbers, len(systems))
	failures := make([][]string, len(systems))
	missing := make([]string, len(systems))
	best := make([][]string, len(systems))
	for i, sys := range systems {
		if missing[i] = sys.missing(); missing[i] != "" {
			fmt.Fprintf(progress, "%s: SKIPPED: %s\n", sys.name, missing[i])
		} else if s.tune {
			best[i] = tune(ctx, sys, max(1, s.jobs/tuningShare), once, progress)
		}
	}
	for run := range s.runs {
		for turn := range systems {
			i := (run + turn) % len(systems)
			if missing[i] != "" {
				continue
			}
			fmt.Fprintf(progress, "run %d of %d: %s …\n", run+1, s.runs, systems[i].name)
			start := time.Now()
			n, err := once(ctx, systems[i], s.jobs, best[i])
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				failures[i] = append(failures[i], fmt.Sprintf("run %d failed: %v", run+1, err))
				fmt.Fprintf(progress, "  failed: %v\n", err)
				continue
			}
			fmt.Fprintf(progress, "  insert %.0f/s, work %.0f/s, both %.0f/s, idle p50 %.2f ms, in %.0f s\n",
				n.InsertPerS, n.WorkPerS, n.BothPerS, n.IdlePickupMS.P50, time.Since(start).Seconds())
			results[i] = append(results[i], n)
		}
	}
	var measured report.Measured
	for i, sys := range systems {
		measured = append(measured, outcome(sys.name, results[i], missing[i], failures[i]))
	}
	return measured, nil
}

func outcome(name string, runs []report.Numbers, missing string, failures []string) report.Outcome {
	o := report.Outcome{System: name, Runs: len(runs), Missing: missing}
	switch {
	case len(runs) > 0:
		n := report.Median(runs)
		o.Numbers, o.Notes = &n, failures
	case missing == "":
		o.Missing = strings.Join(failures, "; ")
	}
	return o
}

// tune tries each of a system's settings once, on fewer jobs, and returns the best. It ranks settings by the product
// of their three rates, so that each rate counts the same.
func tune(ctx context.Context, sys system, jobs int, once measure, progress io.Writer) (best []string) {
	most := 0.0
	for _, variant := range sys.variants {
		if ctx.Err() != nil {
			break
		}
		n, err := once(ctx, sys, jobs, variant)
		if err != nil {
			fmt.Fprintf(progress, "tuning: %s %s failed: %v\n", sys.name, strings.Join(variant, " "), err)
			continue
		}
		fmt.Fprintf(progress, "tuning: %s %s: insert %.0f/s, work %.0f/s, both %.0f/s, idle p50 %.2f ms\n",
			sys.name, strings.Join(variant, " "), n.InsertPerS, n.WorkPerS, n.BothPerS, n.IdlePickupMS.P50)
		if score := n.InsertPerS * n.WorkPerS * n.BothPerS; score > most {
			best, most = variant, score
		}
	}
	return best
}

// tuningShare is the factor by which a tuning run has fewer jobs.
const tuningShare = 2

// once runs one system once, in a fresh place that is removed afterwards.
func (s settings) once(ctx context.Context, sys system, jobs int, more []string) (n report.Numbers, err error) {
	if err := checkpoint(ctx, s.postgres); err != nil {
		return n, err
	}
	database, remove, err := sys.place(ctx)
	if err != nil {
		return n, err
	}
	defer func() {
		if gone := remove(); gone != nil && err == nil {
			err = fmt.Errorf("clean up: %w", gone)
		}
	}()
	// Allow for four phases, each insert method, and startup.
	text, err := output(ctx, 8*s.limit+time.Minute, append(sys.command(database, jobs), more...))
	if err != nil {
		return n, err
	}
	return report.Parse(text)
}
