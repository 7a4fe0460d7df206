package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/carillon-jobs/carillon/bench/peer"
	"github.com/carillon-jobs/carillon/bench/report"
)

// child runs `bench measure SYSTEM`: it measures one Go peer in a separate process, so that memory and leftovers of
// other peers do not count. It prints one JSON object.
func child(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("measure: want %s or %s", report.River, report.Asynq)
	}
	name := args[0]
	var c peer.Config
	var address string
	f := flag.NewFlagSet("measure "+name, flag.ContinueOnError)
	f.StringVar(&address, "database", "", "PostgreSQL URL of an empty database (river), or HOST:PORT of a Redis that may be emptied (asynq)")
	f.IntVar(&c.Jobs, "jobs", 50_000, "jobs in each phase")
	f.IntVar(&c.Batch, "batch", 1000, "jobs in one insert")
	f.IntVar(&c.Inserters, "inserters", 4, "inserts at a time")
	f.IntVar(&c.Pickups, "pickups", 200, "inserts into the idle queue")
	f.DurationVar(&c.Limit, "limit", time.Minute, "the longest that a phase may take")
	open, err := opener(name, f, &address)
	if err != nil {
		return err
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if address == "" || c.Jobs < 1 || c.Batch < 1 || c.Inserters < 1 || c.Pickups < 1 || c.Limit <= 0 {
		return fmt.Errorf("measure %s: -database must be given, and all numbers must be above 0", name)
	}
	p, err := open(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	n, err := peer.Measure(ctx, p, c)
	if err != nil {
		return err
	}
	n.Engine = name
	n.Settings += fmt.Sprintf(", %d inserters with batches of %d", c.Inserters, c.Batch)
	return json.NewEncoder(out).Encode(n)
}

// opener adds a peer's own flags.
func opener(name string, f *flag.FlagSet, address *string) (func(context.Context) (peer.Peer, error), error) {
	switch name {
	case report.River:
		var c peer.RiverConfig
		f.IntVar(&c.Clients, "clients", 1, "clients that work")
		f.IntVar(&c.Workers, "workers", 1000, "MaxWorkers of each client")
		f.DurationVar(&c.Cooldown, "cooldown", time.Millisecond, "FetchCooldown")
		f.DurationVar(&c.Poll, "poll", 20*time.Millisecond, "FetchPollInterval")
		f.IntVar(&c.Connections, "connections", 20, "connections of the pool")
		return func(ctx context.Context) (peer.Peer, error) { return peer.OpenRiver(ctx, *address, c) }, nil
	case report.Asynq:
		var c peer.AsynqConfig
		f.IntVar(&c.Servers, "servers", 4, "asynq servers in this process")
		f.IntVar(&c.Concurrency, "workers", 64, "Concurrency of each server")
		f.IntVar(&c.Enqueuers, "enqueuers", 64, "Enqueue calls at a time within a batch")
		f.DurationVar(&c.Check, "poll", time.Millisecond, "TaskCheckInterval")
		return func(context.Context) (peer.Peer, error) { return peer.OpenAsynq(*address, c) }, nil
	}
	return nil, fmt.Errorf("measure: there is no Go peer %q; want %s or %s", name, report.River, report.Asynq)
}
