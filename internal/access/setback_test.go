package access

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// revocable is a store with one key and one sign-in, until they are revoked.
type revocable struct {
	Store
	key     engine.Key
	signIn  engine.SignIn
	revoked bool
}

func (r *revocable) Key(context.Context, [32]byte) (engine.Key, error) {
	if r.revoked {
		return engine.Key{}, engine.ErrNotFound
	}
	return r.key, nil
}

func (r *revocable) SignIn(context.Context, [32]byte) (engine.SignIn, error) {
	if r.revoked {
		return engine.SignIn{}, engine.ErrNotFound
	}
	return r.signIn, nil
}

// A clock that is set back must not keep a revoked credential in memory for as long as it was set back by.
func TestARevokedCredentialAfterTheClockWasSetBack(t *testing.T) {
	clk := clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	id, text := NewKey()
	value, _, _ := NewSignIn()
	store := &revocable{
		key:    engine.Key{ID: id, Tenant: "t", Role: tenant.Operator, CreatedAt: clk.Now()},
		signIn: engine.SignIn{Tenant: "t", Role: tenant.Operator, CreatedAt: clk.Now(), UsedAt: clk.Now(), EndsAt: clk.Now().Add(24 * time.Hour)},
	}
	a := New(store, clk, nil)
	ask := func() (key, cookie error) {
		_, key = a.Authenticate(t.Context(), "Bearer "+text, "")
		_, cookie = a.ByCookie(t.Context(), value, "")
		return key, cookie
	}
	if key, cookie := ask(); key != nil || cookie != nil {
		t.Fatalf("before: %v, %v", key, cookie)
	}
	store.revoked = true
	clk.Advance(-time.Hour)
	if key, cookie := ask(); !errors.Is(key, ErrUnknownKey) || !errors.Is(cookie, ErrSignedOut) {
		t.Errorf("revoked, with the clock an hour back: %v, %v", key, cookie)
	}
}
