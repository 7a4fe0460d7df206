package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/executor"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/telemetry"
	"github.com/carillon-jobs/carillon/worker"
)

// NewLog makes the log that the settings ask for.
func NewLog(c config.Config, w io.Writer) *telemetry.Log {
	return telemetry.NewLog(w, c.LogFormat, c.LogLevel)
}

// parents maps the setting to how callers' traces are treated.
var parents = map[string]telemetry.Parents{"link": telemetry.ParentsLinked, "follow": telemetry.ParentsFollowed, "ignore": telemetry.ParentsIgnored}

// watched sets up metrics and, if the settings ask for it, tracing.
func (r *running) watched(ctx context.Context, m *telemetry.Metrics) error {
	r.metrics = m
	if r.Log != nil {
		r.toggles()
	}
	t := r.Config.Tracing
	if t.Endpoint == "" {
		return nil
	}
	var err error
	r.tracer, err = telemetry.NewTracer(ctx, telemetry.TracerConfig{
		Endpoint: t.Endpoint, GRPC: t.Protocol == "grpc", Headers: t.Pairs(), Sample: t.Share(), Parents: parents[t.Parents], Service: "carillon", Version: Version, Host: hostname(), Log: r.log,
	})
	if err != nil {
		return err
	}
	r.onStop("traces", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return r.tracer.Close(ctx)
	})
	return nil
}

// gauges measures the installation at each scrape; shared means that it may have other servers.
func (r *running) gauges(store interface {
	engine.Reads
	engine.Catalogue
}, shared bool, disp *dispatch.Dispatcher, clk clock.Clock, exec *executor.Executor) {
	r.metrics.Show(telemetry.NewGauges(func(ctx context.Context) (p telemetry.Picture, err error) {
		p.Now = clk.Now()
		if p.Census, err = store.Census(ctx, p.Now.Add(-service.OverdueAfter)); err != nil {
			return p, err
		}
		_, all, err := disp.Loads(ctx)
		if err != nil {
			return p, err
		}
		for i, b := range all.Bands {
			p.Pending[i], p.Running[i] = b.Waiting, b.Running
		}
		note, bytes, err := lookAtArchive(ctx, store)
		if err != nil {
			return p, err
		}
		p.ArchivedBytes, p.Archived = bytes, note.Written
		if r.Config.Archive.URL != "" {
			p.Archive = note.Lag(r.Config.History.Hot, p.Now)
		}
		p.Paused, p.Oldest, p.DesiredWorkers = all.Paused, all.Oldest, api.DesiredWorkers(all.Waiting)
		if !shared && !r.has("scheduler") {
			p.Unscheduled = job.Partitions // nobody else has the store
		}
		return p, nil
	}))
	r.metrics.PartitionsOwned(func() int {
		held := r.scheduling.Load()
		switch {
		case held != nil:
			return len((*held)().Fence.Epochs)
		case !shared && r.has("scheduler"):
			return job.Partitions
		}
		return 0
	})
	r.metrics.BreakersOpen(exec.OpenBreakers)
	r.metrics.CallbacksPutOff(exec.PutOff)
}

// traced wraps the executor so that attempts are spans, if there is tracing.
func (r *running) traced(exec *executor.Executor) worker.Executor { return r.tracer.Around(exec) }

// scraped serves metrics on a separate listener, if the settings name one. It needs no credential there, and is plain
// HTTP even if the API has a certificate, so that servers and workers, which have none, are scraped alike.
func (r *running) scraped(ready func(context.Context) error) error {
	at := r.Config.Metrics.Listen
	if at == "" {
		return nil
	}
	ln, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("listen on %s for scrapes: %w", at, err)
	}
	r.scrapes = ln.Addr()
	cfg := api.Config{Version: Version, Logger: r.log, MetricsOnly: true, Keyless: true, Metrics: r.metrics, Ready: ready, Authenticate: nobody}
	if r.Dev && loopback(r.scrapes) {
		cfg.Authenticate = nil // so that no page of another site reads them through a name that resolves here
	}
	r.answer(ln, cfg, nil)
	return nil
}

// nobody returns the principal of a request without a known credential.
func nobody(context.Context, string, string) (tenant.Principal, error) {
	return tenant.Principal{}, access.ErrNoCredential
}

// support returns what a support bundle says about this process.
func (r *running) support(store string, now time.Time) *api.Support {
	out := &api.Support{Secrets: config.Secrets(r.Config), Host: hostname(), Store: store, Roles: r.Config.Roles, StartedAt: now}
	for _, x := range config.Shown(r.Config) {
		out.Settings = append(out.Settings, client.SupportSetting{Key: x.Name, Value: x.Value, Changed: x.Value != x.Default()})
	}
	return out
}
