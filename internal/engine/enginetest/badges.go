package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// badges tests badges.
func badges(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now().UTC().Truncate(time.Microsecond)
	of := func(in tenant.ID, n byte, id string) engine.Badge {
		j, _ := f.add(id, func(j *job.Job, e *job.Execution) { j.Tenant, e.Tenant = in, in })
		return engine.Badge{ID: id, Tenant: in, Job: j.ID, Hash: [32]byte{n, byte(len(in))}, CreatedAt: now}
	}
	list := func(p engine.Page) engine.Listed[engine.Badge] {
		t.Helper()
		return must(f.FindBadges(f.ctx, tenant.Default, p))
	}
	a, b, c := of(tenant.Default, 1, "a"), of(tenant.Default, 2, "b"), of(tenant.Default, 3, "c")
	b.Job, b.Label = a.Job, `of the same job, "as" <others> call it`
	theirs := of("other", 1, "a") // whose id is another's, too
	add := func(x engine.Badge, i engine.Idempotency) engine.Created {
		t.Helper()
		return must(f.AddBadge(f.ctx, x, 2, i, nil))
	}
	add(a, engine.Idempotency{})
	once := engine.Idempotency{Key: "k", Hash: [32]byte{7}, Answer: []byte("b was made"), Until: now.Add(time.Hour)}
	add(b, once)
	add(theirs, engine.Idempotency{})
	if got := add(b, once); string(got.Replay) != "b was made" || got.Reused {
		t.Errorf("asked for again: %+v", got)
	}
	other := once
	other.Hash = [32]byte{8}
	if got := add(c, other); !got.Reused {
		t.Errorf("another request under the same key: %+v", got)
	}
	if _, err := f.AddBadge(f.ctx, c, 2, engine.Idempotency{Key: "c", Hash: [32]byte{9}, Answer: []byte("c"), Until: now.Add(time.Hour)}, nil); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("one too many: %v", err)
	}

	for _, x := range []engine.Badge{a, b, theirs} {
		if got := must(f.Badge(f.ctx, x.Hash)); !cmp.Equal(got, x) {
			t.Errorf("(-want +got):\n%s", cmp.Diff(x, got))
		}
	}
	if got, err := f.Badge(f.ctx, c.Hash); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("never was: %+v, %v", got, err)
	}
	if d := cmp.Diff(engine.Listed[engine.Badge]{Rows: []engine.Badge{b, a}, Total: engine.Total{Count: 2}}, list(engine.Page{Limit: 2})); d != "" {
		t.Errorf("the newest first (-want +got):\n%s", d)
	}
	if d := cmp.Diff(engine.Listed[engine.Badge]{Rows: []engine.Badge{b}, Next: "b", Total: engine.Total{Count: 2}}, list(engine.Page{Limit: 1})); d != "" {
		t.Errorf("the first page (-want +got):\n%s", d)
	}
	if d := cmp.Diff(engine.Listed[engine.Badge]{Rows: []engine.Badge{a}}, list(engine.Page{Limit: 1, Cursor: "b", Uncounted: true})); d != "" {
		t.Errorf("the second page (-want +got):\n%s", d)
	}
	if got := must(f.FindBadges(f.ctx, "nobody", engine.Page{Limit: 5})); len(got.Rows) != 0 || got.Total.Count != 0 {
		t.Errorf("of nobody: %+v", got)
	}

	if got := must(f.DeleteBadge(f.ctx, tenant.Default, a.ID, nil)); !cmp.Equal(got, a) {
		t.Errorf("revoked: %+v", got)
	}
	for _, x := range []engine.Badge{a, {Tenant: "nobody", ID: "b"}} {
		if got, err := f.DeleteBadge(f.ctx, x.Tenant, x.ID, nil); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("revoked twice, or another's: %+v, %v", got, err)
		}
	}
	if got, err := f.Badge(f.ctx, a.Hash); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("after it was revoked: %+v, %v", got, err)
	}
	must(f.Badge(f.ctx, theirs.Hash))
	// A refused request stores no answer, and there is room now.
	if got := add(c, engine.Idempotency{Key: "c", Hash: [32]byte{9}, Answer: []byte("c"), Until: now.Add(time.Hour)}); got.Replay != nil || got.Reused {
		t.Errorf("in its place: %+v", got)
	}
	if d := cmp.Diff([]engine.Badge{c, b}, list(engine.Page{Limit: 9}).Rows); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	// A deleted job's badge is in no list and takes up no room, and it is removed when another is added.
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: c.Job, AsOf: f.now()}))
	if got := list(engine.Page{Limit: 1}); len(got.Rows) != 1 || got.Rows[0].ID != b.ID || got.Next != "" || got.Total.Count != 1 {
		t.Errorf("after its job was deleted: %+v", got)
	}
	d := of(tenant.Default, 4, "d")
	add(d, engine.Idempotency{})
	if d := cmp.Diff([]engine.Badge{d, b}, list(engine.Page{Limit: 9}).Rows); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, err := f.Badge(f.ctx, c.Hash); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("of a deleted job: %+v, %v", got, err)
	}
	must(f.Badge(f.ctx, theirs.Hash))
}
