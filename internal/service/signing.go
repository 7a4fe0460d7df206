package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/sign"
)

// SecretOverlap is for how long the secrets before a new one sign as well, unless its maker says otherwise.
const SecretOverlap = 24 * time.Hour

const maxOverlap = 30 * 24 * time.Hour

// SigningSecrets lists what the tenant's callbacks are signed with, the newest first.
func (s *Service) SigningSecrets(ctx context.Context, p tenant.Principal) ([]engine.SigningSecret, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	return s.store.SigningSecrets(ctx, p.Tenant)
}

// AddSigningSecret makes a secret, which is answered this once, but for the private half of a pair, which never is; those before it sign as well for an overlap. With an
// idempotency key the id is made of that, so that the same request again gets the same answer while the secret is in use.
func (s *Service) AddSigningSecret(ctx context.Context, p tenant.Principal, a sign.Algorithm, overlap time.Duration, once Once[engine.SigningSecret]) (x engine.SigningSecret, secret string, err error) {
	if err := allow(p, tenant.Manage); err != nil {
		return x, "", err
	}
	if overlap < 0 || overlap > maxOverlap {
		return x, "", job.Invalids{{Field: "overlap_seconds", Value: job.Show(int64(overlap / time.Second)), Want: "a whole number from 0 to 2592000"}}
	}
	if s.cfg.Sealer == nil {
		return x, "", errNoSeal
	}
	secret = sign.NewSecret(a)
	x = engine.SigningSecret{Tenant: p.Tenant, ID: strings.ToLower(rand.Text()[:16]), Prefix: sign.Public(secret), CreatedAt: s.now()}
	if once.Key != "" {
		sum := sha256.Sum256(append([]byte(once.Key), once.Hash[:]...))
		x.ID = hex.EncodeToString(sum[:8])
	}
	if x.Sealed, err = s.cfg.Sealer.Seal(sign.Place(x.Tenant, x.ID), []byte(secret)); errors.Is(err, seal.ErrNoKey) {
		return x, "", errNoSeal
	} else if err != nil {
		return x, "", err
	}
	replay, err := keep(ctx, s, p, x, once)
	if err != nil {
		return x, "", err
	}
	if replay == nil {
		switch err := s.store.AddSigningSecret(ctx, x, x.CreatedAt.Add(overlap)); {
		case isConflict(err):
			return x, "", &NotDone{"create", fmt.Sprintf("%d signing secrets are in use; revoke one first.", engine.MaxSigningSecrets)}
		case err != nil:
			return x, "", err
		}
		s.cfg.Resign(p.Tenant)
	}
	if once.Key == "" {
		return x, secret, nil
	}
	if x, err = s.signingSecret(ctx, p, x.ID); err != nil { // the one that stands: this request may have been made before
		return x, "", err
	}
	secret, err = sign.Open(s.cfg.Sealer, x)
	return x, secret, err
}

var errNoSeal = &NotDone{"create", "A signing secret is kept encrypted, and the server has no key for that: set secrets.key_file or CARILLON_SECRETS_KEY."}

// DeleteSigningSecret revokes a secret.
func (s *Service) DeleteSigningSecret(ctx context.Context, p tenant.Principal, id string) (engine.SigningSecret, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return engine.SigningSecret{}, err
	}
	x, err := s.signingSecret(ctx, p, id)
	if err != nil {
		return x, err
	}
	if err := s.store.DeleteSigningSecret(ctx, p.Tenant, id); err != nil {
		return x, err
	}
	s.cfg.Resign(p.Tenant)
	return x, nil
}

func (s *Service) signingSecret(ctx context.Context, p tenant.Principal, id string) (engine.SigningSecret, error) {
	all, err := s.store.SigningSecrets(ctx, p.Tenant)
	if err != nil {
		return engine.SigningSecret{}, err
	}
	i := slices.IndexFunc(all, func(x engine.SigningSecret) bool { return x.ID == id })
	if i < 0 {
		return engine.SigningSecret{}, engine.ErrNotFound
	}
	return all[i], nil
}
