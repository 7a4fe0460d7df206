package service

import (
	"bytes"
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

// SecretOverlap is how long the previous secrets keep signing, by default.
const SecretOverlap = 24 * time.Hour

const maxOverlap = 30 * 24 * time.Hour

// SigningSecrets lists the tenant's signing secrets, newest first.
func (s *Access) SigningSecrets(ctx context.Context, p tenant.Principal) ([]engine.SigningSecret, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	all, err := s.store.SigningSecrets(ctx, p.Tenant)
	if err != nil || len(all) > 0 || !s.canSign() {
		return all, err
	}
	if err := s.SeedSigningSecret(ctx, p.Tenant); err != nil {
		return nil, err
	}
	return s.store.SigningSecrets(ctx, p.Tenant)
}

// canSign reports whether signing secrets can be stored.
func (s *Access) canSign() bool {
	if s.cfg.Sealer == nil {
		return false
	}
	_, err := s.cfg.Sealer.Seal("", nil)
	return err == nil
}

// SeedSigningSecret creates a tenant's initial secret, unless it has one. Nobody has seen it: the first admin who
// asks is shown it. Without a key to seal it under there is none.
func (s *Access) SeedSigningSecret(ctx context.Context, t tenant.ID) error {
	return s.seedSigningSecret(ctx, tenant.Principal{Tenant: t, Role: tenant.System, Name: "Carillon"})
}

// seedSigningSecret does so for the tenant, with the cause as author.
func (s *Access) seedSigningSecret(ctx context.Context, by tenant.Principal) error {
	if !s.canSign() {
		return nil
	}
	t := by.Tenant
	secret := sign.NewSecret(sign.HMAC)
	x := engine.SigningSecret{Tenant: t, ID: strings.ToLower(rand.Text()[:16]), CreatedAt: s.now()}
	var err error
	if x.Sealed, err = s.cfg.Sealer.Seal(sign.Place(x.Tenant, x.ID), []byte(secret)); err != nil {
		return err
	}
	made, err := s.store.SeedSigningSecret(ctx, x, s.audited(by, "signing_secret.create", x.ID, detail{After: fields{"shown": "not yet"}}))
	if made && s.cfg.Resign != nil {
		s.cfg.Resign(t)
	}
	return err
}

// RevealSigningSecret shows a secret that nobody has been shown yet, once.
func (s *Access) RevealSigningSecret(ctx context.Context, p tenant.Principal, id string) (x engine.SigningSecret, secret string, err error) {
	if err := allow(p, tenant.Manage); err != nil {
		return x, "", err
	}
	if x, err = s.signingSecret(ctx, p, id); err != nil {
		return x, "", err
	}
	if x.Prefix != "" {
		return x, "", errShown
	}
	if s.cfg.Sealer == nil {
		return x, "", errNoSeal
	}
	if secret, err = sign.Open(s.cfg.Sealer, x); err != nil {
		return x, "", err
	}
	x.Prefix = sign.Public(secret)
	err = s.store.ShowSigningSecret(ctx, p.Tenant, id, x.Prefix, s.audited(p, "signing_secret.reveal", id, detail{After: fields{"prefix": x.Prefix}}))
	if isConflict(err) {
		return x, "", errShown
	}
	if err != nil {
		return x, "", err
	}
	return x, secret, nil
}

var errShown = &NotDone{"reveal", "The signing secret was shown before, and is shown only once. Rotate it to get another: POST /signing-secrets, or 'carillon signing create'."}

// AddSigningSecret creates a secret, which only this response shows, except the private half of a pair, which is
// never shown; earlier secrets keep signing for an overlap. With an idempotency key the id is derived from it, so
// that the same request again gets the same answer while the secret is in use, including the secret if the encoded
// answer, which should name the credential, is the same.
func (s *Access) AddSigningSecret(ctx context.Context, p tenant.Principal, a sign.Algorithm, overlap time.Duration, once Once[engine.SigningSecret]) (x engine.SigningSecret, secret string, err error) {
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
	told := detail{After: fields{"prefix": x.Prefix, "overlap": overlap.String()}}
	made, err := s.store.AddSigningSecret(ctx, x, x.CreatedAt.Add(overlap), once.with(x, x.CreatedAt), s.audited(p, "signing_secret.create", x.ID, told))
	if isConflict(err) {
		return x, "", &NotDone{"create", fmt.Sprintf("%d signing secrets are in use; revoke one first.", engine.MaxSigningSecrets)}
	}
	if err != nil {
		return x, "", err
	}
	replay, err := outcome(made)
	if err != nil {
		return x, "", err
	}
	if replay == nil {
		s.cfg.Resign(p.Tenant)
	}
	if once.Key == "" {
		return x, secret, nil
	}
	if x, err = s.signingSecret(ctx, p, x.ID); err != nil { // the existing one: this request may have been made before
		return x, "", err
	}
	if replay != nil && !bytes.Equal(replay, once.Encode(x)) {
		return x, "", nil // it was created with another credential, which has seen it
	}
	secret, err = sign.Open(s.cfg.Sealer, x)
	return x, secret, err
}

var errNoSeal = &NotDone{"create", "A signing secret is kept encrypted, and the server has no key for that: set secrets.key_file or CARILLON_SECRETS_KEY."}

// DeleteSigningSecret revokes a secret.
func (s *Access) DeleteSigningSecret(ctx context.Context, p tenant.Principal, id string) (engine.SigningSecret, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return engine.SigningSecret{}, err
	}
	x, err := s.signingSecret(ctx, p, id)
	if err != nil {
		return x, err
	}
	if err := s.store.DeleteSigningSecret(ctx, p.Tenant, id, s.audited(p, "signing_secret.revoke", id, detail{Before: fields{"prefix": x.Prefix}})); err != nil {
		return x, err
	}
	s.cfg.Resign(p.Tenant)
	return x, nil
}

func (s *Access) signingSecret(ctx context.Context, p tenant.Principal, id string) (engine.SigningSecret, error) {
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
