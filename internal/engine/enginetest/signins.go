package enginetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// signIns tests sign-ins.
func signIns(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now().UTC().Truncate(time.Microsecond)
	key := engine.Key{ID: "k1", Tenant: tenant.Default, Role: tenant.Admin, Name: "people", Hash: [32]byte{1}, CreatedAt: now}
	must(f.AddKey(f.ctx, tenant.Default, key, 9, engine.Idempotency{}, nil))
	of := func(n byte, key string, after time.Duration) engine.SignIn {
		return engine.SignIn{
			Hash: [32]byte{n, 5}, ID: string('a' + rune(n)), Tenant: tenant.Default, Role: tenant.Admin, Name: "people", Key: key,
			CreatedAt: now.Add(after), UsedAt: now.Add(after), EndsAt: now.Add(time.Hour),
		}
	}
	add := func(s engine.SignIn) {
		t.Helper()
		if err := f.AddSignIn(f.ctx, s, 2, nil); err != nil {
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
	add(first) // a request that is repeated below
	add(token)
	for _, s := range []engine.SignIn{first, token} {
		if got := must(f.SignIn(f.ctx, s.Hash)); !cmp.Equal(got, s) {
			t.Errorf("(-want +got):\n%s", cmp.Diff(s, got))
		}
	}
	lacks(of(9, "", 0), "never was")

	// The time of last use only grows.
	for _, at := range []time.Time{now.Add(time.Minute), now} {
		if err := f.UseSignIns(f.ctx, map[[32]byte]time.Time{first.Hash: at, {200}: at}); err != nil {
			t.Fatal(err)
		}
		if got := must(f.SignIn(f.ctx, first.Hash)); !got.UsedAt.Equal(now.Add(time.Minute)) {
			t.Errorf("used at %v", got.UsedAt)
		}
	}

	// The oldest of the same credential are dropped; others' stay.
	second, third := of(3, "k1", time.Second), of(4, "k1", 2*time.Second)
	add(second)
	add(third)
	lacks(first, "the oldest of three")
	must(f.SignIn(f.ctx, second.Hash))
	must(f.SignIn(f.ctx, token.Hash))

	// Expired ones are dropped when the next one comes.
	over := of(5, "", 0)
	over.Name, over.EndsAt = "gone", now.Add(-time.Hour)
	add(over)
	other := of(6, "", 0)
	other.Name = "other"
	add(other)
	lacks(over, "over")

	if err := f.EndSignIn(f.ctx, third.Hash, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.EndSignIn(f.ctx, third.Hash, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("ended twice: %v", err)
	}
	lacks(third, "ended")

	// Revoking a key ends its sign-ins.
	if err := f.ExpireKey(f.ctx, tenant.Default, "k1", now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := must(f.SignIn(f.ctx, second.Hash)); !got.EndsAt.Equal(now.Add(time.Minute)) {
		t.Errorf("ends %v, the key %v", got.EndsAt, now.Add(time.Minute))
	}
	if err := f.RevokeKey(f.ctx, tenant.Default, "k1", now, nil); err != nil {
		t.Fatal(err)
	}
	lacks(second, "its key is revoked")
	if got := must(f.SignIn(f.ctx, token.Hash)); !got.EndsAt.Equal(token.EndsAt) {
		t.Errorf("a token's: %+v", got)
	}
}

// signInLists tests lists of sign-ins, page by page.
func signInLists(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now().UTC().Truncate(time.Microsecond)
	filter := engine.SignInFilter{Tenant: tenant.Default, Now: now, UsedAfter: now.Add(-time.Hour)}
	find := func(q engine.SignInFilter, p engine.Page) engine.Listed[engine.SignIn] {
		t.Helper()
		return must(f.FindSignIns(f.ctx, q, p))
	}
	ids := func(xs []engine.SignIn) (out []string) {
		for _, x := range xs {
			out = append(out, x.ID)
		}
		return out
	}
	if got := find(filter, engine.Page{Limit: 10}); len(got.Rows) != 0 || got.Next != "" || got.Total.Count != 0 {
		t.Errorf("nobody: %+v", got)
	}
	add := func(id string, n byte, change ...func(*engine.SignIn)) engine.SignIn {
		t.Helper()
		x := engine.SignIn{
			Hash: [32]byte{n, 255, 15: n, 31: 7}, ID: id, Tenant: tenant.Default, Role: tenant.Viewer, Name: "who " + id,
			CreatedAt: now.Add(-time.Minute), UsedAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour),
		}
		for _, c := range change {
			c(&x)
		}
		if err := f.AddSignIn(f.ctx, x, 9, nil); err != nil {
			t.Fatal(err)
		}
		return x
	}
	after := func(d time.Duration) func(*engine.SignIn) {
		return func(x *engine.SignIn) { x.CreatedAt = now.Add(d - time.Minute) }
	}
	by := func(key string) func(*engine.SignIn) { return func(x *engine.SignIn) { x.Key = key } }
	for n, id := range []string{"works", "revoked", "expires"} {
		key := engine.Key{ID: id, Tenant: tenant.Default, Role: tenant.Viewer, Name: id, Hash: [32]byte{byte(n), 1}, CreatedAt: now}
		if id == "expires" {
			key.ExpiresAt = now.Add(time.Minute)
		}
		must(f.AddKey(f.ctx, tenant.Default, key, 9, engine.Idempotency{}, nil))
	}
	a, b := add("a", 1), add("b", 2) // of the same instant: the greater hash first
	c := add("c", 3, after(time.Second), by("works"))
	d := add("d", 4, after(2*time.Second), by("expires"))
	d.EndsAt = now.Add(time.Minute)
	theirs := add("theirs", 5, func(x *engine.SignIn) { x.Tenant = "acme" })
	add("all", 6, func(x *engine.SignIn) { x.Tenant, x.Role = "", tenant.Worker })
	add("revoked", 7, by("revoked"))
	add("idle", 8, func(x *engine.SignIn) { x.UsedAt = filter.UsedAfter })
	over := add("over", 9, func(x *engine.SignIn) { x.EndsAt = now.Add(30 * time.Minute) })
	if err := f.RevokeKey(f.ctx, tenant.Default, "revoked", now, nil); err != nil {
		t.Fatal(err)
	}

	later := filter
	later.Now = over.EndsAt // by then the key of d has expired, too
	for _, x := range []struct {
		what string
		f    engine.SignInFilter
		want []engine.SignIn
	}{
		{"now", filter, []engine.SignIn{d, c, over, b, a}},
		{"when two have ended", later, []engine.SignIn{c, b, a}},
		{"of another tenant", engine.SignInFilter{Tenant: "acme", Now: now, UsedAfter: filter.UsedAfter}, []engine.SignIn{theirs}},
		{"of nobody", engine.SignInFilter{Tenant: "nobody", Now: now}, nil},
		{"one", engine.SignInFilter{Tenant: tenant.Default, ID: "c", Now: now}, []engine.SignIn{c}},
		{"another tenant's", engine.SignInFilter{Tenant: tenant.Default, ID: "theirs", Now: now}, nil},
		{"a worker's for all tenants", engine.SignInFilter{Tenant: tenant.Default, ID: "all", Now: now}, nil},
		{"one that has ended", engine.SignInFilter{Tenant: tenant.Default, ID: "over", Now: over.EndsAt}, nil},
		{"one that never was", engine.SignInFilter{Tenant: tenant.Default, ID: "x\x00\xff", Now: now}, nil},
	} {
		got := find(x.f, engine.Page{Limit: 10})
		if diff := cmp.Diff(x.want, got.Rows, cmpopts.EquateEmpty()); diff != "" || got.Total.Count != int64(len(x.want)) || got.Next != "" || got.Partial {
			t.Errorf("%s: %+v (-want +got):\n%s", x.what, got.Total, diff)
		}
	}

	// Page by page nothing is skipped or repeated, even if sign-ins come and go in between.
	first := find(filter, engine.Page{Limit: 2})
	if got := ids(first.Rows); !slices.Equal(got, []string{"d", "c"}) || first.Total.Count != 5 {
		t.Errorf("first: %v, %+v", got, first.Total)
	}
	add("new", 20, after(time.Hour))
	if err := f.EndSignIn(f.ctx, c.Hash, nil); err != nil { // where the page ended
		t.Fatal(err)
	}
	second := find(filter, engine.Page{Limit: 2, Cursor: first.Next})
	if got := ids(second.Rows); !slices.Equal(got, []string{"over", "b"}) {
		t.Errorf("second: %v", got)
	}
	third := find(filter, engine.Page{Limit: 2, Cursor: second.Next})
	if got := ids(third.Rows); !slices.Equal(got, []string{"a"}) || third.Next != "" {
		t.Errorf("third: %v, %q", got, third.Next)
	}
	if _, err := f.FindSignIns(f.ctx, filter, engine.Page{Limit: 2, Cursor: "nonsense"}); !errors.Is(err, engine.ErrCursor) {
		t.Errorf("a cursor that is none: %v", err)
	}
}
