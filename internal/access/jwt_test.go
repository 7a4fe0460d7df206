package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// tenants is a store that knows one tenant and no keys.
type keyStore = access.Store

type tenants struct{ keyStore }

func (tenants) HasTenant(_ context.Context, t tenant.ID) (bool, error) { return t == "acme", nil }
func (tenants) Key(context.Context, [32]byte) (engine.Key, error) {
	return engine.Key{}, engine.ErrNotFound
}

// hands is a clock that stands where it is set.
type hands struct{ at atomic.Int64 }

func (h *hands) Now() time.Time                       { return time.Unix(h.at.Load(), 0) }
func (h *hands) After(time.Duration) <-chan time.Time { panic("not used") }

func claims(h *hands, change ...func(jwt.MapClaims)) jwt.MapClaims {
	c := jwt.MapClaims{
		"iss": "https://id.example.com/", "aud": []string{"other", "carillon"}, "sub": "ann", "exp": h.at.Load() + 600, "iat": h.at.Load(),
		"tenant_id": "acme", "role": "operator",
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func signed(t *testing.T, m jwt.SigningMethod, key any, c jwt.MapClaims, header ...string) string {
	t.Helper()
	tok := jwt.NewWithClaims(m, c)
	for i := 0; i+1 < len(header); i += 2 {
		tok.Header[header[i]] = header[i+1]
	}
	text, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

const audience, issuer = "carillon", "https://id.example.com/"

func auth(h *hands, c access.JWTConfig) *access.Authenticator {
	c.Issuer, c.Audience, c.TenantClaim, c.RoleClaim = issuer, audience, "tenant_id", "role"
	return access.New(tenants{}, h, access.NewTokens(c, h))
}

func TestTokensOfASecret(t *testing.T) {
	h := &hands{}
	h.at.Store(1_800_000_000)
	const secret = "a secret of thirty-two characters or more"
	a := auth(h, access.JWTConfig{Secret: secret})
	good := signed(t, jwt.SigningMethodHS256, []byte(secret), claims(h))
	want := tenant.Principal{Tenant: "acme", Role: tenant.Operator, Name: "ann"}
	for _, named := range []string{"", "acme"} {
		if p, err := a.Authenticate(t.Context(), "Bearer "+good, named); err != nil || p != want {
			t.Errorf("good, X-Tenant-ID %q: %+v, %v", named, p, err)
		}
	}
	if _, err := a.Authenticate(t.Context(), "Bearer "+good, "default"); !errors.Is(err, access.ErrTenant) {
		t.Errorf("another tenant: %v", err)
	}
	with := func(f func(jwt.MapClaims)) string {
		return signed(t, jwt.SigningMethodHS256, []byte(secret), claims(h, f))
	}
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims(h)).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	for name, text := range map[string]string{
		"critical extensions":   signed(t, jwt.SigningMethodHS256, []byte(secret), claims(h), "crit", "b64"),
		"expired":               with(func(c jwt.MapClaims) { c["exp"] = h.at.Load() - 31 }),
		"without an end":        with(func(c jwt.MapClaims) { delete(c, "exp") }),
		"not yet":               with(func(c jwt.MapClaims) { c["nbf"] = h.at.Load() + 60 }),
		"of the future":         with(func(c jwt.MapClaims) { c["iat"] = h.at.Load() + 600 }),
		"another issuer":        with(func(c jwt.MapClaims) { c["iss"] = "https://evil.example.com/" }),
		"no issuer":             with(func(c jwt.MapClaims) { delete(c, "iss") }),
		"another audience":      with(func(c jwt.MapClaims) { c["aud"] = "other" }),
		"no audience":           with(func(c jwt.MapClaims) { delete(c, "aud") }),
		"no tenant":             with(func(c jwt.MapClaims) { delete(c, "tenant_id") }),
		"a list of tenants":     with(func(c jwt.MapClaims) { c["tenant_id"] = []string{"acme"} }),
		"an unknown tenant":     with(func(c jwt.MapClaims) { c["tenant_id"] = "nobody" }),
		"no subject":            with(func(c jwt.MapClaims) { delete(c, "sub") }),
		"an empty subject":      with(func(c jwt.MapClaims) { c["sub"] = " " }),
		"a number for one":      with(func(c jwt.MapClaims) { c["sub"] = 7 }),
		"a long subject":        with(func(c jwt.MapClaims) { c["sub"] = strings.Repeat("a", 256) }),
		"a subject of two rows": with(func(c jwt.MapClaims) { c["sub"] = "ann\nbob" }),
		"no role":               with(func(c jwt.MapClaims) { delete(c, "role") }),
		"the role system":       with(func(c jwt.MapClaims) { c["role"] = "system" }),
		"another secret":        signed(t, jwt.SigningMethodHS256, []byte("another secret of thirty-two characters"), claims(h)),
		"HS512":                 signed(t, jwt.SigningMethodHS512, []byte(secret), claims(h)),
		"no signature":          none,
		"signature cut":         parts[0] + "." + parts[1] + ".",
		"another body":          parts[0] + "." + b64([]byte(`{"role":"admin"}`)) + "." + parts[2],
		"not JSON":              "eyJ." + parts[1] + "." + parts[2],
		"too long":              signed(t, jwt.SigningMethodHS256, []byte(secret), claims(h, func(c jwt.MapClaims) { c["x"] = strings.Repeat("x", 9000) })),
		"expired and bad":       with(func(c jwt.MapClaims) { c["exp"] = h.at.Load() - 31 })[:200] + "x",
		"padding in the middle": strings.Replace(good, ".", "=.", 1),
	} {
		p, err := a.Authenticate(t.Context(), "Bearer "+text, "")
		if err == nil || p != (tenant.Principal{}) {
			t.Errorf("%s: taken as %+v", name, p)
		} else if !errors.Is(err, access.ErrToken) && !errors.Is(err, access.ErrUnknownKey) && !errors.Is(err, access.ErrNoCredential) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := access.New(tenants{}, h, nil).Authenticate(t.Context(), "Bearer "+good, ""); !errors.Is(err, access.ErrUnknownKey) {
		t.Errorf("where tokens are not accepted: %v", err)
	}
}

func TestTokensOfAnIssuer(t *testing.T) {
	h := &hands{}
	h.at.Store(1_800_000_000)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := ecKey.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	ofRSA := func(k *rsa.PrivateKey, kid string) map[string]string {
		return map[string]string{"kty": "RSA", "kid": kid, "use": "sig", "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())}
	}
	keys := []map[string]string{
		ofRSA(rsaKey, "r"), ofRSA(weak, "weak"),
		{"kty": "EC", "crv": "P-256", "kid": "e", "alg": "ES256", "x": b64(point[1:33]), "y": b64(point[33:])},
		{"kty": "OKP", "crv": "Ed25519", "kid": "o", "x": b64(edPublic)},
		{"kty": "oct", "kid": "s", "k": b64([]byte("never a secret"))},
		{"kty": "RSA", "kid": "for encryption", "use": "enc", "n": b64(rsaKey.N.Bytes()), "e": "AQAB"},
	}
	var asked, down atomic.Int64
	var doc atomic.Pointer[[]byte]
	publish := func(keys ...map[string]string) {
		data, err := json.Marshal(map[string]any{"keys": keys})
		if err != nil {
			t.Fatal(err)
		}
		doc.Store(&data)
	}
	publish(keys...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if down.Load() > 0 {
			w.WriteHeader(500)
			return
		}
		w.Write(*doc.Load())
	}))
	defer server.Close()
	a := auth(h, access.JWTConfig{KeysURL: server.URL})
	try := func(text string) error { _, err := a.Authenticate(t.Context(), "Bearer "+text, ""); return err }
	good := map[string]string{
		"RS256": signed(t, jwt.SigningMethodRS256, rsaKey, claims(h), "kid", "r"),
		"ES256": signed(t, jwt.SigningMethodES256, ecKey, claims(h), "kid", "e"),
		"EdDSA": signed(t, jwt.SigningMethodEdDSA, edKey, claims(h), "kid", "o"),
	}
	for name, text := range good {
		if err := try(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	publicPEM := b64(rsaKey.N.Bytes())
	for name, text := range map[string]string{
		"HS256 with the public key": signed(t, jwt.SigningMethodHS256, []byte(publicPEM), claims(h), "kid", "r"),
		"a weak key":                signed(t, jwt.SigningMethodRS256, weak, claims(h), "kid", "weak"),
		"a key for encryption":      signed(t, jwt.SigningMethodRS256, rsaKey, claims(h), "kid", "for encryption"),
		"RS512":                     signed(t, jwt.SigningMethodRS512, rsaKey, claims(h), "kid", "r"),
		"another's key":             signed(t, jwt.SigningMethodEdDSA, edKey, claims(h), "kid", "r"),
		"a key of its own":          signed(t, jwt.SigningMethodRS256, weak, claims(h), "kid", "x", "jku", server.URL, "x5u", server.URL),
	} {
		if err := try(text); !errors.Is(err, access.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	before := asked.Load()
	for range 100 {
		if err := try(signed(t, jwt.SigningMethodEdDSA, edKey, claims(h), "kid", rand.Text())); !errors.Is(err, access.ErrToken) {
			t.Errorf("an unknown key: %v", err)
		}
	}
	if n := asked.Load() - before; n > 1 {
		t.Errorf("a flood of unknown keys asked the issuer %d times", n)
	}

	_, newKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	publish(append(keys, map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": "new", "x": b64(newKey.Public().(ed25519.PublicKey))})...)
	h.at.Add(60)
	if err := try(signed(t, jwt.SigningMethodEdDSA, newKey, claims(h), "kid", "new")); err != nil {
		t.Errorf("a key that is new: %v", err)
	}

	down.Store(1)
	h.at.Add(3600)
	for range 2 { // what is old is used while the issuer is asked
		if err := try(signed(t, jwt.SigningMethodEdDSA, edKey, claims(h), "kid", "o")); err != nil {
			t.Errorf("while the issuer is down: %v", err)
		}
	}
	fresh := auth(h, access.JWTConfig{KeysURL: server.URL})
	if _, err := fresh.Authenticate(t.Context(), "Bearer "+signed(t, jwt.SigningMethodEdDSA, edKey, claims(h), "kid", "o"), ""); !errors.Is(err, access.ErrKeys) {
		t.Errorf("an issuer that was never reached: %v", err)
	}
}
