package upkeep

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// A worker has been given some 120 leases a second for a minute, finished nearly everything, and dies. What it still
// runs, the oldest and the latest, is queued again within 10 s after its lease has ended (SPEC Q5), at the product's own timeouts and
// while others create, lease and finish as fast as the store lets them.
func TestRecoveryIsNotPacedByWhatHasFinished(t *testing.T) {
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		const leases, running = 7000, 20
		w := job.Worker{ID: job.WorkerID(uuid.Must(uuid.NewV7())), Host: "host", Version: "v", Capacity: 10, StartedAt: time.Now()}
		other := job.Worker{ID: job.WorkerID(uuid.Must(uuid.NewV7())), Host: "another", Version: "v", Capacity: 10, StartedAt: time.Now()}
		for _, w := range []job.Worker{w, other} {
			if err := store.Register(t.Context(), w, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		held := load(t, store, w.ID, leases)
		runs := append(slices.Clone(held[:running/2]), held[leases-running/2:]...)
		for part := range slices.Chunk(held[running/2:leases-running/2], 1000) {
			fs := make([]job.Finish, len(part))
			for i, l := range part {
				fs[i] = job.Finish{Outcome: job.Outcome{Lease: l, Status: job.OutcomeSucceeded}, Then: job.Transition{Status: job.Succeeded}, Worker: w.ID}
			}
			if _, err := store.Finish(t.Context(), fs); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		back := map[job.ExecutionID]bool{}
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(back) }
		r := &Reaper{Store: store, Poison: 3, Log: slog.New(slog.DiscardHandler), Hint: func(rs []job.Ready) {
			mu.Lock()
			defer mu.Unlock()
			for _, x := range rs {
				back[x.ID] = true
			}
		}}
		const lease = 2 * time.Second
		if _, err := store.Renew(t.Context(), []engine.Renewal{{Worker: w.ID}}, lease); err != nil { // its last beat
			t.Fatal(err)
		}
		died := time.Now()
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		wg.Go(func() { loop.Run(ctx, r.Log, "reaper", nil, r.Tick) })
		var meanwhile atomic.Int64
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					var fs []job.Finish
					for _, l := range load(t, store, other.ID, 20) {
						fs = append(fs, job.Finish{Outcome: job.Outcome{Lease: l, Status: job.OutcomeSucceeded}, Then: job.Transition{Status: job.Succeeded}, Worker: other.ID})
					}
					if _, err := store.Finish(t.Context(), fs[:10]); err != nil {
						t.Error(err)
						return
					}
					meanwhile.Add(20)
				}
			})
		}
		defer wg.Wait()
		defer stop()
		for count() < running && time.Since(died) < lease+10*time.Second {
			<-time.After(20 * time.Millisecond)
		}
		took := time.Since(died)
		t.Logf("%d of %d are back %v after the last beat, with a lease of %v, while %d others were leased", count(), running, took.Round(10*time.Millisecond), lease, meanwhile.Load())
		if meanwhile.Load() == 0 {
			t.Error("nothing else was leased meanwhile")
		}
		for _, l := range runs {
			mu.Lock()
			if !back[l.Execution] {
				t.Errorf("%v is not back %v after the last beat", l.Execution, took)
			}
			mu.Unlock()
		}
	})
}

// load creates executions and has each leased by itself to a worker.
func load(t *testing.T, store engine.Store, w job.WorkerID, n int) []job.Lease {
	t.Helper()
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]job.ExecutionID, 0, n)
	for len(ids) < n {
		c := engine.Creation{Tenant: tenant.Default}
		for range min(500, n-len(ids)) {
			j := job.Job{
				ID: job.ID(uuid.Must(uuid.NewV7())), Tenant: tenant.Default, Revision: 1, State: job.Active, CreatedAt: now, UpdatedAt: now,
				Definition: job.Definition{Name: "j", Schedule: job.Schedule{Type: job.Immediate}, Priority: 5, Target: job.Target{Kind: job.Simulate, Timeout: time.Minute}},
			}
			e := j.Fire(job.ExecutionID(uuid.Must(uuid.NewV7())), now, now)
			c.Jobs, c.Executions, ids = append(c.Jobs, j), append(c.Executions, e), append(ids, e.ID)
		}
		if _, err := store.CreateJobs(t.Context(), []engine.Creation{c}); err != nil {
			t.Fatal(err)
		}
	}
	out := make([]job.Lease, n)
	var wg sync.WaitGroup
	next := make(chan int)
	for range 4 {
		wg.Go(func() {
			for i := range next {
				as, err := store.Lease(t.Context(), []engine.Grant{{Worker: w, Executions: ids[i : i+1]}}, engine.Fence{})
				if err != nil || len(as) != 1 {
					t.Errorf("lease: %d, %v", len(as), err)
					continue
				}
				out[i] = job.Lease{Execution: ids[i], Token: as[0].Token}
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}
