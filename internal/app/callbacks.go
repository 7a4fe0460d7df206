package app

import (
	"context"
	"fmt"
	"net/url"

	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/executor"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
)

// breaker returns the settings of the circuit breaker.
func (r *running) breaker() executor.Breaker {
	if c := r.Config.Callbacks; c.Breaker {
		return executor.Breaker{Failures: c.BreakerFailures}
	}
	return executor.Breaker{}
}

// proxy reads the egress proxy for callbacks from the settings.
func (r *running) proxy() (p executor.Proxy, err error) {
	c := r.Config.Callbacks
	if c.Proxy == "" {
		return p, nil
	}
	if p.URL, err = url.Parse(c.Proxy); err != nil {
		return p, fmt.Errorf("read callbacks.proxy: %w", err)
	}
	p.Credentials, p.Resolves = c.ProxyCredentials, c.ProxyResolves
	if c.ProxyCA != "" {
		if p.CAs, err = certificates(c.ProxyCA); err != nil {
			return p, config.Mistakes{{Key: "callbacks.proxy_ca_file", Value: c.ProxyCA, Want: "a file of certificates: " + err.Error(), From: "as set"}}
		}
	}
	return p, nil
}

// signs makes sure that the default tenant's callbacks are signed, or logs why callbacks are not.
func (r *running) signs(ctx context.Context, svc *service.Service) error {
	if r.ring == nil {
		r.log.Warn("callbacks are not signed: signing secrets are kept encrypted, and there is no key; make one with 'openssl rand -base64 32 > secrets.key && chmod 600 secrets.key', and set secrets.key_file or CARILLON_SECRETS_KEY to it")
		return nil
	}
	if r.Dev { // the secret is made, and shown, below
		return nil
	}
	return svc.SeedSigningSecret(ctx, tenant.Default)
}

// devSecret returns the secret that signs callbacks in dev, where it exists from the start; "" elsewhere.
func (r *running) devSecret(ctx context.Context, svc *service.Service) (string, error) {
	if !r.Dev || r.ring == nil {
		return "", nil
	}
	all, err := svc.SigningSecrets(ctx, tenant.Local())
	if err != nil || len(all) == 0 {
		return "", err
	}
	if all[0].Prefix == "" {
		_, secret, err := svc.RevealSigningSecret(ctx, tenant.Local(), all[0].ID)
		return secret, err
	}
	return sign.Open(r.ring, all[0])
}
