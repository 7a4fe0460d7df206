package enginetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// faults drives whole lives of jobs through a store that misbehaves: each is created by callers that retry until they
// are answered, leased by workers that disown what they were never told of, fails once, and ends. At the end every
// job exists, ran exactly as often as it had to, and ended by exactly one accepted result.
func faults(t *testing.T, h Harness) {
	longForGuests(t, h)
	for _, c := range []struct {
		name string
		f    Faults
	}{
		{"errors before", Faults{Seed: 1, Before: 0.1}},
		{"errors after the commit", Faults{Seed: 2, After: 0.1}},
		{"delays", Faults{Seed: 3, Slow: 0.1, Delay: 2 * time.Millisecond}},
		{"all at once", Faults{Seed: 4, Before: 0.05, After: 0.05, Slow: 0.05, Delay: 2 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) { livesUnder(t, h, c.f) })
	}
}

// persist calls until it is answered.
func persist[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if err == nil || ctx.Err() != nil {
			return v, err
		}
	}
}

func livesUnder(t *testing.T, h Harness, fl Faults) {
	sound := open(t, h)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	faulty := NewFaulty(sound.Store, fl)

	const jobs, callers, workers = 200, 4, 3
	var creations []engine.Creation
	for i := range jobs {
		j := sound.sample(fmt.Sprint("life ", i))
		key := fmt.Sprint("key ", i)
		creations = append(creations, engine.Creation{
			Tenant: tenant.Default, Jobs: []job.Job{j}, Executions: []job.Execution{sound.due(j)},
			Idempotency: engine.Idempotency{Key: key, Hash: sha256.Sum256([]byte(key)), Answer: []byte(j.ID.String()), Until: sound.now().Add(time.Hour)},
		})
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < jobs; i += callers {
				got, err := persist(ctx, func() ([]engine.Created, error) { return faulty.CreateJobs(ctx, creations[i:i+1]) })
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				if r := got[0].Replay; r != nil && string(r) != creations[i].Jobs[0].ID.String() {
					t.Errorf("create: the answer is of another request: %s", r)
				}
			}
		})
	}
	var ended atomic.Int64
	for range workers {
		wg.Go(func() {
			w := job.Worker{ID: newID(), Host: "h", Version: "v", Capacity: 1, StartedAt: time.Now()}
			if _, err := persist(ctx, func() (struct{}, error) { return struct{}{}, faulty.Register(ctx, w, time.Hour) }); err != nil {
				t.Errorf("register: %v", err)
			}
			for ended.Load() < jobs && ctx.Err() == nil {
				n, err := oneRound(ctx, faulty, w.ID)
				if err != nil {
					t.Errorf("round: %v", err)
					return
				}
				ended.Add(int64(n))
			}
		})
	}
	wg.Wait()
	if got := ended.Load(); got != jobs {
		t.Fatalf("%d executions ended by an accepted result, want %d", got, jobs)
	}
	for _, c := range creations {
		j := must(sound.Job(sound.ctx, tenant.Default, engine.Ref{ID: c.Jobs[0].ID}))
		e := sound.execution(c.Executions[0].ID)
		if j.State != job.Completed || e.Status != job.Succeeded || e.Attempt != 2 || e.Tries != 1 || e.Lost != 0 {
			t.Errorf("%s is %v; its execution %v after %d attempts, %d charged, %d lost", j.Name, j.State, e.Status, e.Attempt, e.Tries, e.Lost)
		}
	}
	injected := faulty.Injected()
	for _, kind := range []struct {
		name string
		on   bool
	}{{"before", fl.Before > 0}, {"after", fl.After > 0}, {"slow", fl.Slow > 0}} {
		n := 0
		for k, v := range injected {
			if strings.HasSuffix(k, " "+kind.name) {
				n += v
			}
		}
		if kind.on != (n > 0) {
			t.Errorf("%d faults of kind %q were injected: %v", n, kind.name, injected)
		}
	}
}

// oneRound leases what is ready, fails first attempts, ends second ones, and returns how many it ended.
func oneRound(ctx context.Context, s engine.Store, w job.WorkerID) (ended int, err error) {
	lanes, err := persist(ctx, func() ([]job.Lane, error) { return s.Lanes(ctx, nil, 1000) })
	if err != nil {
		return 0, err
	}
	var cs []engine.LaneCursor
	for _, l := range lanes {
		cs = append(cs, engine.LaneCursor{Lane: l})
	}
	ready, err := persist(ctx, func() ([]job.Ready, error) { return s.Ready(ctx, cs, 2) })
	if err != nil {
		return 0, err
	}
	g := engine.Grant{Worker: w}
	for _, r := range ready[:min(len(ready), 20)] {
		g.Executions = append(g.Executions, r.ID)
	}
	as, err := s.Lease(ctx, []engine.Grant{g}, engine.Fence{})
	if err != nil {
		_, err := persist(ctx, func() (engine.Requeued, error) { return s.Disown(ctx, w, nil, time.Time{}) })
		return 0, err
	}
	var fs []job.Finish
	for _, a := range as {
		if a.Number == 1 {
			fs = append(fs, again(a, a.LeasedAt, 1))
		} else {
			fs = append(fs, succeed(a))
		}
	}
	vs, err := persist(ctx, func() ([]job.Verdict, error) { return s.Finish(ctx, fs) })
	if err != nil {
		return 0, err
	}
	for i, v := range vs {
		if !v.Accepted {
			return ended, fmt.Errorf("attempt %d under token %d was refused: %s", as[i].Number, as[i].Token, v.Reason)
		}
		if fs[i].Then.Status.Final() {
			ended++
		}
	}
	return ended, nil
}
