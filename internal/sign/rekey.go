package sign

import (
	"context"
	"fmt"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
)

// Sealed is the part of a store with sealed data of this package.
type Sealed interface {
	SigningSecrets(ctx context.Context, t tenant.ID) ([]engine.SigningSecret, error)
	ResealSigningSecret(ctx context.Context, s engine.SigningSecret, was []byte) error
	Share(ctx context.Context, name string, value []byte) ([]byte, error)
	Reshare(ctx context.Context, name string, was, value []byte) error
}

// Stale counts the signing secrets that are not under the first key of the ring. It opens each of them.
func Stale(ctx context.Context, store Sealed, ring *seal.Ring) (n int, err error) {
	all, err := store.SigningSecrets(ctx, "")
	for _, s := range all {
		if ring.Current(s.Sealed) {
			continue
		}
		if _, err := ring.Open(Place(s.Tenant, s.ID), s.Sealed); err != nil {
			return n, fmt.Errorf("the signing secret %s of the tenant %s: %w", s.ID, s.Tenant, err)
		}
		n++
	}
	return n, err
}

// Rekey seals every signing secret, and the key of callback tokens, again under the first key of the ring, and
// returns how many were under another, or unsealed. It may be repeated at any time.
func Rekey(ctx context.Context, store Sealed, ring *seal.Ring) (int, error) {
	done := 0
	all, err := store.SigningSecrets(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if ring.Current(s.Sealed) {
			continue
		}
		place := Place(s.Tenant, s.ID)
		plain, err := ring.Open(place, s.Sealed)
		if err != nil {
			return done, fmt.Errorf("the signing secret %s of the tenant %s: %w", s.ID, s.Tenant, err)
		}
		was := s.Sealed
		if s.Sealed, err = ring.Seal(place, plain); err != nil {
			return done, err
		}
		if err := store.ResealSigningSecret(ctx, s, was); err != nil {
			return done, err
		}
		done++
	}
	n, err := rekeyTokens(ctx, store, ring)
	return done + n, err
}

// rekeyTokens seals the key of callback tokens again.
func rekeyTokens(ctx context.Context, store Sealed, ring *seal.Ring) (int, error) {
	if _, err := LoadTokens(ctx, store, ring); err != nil { // if there is no key yet, this creates one
		return 0, err
	}
	kept, err := store.Share(ctx, sharedName, nil)
	if err != nil {
		return 0, err
	}
	if kept[0] == keptSealed && ring.Current(kept[1:]) {
		return 0, nil
	}
	key := kept[1:]
	if kept[0] == keptSealed {
		if key, err = ring.Open(sharedName, kept[1:]); err != nil {
			return 0, err
		}
	}
	sealed, err := ring.Seal(sharedName, key)
	if err != nil {
		return 0, err
	}
	return 1, store.Reshare(ctx, sharedName, kept, append([]byte{keptSealed}, sealed...))
}
