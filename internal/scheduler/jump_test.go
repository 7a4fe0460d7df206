package scheduler_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/scheduler"
	"github.com/carillon-jobs/carillon/internal/service"
)

// machine is a host whose clock people set.
type machine struct {
	mu  sync.Mutex
	off time.Duration // guarded by mu
}

func (m *machine) wall() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Add(m.off)
}

func (m *machine) set(off time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = off
}

// The clock of a server's host jumps, while the store's continues: nothing is handed out early, twice or late.
func TestAHostClockThatJumps(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) { jump(t, by) })
	}
}

func jump(t *testing.T, by time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(t.TempDir(), "c.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		wg.Wait()
		store.Close()
	}()
	if err := store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	var m machine
	clk := clock.NewTrackedOn(store.Now, m.wall)
	alarms := 0
	clk.Alarm(func(j clock.Jump) { alarms++ })
	if err := clk.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	disp := dispatch.New(store, clk, log, dispatch.Config{LeaseTTL: 30 * time.Second})
	svc := service.New(store, clk, service.Config{LookAhead: 5 * time.Second, Hint: disp.Offer})
	noop := job.Definition{Name: "n", Queue: "default", Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: time.Minute}, Priority: 5, Retry: job.RetryPolicy{Backoff: job.Fixed, InitialDelay: time.Second, MaxDelay: time.Second}}
	every, once := noop, noop
	every.Schedule = job.Schedule{Type: job.Cron, Cron: "*/2 * * * * *"}
	once.Schedule = job.Schedule{Type: job.OneTime, At: time.Now().Add(30 * time.Minute)}
	for _, d := range []job.Definition{every, once} {
		if _, _, err := svc.CreateJob(ctx, tenant.Local(), d, service.Once[[]service.NewJob]{}); err != nil {
			t.Fatal(err)
		}
	}
	sched := scheduler.New(store, clk, scheduler.Config{LookAhead: 5 * time.Second, Hint: disp.Offer})
	wg.Go(func() {
		loop.Run(ctx, log, "clock", nil, func(ctx context.Context) (time.Duration, error) { return time.Second, clk.Refresh(ctx) })
	})
	wg.Go(func() { loop.Run(ctx, log, "scheduler", nil, sched.Tick) })
	wg.Go(func() { disp.Run(ctx) })
	w := job.Worker{ID: job.WorkerID(uuid.Must(uuid.NewV7())), Host: "h", Capacity: 100, Targets: []string{"simulate"}, StartedAt: time.Now()}
	if err := disp.RegisterLocal(ctx, w); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	seen := map[time.Time]bool{}
	for time.Since(begun) < time.Minute {
		if at := time.Since(begun); at > 20*time.Second && at < 21*time.Second {
			m.set(by)
		}
		brief, stop := context.WithTimeout(ctx, 250*time.Millisecond)
		as, err := disp.Claim(brief, w.ID, 100)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range as {
			if late := time.Since(a.ScheduledAt); late < 0 || late > 500*time.Millisecond || seen[a.ScheduledAt] {
				t.Errorf("by %v: %v is handed out %v late; before: %v", by, a.ScheduledAt, late, seen[a.ScheduledAt])
			}
			seen[a.ScheduledAt] = true
		}
		if _, err := disp.Beat(ctx, w.ID, dispatch.Sign{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
	if len(seen) < 29 || len(seen) > 30 || alarms != 1 {
		t.Errorf("by %v: %d instants in a minute, %d alarms", by, len(seen), alarms)
	}
}

// heldClock is a clock that is not to be believed.
type heldClock struct{ clock.System }

func (heldClock) Held() bool { return true }

// While the clock is not to be believed nothing is fired, and the store is not asked.
func TestNothingIsFiredOnHold(t *testing.T) {
	s := scheduler.New(nil, heldClock{}, scheduler.Config{})
	if wait, err := s.Tick(t.Context()); err != nil || wait <= 0 || wait > time.Second {
		t.Errorf("wait %v, %v", wait, err)
	}
}
