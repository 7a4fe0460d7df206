package postgres

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A creation, a trigger, a fire and a rerun that meet a unique key which another is about to commit wait, and then see it.
func TestAUniqueKeyTakenMeanwhile(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	mine := direct(t, s)
	registerArrays(mine)
	now := must[time.Time](t)(s.Now(t.Context()))
	keyed := func(key string) engine.Creation {
		c := creation(t, s, 1)
		c.Executions[0].UniqueKey = key
		return c
	}
	for name, try := range map[string]func(t *testing.T, key string) (ended job.ExecutionID, held bool){
		"create": func(t *testing.T, key string) (job.ExecutionID, bool) {
			out := store(t, s, creation(t, s, 1), keyed(key))
			return job.ExecutionID{}, out[0].Unique == nil && len(out[1].Unique) == 1
		},
		"create many": func(t *testing.T, key string) (job.ExecutionID, bool) {
			c := creation(t, s, copyFrom+1)
			c.Executions[7].UniqueKey = key
			out := store(t, s, creation(t, s, 1), c)
			return job.ExecutionID{}, out[0].Unique == nil && len(out[1].Unique) == 1
		},
		"trigger": func(t *testing.T, key string) (job.ExecutionID, bool) {
			c := creation(t, s, 1)
			store(t, s, c)
			e := c.Executions[0]
			e.ID, e.Trigger, e.UniqueKey = newID(), job.ByHand, key
			out := must[engine.Created](t)(s.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{Key: key, Until: now.Add(time.Hour)}, nil))
			return job.ExecutionID{}, len(out.Unique) == 1
		},
		"fire": func(t *testing.T, key string) (job.ExecutionID, bool) {
			c := keyed(key)
			e := c.Executions[0]
			c.Jobs[0].Schedule.Type, c.Jobs[0].NextRunAt, c.Executions = job.OneTime, now, nil
			store(t, s, c)
			rs := must[engine.Fired](t)(s.Fire(t.Context(), []engine.Firing{{Tenant: tenant.Default, Job: e.Job, Revision: 1, Was: now, Executions: []job.Execution{e}}}, engine.Fence{})).Ready
			return e.ID, len(rs) == 0
		},
		"rerun": func(t *testing.T, key string) (job.ExecutionID, bool) {
			a := leaseMany(t, s, 1)[0]
			must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{success(a)}))
			e := creation(t, s, 1).Executions[0]
			e.Job, e.RetryOf, e.Trigger, e.UniqueKey = a.Job, a.Execution, job.ByRetry, key
			out := must[engine.Rerunning](t)(s.Rerun(t.Context(), tenant.Default, engine.Rerun{Executions: []job.Execution{e}}))
			return job.ExecutionID{}, len(out.Added) == 0
		},
	} {
		first := keyed(name)
		exec(t, mine, "BEGIN")
		if err := (batch{all: []engine.Creation{first}, chosen: []int{0}}).insert(t.Context(), mine, nil); err != nil {
			t.Fatal(err)
		}
		got := make(chan bool)
		var ended job.ExecutionID
		go func() {
			defer close(got)
			var held bool
			ended, held = try(t, name)
			got <- held
		}()
		untilOneWaits(t, direct(t, s))
		exec(t, mine, "COMMIT")
		if !<-got {
			t.Errorf("%s: the key was not seen to be held", name)
		}
		if n := one[int](t, mine, "SELECT count(*) FROM live WHERE unique_key = $1", name); n != 1 {
			t.Errorf("%s: %d hold the key", name, n)
		}
		if !ended.IsZero() {
			if e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, ended)); e.Status != job.Skipped {
				t.Errorf("%s: it is %v, want SKIPPED", name, e.Status)
			}
		}
	}
	if n := one[int](t, mine, "SELECT count(*) FROM idempotency"); n != 0 {
		t.Errorf("%d idempotency keys of what was not stored", n)
	}
}

// Of several fires at once that share a key one is stored, the others are skipped, and all are counted.
func TestFiresThatShareAKey(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	now := must[time.Time](t)(s.Now(t.Context()))
	c := creation(t, s, 4)
	var fs []engine.Firing
	for i := range c.Jobs {
		j, e := &c.Jobs[i], c.Executions[i]
		j.Schedule.Type, j.NextRunAt = job.Cron, now
		e.UniqueKey = map[bool]string{true: "shared"}[i < 3]
		fs = append(fs, engine.Firing{Tenant: tenant.Default, Job: j.ID, Revision: 1, Was: now, Next: now.Add(time.Hour), Executions: []job.Execution{e}})
	}
	es := c.Executions
	c.Executions = nil
	store(t, s, c)
	if rs := must[engine.Fired](t)(s.Fire(t.Context(), fs, engine.Fence{})).Ready; len(rs) != 2 {
		t.Errorf("%d were stored, want 2", len(rs))
	}
	skipped := 0
	for _, e := range es {
		x := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, e.ID))
		if x.Status != job.Skipped {
			continue
		}
		skipped++
		if st := must[[]job.Stats](t)(s.Stats(t.Context(), tenant.Default, []job.ID{e.Job})); st[0].Total != 0 {
			t.Errorf("what did not fire counts as a run: %+v", st)
		}
	}
	if skipped != 2 {
		t.Errorf("%d were skipped, want 2", skipped)
	}
}

func attending(t *testing.T, s *Store, ttl time.Duration) engine.ServerID {
	t.Helper()
	x := engine.Server{ID: newID(), Duty: engine.Dispatching, Host: "h", StartedAt: time.UnixMicro(1).UTC()}
	must[engine.Roster](t)(s.Attend(t.Context(), x, ttl))
	return x.ID
}

// Whoever takes a partition waits for the leases under its fence, and ends one that does not end.
func TestATakeoverWaitsForLeases(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	old, next := attending(t, s, time.Hour), attending(t, s, time.Hour)
	if err := s.Take(t.Context(), old, []job.Partition{7}); err != nil {
		t.Fatal(err)
	}
	stuck := direct(t, s)
	exec(t, stuck, "BEGIN")
	exec(t, stuck, "SELECT 1 FROM partitions WHERE duty = 1 AND part = 7 FOR SHARE")
	if err := s.Retire(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := s.Take(t.Context(), next, []job.Partition{7}); err != nil {
		t.Fatal(err)
	}
	c := direct(t, s)
	if owner := one[[16]byte](t, c, "SELECT owner FROM partitions WHERE duty = 1 AND part = 7"); owner != next {
		t.Error("it was not taken")
	}
	if _, err := stuck.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the one that stood in the way stands")
	}
}

// However many borrow at once, for the first time, too, they share.
func TestSharesNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	var wg sync.WaitGroup
	for i := range 6 {
		me := attending(t, s, time.Hour)
		wg.Go(func() {
			for want := range 5 {
				_, err := s.Borrow(t.Context(), me, []engine.Share{{Tenant: "t", Queue: "b", Max: 10, Want: 3 + (want+i)%4}, {Tenant: "t", Queue: "a", Max: 1, Want: 1}})
				if err != nil {
					t.Errorf("borrow: %v", err)
				}
			}
		})
	}
	wg.Wait()
	c := direct(t, s)
	for queue, most := range map[string]int{"a": 1, "b": 10} {
		// Of a limit of 1 the one whose turn it is may not have asked again yet.
		if sum := one[int](t, c, "SELECT sum(share) FROM limit_shares WHERE queue = $1", queue); sum > most || sum == 0 && most > 1 {
			t.Errorf("%s: %d of %d are borrowed", queue, sum, most)
		}
	}
}

func TestTidyDropsFullBucketsAndOldOperations(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	rate := job.Rate{Count: 1, Per: time.Hour, Burst: 5}
	for i := range 3 {
		must[[]engine.Drawn](t)(s.Draw(t.Context(), []engine.Draw{{Bucket: fmt.Sprint(i), Rate: rate, N: 1}}))
	}
	exec(t, c, "UPDATE buckets SET full_us = (extract(epoch FROM now()) - 120) * 1000000 WHERE bucket = '1'")
	now := must[time.Time](t)(s.Now(t.Context()))
	for _, at := range []time.Time{now, now.Add(-31 * 24 * time.Hour)} {
		o := job.Operation{ID: newID(), Tenant: tenant.Default, Kind: job.OpDiscard, State: job.OpSucceeded, CreatedAt: at, UpdatedAt: at, FinishedAt: at, Version: 1}
		must[engine.Created](t)(s.AddOperation(t.Context(), o, engine.Idempotency{}, nil))
	}
	must[bool](t)(s.Tidy(t.Context()))
	if got := one[string](t, c, "SELECT string_agg(bucket, ',' ORDER BY bucket) FROM buckets"); got != "0,2" {
		t.Errorf("buckets left: %s", got)
	}
	if got := one[int](t, c, "SELECT count(*) FROM operations"); got != 1 {
		t.Errorf("%d operations left", got)
	}
}
