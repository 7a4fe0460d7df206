package secret

import (
	"context"
	"fmt"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
)

// Stale counts what is stored under keys other than the first one. It opens each, so that a value that cannot be
// sealed again is found before anything is changed.
func (v *Vault) Stale(ctx context.Context) (int, error) {
	if !v.CanSeal() {
		return 0, seal.ErrNoKey
	}
	n := 0
	var after engine.Secret
	for {
		piece, err := v.store.SecretsNotUnder(ctx, v.ring.KeyID(), after, 200)
		if err != nil || len(piece) == 0 {
			return n, err
		}
		for _, s := range piece {
			if _, err := v.ring.Open(place(s), s.Sealed); err != nil {
				return n, fmt.Errorf("%s of the tenant %s: %w", shown(s.Name), s.Tenant, err)
			}
		}
		n, after = n+len(piece), piece[len(piece)-1]
	}
}

// Rekey seals everything stored under another key again under the first one, and returns how many there were. It
// reports to progress after each piece. It may be repeated at any time.
func (v *Vault) Rekey(ctx context.Context, progress func(done int)) (int, error) {
	if !v.CanSeal() {
		return 0, seal.ErrNoKey
	}
	done := 0
	var after engine.Secret
	for {
		piece, err := v.store.SecretsNotUnder(ctx, v.ring.KeyID(), after, 200)
		if err != nil || len(piece) == 0 {
			return done, err
		}
		for _, s := range piece {
			plain, err := v.ring.Open(place(s), s.Sealed)
			if err != nil {
				return done, fmt.Errorf("%s of the tenant %s: %w", shown(s.Name), s.Tenant, err)
			}
			anew, err := v.seal(s, string(plain))
			if err != nil {
				return done, err
			}
			if err := v.store.ResealSecret(ctx, anew, s.Sealed); err != nil {
				return done, err
			}
			done++
		}
		after = piece[len(piece)-1]
		progress(done)
	}
}
