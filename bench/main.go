// Command bench measures Carillon beside other job queues: River and Graphile Worker on the same PostgreSQL, asynq on
// Redis. `make bench-peers` runs it.
//
// Every system is a program of its own that prints one JSON object. The systems take turns, in another order in each
// run, each on a fresh database; the medians count. The output names what cannot be measured here.
//
// `bench flows` compares a workflow of very many children with a flow of BullMQ.
//
// `bench measure river …` and `bench measure asynq …` are the programs of the Go peers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-jobs/carillon/bench/peer"
	"github.com/carillon-jobs/carillon/bench/report"
)

// settings holds the options of a whole measurement.
type settings struct {
	jobs, runs int
	limit      time.Duration
	postgres   string
	carillon   string
	dir        string
	graphile   string
	redisFsync string
	systems    []string
	output     string
	check      bool
	tune       bool
}

var everySystem = []string{report.Carillon, report.CarillonSQLite, report.River, report.Graphile, report.Asynq}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == "measure" {
		return child(ctx, args[1:], out)
	}
	if len(args) > 0 && args[0] == "flows" {
		return flows(ctx, args[1:], out, progress)
	}
	s, err := parse(args, progress)
	if err != nil {
		return err
	}
	server, err := inspect(ctx, s.postgres)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	measured, err := rounds(ctx, s, systemsFor(s), s.once, progress)
	if err != nil {
		return err
	}
	header := report.Header{Jobs: s.jobs, Runs: s.runs, Payload: peer.Payload, Cores: runtime.NumCPU(), Postgres: server}
	full := report.Summarise(header, measured)
	if s.output == "json" {
		err = full.JSON(out)
	} else {
		err = full.Table(out)
	}
	if err == nil && s.check {
		err = unmet(full.Targets)
	}
	return err
}

func parse(args []string, usage io.Writer) (settings, error) {
	var s settings
	var systems string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(usage)
	f.IntVar(&s.jobs, "jobs", 50_000, "jobs in each phase")
	f.IntVar(&s.runs, "runs", 3, "runs of each system; the median counts")
	f.DurationVar(&s.limit, "limit", time.Minute, "the longest that a phase of a peer may take")
	f.StringVar(&s.carillon, "carillon", "../bin/carillon", "the built binary")
	f.StringVar(&s.dir, "dir", "../.cache/peers", "folder for SQLite and Redis; on the disk that PostgreSQL uses")
	f.StringVar(&s.graphile, "graphile", "graphile", "folder of Graphile Worker's script")
	f.StringVar(&s.redisFsync, "redis-fsync", "always", "Redis' appendfsync: always is as durable as the others; everysec, no")
	f.StringVar(&systems, "systems", strings.Join(everySystem, ","), "systems to measure")
	f.StringVar(&s.output, "o", "table", "output: table or json")
	f.BoolVar(&s.tune, "tune", true, "first try several settings of each peer, and keep the best")
	f.BoolVar(&s.check, "check", false, "exit with 1 if a target is missed or cannot be judged")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	s.systems, s.postgres = strings.Split(systems, ","), os.Getenv("CARILLON_BENCH_POSTGRES")
	return s, s.valid(f.Args())
}

func (s settings) valid(rest []string) error {
	for _, name := range s.systems {
		if !slices.Contains(everySystem, name) {
			return fmt.Errorf("-systems: there is no system %q; want some of %s", name, strings.Join(everySystem, ","))
		}
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q; want flags only", rest[0])
	case s.jobs < 1:
		return fmt.Errorf("-jobs is %d; want 1 or more", s.jobs)
	case s.runs < 1:
		return fmt.Errorf("-runs is %d; want 1 or more", s.runs)
	case s.limit < time.Second:
		return fmt.Errorf("-limit is %v; want 1s or more", s.limit)
	case s.output != "table" && s.output != "json":
		return fmt.Errorf("-o is %q; want table or json", s.output)
	case !slices.Contains([]string{"always", "everysec", "no"}, s.redisFsync):
		return fmt.Errorf("-redis-fsync is %q; want always, everysec or no", s.redisFsync)
	case s.postgres == "":
		return errors.New("CARILLON_BENCH_POSTGRES names no server; `make bench-peers` starts one")
	}
	return nil
}

// unmet is an error that counts the targets that were missed.
func unmet(answers []report.Answer) error {
	missed := 0
	for _, a := range answers {
		if a.Verdict != report.Met {
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d of %d targets are not met", missed, len(answers))
	}
	return nil
}
