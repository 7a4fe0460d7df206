package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flowSettings holds the options of the measurement of flows.
type flowSettings struct {
	settings
	children int
	bullmq   string
}

// flowSide is a system and the seconds that its runs took.
type flowSide struct {
	name  string
	once  func(ctx context.Context) (float64, error)
	took  []float64
	share []float64 // how many times as fast as BullMQ, run by run
}

// flows runs `bench flows`: a workflow with very many children against a flow of BullMQ, on a Redis that syncs every
// write. The systems take turns, each run in another order, each on a fresh database.
func flows(ctx context.Context, args []string, out, progress io.Writer) error {
	s, err := parseFlows(args, progress)
	if err != nil {
		return err
	}
	for _, lacks := range []string{
		notProgram(s.carillon, "`make build` builds it"), notProgram("redis-server", "bench/setup installs it"), notProgram("node", "bench/setup needs it, too"), notBullMQ(s.bullmq),
	} {
		if lacks != "" {
			return errors.New(lacks)
		}
	}
	server, err := inspect(ctx, s.postgres)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	peer := &flowSide{name: "BullMQ", once: s.flowOfBullMQ}
	sides := []*flowSide{
		{name: "Carillon on PostgreSQL", once: func(ctx context.Context) (float64, error) {
			address, remove, err := newDatabase(ctx, s.postgres)
			return s.flowOfCarillon(ctx, address, remove, err)
		}},
		peer,
		{name: "Carillon on SQLite", once: func(ctx context.Context) (float64, error) {
			address, remove, err := newSQLite(s.dir)
			return s.flowOfCarillon(ctx, address, remove, err)
		}},
	}
	order := slices.Clone(sides)
	for run := range s.runs {
		for _, side := range order {
			seconds, err := side.once(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			fmt.Fprintf(progress, "run %d of %d: %s: %.2f s\n", run+1, s.runs, side.name, seconds)
			side.took = append(side.took, seconds)
		}
		slices.Reverse(order)
	}
	fmt.Fprintf(out, "\n%d children, then one node that waits for all; %s; Redis with appendfsync %s\n\n", s.children, server, s.redisFsync)
	missed := 0
	for _, side := range sides {
		line := fmt.Sprintf("  %-24s %7.2f s  %8.0f children/s", side.name, medianOf(side.took), float64(s.children)/medianOf(side.took))
		if side != peer {
			for i := range side.took {
				side.share = append(side.share, peer.took[i]/side.took[i])
			}
			ratio, mark := medianOf(side.share), "✓"
			if ratio < leastOfBullMQ {
				mark = "✗"
				missed++
			}
			line += fmt.Sprintf("   %.2f × BullMQ (%.2f to %.2f)   goal ≥ %v %s", ratio, slices.Min(side.share), slices.Max(side.share), leastOfBullMQ, mark)
		}
		fmt.Fprintln(out, line)
	}
	if s.check && missed > 0 {
		return fmt.Errorf("%d of 2 targets are not met", missed)
	}
	return nil
}

// leastOfBullMQ is the minimum speed of a workflow, as a multiple of BullMQ's.
const leastOfBullMQ = 2.0

func parseFlows(args []string, usage io.Writer) (s flowSettings, err error) {
	f := flag.NewFlagSet("bench flows", flag.ContinueOnError)
	f.SetOutput(usage)
	f.IntVar(&s.children, "children", 10_000, "children of the flow")
	f.IntVar(&s.runs, "runs", 5, "runs of each system; the median counts")
	f.DurationVar(&s.limit, "limit", 5*time.Minute, "the longest that a flow may take")
	f.StringVar(&s.carillon, "carillon", "../bin/carillon", "the built binary")
	f.StringVar(&s.dir, "dir", "../.cache/peers", "folder for SQLite and Redis; on the disk that PostgreSQL uses")
	f.StringVar(&s.bullmq, "bullmq", "bullmq", "folder of BullMQ's script")
	f.StringVar(&s.redisFsync, "redis-fsync", "always", "Redis' appendfsync: always is as durable as the others; everysec, no")
	f.BoolVar(&s.check, "check", false, "exit with 1 if a target is missed")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	s.postgres, s.jobs, s.output = os.Getenv("CARILLON_BENCH_POSTGRES"), s.children, "table"
	if s.children < 1 || s.children > 100_000 {
		return s, fmt.Errorf("-children is %d; want 1 to 100000", s.children)
	}
	return s, s.valid(f.Args())
}

func notBullMQ(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "bullmq", "package.json")); err != nil {
		return "BullMQ is not installed; bench/setup installs it"
	}
	return ""
}

func (s flowSettings) flowOfCarillon(ctx context.Context, address string, remove func() error, err error) (float64, error) {
	if err != nil {
		return 0, err
	}
	text, err := output(ctx, s.limit, []string{s.carillon, "bench", "workflows", "--only", "star", "--turns", "1", "--star", strconv.Itoa(s.children), "--database", address, "-o", "json"})
	if err = errors.Join(err, remove()); err != nil {
		return 0, err
	}
	var got struct {
		Measures []struct {
			Key   string
			Value float64
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return 0, err
	}
	for _, m := range got.Measures {
		if m.Key == "star_s" && m.Value > 0 {
			return m.Value, nil
		}
	}
	return 0, errors.New("the answer has no star_s")
}

func (s flowSettings) flowOfBullMQ(ctx context.Context) (float64, error) {
	address, stop, err := newRedis(ctx, s.dir, s.redisFsync)
	if err != nil {
		return 0, err
	}
	text, err := output(ctx, s.limit, []string{"node", filepath.Join(s.bullmq, "bench.mjs"), "--redis", address, "--children", strconv.Itoa(s.children)})
	if err = errors.Join(err, stop()); err != nil {
		return 0, err
	}
	var got struct{ Seconds float64 }
	if err := json.Unmarshal([]byte(strings.TrimSpace(string(text))), &got); err != nil {
		return 0, err
	}
	if got.Seconds <= 0 {
		return 0, errors.New("the answer has no seconds")
	}
	return got.Seconds, nil
}

func medianOf(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
