package enginetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func schema(t *testing.T, h Harness) {
	t.Run("an empty database is not ready", func(t *testing.T) {
		s := must(h.Open(t.Context(), h.New(t)))
		defer s.Close()
		if err := s.Ping(t.Context()); !errors.Is(err, engine.ErrSchema) {
			t.Errorf("ping before migrate: got %v, want ErrSchema", err)
		}
	})
	t.Run("many starts at once", func(t *testing.T) {
		where := h.New(t)
		stores := []engine.Store{must(h.Open(t.Context(), where))}
		for h.Shared && len(stores) < 4 {
			stores = append(stores, must(h.Open(t.Context(), where)))
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if err := stores[i%len(stores)].Migrate(t.Context()); err != nil {
					t.Errorf("migrate: %v", err)
				}
			})
		}
		wg.Wait()
		for _, s := range stores {
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	t.Run("steps", func(t *testing.T) {
		s := must(h.Open(t.Context(), h.New(t)))
		defer s.Close()
		steps := must(s.Steps(t.Context()))
		if len(steps) == 0 || steps[0].Version != 1 || steps[0].Name != "schema" || steps[0].SQL == "" || !steps[0].At.IsZero() {
			t.Fatalf("before: %+v", steps)
		}
		if err := s.CheckSchema(t.Context()); !errors.Is(err, engine.ErrSchema) || !strings.Contains(err.Error(), "carillon migrate up") {
			t.Errorf("before: %v", err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, step := range must(s.Steps(t.Context())) {
			if step.Version != i+1 || step.Name != steps[i].Name || time.Since(step.At).Abs() > time.Hour {
				t.Errorf("after: %+v", step)
			}
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Errorf("after: %v", err)
		}
	})
	t.Run("state survives closing", func(t *testing.T) {
		where := h.New(t)
		s := must(h.Open(t.Context(), where))
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := fixture{TB: t, Store: s, ctx: t.Context(), where: where}
		j, e := f.add("kept")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		g := reopen(t, h, where)
		if got := must(g.Job(g.ctx, tenant.Default, engine.Ref{ID: j.ID})); got.Name != "kept" {
			t.Errorf("got %q", got.Name)
		}
		if got := g.execution(e.ID); got.Status != job.Pending {
			t.Errorf("got %v", got.Status)
		}
	})
	t.Run("the clock moves", func(t *testing.T) {
		f := open(t, h)
		a := f.now()
		b := f.now()
		if b.Before(a) || time.Since(a).Abs() > time.Hour {
			t.Errorf("got %v then %v", a, b)
		}
		if f.Describe() == "" {
			t.Error("no description")
		}
	})
}

// same compares jobs as stored: derived fields have their own tests.
func same(t testing.TB, got, want job.Job) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("job (-want +got):\n%s", d)
	}
}

func create(t *testing.T, h Harness) {
	f := open(t, h)
	t.Run("every field comes back", func(t *testing.T) {
		j := f.sample("all fields")
		j.Key = "all-fields"
		e := f.due(j)
		f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}, Executions: []job.Execution{e}})
		same(t, must(f.Job(f.ctx, j.Tenant, engine.Ref{ID: j.ID})), j)
		same(t, must(f.Job(f.ctx, j.Tenant, engine.Ref{Key: j.Key})), j)
		if d := cmp.Diff(e, f.execution(e.ID)); d != "" {
			t.Errorf("execution (-want +got):\n%s", d)
		}
	})
	t.Run("the least comes back", func(t *testing.T) {
		j := f.sample("least")
		j.Description, j.Owner, j.Runbook, j.Tags, j.Payload = "", "", "", nil, nil
		j.Target = job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: time.Second, Duration: time.Millisecond, FailAttempts: 2}
		j.Schedule = job.Schedule{Type: job.OneTime, At: f.now().Add(time.Hour)}
		j.NextRunAt = j.Schedule.At
		f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}})
		same(t, must(f.Job(f.ctx, j.Tenant, engine.Ref{ID: j.ID})), j)
	})
	t.Run("another tenant sees nothing", func(t *testing.T) {
		j, e := f.add("mine", func(j *job.Job, _ *job.Execution) { j.Key = "mine" })
		for _, ref := range []engine.Ref{{ID: j.ID}, {Key: "mine"}} {
			if _, err := f.Job(f.ctx, "other", ref); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("job: got %v, want ErrNotFound", err)
			}
		}
		if _, err := f.Execution(f.ctx, "other", e.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("execution: got %v, want ErrNotFound", err)
		}
		if _, err := f.DeleteJob(f.ctx, "other", engine.Deletion{Job: j.ID, AsOf: f.now()}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("delete: got %v, want ErrNotFound", err)
		}
		if _, err := f.Job(f.ctx, tenant.Default, engine.Ref{ID: newID()}); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("unknown: got %v, want ErrNotFound", err)
		}
	})
	t.Run("a taken key fails its own creation only", func(t *testing.T) {
		f.add("first", func(j *job.Job, _ *job.Execution) { j.Key = "taken" })
		good1, bad, twice, good2 := f.sample("good 1"), f.sample("bad"), f.sample("twice"), f.sample("good 2")
		bad.Key, good2.Key = "taken", "free"
		beside := f.sample("beside bad")
		other := f.sample("twice, other")
		twice.Key, other.Key = "twice", "twice"
		got := must(f.CreateJobs(f.ctx, []engine.Creation{
			{Tenant: tenant.Default, Jobs: []job.Job{good1}, Executions: []job.Execution{f.due(good1)}},
			{Tenant: tenant.Default, Jobs: []job.Job{beside, bad}, Executions: []job.Execution{f.due(beside), f.due(bad)}},
			{Tenant: tenant.Default, Jobs: []job.Job{twice, other}},
			{Tenant: tenant.Default, Jobs: []job.Job{good2}},
		}))
		want := []engine.Created{{}, {Taken: "taken"}, {Taken: "twice"}, {}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("outcomes (-want +got):\n%s", d)
		}
		for _, j := range []job.Job{good1, good2} {
			if _, err := f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID}); err != nil {
				t.Errorf("%s: %v", j.Name, err)
			}
		}
		for _, j := range []job.Job{bad, beside, twice, other} {
			if _, err := f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID}); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("%s: got %v, want ErrNotFound", j.Name, err)
			}
		}
	})
	t.Run("ten thousand at once", func(t *testing.T) {
		c := engine.Creation{Tenant: tenant.Default}
		for i := range 10_000 {
			j := f.sample(fmt.Sprint("bulk ", i))
			c.Jobs = append(c.Jobs, j)
			c.Executions = append(c.Executions, f.due(j))
		}
		f.store(c)
		for _, i := range []int{0, 5_000, 9_999} {
			if got := f.execution(c.Executions[i].ID); got.JobName != c.Jobs[i].Name {
				t.Errorf("%d: got %q", i, got.JobName)
			}
		}
	})
	t.Run("nothing to create", func(t *testing.T) {
		if got, err := f.CreateJobs(f.ctx, nil); err != nil || len(got) != 0 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func idempotency(t *testing.T, h Harness) {
	f := open(t, h)
	key := func(k, body string) engine.Idempotency {
		return engine.Idempotency{Key: k, Hash: sha256.Sum256([]byte(body)), Answer: []byte("answer to " + body), Until: f.now().Add(time.Hour)}
	}
	creation := func(i engine.Idempotency) engine.Creation {
		j := f.sample("keyed")
		return engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{j}, Executions: []job.Execution{f.due(j)}, Idempotency: i}
	}
	stored := func(c engine.Creation) bool {
		_, err := f.Job(f.ctx, tenant.Default, engine.Ref{ID: c.Jobs[0].ID})
		return err == nil
	}
	t.Run("the same request again", func(t *testing.T) {
		a, b, other := creation(key("k1", "x")), creation(key("k1", "x")), creation(key("k1", "y"))
		f.store(a)
		got := must(f.CreateJobs(f.ctx, []engine.Creation{b, other}))
		if string(got[0].Replay) != "answer to x" || got[1].Replay != nil || !got[1].Reused {
			t.Errorf("got %+v", got)
		}
		if !stored(a) || stored(b) || stored(other) {
			t.Error("want the first stored and nothing else")
		}
	})
	t.Run("twice in one call", func(t *testing.T) {
		a, b := creation(key("k2", "x")), creation(key("k2", "x"))
		got := must(f.CreateJobs(f.ctx, []engine.Creation{a, b}))
		if got[0].Replay != nil || string(got[1].Replay) != "answer to x" || !stored(a) || stored(b) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("another tenant's key is another key", func(t *testing.T) {
		f.store(creation(key("k3", "x")))
		c := creation(key("k3", "y"))
		c.Tenant, c.Jobs[0].Tenant, c.Executions[0].Tenant = "other", "other", "other"
		f.store(c)
	})
	t.Run("an expired key is free", func(t *testing.T) {
		old := key("k4", "x")
		old.Until = f.now().Add(-time.Second)
		f.store(creation(old))
		f.store(creation(key("k4", "y")))
	})
	t.Run("a refused creation keeps no key", func(t *testing.T) {
		f.add("holder", func(j *job.Job, _ *job.Execution) { j.Key = "held" })
		c := creation(key("k5", "x"))
		c.Jobs[0].Key = "held"
		if got := must(f.CreateJobs(f.ctx, []engine.Creation{c})); got[0].Taken != "held" {
			t.Fatalf("got %+v", got)
		}
		f.store(creation(key("k5", "y")))
	})
	t.Run("many at once make one", func(t *testing.T) {
		const n = 16
		cs := make([]engine.Creation, n)
		for i := range cs {
			cs[i] = creation(key("k6", "x"))
		}
		var wg sync.WaitGroup
		for i := range cs {
			wg.Go(func() {
				if _, err := f.CreateJobs(f.ctx, cs[i:i+1]); err != nil {
					t.Errorf("create: %v", err)
				}
			})
		}
		wg.Wait()
		made := 0
		for _, c := range cs {
			if stored(c) {
				made++
			}
		}
		if made != 1 {
			t.Errorf("%d jobs, want 1", made)
		}
	})
	t.Run("a trigger too", func(t *testing.T) {
		j, _ := f.add("triggered")
		a, b := f.due(j), f.due(j)
		a.Trigger, b.Trigger = job.ByHand, job.ByHand
		if got := must(f.Trigger(f.ctx, tenant.Default, a, key("k7", "x"), nil)); got.Replay != nil || got.Reused {
			t.Fatalf("first: got %+v", got)
		}
		if got := must(f.Trigger(f.ctx, tenant.Default, b, key("k7", "x"), nil)); string(got.Replay) != "answer to x" {
			t.Errorf("again: got %+v", got)
		}
		if got := must(f.Trigger(f.ctx, tenant.Default, b, key("k7", "z"), nil)); !got.Reused {
			t.Errorf("another: got %+v", got)
		}
		if _, err := f.Execution(f.ctx, tenant.Default, b.ID); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
}

func findJobs(t *testing.T, h Harness) {
	f := open(t, h)
	var want []job.ID
	for i := range 25 {
		j, _ := f.add(fmt.Sprintf("job %02d", i), func(j *job.Job, _ *job.Execution) {
			if i%5 == 0 {
				j.Tags = []string{"fifth"}
				j.Key = fmt.Sprintf("key-%d", i)
				j.Description = "100% of_it"
			}
		})
		want = append(want, j.ID)
	}
	once := f.sample("once")
	once.Schedule = job.Schedule{Type: job.OneTime, At: f.now().Add(time.Hour)}
	once.NextRunAt = once.Schedule.At
	f.store(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{once}})
	want = append(want, once.ID)
	other := f.sample("other's")
	other.Tenant = "other"
	f.store(engine.Creation{Tenant: "other", Jobs: []job.Job{other}})
	slices.Reverse(want)

	all := engine.JobFilter{Tenant: tenant.Default}
	for name, bounded := range map[string]bool{"pages, newest first, although jobs arrive meanwhile": false, "pages that may end early, likewise": true} {
		t.Run(name, func(t *testing.T) {
			var got []job.ID
			p := engine.Page{Limit: 7, Bounded: bounded}
			for {
				page := must(f.FindJobs(f.ctx, all, p))
				for _, j := range page.Jobs {
					if len(got) > 0 || j.Name != "late" { // which came before the first page
						got = append(got, j.ID)
					}
				}
				if page.Next == "" {
					break
				}
				if len(page.Jobs) != 7 && !page.Partial {
					t.Fatalf("a page of %d that is not the last", len(page.Jobs))
				}
				p.Cursor = page.Next
				f.add("late")
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %d jobs, want %d in order", len(got), len(want))
			}
		})
	}
	t.Run("a cursor that is none", func(t *testing.T) {
		for _, c := range []string{"x", "////", "AAAA", strings.Repeat("g", 32), strings.Repeat("f", 32)} {
			if _, err := f.FindJobs(f.ctx, all, engine.Page{Limit: 5, Cursor: c}); !errors.Is(err, engine.ErrCursor) {
				t.Errorf("%q: got %v, want ErrCursor", c, err)
			}
		}
	})
	for _, c := range []struct {
		name string
		f    engine.JobFilter
		want int64
	}{
		{"tag", engine.JobFilter{Tag: "fifth"}, 5},
		{"unknown tag", engine.JobFilter{Tag: "fif"}, 0},
		{"without a tag", engine.JobFilter{WithoutTag: "fifth", Text: "job 2"}, 4},
		{"without a tag that none has", engine.JobFilter{WithoutTag: "fif", Name: "job 03"}, 1},
		{"with and without a tag", engine.JobFilter{Tag: "fifth", WithoutTag: "fifth"}, 0},
		{"name", engine.JobFilter{Name: "job 03"}, 1},
		{"name is exact", engine.JobFilter{Name: "job 0"}, 0},
		{"text in the name, any case", engine.JobFilter{Text: "JOB 1"}, 10},
		{"text in the key", engine.JobFilter{Text: "key-1"}, 2},
		{"text is not a pattern", engine.JobFilter{Text: "100% of_it"}, 5},
		{"percent is a percent", engine.JobFilter{Text: "%z"}, 0},
		{"type", engine.JobFilter{ScheduleType: job.OneTime}, 1},
		{"state", engine.JobFilter{State: job.Active, ScheduleType: job.OneTime}, 1},
		{"deleted", engine.JobFilter{State: job.Deleted}, 0},
		{"both", engine.JobFilter{Tag: "fifth", Text: "job 2"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.f.Tenant = tenant.Default
			for _, bounded := range []bool{false, true} {
				page := must(f.FindJobs(f.ctx, c.f, engine.Page{Limit: 100, Bounded: bounded}))
				if int64(len(page.Jobs)) != c.want || page.Total.Count != c.want || page.Total.Estimate || page.Partial || page.Next != "" {
					t.Errorf("bounded %v: got %d jobs, total %+v, partial %v; want %d", bounded, len(page.Jobs), page.Total, page.Partial, c.want)
				}
			}
		})
	}
	t.Run("a finished one-off is completed", func(t *testing.T) {
		j, e := f.add("finished")
		_, as := f.take(e.ID)
		if got := must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID})); got.State != job.Active {
			t.Errorf("while it runs: %v", got.State)
		}
		f.report(succeed(as[0]))
		got := must(f.Job(f.ctx, tenant.Default, engine.Ref{ID: j.ID}))
		if got.State != job.Completed {
			t.Errorf("after it: %v", got.State)
		}
		page := must(f.FindJobs(f.ctx, engine.JobFilter{Tenant: tenant.Default, State: job.Completed}, engine.Page{Limit: 10, Bounded: true}))
		if len(page.Jobs) != 1 || page.Jobs[0].ID != j.ID || page.Jobs[0].State != job.Completed {
			t.Errorf("list of completed ones: %+v", page)
		}
		page = must(f.FindJobs(f.ctx, engine.JobFilter{Tenant: tenant.Default, State: job.Active, Name: "finished"}, engine.Page{Limit: 10}))
		if len(page.Jobs) != 0 {
			t.Errorf("it is listed as active")
		}
	})
}

// near allows for the width of a bucket. took leases one execution for a new worker.
func trigger(t *testing.T, h Harness) {
	f := open(t, h)
	j, first := f.add("job")
	e := f.due(j)
	e.Trigger, e.Priority, e.Payload = job.ByHand, 3, []byte(`{"over":"ride"}`)
	e.ScheduledAt, e.DueAt = first.ScheduledAt, first.DueAt // the same instant is no obstacle
	must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
	_, as := f.take(e.ID, first.ID)
	if string(as[0].Payload) != `{"over":"ride"}` || string(as[1].Payload) != string(j.Payload) {
		t.Errorf("payloads %s and %s", as[0].Payload, as[1].Payload)
	}
	f.report(succeed(as[0]))
	if got := f.execution(e.ID); got.Trigger != job.ByHand || got.Priority != 3 || string(got.Payload) != `{"over":"ride"}` || got.Status != job.Succeeded {
		t.Errorf("got %+v", got)
	}
	stray := f.due(j)
	stray.Job = newID()
	if _, err := f.Trigger(f.ctx, tenant.Default, stray, engine.Idempotency{}, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("an unknown job: got %v, want ErrNotFound", err)
	}
	foreign := f.due(j)
	foreign.Trigger = job.ByHand
	if _, err := f.Trigger(f.ctx, "other", foreign, engine.Idempotency{}, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another's job: got %v, want ErrNotFound", err)
	}
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
	late := f.due(j)
	late.Trigger = job.ByHand
	if _, err := f.Trigger(f.ctx, tenant.Default, late, engine.Idempotency{}, nil); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a deleted job: got %v, want ErrNotFound", err)
	}
}
