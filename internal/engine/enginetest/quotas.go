package enginetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func quotas(t *testing.T, h Harness) {
	t.Run("overrides", func(t *testing.T) {
		f := open(t, h)
		acme := tenant.Tenant{ID: "acme", Name: "Acme", Tier: tenant.Free, CreatedAt: f.now(), Overrides: tenant.Overrides{ActiveJobs: new(int64(7)), DeadLetters: new(true)}}
		if err := f.CreateTenant(f.ctx, acme, nil); err != nil {
			t.Fatal(err)
		}
		if got := must(f.Tenants(f.ctx))[0]; !cmp.Equal(got, acme) {
			t.Errorf("made: %+v", got)
		}
		acme.Overrides = tenant.Overrides{MaxRetries: new(0)}
		if err := f.UpdateTenant(f.ctx, acme, nil); err != nil {
			t.Fatal(err)
		}
		if got := must(f.Tenants(f.ctx))[0]; !cmp.Equal(got, acme) {
			t.Errorf("changed: %+v", got)
		}
	})
	t.Run("active jobs", func(t *testing.T) { activeJobs(t, h) })
	t.Run("a count while the tenant is changed", func(t *testing.T) {
		f := open(t, h)
		acme := tenant.Tenant{ID: "acme", Name: "Acme", Tier: tenant.Free, CreatedAt: f.now()}
		if err := f.CreateTenant(f.ctx, acme, nil); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 100 {
				if err := f.UpdateTenant(f.ctx, acme, nil); err != nil { // which drops the count
					t.Errorf("change: %v", err)
				}
			}
		})
		for range 100 {
			if n, err := f.CountJobs(f.ctx, "acme"); n != 0 || err != nil {
				t.Errorf("count: %d, %v", n, err)
				break
			}
		}
		wg.Wait()
	})
	t.Run("many at once are not more than may be", func(t *testing.T) {
		f := open(t, h)
		const most, callers, each = 20, 8, 5
		must(f.CountJobs(f.ctx, "acme"))
		var mu sync.Mutex
		stored := 0
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					out, err := f.CreateJobs(f.ctx, []engine.Creation{f.ofAcme(most, 1), {Tenant: "other", Jobs: []job.Job{f.sample("free")}}})
					if err != nil {
						t.Errorf("create: %v", err)
						return
					}
					if out[1].Over {
						t.Error("another tenant has no limit")
					}
					mu.Lock()
					if !out[0].Over {
						stored++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if stored != most {
			t.Errorf("%d jobs were stored, want %d", stored, most)
		}
	})
	t.Run("charges", func(t *testing.T) {
		f := open(t, h)
		hourly := job.Rate{Count: 1, Per: time.Hour, Burst: 2}
		about := func(got time.Duration, hours int) bool {
			return got > time.Duration(hours)*time.Hour-time.Minute && got <= time.Duration(hours)*time.Hour
		}
		got := must(f.Charge(f.ctx, []engine.Charge{{Bucket: "z", Rate: hourly, N: 1}, {Bucket: "a", Rate: hourly, N: 5}, {Bucket: "m", Rate: hourly}}))
		if len(got) != 3 || !about(got[0], 1) || !about(got[1], 5) || got[2] > time.Second {
			t.Errorf("charged: %v", got)
		}
		got = must(f.Charge(f.ctx, []engine.Charge{{Bucket: "a", Rate: hourly, N: 1}, {Bucket: "z", Rate: hourly}}))
		if !about(got[0], 6) || !about(got[1], 1) {
			t.Errorf("charged again: %v", got)
		}
		if d := must(f.Draw(f.ctx, []engine.Draw{{Bucket: "a", Rate: hourly, N: 1}})); d[0].N != 0 {
			t.Errorf("drawn from what is owed: %+v", d)
		}
	})
}

// ofAcme returns a creation of n due one-off jobs, of a tenant with a maximum number.
func (f fixture) ofAcme(most int64, n int) engine.Creation {
	c := engine.Creation{Tenant: "acme", Most: most}
	for range n {
		j := f.sample("a")
		j.Tenant = "acme"
		e := f.due(j)
		e.ID = job.ExecutionID(j.ID)
		c.Jobs, c.Executions = append(c.Jobs, j), append(c.Executions, e)
	}
	return c
}

func activeJobs(t *testing.T, h Harness) {
	f := open(t, h)
	create := func(cs ...engine.Creation) []engine.Created { return must(f.CreateJobs(f.ctx, cs)) }
	count := func() int64 {
		t.Helper()
		<-time.After(engine.CountAge(10)) // a count is good for so long
		return must(f.CountJobs(f.ctx, "acme"))
	}
	first := f.ofAcme(5, 2)
	if out := create(first); !out[0].Over {
		t.Error("created before anything was counted")
	}
	if n := count(); n != 0 {
		t.Errorf("%d jobs at first", n)
	}
	if out := create(first, f.ofAcme(5, 4), f.ofAcme(5, 2)); out[0].Over || !out[1].Over || out[2].Over {
		t.Errorf("2, 4 and 2 of 5: %+v", out)
	}
	if out := create(first); out[0].Over {
		t.Errorf("the same again: %+v", out)
	}
	if out := create(f.ofAcme(0, 1)); out[0].Over {
		t.Errorf("without a limit: %+v", out)
	}
	if n := count(); n != 5 {
		t.Errorf("%d jobs, want 5", n)
	}
	once := engine.Idempotency{Key: "k", Answer: []byte("{}"), Until: f.now().Add(time.Hour)}
	c := f.ofAcme(5, 1)
	c.Idempotency = once
	if out := create(c); !out[0].Over {
		t.Errorf("a sixth: %+v", out)
	}

	// Finished executions make room when they are counted.
	_, as := f.take(first.Executions[0].ID, first.Executions[1].ID)
	f.report(succeed(as[0]), succeed(as[1]))
	if n := count(); n != 3 {
		t.Errorf("%d jobs after two were over, want 3", n)
	}
	if out := create(c); out[0].Over || out[0].Replay != nil {
		t.Errorf("the key was kept, or the job refused: %+v", out)
	}
	if out := create(c); string(out[0].Replay) != "{}" {
		t.Errorf("again: %+v", out)
	}

	// Planned jobs count, even if paused, until they are deleted.
	weekly := f.sample("weekly")
	weekly.Tenant, weekly.Schedule = "acme", job.Schedule{Type: job.Interval, Every: time.Hour}
	weekly.NextRunAt = f.now().Add(time.Hour)
	later := f.sample("later")
	later.Tenant, later.Schedule = "acme", job.Schedule{Type: job.OneTime, At: weekly.NextRunAt}
	later.NextRunAt = weekly.NextRunAt
	if out := create(engine.Creation{Tenant: "acme", Jobs: []job.Job{weekly, later}, Most: 6}); out[0].Over {
		t.Errorf("two more of 6: %+v", out)
	}
	if n := count(); n != 6 {
		t.Errorf("%d jobs, want 6", n)
	}
	// A finished job that is planned again takes room like a new one.
	over := first.Jobs[0]
	over.Schedule, over.NextRunAt = weekly.Schedule, weekly.NextRunAt
	if _, err := f.UpdateJob(f.ctx, "acme", engine.Update{Job: over, Replan: true, AsOf: f.now(), Most: 6}); !errors.Is(err, engine.ErrFull) {
		t.Errorf("a seventh of 6 by an update: %v", err)
	}
	if j := must(f.Job(f.ctx, "acme", engine.Ref{ID: over.ID})); j.State != job.Completed || j.Schedule != first.Jobs[0].Schedule {
		t.Errorf("it was changed all the same: %+v", j)
	}
	must(f.UpdateJob(f.ctx, "acme", engine.Update{Job: over, Replan: true, AsOf: f.now(), Most: 7}))
	if out := create(f.ofAcme(7, 1)); !out[0].Over {
		t.Errorf("an eighth of 7: %+v", out)
	}
	if n := count(); n != 7 {
		t.Errorf("%d jobs, want 7", n)
	}
	must(f.DeleteJob(f.ctx, "acme", engine.Deletion{Job: over.ID, AsOf: f.now()}))
	weekly.State = job.Paused
	must(f.UpdateJob(f.ctx, "acme", engine.Update{Job: weekly, AsOf: f.now()}))
	if n := count(); n != 6 {
		t.Errorf("%d jobs with one paused, want 6", n)
	}
	must(f.DeleteJob(f.ctx, "acme", engine.Deletion{Job: weekly.ID, AsOf: f.now()}))
	must(f.DeleteJob(f.ctx, "acme", engine.Deletion{Job: later.ID, AsOf: f.now()}))
	if n := count(); n != 4 {
		t.Errorf("%d jobs with two deleted, want 4", n)
	}
	if err := f.CreateTenant(f.ctx, tenant.Tenant{ID: "acme", Name: "a", Tier: tenant.Free, CreatedAt: f.now()}, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.UpdateTenant(f.ctx, tenant.Tenant{ID: "acme", Name: "a", Tier: tenant.Pro}, nil); err != nil {
		t.Fatal(err)
	}
	if out := create(f.ofAcme(100, 1)); !out[0].Over {
		t.Error("what was counted before its quota changed still counts")
	}
}
