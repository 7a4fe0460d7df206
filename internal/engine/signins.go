package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// SignIns are people's, in a browser: each stands for the credential that it was made with, for a while. Of what the browser
// has the store keeps a hash.
type SignIns interface {
	// AddSignIn stores one, and forgets those that are over and, beyond most, those that the same credential made first.
	AddSignIn(ctx context.Context, s SignIn, most int, e *audit.Entry) error
	// SignIn finds one by its hash; ErrNotFound if there is none, or its key is revoked. It ends when its key expires, at the
	// latest. Whether it has ended is for the caller to say.
	SignIn(ctx context.Context, hash [32]byte) (SignIn, error)
	// FindSignIns lists those of a tenant that have not ended, newest first.
	FindSignIns(ctx context.Context, f SignInFilter, p Page) (Listed[SignIn], error)
	// EndSignIn forgets one; ErrNotFound if there is none.
	EndSignIn(ctx context.Context, hash [32]byte, e *audit.Entry) error
	// UseSignIns notes when some were last of use.
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

// Place returns the position in a list. Half of its hash is enough to tell it from others of the same instant.
func (s *SignIn) Place() Place { return SignInPlace(s.CreatedAt, s.Hash[:]) }

// SignInPlace is the place of the one that was made at an instant and has the hash. Of two hashes the shorter one that the
// other begins with is the lesser, so that the place stands right behind its sign-in, where lists continue.
func SignInPlace(at time.Time, hash []byte) Place {
	p := Place{At: at}
	copy(p.ID[:], hash)
	return p
}

// SignInFilter chooses sign-ins of a tenant. Those whose key is revoked, or has expired by Now, have ended.
type SignInFilter struct {
	Tenant    tenant.ID
	ID        string    // "": all
	Now       time.Time // what ends by then has ended
	UsedAfter time.Time // what was not used since has ended
}
