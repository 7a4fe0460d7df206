package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// signIns is about what browsers are signed in as.
func signIns(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now().UTC().Truncate(time.Microsecond)
	key := engine.Key{ID: "k1", Tenant: tenant.Default, Role: tenant.Admin, Name: "people", Hash: [32]byte{1}, CreatedAt: now}
	must(f.AddKey(f.ctx, tenant.Default, key, 9, engine.Idempotency{}))
	of := func(n byte, key string, after time.Duration) engine.SignIn {
		return engine.SignIn{
			Hash: [32]byte{n, 5}, ID: string('a' + rune(n)), Tenant: tenant.Default, Role: tenant.Admin, Name: "people", Key: key,
			CreatedAt: now.Add(after), UsedAt: now.Add(after), EndsAt: now.Add(time.Hour),
		}
	}
	add := func(s engine.SignIn) {
		t.Helper()
		if err := f.AddSignIn(f.ctx, s, 2); err != nil {
			t.Fatal(err)
		}
	}
	lacks := func(s engine.SignIn, why string) {
		t.Helper()
		if got, err := f.SignIn(f.ctx, s.Hash); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s: %+v, %v", why, got, err)
		}
	}
	first, token := of(1, "k1", 0), of(2, "", 0)
	add(first)
	add(first) // a request that was repeated below
	add(token)
	for _, s := range []engine.SignIn{first, token} {
		if got := must(f.SignIn(f.ctx, s.Hash)); !cmp.Equal(got, s) {
			t.Errorf("(-want +got):\n%s", cmp.Diff(s, got))
		}
	}
	lacks(of(9, "", 0), "never was")

	// When it was last used only grows.
	for _, at := range []time.Time{now.Add(time.Minute), now} {
		if err := f.UseSignIns(f.ctx, map[[32]byte]time.Time{first.Hash: at, {200}: at}); err != nil {
			t.Fatal(err)
		}
		if got := must(f.SignIn(f.ctx, first.Hash)); !got.UsedAt.Equal(now.Add(time.Minute)) {
			t.Errorf("used at %v", got.UsedAt)
		}
	}

	// The oldest of the same credential give way; others' stay.
	second, third := of(3, "k1", time.Second), of(4, "k1", 2*time.Second)
	add(second)
	add(third)
	lacks(first, "the oldest of three")
	must(f.SignIn(f.ctx, second.Hash))
	must(f.SignIn(f.ctx, token.Hash))

	// What is over is forgotten when the next one comes.
	over := of(5, "", 0)
	over.Name, over.EndsAt = "gone", now.Add(-time.Hour)
	add(over)
	other := of(6, "", 0)
	other.Name = "other"
	add(other)
	lacks(over, "over")

	if err := f.EndSignIn(f.ctx, third.Hash); err != nil {
		t.Fatal(err)
	}
	if err := f.EndSignIn(f.ctx, third.Hash); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("ended twice: %v", err)
	}
	lacks(third, "ended")

	// A key takes what was made with it along.
	if err := f.ExpireKey(f.ctx, tenant.Default, "k1", now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := must(f.SignIn(f.ctx, second.Hash)); !got.EndsAt.Equal(now.Add(time.Minute)) {
		t.Errorf("ends %v, the key %v", got.EndsAt, now.Add(time.Minute))
	}
	if err := f.RevokeKey(f.ctx, tenant.Default, "k1", now); err != nil {
		t.Fatal(err)
	}
	lacks(second, "its key is revoked")
	if got := must(f.SignIn(f.ctx, token.Hash)); !got.EndsAt.Equal(token.EndsAt) {
		t.Errorf("a token's: %+v", got)
	}
}
