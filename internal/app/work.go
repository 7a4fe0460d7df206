package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/core/egress"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/executor"
	"github.com/carillon-jobs/carillon/internal/telemetry"
	"github.com/carillon-jobs/carillon/worker"
)

// targets returns the executors of this process's workers.
func (r *running) targets() []string {
	all := []string{string(job.HTTP), string(job.Simulate)}
	if r.commands() {
		all = append(all, string(job.Command))
	}
	return all
}

// work begins to run executions in this process. Commands of different tenants in one process are not isolated from
// each other, so a server runs the commands of only the default tenant unless its settings say otherwise: the other
// pool serves every tenant and takes no commands.
func (r *running) work(exec worker.Executor, door, ofDefault *api.Door) {
	w := r.Config.Workers
	cfg := worker.Config{Targets: r.targets(), Slots: w.DefaultCount, MaxSlots: w.MaxCount, Scale: w.Scale}
	if r.commands() && !r.Dev && !r.Config.Commands.Shared {
		only := cfg
		cfg.Targets, only.Targets = []string{string(job.HTTP), string(job.Simulate)}, []string{string(job.Command)}
		r.run(r.pool(door, exec, cfg), r.pool(ofDefault, exec, only))
		return
	}
	r.run(r.pool(door, exec, cfg))
}

// egress returns the rules for the URLs of callbacks.
func (r *running) egress() egress.Rules {
	c := r.Config
	return egress.Rules{HTTPSOnly: c.Callbacks.HTTPSOnly, Ports: c.Callbacks.Ports, Named: c.CallbacksAllow, Loopback: r.Dev}
}

// executor makes what runs the targets; fetch gets the artifacts of commands.
func (r *running) executor(fetch artifact.Fetch) (*executor.Executor, error) {
	cfg := executor.Config{
		AllowLoopback: r.Dev, AllowCIDRs: r.Config.CallbacksAllow, Version: Version, Log: r.log, Breaker: r.breaker(), FirstByte: r.Config.Callbacks.FirstByte,
		OwnAddrs: r.listens, HTTPSOnly: r.Config.Callbacks.HTTPSOnly, Ports: r.Config.Callbacks.Ports,
		Pace: executor.Pace{PerSecond: r.Config.Callbacks.HostPerSecond, Concurrent: r.Config.Callbacks.HostConcurrent},
	}
	var err error
	if cfg.Commands, err = r.commandRunner(fetch); err != nil {
		return nil, err
	}
	if cfg.Proxy, err = r.proxy(); err != nil {
		return nil, err
	}
	exec := executor.New(cfg)
	r.onStop("executor", func() error { exec.Close(); return nil })
	return exec, nil
}

// listens lists the addresses where this process listens.
func (r *running) listens() []netip.AddrPort {
	var all []netip.AddrPort
	for _, at := range []net.Addr{r.address, r.scrapes} {
		if a, ok := at.(*net.TCPAddr); ok {
			all = append(all, a.AddrPort())
		}
	}
	return all
}

// fetchFrom downloads artifacts from a remote server.
func fetchFrom(c *client.Client) artifact.Fetch {
	return func(ctx context.Context, t tenant.ID, id string) (io.ReadCloser, error) {
		b, err := c.OpenArtifact(ctx, string(t), id)
		var no *client.Problem
		if errors.As(err, &no) && no.Status == http.StatusNotFound {
			return nil, artifact.ErrNotFound
		}
		return b, err
	}
}

// pool makes a worker pool that runs executions from a source.
func (r *running) pool(src worker.Source, exec worker.Executor, cfg worker.Config) *worker.Pool {
	cfg.Host, cfg.Version, cfg.Drain, cfg.Logger = hostname(), Version, r.Config.Workers.Drain, r.log
	return worker.New(src, exec, cfg)
}

// run begins to run executions; the pools stop together.
func (r *running) run(pools ...*worker.Pool) {
	r.metrics.WorkersUse(func() (u telemetry.Use) {
		for _, p := range pools {
			running, capacity := p.Use()
			u.Running, u.Capacity = u.Running+running, u.Capacity+capacity
		}
		if most := worker.Memory().MemoryLimit; most != nil {
			u.MemoryLimit = *most
		}
		return u
	})
	r.background("workers", func(ctx context.Context) {
		var all sync.WaitGroup
		for _, p := range pools {
			all.Go(func() { p.Run(ctx) })
		}
		all.Wait()
	})
}
