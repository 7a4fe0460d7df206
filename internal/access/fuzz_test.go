package access_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// nobody is a store that has no key and no sign-in.
type nobody struct{ tenants }

func (nobody) SignIn(context.Context, [32]byte) (engine.SignIn, error) {
	return engine.SignIn{}, engine.ErrNotFound
}

// Whatever comes as a credential, nobody gets in who was not let in.
func FuzzCredential(f *testing.F) {
	const secret = "0123456789abcdef0123456789abcdef"
	h := &hands{}
	h.at.Store(1_700_000_000)
	a := access.New(nobody{}, h, access.NewTokens(access.JWTConfig{Issuer: "i", Audience: "a", Secret: secret, TenantClaim: "t", RoleClaim: "r"}, h))
	good, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "i", "aud": "a", "exp": 1_700_001_000, "t": "acme", "r": "viewer"}).SignedString([]byte(secret))
	if err != nil {
		f.Fatal(err)
	}
	_, key := access.NewKey()
	cookie, _, _ := access.NewSignIn()
	for _, text := range []string{"", "Bearer", "Bearer x", "Bearer " + key, "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer " + good[:len(good)-2], "bearer  eyJ..", cookie} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := a.Authenticate(t.Context(), text, ""); err == nil && strings.TrimSpace(text[7:]) != good {
			t.Errorf("%q got in", text)
		}
		if _, err := a.ByCookie(t.Context(), text, ""); !errors.Is(err, access.ErrSignedOut) {
			t.Errorf("%q as a cookie: %v", text, err)
		}
		if id := access.KeyID(text); id != "" && !strings.HasPrefix(text, access.Prefix(id)) {
			t.Errorf("%q has the id %q", text, id)
		}
		if s, err := a.Begin(t.Context(), text); err == nil && (s.Tenant == "" || s.EndsAt.Before(h.Now()) || s.EndsAt.Sub(h.Now()) > 12*time.Hour) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}
