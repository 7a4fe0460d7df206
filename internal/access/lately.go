package access

import (
	"crypto/sha256"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// latelyFor sets how long a credential that the store has confirmed stays valid while the store is down.
const latelyFor = 15 * time.Minute

// Lately returns a principal that the store has confirmed within the last 15 minutes, and not revoked as far as is
// known here: a key of the role system, or a cookie of one. It is for the operator of a store that is down, and only
// for requests that do not need the store. header is the Authorization header, value the cookie's ("": there is
// none).
func (a *Authenticator) Lately(header, value string) (tenant.Principal, bool) {
	now := a.clock.Now()
	if value != "" {
		return a.latelySignedIn(HashSignIn(value), now)
	}
	secret, ok := bearer(header)
	if !ok {
		return tenant.Principal{}, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	hit, ok := a.cache[sha256.Sum256([]byte(secret))]
	if k := hit.key; ok && k.Role == tenant.System && now.Before(hit.until.Add(latelyFor-remember)) && k.Works(now) {
		return tenant.Principal{Tenant: k.Tenant, Role: k.Role, Name: k.Name, Key: k.ID}, true
	}
	return tenant.Principal{}, false
}

func (a *Authenticator) latelySignedIn(hash [32]byte, now time.Time) (tenant.Principal, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hit, ok := a.signIns[hash]
	s := hit.signIn
	if seen := a.seen[hash]; seen.After(s.UsedAt) {
		s.UsedAt = seen
	}
	if ok && s.Role == tenant.System && now.Before(hit.until.Add(latelyFor-remember)) && now.Before(s.EndsAt) && now.Sub(s.UsedAt) < a.lives.Idle {
		return tenant.Principal{Tenant: s.Tenant, Role: s.Role, Name: s.Name, Key: s.Key}, true
	}
	return tenant.Principal{}, false
}

// ForgetKey makes the next request with a key ask the store, and those of sign-ins made with it, because it was
// changed here.
func (a *Authenticator) ForgetKey(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for hash, hit := range a.cache {
		if hit.key.ID == id {
			delete(a.cache, hash)
		}
	}
	for hash, hit := range a.signIns {
		if hit.signIn.Key == id {
			delete(a.signIns, hash)
		}
	}
}

// bearer returns the credential in an Authorization header.
func bearer(header string) (secret string, ok bool) {
	scheme, secret, _ := strings.Cut(header, " ")
	secret = strings.TrimSpace(secret)
	return secret, strings.EqualFold(scheme, "Bearer") && secret != "" && len(secret) <= maxToken
}
