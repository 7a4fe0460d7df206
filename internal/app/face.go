package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/feed"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
)

// bootstrap makes sure that the initial keys exist, and returns the text of the first one if it was just created.
func (r *running) bootstrap(ctx context.Context, store engine.Keys, clk clock.Clock) (key string, err error) {
	first, err := access.NewFirst(r.Config.BootstrapKey)
	if err != nil {
		return "", err
	}
	err = r.whenAnswered(ctx, func() (err error) {
		key, err = first.Store(ctx, store, clk.Now())
		return err
	})
	if chosen := r.Config.BootstrapWorker; err == nil && chosen != "" {
		err = r.whenAnswered(ctx, func() error { return access.BootstrapWorker(ctx, store, chosen, clk.Now()) })
	}
	return key, err
}

// serve begins to serve HTTP. It returns the first API key if one was created.
func (r *running) serve(ctx context.Context, ln net.Listener, store engine.Store, svc *service.Service, disp *dispatch.Dispatcher, out *delivery.Pipeline, tokens *sign.Tokens, hub *feed.Hub, clk clock.Clock) (key string, err error) {
	cfg := api.Config{
		Service: svc, Dispatch: disp, Delivery: out, Tokens: tokens, Secrets: r.vault, Feed: hub, Version: Version, Logger: r.log, Demo: r.Demo, HealthOnly: !r.has("api"),
		Metrics: r.metrics, Tracer: r.tracer, Log: r.Log, Profiles: r.Config.Pprof, Support: r.support(store.Describe(), clk.Now()),
		Proxies: r.Config.TrustedProxies, Failures: r.Config.FailedPerAddress, Unproven: r.Config.UnprovenRate, Sessions: r.Config.Workers.Sessions, MaxArtifact: r.maxArtifact(), Archive: r.office, Shared: r.Config.Commands.Shared, WorkerCerts: r.Config.TLSClientCA != "" && r.Config.TLSClientAuth == config.WorkerCert, Retry: retry(r.Config.Retry),
		Warnings: r.warnings,
		Ready: func(ctx context.Context) error {
			if r.draining.Load() {
				return errors.New("the server is stopping")
			}
			return store.Ping(ctx)
		},
	}
	if !r.Dev {
		if key, err = r.bootstrap(ctx, store, clk); err != nil {
			return "", err
		}
		var tokens *access.Tokens
		if j := r.Config.JWT; j.On() {
			tokens = access.NewTokens(access.JWTConfig{Issuer: j.Issuer, Audience: j.Audience, Secret: j.Secret, KeysURL: j.KeysURL, TenantClaim: j.TenantClaim, RoleClaim: j.RoleClaim, Client: issuerClient(j, r.Config.Callbacks)}, clk)
		}
		auth := access.New(store, clk, tokens)
		auth.Stay(access.Lives{Idle: r.Config.SessionIdle, Whole: r.Config.Session})
		cfg.Authenticate, cfg.SignIns = auth.Authenticate, auth
		r.background("keys", func(ctx context.Context) { loop.Run(ctx, r.log, "keys", nil, auth.Tick) })
		if r.tls == nil && !loopback(r.address) {
			r.log.Warn("serving without TLS off loopback: API keys cross the network in the clear; set tls.cert and tls.key, or put a TLS proxy in front", "listen", r.address.String())
		}
	}
	if r.Dev {
		if cfg.Local, err = r.local(); err != nil {
			return "", err
		}
		r.token, r.tokenFile = cfg.Local.Token, cfg.Local.File
	}
	face := r.answer(ln, cfg, r.tls)
	if cfg.Authenticate != nil {
		r.background("denials", func(ctx context.Context) { loop.Run(ctx, r.log, "denials", nil, face.Tick) })
	}
	return key, r.scraped(cfg.Ready)
}

// answer begins to serve HTTP on the listener, over TLS unless secure is nil.
func (r *running) answer(ln net.Listener, cfg api.Config, secure *tls.Config) *api.Server {
	face := api.New(cfg)
	server := &http.Server{
		Handler: face, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, TLSConfig: secure, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	if cfg.Local != nil {
		server.ConnContext = withPeer
	}
	server.RegisterOnShutdown(face.Stop)
	go func() {
		serve := server.Serve
		if secure != nil {
			serve = func(ln net.Listener) error { return server.ServeTLS(ln, "", "") }
		}
		if err := serve(&doorway{Listener: ln, log: r.log}); !errors.Is(err, http.ErrServerClosed) {
			r.failed <- fmt.Errorf("serve HTTP: %w", err)
		}
	}()
	r.onStop("HTTP", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return server.Shutdown(ctx)
	})
	return face
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// loopback reports whether an address is reachable only from this machine.
func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// hostPort returns an address as a person would type it.
func hostPort(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok || !t.IP.IsUnspecified() {
		return a.String()
	}
	return net.JoinHostPort("localhost", fmt.Sprint(t.Port))
}
