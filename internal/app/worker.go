package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/telemetry"
	"github.com/carillon-jobs/carillon/worker"
)

// WorkerOptions are the options of a worker process besides its settings.
type WorkerOptions struct {
	Options
	Servers  []string
	Token    string
	Labels   []string
	Queues   []string
	Capacity int
}

// RunWorker works for remote servers until ctx ends, drains, and returns when everything has stopped.
func RunWorker(ctx context.Context, o WorkerOptions) error {
	if err := arm(); err != nil {
		return err
	}
	o.Config.Roles = []string{"worker"}
	r := &running{Options: o.Options, log: o.Logger, failed: make(chan error, 1), remote: true}
	defer r.stop()
	if err := r.watched(ctx, telemetry.NewProcessMetrics(Version)); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.Config.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.Config.Listen, err)
	}
	r.address = ln.Addr()
	var pool atomic.Pointer[worker.Pool]
	ready := func(context.Context) error {
		if p := pool.Load(); r.draining.Load() || p == nil || !p.Registered() {
			return errors.New("the worker is not registered with a server, or is stopping")
		}
		return nil
	}
	r.answer(ln, api.Config{
		Version: Version, Logger: r.log, HealthOnly: true, Keyless: true, Metrics: r.metrics, Ready: ready, Authenticate: nobody,
	}, nil)
	files := client.TLS{Cert: o.Config.TLSCert, Key: o.Config.TLSKey, CA: o.Config.TLSCA}
	secure, err := files.Config()
	if err != nil {
		return config.Mistakes{{Key: "tls", Value: strings.Join([]string{files.Cert, files.Key, files.CA}, " "), Want: "files of certificates and keys: " + err.Error(), From: "as set"}}
	}
	server := client.New(o.Servers, o.Token, client.WithTLS(secure))
	r.warnPlain(o.Servers)
	exec, err := r.executor(fetchFrom(server))
	if err != nil {
		return err
	}
	r.metrics.BreakersOpen(exec.OpenBreakers)
	r.metrics.CallbacksPutOff(exec.PutOff)
	if err := r.scraped(ready); err != nil {
		return err
	}
	p := r.pool(server, r.traced(exec), worker.Config{Labels: o.Labels, Queues: o.Queues, Targets: r.targets(), Slots: o.Capacity, MaxSlots: o.Capacity,
		Refused: func(err error) bool { // otherwise it would be refused forever
			if !errors.Is(err, client.ErrInvalid) {
				return false
			}
			select {
			case r.failed <- fmt.Errorf("the server does not accept this worker: %w", err):
			default:
			}
			return true
		},
	})
	pool.Store(p)
	r.run(p)
	r.greetWorker(o.Out, o, hostPort(r.address))
	select {
	case <-ctx.Done():
		r.log.Info("stopping: waiting for running executions to end", "seconds", int(o.Config.Workers.Drain.Seconds()))
		return nil
	case err := <-r.failed:
		return err
	}
}

// warnPlain warns about remote servers that are called without encryption.
func (r *running) warnPlain(servers []string) {
	for _, s := range servers {
		if u, err := url.Parse(s); err == nil && u.Scheme == "http" && !onThisMachine(u.Hostname()) {
			r.log.Warn("THIS WORKER USES PLAIN HTTP over a network: its API key, payloads and the secrets of jobs can be read and changed in transit; use https://", "server", s)
		}
	}
}

// onThisMachine reports whether the host of a URL is loopback.
func onThisMachine(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func (r *running) greetWorker(w io.Writer, o WorkerOptions, health string) {
	queues, labels := "all queues", "no labels"
	if len(o.Queues) > 0 {
		queues = "the queues " + strings.Join(o.Queues, ", ")
	}
	if len(o.Labels) > 0 {
		labels = "the labels " + strings.Join(o.Labels, ", ")
	}
	metrics := ""
	if r.scrapes != nil {
		metrics = fmt.Sprintf("  Metrics   http://%s/metrics\n", hostPort(r.scrapes))
	}
	fmt.Fprintf(w, "\nCarillon %s works for %s.\n\n  Slots     %d, for the targets %s\n  Serves    %s, with %s\n  Health    http://%s/readyz\n%s\nCtrl-C stops it once running executions have ended.\n\n",
		Version, strings.Join(o.Servers, ", "), o.Capacity, strings.Join(r.targets(), ", "), queues, labels, health, metrics)
}
