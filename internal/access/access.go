// Package access turns a credential, an API key, a JWT or a browser's cookie, into the principal it stands for.
//
// A key is looked up by the SHA-256 of its text, so the store never holds one
// that could be used, and a lookup takes no longer for a near miss than for a
// wild guess. Answers are kept for a few seconds to spare the store; a key that
// is revoked is refused after that at the latest, and with it whoever signed in
// with it. The package decides who asks, never what they may do: tenant.Role does.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The reasons why a credential is refused.
var (
	ErrNoCredential = errors.New("no credential was given")
	ErrUnknownKey   = errors.New("the key is unknown, expired or revoked")
	ErrTenant       = errors.New("the credential is not for the tenant named by X-Tenant-ID")
	ErrNoTenant     = errors.New("there is no tenant of the name given in X-Tenant-ID")
)

// MinKey is the minimum length of a key that an operator may choose.
const MinKey = 32

const (
	remember = 3 * time.Second
	cacheMax = 10_000
)

// Authenticator knows the API keys of an installation.
type Authenticator struct {
	store  Store
	clock  clock.Clock
	tokens *Tokens // nil: JWTs are not accepted
	lives  Lives

	mu    sync.Mutex
	cache map[[32]byte]known   // guarded by mu
	used  map[string]time.Time // guarded by mu: since the store was last told

	tenants map[tenant.ID]time.Time // guarded by mu: tenants of tokens, and until when they are known to exist

	signIns map[[32]byte]knownSignIn // guarded by mu
	seen    map[[32]byte]time.Time   // guarded by mu: sign-ins that were used since the store was last told
}

type known struct {
	key   engine.Key
	until time.Time
}

// New makes an authenticator over the keys of a store, and over an issuer's tokens, if not nil.
func New(store Store, clk clock.Clock, tokens *Tokens) *Authenticator {
	return &Authenticator{
		store: store, clock: clk, tokens: tokens, lives: UsualLives, cache: map[[32]byte]known{}, used: map[string]time.Time{}, tenants: map[tenant.ID]time.Time{},
		signIns: map[[32]byte]knownSignIn{}, seen: map[[32]byte]time.Time{},
	}
}

// Authenticate returns the principal of a request. header is the Authorization header, named the requested tenant (""
// for the credential's own).
func (a *Authenticator) Authenticate(ctx context.Context, header, named string) (tenant.Principal, error) {
	secret, ok := bearer(header)
	if !ok {
		return tenant.Principal{}, ErrNoCredential
	}
	p, _, err := a.credential(ctx, secret)
	if err != nil {
		return tenant.Principal{}, err
	}
	return a.within(ctx, p, named)
}

// within returns the principal as it acts in the requested tenant: its own or, for the role system, any that exists.
func (a *Authenticator) within(ctx context.Context, p tenant.Principal, named string) (tenant.Principal, error) {
	if named == "" || tenant.ID(named) == p.Tenant {
		return p, nil
	}
	if p.Role != tenant.System {
		return tenant.Principal{}, ErrTenant
	}
	ok, err := a.store.HasTenant(ctx, tenant.ID(named))
	if err != nil {
		return tenant.Principal{}, err
	}
	if !ok {
		return tenant.Principal{}, ErrNoTenant
	}
	p.Tenant = tenant.ID(named)
	return p, nil
}

// byToken returns the principal of a JWT, and until when it is valid. Its tenant must exist.
func (a *Authenticator) byToken(ctx context.Context, text string) (tenant.Principal, time.Time, error) {
	p, until, err := a.tokens.principal(ctx, text)
	if err != nil {
		return tenant.Principal{}, until, err
	}
	ok, err := a.exists(ctx, p.Tenant)
	if err != nil {
		return tenant.Principal{}, until, err
	}
	if !ok {
		return tenant.Principal{}, until, fmt.Errorf("%w: there is no tenant %q", ErrToken, p.Tenant)
	}
	return p, until, nil
}

// exists reports whether a tenant exists; a positive answer is cached.
func (a *Authenticator) exists(ctx context.Context, t tenant.ID) (bool, error) {
	now := a.clock.Now()
	a.mu.Lock()
	until := a.tenants[t]
	a.mu.Unlock()
	if clock.Fresh(now, until, remember) {
		return true, nil
	}
	ok, err := a.store.HasTenant(ctx, t)
	if err != nil || !ok {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tenants) >= cacheMax {
		clear(a.tenants)
	}
	a.tenants[t] = now.Add(remember)
	return true, nil
}

func (a *Authenticator) find(ctx context.Context, hash [32]byte) (engine.Key, error) {
	now := a.clock.Now()
	a.mu.Lock()
	hit, ok := a.cache[hash]
	a.mu.Unlock()
	if !ok || !clock.Fresh(now, hit.until, remember) {
		k, err := a.store.Key(ctx, hash)
		if errors.Is(err, engine.ErrNotFound) {
			a.mu.Lock()
			delete(a.cache, hash)
			a.mu.Unlock()
			return engine.Key{}, ErrUnknownKey
		}
		if err != nil {
			return engine.Key{}, err
		}
		hit = known{key: k, until: now.Add(remember)}
		a.mu.Lock()
		if len(a.cache) >= cacheMax {
			clear(a.cache)
		}
		a.cache[hash] = hit
		a.mu.Unlock()
	}
	if !hit.key.Works(now) {
		return engine.Key{}, ErrUnknownKey
	}
	a.mu.Lock()
	a.used[hit.key.ID] = now
	a.mu.Unlock()
	return hit.key, nil
}

const tellUse = time.Minute

// Tick tells the store which keys and sign-ins were used.
func (a *Authenticator) Tick(ctx context.Context) (time.Duration, error) {
	a.mu.Lock()
	used, seen := a.used, a.seen
	a.used, a.seen = map[string]time.Time{}, map[[32]byte]time.Time{}
	for hash, at := range seen { // remembered uses may be older than the stored ones
		if hit, ok := a.signIns[hash]; ok && at.After(hit.signIn.UsedAt) {
			hit.signIn.UsedAt = at
			a.signIns[hash] = hit
		}
	}
	a.mu.Unlock()
	// A use that is not stored now is stored with the next one.
	var errs [2]error
	if len(used) > 0 {
		errs[0] = a.store.UseKeys(ctx, used)
	}
	if len(seen) > 0 {
		errs[1] = a.store.UseSignIns(ctx, seen)
	}
	return tellUse, errors.Join(errs[:]...)
}

// NewKey generates the text of a key: its id, by which it is recognised, its secret part, and a checksum of both, by
// which a mistyped one is refused without asking the store.
func NewKey() (id, text string) {
	id = random(5)
	body := prefix + id + "_" + random(32)
	return id, body + sum(body)
}

// Prefix returns the start of the text of a key.
func Prefix(id string) string { return prefix + id + "_" }

const (
	prefix  = "car_live_"
	sumSize = 7
)

// sum returns the checksum that ends the text of a key.
func sum(body string) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], crc32.ChecksumIEEE([]byte(body)))
	return lower(b[:])
}

// plausible reports whether a text may be a key. One that an operator chose, or that has no checksum yet, may.
func plausible(text string) bool {
	rest, ours := strings.CutPrefix(text, prefix)
	_, secret, ok := strings.Cut(rest, "_")
	if !ours || !ok || len(secret) != 52+sumSize {
		return true
	}
	body := text[:len(text)-sumSize]
	return sum(body) == text[len(text)-sumSize:]
}

// NewBadge generates the token in the address of a badge.
func NewBadge() string { return "cbg_" + random(20) }

// First is the first key of an installation, of role system, before it is stored.
type First struct {
	id, secret string
	chosen     bool
}

// NewFirst makes the first key of an installation. chosen is the operator's own, or "" to generate one.
func NewFirst(chosen string) (First, error) {
	if chosen != "" && len(chosen) < MinKey {
		return First{}, fmt.Errorf("a bootstrap key needs %d characters or more; this one has %d", MinKey, len(chosen))
	}
	f := First{chosen: chosen != ""}
	f.id, f.secret = NewKey()
	if f.chosen {
		f.secret = chosen
	}
	return f, nil
}

// Store stores the key unless the installation has one already, and returns its text if it was generated and stored.
// It may be called again after a failure: the key may have been stored all the same, and its text must not be lost
// then.
func (f First) Store(ctx context.Context, store engine.Keys, now time.Time) (made string, err error) {
	hash := sha256.Sum256([]byte(f.secret))
	stored, err := store.Bootstrap(ctx, engine.Key{ID: f.id, Tenant: tenant.Default, Role: tenant.System, Name: "bootstrap", Hash: hash, CreatedAt: now})
	if err == nil && !stored && !f.chosen {
		_, err = store.Key(ctx, hash)
		stored = err == nil // by a call whose answer was lost
		if errors.Is(err, engine.ErrNotFound) {
			err = nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("store the bootstrap key: %w", err)
	}
	if !stored || f.chosen {
		return "", nil
	}
	return f.secret, nil
}

// Bootstrap makes the first key of an installation, and stores it unless there is one already.
func Bootstrap(ctx context.Context, store engine.Keys, chosen string, now time.Time) (made string, err error) {
	f, err := NewFirst(chosen)
	if err != nil {
		return "", err
	}
	return f.Store(ctx, store, now)
}

// BootstrapWorker ensures that there is a key of role worker, for all tenants, with the text that an operator chose.
// A revoked or expired one stays as it is.
func BootstrapWorker(ctx context.Context, store engine.Keys, chosen string, now time.Time) error {
	if len(chosen) < MinKey {
		return fmt.Errorf("a bootstrap key needs %d characters or more; this one has %d", MinKey, len(chosen))
	}
	if !plausible(chosen) {
		return errors.New("the bootstrap key for workers looks like a key of Carillon, and is mistyped")
	}
	hash := sha256.Sum256([]byte(chosen))
	switch k, err := store.Key(ctx, hash); {
	case err == nil && k.Role != tenant.Worker:
		return fmt.Errorf("the bootstrap key for workers is the text of the key %s, which has the role %s; choose another", k.ID, k.Role)
	case err == nil || !errors.Is(err, engine.ErrNotFound):
		return err
	}
	id := lower(hash[:5]) // the same at every start, so that the key is stored once
	if rest, ours := strings.CutPrefix(chosen, prefix); ours {
		if in, _, ok := strings.Cut(rest, "_"); ok && len(in) == len(id) {
			id = in
		}
	}
	_, err := store.AddKey(ctx, tenant.Default, engine.Key{ID: id, Role: tenant.Worker, Name: "bootstrap worker", Hash: hash, CreatedAt: now}, mostKeys, engine.Idempotency{}, nil)
	if err != nil {
		return fmt.Errorf("store the bootstrap key for workers: %w", err)
	}
	return nil
}

// Recover stores a new key of role system, and returns its id and its text. Access to the database is the only
// permission it needs; the entry in the audit log names the host it was made on.
func Recover(ctx context.Context, store engine.Keys, host string, now time.Time) (id, secret string, err error) {
	id, secret = NewKey()
	entry := audit.Entry{Tenant: tenant.Default, At: now, By: "recovered on " + host, Role: tenant.System, Action: "api_key.create", Object: id, Count: 1}
	k := engine.Key{ID: id, Tenant: tenant.Default, Role: tenant.System, Name: "recovered", Hash: sha256.Sum256([]byte(secret)), CreatedAt: now}
	if _, err := store.AddKey(ctx, tenant.Default, k, mostKeys, engine.Idempotency{}, &entry); err != nil {
		return "", "", fmt.Errorf("store a key: %w", err)
	}
	return id, secret, nil
}

// mostKeys is no bound: an operator's own key is stored however many there are.
const mostKeys = 1 << 30

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: package crypto/rand ends the program instead
	return lower(b)
}

// lower returns bytes as letters and digits.
func lower(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// IsKey reports whether a credential has the form of an API key.
func IsKey(credential string) bool { return strings.HasPrefix(credential, prefix) }
