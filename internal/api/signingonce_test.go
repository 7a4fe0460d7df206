package api_test

import (
	"context"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/service"
)

// Who repeats the creation of a signing secret is shown it again; another user of the same issuer, who has no API key either, is not.
func TestASigningSecretIsShownAgainToItsMakerOnly(t *testing.T) {
	t.Parallel()
	keys, err := seal.ParseKeys(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	f := newFace(t, func(c *api.Config, store engine.Store) {
		c.Service = service.New(store, clock.System{}, service.Config{Sealer: ring, Resign: func(tenant.ID) {}})
		c.Authenticate = func(_ context.Context, credential, _ string) (tenant.Principal, error) {
			return tenant.Principal{Tenant: tenant.Default, Role: tenant.Admin, Name: credential}, nil // as a JWT names its subject
		}
	})
	add := func(who string) client.SigningSecret {
		t.Helper()
		return want[client.SigningSecret](f, 201, "POST", "/api/v1/signing-secrets", `{"overlap_seconds": 60}`, "Idempotency-Key", "k", "Authorization", "Bearer "+who)
	}
	made, again, other := add("ann"), add("ann"), add("bob")
	if made.Secret == "" || again.ID != made.ID || again.Secret != made.Secret {
		t.Errorf("made %+v, then %+v", made, again)
	}
	if other.ID != made.ID || other.Secret != "" {
		t.Errorf("another user is answered %+v", other)
	}
}
