package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// managedKeys tests keys besides the first one.
func managedKeys(t *testing.T, f fixture, first engine.Key) {
	now := f.now()
	key := func(id string, who tenant.ID, role tenant.Role) engine.Key {
		return engine.Key{ID: id, Tenant: who, Role: role, Name: "key " + id, Hash: [32]byte{9, id[0]}, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	}
	a, b := key("a2", "acme", tenant.Admin), key("b2", "acme", tenant.Viewer)
	b.CreatedAt, b.ExpiresAt = now.Add(time.Second), time.Time{}
	once := engine.Idempotency{Key: "make a", Hash: [32]byte{1}, Answer: []byte("answer"), Until: now.Add(time.Hour)}
	if out := must(f.AddKey(f.ctx, tenant.Default, a, 2, once, nil)); out.Replay != nil || out.Reused {
		t.Errorf("first: %+v", out)
	}
	other := a
	other.ID, other.Hash = "z2", [32]byte{7}
	if out := must(f.AddKey(f.ctx, tenant.Default, other, 2, once, nil)); string(out.Replay) != "answer" {
		t.Errorf("again: %+v", out)
	}
	for range 2 {
		must(f.AddKey(f.ctx, tenant.Default, b, 2, engine.Idempotency{}, nil))
	}
	if _, err := f.AddKey(f.ctx, tenant.Default, key("c2", "acme", tenant.Viewer), 2, engine.Idempotency{}, nil); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("one too many: %v", err)
	}
	if got := must(f.Keys(f.ctx, "acme")); !cmp.Equal(got, []engine.Key{b, a}) {
		t.Errorf("list (-want +got):\n%s", cmp.Diff([]engine.Key{b, a}, got))
	}
	if got := must(f.KeyOf(f.ctx, "acme", "a2")); got != a {
		t.Errorf("one: %+v", got)
	}
	if _, err := f.KeyOf(f.ctx, tenant.Default, "a2"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}

	if err := f.UseKeys(f.ctx, map[string]time.Time{"a2": now.Add(time.Minute), "nobody's": now}); err != nil {
		t.Fatal(err)
	}
	if err := f.UseKeys(f.ctx, map[string]time.Time{"a2": now}); err != nil {
		t.Fatal(err)
	}
	if got := must(f.Key(f.ctx, a.Hash)); !got.UsedAt.Equal(now.Add(time.Minute)) {
		t.Errorf("used: %+v", got)
	}

	for _, at := range []time.Time{now.Add(2 * time.Hour), now.Add(30 * time.Minute)} {
		if err := f.ExpireKey(f.ctx, "acme", "a2", at); err != nil {
			t.Fatal(err)
		}
		want := at
		if want.After(a.ExpiresAt) {
			want = a.ExpiresAt
		}
		if got := must(f.Key(f.ctx, a.Hash)); !got.ExpiresAt.Equal(want) {
			t.Errorf("expires: %v, want %v", got.ExpiresAt, want)
		}
	}
	if err := f.ExpireKey(f.ctx, "acme", "b2", now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := must(f.Key(f.ctx, b.Hash)); !got.ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Errorf("one that did not expire: %v", got.ExpiresAt)
	}
	if err := f.ExpireKey(f.ctx, tenant.Default, "a2", now); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	rotatedKeys(f, key("r2", "rotating", tenant.Viewer), key("r3", "rotating", tenant.Viewer))

	for range 2 {
		if err := f.RevokeKey(f.ctx, "acme", "a2", now, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Key(f.ctx, a.Hash); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("revoked: %v", err)
	}
	if got := must(f.KeyOf(f.ctx, "acme", "a2")); !got.RevokedAt.Equal(now) || got.Works(now) {
		t.Errorf("revoked: %+v", got)
	}
	must(f.AddKey(f.ctx, tenant.Default, key("d2", "acme", tenant.Viewer), 2, engine.Idempotency{}, nil)) // revoked keys do not count
	if err := f.RevokeKey(f.ctx, tenant.Default, "a2", now, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}

	if err := f.RevokeKey(f.ctx, tenant.Default, first.ID, now, nil); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("the last of role system: %v", err)
	}
	lapsed := key("e2", tenant.Default, tenant.System)
	lapsed.ExpiresAt = now.Add(-time.Hour)
	must(f.AddKey(f.ctx, tenant.Default, lapsed, 9, engine.Idempotency{}, nil))
	if err := f.RevokeKey(f.ctx, tenant.Default, first.ID, now, nil); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("the last of role system that works: %v", err)
	}
	must(f.AddKey(f.ctx, tenant.Default, key("f2", tenant.Default, tenant.System), 9, engine.Idempotency{}, nil))
	if err := f.RevokeKey(f.ctx, tenant.Default, first.ID, now, nil); err != nil {
		t.Errorf("one of two: %v", err)
	}
	if ok, err := f.Bootstrap(f.ctx, key("g2", tenant.Default, tenant.System)); ok || err != nil {
		t.Errorf("a first key after the first was revoked: %v, %v", ok, err)
	}
}

// rotatedKeys replaces a key: both changes and their entries are one commit.
func rotatedKeys(f fixture, old, next engine.Key) {
	old.ExpiresAt, next.Hash = time.Time{}, [32]byte{99}
	must(f.AddKey(f.ctx, tenant.Default, old, 9, engine.Idempotency{}, nil))
	until := f.now().Add(time.Minute)
	once := engine.Idempotency{Key: "rotate", Hash: [32]byte{3}, Answer: []byte("rotated"), Until: f.now().Add(time.Hour)}
	entry := func(object string) audit.Entry {
		return audit.Entry{Tenant: "rotating", At: f.now(), By: "ann", Action: "api_key.rotate", Object: object, Count: 1}
	}
	rotate := func(id string) (engine.Created, error) {
		return f.RotateKey(f.ctx, tenant.Default, next, 9, engine.Replaced{Tenant: "rotating", ID: id, Until: until, Entry: entry(old.ID)}, once, new(entry(next.ID)))
	}
	if _, err := rotate("nobody"); !errors.Is(err, engine.ErrNotFound) {
		f.Errorf("a key that is not there was rotated: %v", err)
	}
	if got := must(f.Keys(f.ctx, "rotating")); len(got) != 1 {
		f.Errorf("a rotation that failed left %d keys", len(got))
	}
	for i, want := range []string{"", "rotated"} {
		if got := must(rotate(old.ID)); string(got.Replay) != want {
			f.Errorf("rotation %d is answered %q, want %q", i, got.Replay, want)
		}
	}
	if got := must(f.KeyOf(f.ctx, "rotating", old.ID)); !got.ExpiresAt.Equal(until) {
		f.Errorf("the old key expires at %v, want %v", got.ExpiresAt, until)
	}
	if page := must(f.AuditEntries(f.ctx, engine.AuditFilter{Tenant: "rotating"}, engine.Page{Limit: 9})); len(page.Entries) != 2 {
		f.Errorf("%d entries, want one for each key", len(page.Entries))
	}
}
