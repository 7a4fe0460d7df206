package app

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/executor"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
)

// breaker is when calls of hosts that are down are put off.
func (r *running) breaker() executor.Breaker {
	if c := r.Config.Callbacks; c.Breaker {
		return executor.Breaker{Failures: c.BreakerFailures}
	}
	return executor.Breaker{}
}

// devSecret is what callbacks are signed with in dev, where one exists from the start; "" elsewhere.
func (r *running) devSecret(ctx context.Context, svc *service.Service) (string, error) {
	if !r.Dev || r.ring == nil {
		return "", nil
	}
	all, err := svc.SigningSecrets(ctx, tenant.Local())
	if err != nil {
		return "", err
	}
	if len(all) > 0 {
		return sign.Open(r.ring, all[0])
	}
	_, secret, err := svc.AddSigningSecret(ctx, tenant.Local(), sign.HMAC, 0, service.Once[engine.SigningSecret]{})
	return secret, err
}
