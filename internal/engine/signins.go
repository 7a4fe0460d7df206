package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// SignIns are the sign-ins of people's browsers: each stands for a credential for a while. The store keeps a hash of
// the browser's cookie.
type SignIns interface {
	// AddSignIn stores a sign-in, and drops expired ones and the oldest ones of the same credential beyond most.
	AddSignIn(ctx context.Context, s SignIn, most int, e *audit.Entry) error
	// SignIn finds one by its hash; ErrNotFound if there is none, or its key is revoked. It ends when its key
	// expires, at the latest. The caller checks whether it has ended.
	SignIn(ctx context.Context, hash [32]byte) (SignIn, error)
	// FindSignIns lists the active sign-ins of a tenant, newest first.
	FindSignIns(ctx context.Context, f SignInFilter, p Page) (Listed[SignIn], error)
	// EndSignIn ends one; ErrNotFound if there is none.
	EndSignIn(ctx context.Context, hash [32]byte, e *audit.Entry) error
	// UseSignIns records when some were last used.
	UseSignIns(ctx context.Context, used map[[32]byte]time.Time) error
}

// SignIn is the sign-in that a browser's cookie represents.
type SignIn struct {
	Hash      [32]byte // of the cookie's value
	ID        string   // public
	Tenant    tenant.ID
	Role      tenant.Role
	Name      string
	Key       string // the id of the API key that it was made with; "": a token
	CreatedAt time.Time
	UsedAt    time.Time // to about a minute
	EndsAt    time.Time
}

// Place returns the position in a list. Half of its hash is enough to distinguish it from others of the same instant.
func (s *SignIn) Place() Place { return SignInPlace(s.CreatedAt, s.Hash[:]) }

// SignInPlace returns the place of the sign-in with an instant and a hash. If one hash is a prefix of the other, the
// shorter one is less, so the place is right after its sign-in, where lists continue.
func SignInPlace(at time.Time, hash []byte) Place {
	p := Place{At: at}
	copy(p.ID[:], hash)
	return p
}

// SignInFilter selects sign-ins of a tenant. Those whose key is revoked, or has expired by Now, have ended.
type SignInFilter struct {
	Tenant    tenant.ID
	ID        string    // "": all
	Now       time.Time // what ends by then has ended
	UsedAfter time.Time // those not used since have ended
}
