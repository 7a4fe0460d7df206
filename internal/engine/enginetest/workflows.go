package enginetest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// flow returns a workflow to be created, and its first version, which uses jobs.
func (f fixture) flow(name string, uses ...job.ID) (job.Job, engine.WorkflowVersion) {
	f.Helper()
	j := f.sample(name)
	j.Schedule, j.Queue, j.Labels, j.Target = job.Schedule{Type: job.Manual}, job.DefaultQueue, nil, job.Target{Kind: job.Workflow, Version: 1}
	return j, engine.WorkflowVersion{
		Tenant: j.Tenant, Workflow: j.ID, Version: 1, CreatedAt: f.now(), By: "ann", Definition: []byte(`{"nodes":["✓"]}`),
		Jobs: append([]job.ID{job.NodeID(newID()), {}}, uses...),
	}
}

// next returns the update of a workflow to its next version, which uses jobs.
func (f fixture) next(j job.Job, uses ...job.ID) engine.Update {
	f.Helper()
	j = f.job(j.ID)
	v := engine.WorkflowVersion{Tenant: j.Tenant, Workflow: j.ID, Version: j.Target.Version + 1, CreatedAt: f.now(), By: "bob", Definition: []byte(`{}`), Jobs: uses, Layout: []byte("drawn")}
	j.Target.Version++
	return engine.Update{Job: j, Revision: j.Revision, AsOf: f.now(), Workflow: &v}
}

// A list of versions ends where their definitions fill a page, however many are asked for, and the next one goes on there.
func largeVersions(t *testing.T, h Harness) {
	f := open(t, h)
	j, first := f.flow("flow")
	if err := f.AddWorkflow(f.ctx, first); err != nil {
		t.Fatal(err)
	}
	f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
	const large = engine.PageBytes * 2 / 5
	for range 4 {
		u := f.next(j)
		u.Workflow.Definition, u.Workflow.Layout = bytes.Repeat([]byte("x"), large), bytes.Repeat([]byte("y"), large)
		must(f.UpdateJob(f.ctx, tenant.Default, u))
	}
	for before, want := range map[int][]int{0: {5, 4, 3}, 3: {2, 1}, 2: {1}} {
		var got []int
		for _, v := range must(f.WorkflowVersions(f.ctx, tenant.Default, j.ID, before, 1000)) {
			if got = append(got, v.Version); v.Layout != nil || v.Version > 1 && len(v.Definition) != large {
				t.Errorf("version %d: a definition of %d bytes, a layout of %d", v.Version, len(v.Definition), len(v.Layout))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("before %d: versions %v, want %v", before, got, want)
		}
	}
	u := f.next(j)
	u.Workflow.Definition = bytes.Repeat([]byte("x"), engine.PageBytes+1)
	must(f.UpdateJob(f.ctx, tenant.Default, u))
	if got := must(f.WorkflowVersions(f.ctx, tenant.Default, j.ID, 0, 1000)); len(got) != 1 || got[0].Version != 6 {
		t.Errorf("%d versions of which the first fills a page, want one", len(got))
	}
}

func workflows(t *testing.T, h Harness) {
	t.Run("versions", func(t *testing.T) {
		f := open(t, h)
		used, _ := f.add("used")
		j, first := f.flow("flow", used.ID, used.ID)
		if err := f.AddWorkflow(f.ctx, first); err != nil {
			t.Fatal(err)
		}
		if err := f.AddWorkflow(f.ctx, first); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("the same version again: %v", err)
		}
		f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
		if got := must(f.WorkflowVersion(f.ctx, tenant.Default, j.ID, 1)); !cmp.Equal(got, first) {
			t.Error(cmp.Diff(first, got))
		}
		u := f.next(j)
		if got := must(f.UpdateJob(f.ctx, tenant.Default, u)); got.Target.Version != 2 || got.Revision != 2 {
			t.Errorf("updated: version %d, revision %d", got.Target.Version, got.Revision)
		}
		second := *u.Workflow
		second.Layout = nil
		if got := must(f.WorkflowVersions(f.ctx, tenant.Default, j.ID, 0, 10)); !cmp.Equal(got, []engine.WorkflowVersion{second, first}) {
			t.Errorf("all: %+v", got)
		}
		for _, c := range []struct{ before, limit, want int }{{0, 1, 2}, {2, 10, 1}} {
			if got := must(f.WorkflowVersions(f.ctx, tenant.Default, j.ID, c.before, c.limit)); len(got) != 1 || got[0].Version != c.want {
				t.Errorf("before %d: %+v", c.before, got)
			}
		}
		if got := must(f.WorkflowVersions(f.ctx, tenant.Default, j.ID, 1, 10)); len(got) != 0 {
			t.Errorf("before the first: %+v", got)
		}
		for name, of := range map[string]tenant.ID{"another tenant's": "other", "unknown": tenant.Default} {
			id, version := j.ID, 1
			if of == tenant.Default {
				version = 3
			}
			if _, err := f.WorkflowVersion(f.ctx, of, id, version); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		// A refused update changes nothing.
		stale := f.next(j, used.ID)
		stale.Revision = 1
		if _, err := f.UpdateJob(f.ctx, tenant.Default, stale); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("a stale revision: %v", err)
		}
		if got := must(f.WorkflowVersions(f.ctx, tenant.Default, j.ID, 0, 10)); len(got) != 2 {
			t.Errorf("%d versions, want 2", len(got))
		}
	})
	t.Run("large versions", func(t *testing.T) { largeVersions(t, h) })
	t.Run("with its nodes", func(t *testing.T) {
		f := open(t, h)
		used, _ := f.add("used")
		whole := func(name string, uses ...job.ID) engine.Creation {
			j, v := f.flow(name, uses...)
			j.Key = name
			node := f.sample(name + "/node")
			node.ID, node.State, node.Queue, node.Labels, node.Schedule = v.Jobs[0], job.Inline, job.DefaultQueue, nil, job.Schedule{Type: job.Manual}
			secret := engine.Secret{Tenant: j.Tenant, Name: "n-" + node.ID.String(), Job: node.ID, Version: 1, CreatedAt: f.now(), UpdatedAt: f.now(), Key: "k", Sealed: []byte("sealed")}
			return engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}, Workflow: &v, Nodes: []job.Job{node}, Secrets: []engine.Secret{secret}}
		}
		stored := func(c *engine.Creation, want bool) {
			t.Helper()
			_, err := f.WorkflowVersion(f.ctx, c.Tenant, c.Workflow.Workflow, c.Workflow.Version)
			_, nodeErr := f.Job(f.ctx, c.Tenant, engine.Ref{ID: c.Nodes[0].ID})
			_, secretErr := f.Secret(f.ctx, c.Tenant, c.Secrets[0].Name)
			if want != (err == nil) || want != (nodeErr == nil) || want != (secretErr == nil) {
				t.Errorf("%s: stored should be %v: version %v, node %v, secret %v", c.Jobs[0].Key, want, err, nodeErr, secretErr)
			}
		}
		first := whole("first", used.ID)
		first.Idempotency = engine.Idempotency{Key: "once", Hash: [32]byte{1}, Answer: []byte("first"), Until: f.now().Add(time.Hour)}
		f.store(first)
		stored(&first, true)
		if us := must(f.WorkflowUsers(f.ctx, first.Tenant, used.ID)); len(us) != 1 {
			t.Errorf("used by %+v", us)
		}
		if again := must(f.CreateJobs(f.ctx, []engine.Creation{first})); string(again[0].Replay) != "first" {
			t.Errorf("again: %+v", again)
		}
		taken, replayed, reused, over := whole("first"), whole("second"), whole("third"), whole("fourth")
		replayed.Idempotency, reused.Idempotency = first.Idempotency, first.Idempotency
		reused.Idempotency.Hash = [32]byte{2}
		must(f.CountJobs(f.ctx, over.Tenant))
		over.Most = 1
		for _, c := range []*engine.Creation{&taken, &replayed, &reused, &over} {
			out := must(f.CreateJobs(f.ctx, []engine.Creation{*c}))[0]
			if out.Taken == "" && out.Replay == nil && !out.Reused && !out.Over {
				t.Errorf("%s: %+v", c.Jobs[0].Key, out)
			}
			stored(c, false)
		}
		unknown := whole("fifth", job.ID(newID()))
		if _, err := f.CreateJobs(f.ctx, []engine.Creation{unknown}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("using what is unknown: %v", err)
		}
		stored(&unknown, false)
		// A later version brings its nodes, unless its update is refused.
		for _, revision := range []int{7, 1} {
			x := whole("x")
			u := f.next(first.Jobs[0], x.Nodes[0].ID)
			u.Revision, u.Nodes, u.Secrets = revision, x.Nodes, x.Secrets
			x.Workflow = u.Workflow
			_, err := f.UpdateJob(f.ctx, first.Tenant, u)
			if (err == nil) != (revision == 1) {
				t.Errorf("updated revision %d: %v", revision, err)
			}
			stored(&x, revision == 1)
		}
	})
	t.Run("who uses a job", func(t *testing.T) {
		f := open(t, h)
		used, _ := f.add("used")
		users := func(want ...string) {
			t.Helper()
			var got []string
			for _, w := range must(f.WorkflowUsers(f.ctx, tenant.Default, used.ID)) {
				got = append(got, w.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("used by %q, want %q", got, want)
			}
		}
		add := func(name string) job.Job {
			j, v := f.flow(name, used.ID)
			if err := f.AddWorkflow(f.ctx, v); err != nil {
				t.Fatal(err)
			}
			f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
			return j
		}
		users()
		b, a := add("b"), add("a")
		users("a", "b")
		if got := must(f.WorkflowUsers(f.ctx, "other", used.ID)); len(got) != 0 {
			t.Errorf("for another tenant: %+v", got)
		}
		var no *engine.Used
		if _, err := f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: used.ID, AsOf: f.now()}); !errors.As(err, &no) || len(no.By) != 2 || no.By[0].ID != a.ID {
			t.Errorf("deleting it: %v", err)
		}
		if got := f.job(used.ID); got.State == job.Deleted || got.Revision != 1 {
			t.Errorf("it is %s all the same", got.State)
		}
		must(f.UpdateJob(f.ctx, tenant.Default, f.next(b)))
		users("a")
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: a.ID, AsOf: f.now()}))
		users()
		must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: used.ID, AsOf: f.now()}))
		if _, err := f.UpdateJob(f.ctx, tenant.Default, f.next(b, used.ID)); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("using what is deleted: %v", err)
		}
		_, v := f.flow("c", job.ID(newID()))
		if err := f.AddWorkflow(f.ctx, v); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("using what is unknown: %v", err)
		}
		if got := f.job(b.ID); got.Target.Version != 2 {
			t.Errorf("version %d, want 2", got.Target.Version)
		}
	})
	t.Run("a job is deleted while a version begins to use it", func(t *testing.T) {
		f := open(t, h)
		for range 20 {
			used, _ := f.add("used")
			j, v := f.flow("flow")
			if err := f.AddWorkflow(f.ctx, v); err != nil {
				t.Fatal(err)
			}
			f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
			u := f.next(j, used.ID)
			var wg sync.WaitGroup
			var updated, deleted error
			wg.Go(func() { _, updated = f.UpdateJob(f.ctx, tenant.Default, u) })
			wg.Go(func() {
				_, deleted = f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: used.ID, AsOf: used.CreatedAt})
			})
			wg.Wait()
			var no *engine.Used
			switch {
			case updated == nil && errors.As(deleted, &no):
			case errors.Is(updated, engine.ErrNotFound) && deleted == nil:
			default:
				t.Fatalf("update: %v; deletion: %v; want that exactly one succeeds", updated, deleted)
			}
		}
	})
}
