package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
	"github.com/carillon-jobs/carillon/internal/loop"
)

// recurring makes a job whose next instant is the one after a given one.
func recurring(of tenant.ID, now, after time.Time, s job.Schedule, change ...func(*job.Job)) job.Job {
	j := job.Job{
		ID: job.ID(uuid.Must(uuid.NewV7())), Tenant: of, Revision: 1, State: job.Active, CreatedAt: after, UpdatedAt: now,
		Definition: job.Definition{Name: "j", Schedule: s, Priority: 5, Target: job.Target{Kind: job.Simulate, Timeout: time.Minute}},
	}
	for _, c := range change {
		c(&j)
	}
	plan, err := schedule.NewCache(time.LoadLocation).Plan(s, j.CreatedAt, nil)
	if err != nil {
		panic(err)
	}
	j.NextRunAt, _ = plan.Next(after)
	return j
}

func catchUpAll(limit int) func(*job.Job) {
	return func(j *job.Job) { j.CatchUp, j.CatchUpLimit = job.CatchUpAll, limit }
}

// create stores jobs of one tenant, and the tenant.
func create(t *testing.T, store engine.Store, js ...job.Job) {
	t.Helper()
	if err := store.CreateTenant(t.Context(), tenant.Tenant{ID: js[0].Tenant, Name: string(js[0].Tenant), CreatedAt: js[0].UpdatedAt}, nil); err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(js, 500) {
		if _, err := store.CreateJobs(t.Context(), []engine.Creation{{Tenant: part[0].Tenant, Jobs: part}}); err != nil {
			t.Fatal(err)
		}
	}
}

// storeNow is the store's clock.
func storeNow(t *testing.T, store engine.Store) time.Time {
	t.Helper()
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// observed counts what a store fires.
type observed struct {
	engine.Store
	mu    sync.Mutex
	fires map[job.ID]int
	skips map[job.ID]int
}

func (o *observed) Fire(ctx context.Context, fs []engine.Firing, x engine.Fence) (engine.Fired, error) {
	rs, err := o.Store.Fire(ctx, fs, x)
	if err != nil {
		return rs, err
	}
	is := map[job.ExecutionID]bool{}
	for _, r := range rs.Ready {
		is[r.ID] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range fs {
		for _, e := range f.Executions {
			if is[e.ID] {
				o.fires[f.Job]++
			}
		}
		o.skips[f.Job] += len(f.Skips)
	}
	return rs, nil
}

func (o *observed) count(js ...job.Job) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, j := range js {
		n += o.fires[j.ID]
	}
	return n
}

// tracked is the store's clock, as a server keeps it.
func tracked(t *testing.T, store engine.Store) clock.Clock {
	t.Helper()
	c := clock.NewTracked(store.Now)
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs schedulers as a server does, until the test ends.
func run(t *testing.T, store Store, clk clock.Clock) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, part := range []Part{Punctual, Behind} {
		s := New(store, clk, Config{LookAhead: 5 * time.Second, Lanes: 3, Part: part})
		wg.Go(func() { loop.Run(ctx, slog.New(slog.DiscardHandler), string(part), nil, s.Tick) })
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// until waits for a condition.
func until(t *testing.T, within time.Duration, what func() string, is func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !is() {
		if time.Since(begun) > within {
			t.Fatalf("after %v: %s", within, what())
		}
		<-time.After(20 * time.Millisecond)
	}
	return time.Since(begun)
}

// There are 500 jobs each minute with catch_up all, two hours behind, and a job each five seconds of another tenant. It
// fires in time all along, and every instant that is owed fires once.
func TestALargeCatchUpDelaysNobody(t *testing.T) {
	jobs := 500
	if testing.Short() {
		jobs = 100
	}
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		now := storeNow(t, store)
		var late []job.Job
		for range jobs {
			late = append(late, recurring("behind", now, now.Add(-2*time.Hour), cron("* * * * *"), catchUpAll(0)))
		}
		brisk := recurring("prompt", now, now, job.Schedule{Type: job.Interval, Every: 5 * time.Second})
		create(t, store, late...)
		create(t, store, brisk)
		o := &observed{Store: store, fires: map[job.ID]int{}, skips: map[job.ID]int{}}
		begun := time.Now()
		run(t, o, tracked(t, store))
		what := func() string {
			return fmt.Sprintf("%d of %d caught up, %d of the other tenant's", o.count(late...), jobs*job.DefaultCatchUpLimit, o.count(brisk))
		}
		until(t, 10*time.Second, what, func() bool { return o.count(brisk) > 0 })
		until(t, 60*time.Second, what, func() bool { return o.count(late...) >= jobs*job.DefaultCatchUpLimit })
		took := time.Since(begun)
		t.Logf("caught up in %v", took.Round(10*time.Millisecond))
		if n, owed := o.count(brisk), int(took/(5*time.Second)); n < owed {
			t.Errorf("%d of %d fires of another tenant came in time", n, owed)
		}
		for _, j := range late {
			owedOnce(t, store, j, job.DefaultCatchUpLimit)
		}
	})
}

// owedOnce checks that a job that is behind has fired the last instants that it owed, each once, and that what is skipped before them is
// recorded once.
func owedOnce(t *testing.T, store engine.Store, j job.Job, limit int) {
	t.Helper()
	seen := map[time.Time]int{}
	var skipped, count int
	page := engine.Page{Limit: 1000}
	for {
		got, err := store.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: j.Tenant, Job: j.ID}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got.Executions {
			if e.Status == job.Skipped {
				skipped++
				fmt.Sscan(e.Metadata["count"], &count)
				continue
			}
			seen[e.ScheduledAt]++
		}
		if page.Cursor = got.Next; got.Next == "" {
			break
		}
	}
	at := slices.SortedFunc(maps.Keys(seen), time.Time.Compare)
	for i, x := range at {
		if seen[x] != 1 || i > 0 && x.Sub(at[i-1]) != time.Minute {
			t.Fatalf("job %s: %v fired %d times, after %v", j.ID, x, seen[x], at[max(0, i-1)])
		}
	}
	first := j.NextRunAt
	if len(at) < limit || skipped != 1 || !at[0].Equal(first.Add(time.Duration(count)*time.Minute)) {
		t.Fatalf("job %s: %d fired from %v; %d records of %d skipped from %v", j.ID, len(at), at[:min(1, len(at))], skipped, count, first)
	}
}

// A job that somebody keeps locked is the only one that does not fire, at the timeouts of the product.
func TestAJobThatIsLocked(t *testing.T) {
	url := storetest.PostgresURL(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := storeNow(t, store)
	var all []job.Job
	for range 5 {
		all = append(all, recurring("a", now, now.Add(-time.Hour), cron("* * * * *")))
	}
	brisk := recurring("b", now, now, job.Schedule{Type: job.Interval, Every: 2 * time.Second})
	create(t, store, all...)
	create(t, store, brisk)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM schedules WHERE job = $1 FOR UPDATE", all[2].ID[:]); err != nil {
		t.Fatal(err)
	}
	o := &observed{Store: store, fires: map[job.ID]int{}, skips: map[job.ID]int{}}
	begun := time.Now()
	run(t, o, tracked(t, store))
	others := append(slices.Clone(all[:2]), all[3:]...)
	what := func() string {
		return fmt.Sprintf("%d of %d others, %d of another tenant", o.count(others...), len(others), o.count(brisk))
	}
	until(t, 40*time.Second, what, func() bool { return o.count(others...) >= len(others) })
	until(t, 10*time.Second, what, func() bool { return o.count(brisk) >= int(time.Since(begun)/(2*time.Second)) })
	if n := o.count(all[2]); n != 0 {
		t.Errorf("it fired %d times while it was locked", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, 40*time.Second, what, func() bool { return o.count(all[2]) > 0 })
}

// dying is a store whose scheduler dies repeatedly: before a commit, or after one of which it never hears.
type dying struct {
	engine.Store
	die   context.CancelFunc
	calls int
}

func (d *dying) Fire(ctx context.Context, fs []engine.Firing, x engine.Fence) (engine.Fired, error) {
	switch d.calls++; d.calls % 5 {
	case 3:
		d.die()
		return engine.Fired{}, context.Canceled
	case 0:
		_, err := d.Store.Fire(context.WithoutCancel(ctx), fs, x)
		d.die()
		return engine.Fired{}, errors.Join(err, context.Canceled)
	}
	return d.Store.Fire(ctx, fs, x)
}

// A catch-up that is killed in the middle, repeatedly, continues where it was: every instant that is owed fires once.
func TestACatchUpThatIsKilled(t *testing.T) {
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		now := storeNow(t, store)
		var late []job.Job
		for range 40 {
			late = append(late, recurring("behind", now, now.Add(-2*time.Hour), cron("* * * * *"), catchUpAll(110)))
		}
		create(t, store, late...)
		clk := tracked(t, store)
		lives := 0
		for ; lives < 100; lives++ {
			ctx, die := context.WithCancel(t.Context())
			s := New(&dying{Store: store, die: die}, clk, Config{LookAhead: 5 * time.Second}) // with all that the last one knew forgotten
			for ctx.Err() == nil {
				if next, err := s.Tick(ctx); err == nil && next >= between/2 {
					break
				}
				s.back.rest = time.Time{}
			}
			done := ctx.Err() == nil
			die()
			if done {
				break
			}
		}
		if lives < 3 || lives == 100 {
			t.Fatalf("it died %d times", lives)
		}
		for _, j := range late {
			owedOnce(t, store, j, 110)
		}
	})
}
