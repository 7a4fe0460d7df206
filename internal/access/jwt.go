package access

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/golang-jwt/jwt/v5"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// ErrToken means that a JWT is refused; the wrapping error has the reason, for the log only.
var ErrToken = errors.New("the token is not one that is accepted here")

// JWTConfig describes whose tokens are accepted. Either Secret or KeysURL is set.
type JWTConfig struct {
	Issuer      string // that iss must be
	Audience    string // that aud must hold
	Secret      string // of HS256, the only algorithm then
	KeysURL     string // where the issuer's keys are, for RS256, ES256 and EdDSA
	TenantClaim string
	RoleClaim   string
	Client      *http.Client // reads KeysURL, and decides what may be reached; nil: one that reaches everything
}

const (
	leeway     = 30 * time.Second // by which clocks may differ
	maxToken   = 8 << 10
	maxSubject = 255 // OpenID Connect Core, section 2
)

// Tokens accepts JWTs of one issuer. The configuration, never the token, determines the algorithms; of a token's
// header only kid is used, to choose among the keys that the issuer publishes.
type Tokens struct {
	cfg    JWTConfig
	keys   *keySet // nil: there is a secret
	parser *jwt.Parser
}

// NewTokens makes Tokens for an issuer, with a clock.
func NewTokens(cfg JWTConfig, clk clock.Clock) *Tokens {
	t := &Tokens{cfg: cfg}
	methods := []string{"HS256"}
	if cfg.Secret == "" {
		methods = []string{"RS256", "ES256", "EdDSA"}
		t.keys = newKeySet(cfg.KeysURL, cfg.Client, clk)
	}
	t.parser = jwt.NewParser(jwt.WithValidMethods(methods), jwt.WithIssuer(cfg.Issuer), jwt.WithAudience(cfg.Audience), jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway), jwt.WithTimeFunc(clk.Now), jwt.WithIssuedAt(), jwt.WithStrictDecoding())
	return t
}

// looksLike reports whether a credential has the form of a JWT.
func looksLike(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// principal returns whom a token stands for, and until when.
func (t *Tokens) principal(ctx context.Context, text string) (p tenant.Principal, until time.Time, err error) {
	if len(text) > maxToken {
		return p, until, fmt.Errorf("%w: it has %d bytes", ErrToken, len(text))
	}
	claims := jwt.MapClaims{}
	if _, err := t.parser.ParseWithClaims(text, claims, func(tok *jwt.Token) (any, error) {
		// RFC 7515, section 4.1.11: a token with a critical header that is not understood must be refused. None is
		// understood here.
		if _, ok := tok.Header["crit"]; ok {
			return nil, errors.New("its header has crit: extensions that are not known here")
		}
		return t.key(ctx, tok)
	}); err != nil {
		if errors.Is(err, ErrKeys) {
			return p, until, err
		}
		return p, until, fmt.Errorf("%w: %w", ErrToken, err)
	}
	of := func(claim string) string {
		s, _ := claims[claim].(string)
		return s
	}
	p = tenant.Principal{Tenant: tenant.ID(of(t.cfg.TenantClaim)), Role: tenant.Role(of(t.cfg.RoleClaim)), Name: of("sub")}
	if p.Tenant == "" {
		return tenant.Principal{}, until, fmt.Errorf("%w: it has no text in the claim %s", ErrToken, t.cfg.TenantClaim)
	}
	// Sign-ins, sessions and the audit log tell users apart by this claim: without it, two would count as one.
	if strings.TrimSpace(p.Name) == "" || len(p.Name) > maxSubject || strings.ContainsFunc(p.Name, unicode.IsControl) {
		return tenant.Principal{}, until, fmt.Errorf("%w: its claim sub is no text of 1 to %d bytes without control characters", ErrToken, maxSubject)
	}
	// Only keys may have the role system: the operator of the issuer is not the operator of the installation.
	if !slices.Contains([]tenant.Role{tenant.Viewer, tenant.Operator, tenant.Admin, tenant.Worker}, p.Role) {
		return tenant.Principal{}, until, fmt.Errorf("%w: its claim %s is none of viewer, operator, admin, worker", ErrToken, t.cfg.RoleClaim)
	}
	exp, err := claims.GetExpirationTime()
	if err != nil || exp == nil {
		return tenant.Principal{}, until, fmt.Errorf("%w: it does not say when it expires", ErrToken)
	}
	return p, exp.Time, nil
}

// key finds the key that verifies a token.
func (t *Tokens) key(ctx context.Context, tok *jwt.Token) (any, error) {
	if t.keys == nil {
		return []byte(t.cfg.Secret), nil
	}
	kid, _ := tok.Header["kid"].(string)
	found, err := t.keys.find(ctx, kid)
	if err != nil {
		return nil, err
	}
	set := jwt.VerificationKeySet{}
	for _, k := range found {
		if k.alg == "" || k.alg == tok.Method.Alg() {
			set.Keys = append(set.Keys, crypto.PublicKey(k.public))
		}
	}
	if len(set.Keys) == 0 {
		return nil, fmt.Errorf("the issuer has no key %q for %s", kid, tok.Method.Alg())
	}
	return set, nil
}
