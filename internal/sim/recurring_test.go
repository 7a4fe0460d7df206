package sim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/loop"
	"github.com/carillon-jobs/carillon/internal/scheduler"
	"github.com/carillon-jobs/carillon/internal/service"
)

// recurringSeeds is how many runs of recurring schedules are played at the most.
const recurringSeeds = 100

// TestRecurringSchedules plays schedules with overlap and catch-up policies over schedulers that die, stores that fail and a clock that is
// not the schedulers', while jobs are paused and resumed. In the end every instant has one execution, or one record that covers it.
func TestRecurringSchedules(t *testing.T) {
	n := min(*seeds, recurringSeeds)
	if raced {
		n = min(n, recurringSeeds/10)
	}
	for seed := range uint64(n) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			playRecurring(t, seed)
		})
	}
}

type recurringWorld struct {
	*testing.T
	r     *rand.Rand
	ctx   context.Context
	sound engine.Store
	svc   *service.Service
	jobs  []job.ID
}

func playRecurring(t *testing.T, seed uint64) {
	empty, err := template()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(memory(), "sim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sim.db")
	if err := os.WriteFile(path, empty, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		skew := skewOf(seed)
		sound, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Readers: 1, Clock: skewed{skew}})
		if err != nil {
			t.Fatal(err)
		}
		defer sound.Close()
		if err := sound.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		clk := clock.NewTracked(sound.Now)
		if err := clk.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		w := &recurringWorld{T: t, r: stream(seed, "recurring"), ctx: ctx, sound: sound, svc: service.New(sound, clk, service.Config{LookAhead: ahead})}
		defer w.svc.Close()
		w.create()
		var wg sync.WaitGroup
		wg.Go(func() { w.work(stream(seed, "work")) })
		for n := range 1 + w.r.IntN(3) {
			r := stream(seed, fmt.Sprint("scheduler ", n))
			wg.Go(func() { w.schedule(r) })
		}
		for range 12 { // pauses, while schedulers live and die
			<-time.After(time.Second + upTo(w.r, 20*time.Second))
			ref := engine.Ref{ID: w.jobs[w.r.IntN(len(w.jobs))]}
			if w.r.IntN(2) == 0 {
				_, err = w.svc.PauseJob(ctx, tenant.Local(), ref, "", time.Time{})
			} else {
				_, err = w.svc.ResumeJob(ctx, tenant.Local(), ref)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range w.jobs {
			if _, err := w.svc.ResumeJob(ctx, tenant.Local(), engine.Ref{ID: id}); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(3 * time.Minute) // in which some scheduler lives for long enough
		stop()
		wg.Wait()
		for _, id := range w.jobs {
			w.judge(id, skewed{skew}.Now())
		}
	})
}

func (w *recurringWorld) create() {
	policies, catchUps := job.Overlaps(), []job.CatchUp{job.CatchUpAll, job.CatchUpLatest, job.CatchUpNone}
	for n := range 3 + w.r.IntN(5) {
		d := job.Definition{
			Name: fmt.Sprint("r", n), Priority: 5, Queue: "default", Overlap: policies[w.r.IntN(len(policies))], CatchUp: catchUps[w.r.IntN(len(catchUps))], CatchUpLimit: 1 + w.r.IntN(150),
			Schedule: job.Schedule{Type: job.Interval, Every: time.Duration(1+w.r.IntN(5)) * time.Second},
			Target:   job.Target{Kind: job.Handler, Handler: kind, Timeout: time.Minute},
			Retry:    job.RetryPolicy{Backoff: job.Fixed, InitialDelay: time.Second, MaxDelay: time.Second},
		}
		made, _, err := w.svc.CreateJob(w.ctx, tenant.Local(), d, once(d.Name, func([]service.NewJob) []byte { return nil }))
		if err != nil {
			w.Fatal(err)
		}
		w.jobs = append(w.jobs, made.Job.ID)
	}
}

// schedule runs schedulers one after the other, each of which dies after a while, with a pause between them.
func (w *recurringWorld) schedule(r *rand.Rand) {
	quiet := slog.New(slog.DiscardHandler)
	for w.ctx.Err() == nil {
		ctx, die := context.WithTimeout(w.ctx, time.Second+upTo(r, 40*time.Second))
		faulty := enginetest.NewFaulty(w.sound, enginetest.Faults{Seed: r.Uint64(), Before: 0.1 * r.Float64(), After: 0.1 * r.Float64(), Slow: 0.1 * r.Float64(), Delay: upTo(r, 2*time.Second)})
		clk := clock.NewTracked(w.sound.Now)
		if err := clk.Refresh(ctx); err != nil && ctx.Err() == nil {
			w.Error(err)
		}
		var wg sync.WaitGroup
		for _, part := range [][]scheduler.Part{{scheduler.Both}, {scheduler.Punctual, scheduler.Behind}}[r.IntN(2)] {
			s := scheduler.New(faulty, clk, scheduler.Config{Part: part, LookAhead: ahead})
			wg.Go(func() { loop.Run(ctx, quiet, "scheduler", nil, s.Tick) })
		}
		wg.Wait()
		die()
		select {
		case <-w.ctx.Done():
		case <-time.After(upTo(r, 60*time.Second)):
		}
	}
}

// work runs what is ready, each for a while, and writes down what starts before its instant.
func (w *recurringWorld) work(r *rand.Rand) {
	id := job.WorkerID(uuid.Must(uuid.NewV7()))
	if err := w.sound.Register(w.ctx, job.Worker{ID: id, Host: "w", Capacity: 100, StartedAt: time.Now()}, 24*time.Hour); err != nil {
		w.Error(err)
		return
	}
	var held []job.Attempt
	for w.ctx.Err() == nil {
		lanes, err := w.sound.Lanes(context.WithoutCancel(w.ctx), nil, 1000)
		var cs []engine.LaneCursor
		for _, l := range lanes {
			cs = append(cs, engine.LaneCursor{Lane: l})
		}
		ready, err2 := w.sound.Ready(context.WithoutCancel(w.ctx), cs, 50)
		var ids []job.ExecutionID
		for _, x := range ready {
			ids = append(ids, x.ID)
		}
		as, err3 := w.sound.Lease(context.WithoutCancel(w.ctx), []engine.Grant{{Worker: id, Executions: ids}}, engine.Fence{})
		if err != nil || err2 != nil || err3 != nil {
			w.Error(err, err2, err3)
			return
		}
		held = append(held, as...)
		keep := held[:0]
		var done []job.Finish
		for _, a := range held {
			if r.IntN(3) == 0 {
				keep = append(keep, a)
				continue
			}
			done = append(done, job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}, Worker: id})
		}
		held = keep
		if _, err := w.sound.Finish(context.WithoutCancel(w.ctx), done); err != nil {
			w.Error(err)
			return
		}
		select {
		case <-w.ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// judge compares the instants of a job with what there is of them.
func (w *recurringWorld) judge(id job.ID, now time.Time) {
	ctx := context.Background()
	j, err := w.sound.Job(ctx, tenant.Default, engine.Ref{ID: id})
	if err != nil {
		w.Fatal(err)
	}
	plan, err := schedule.NewCache(time.LoadLocation).Plan(j.Schedule, j.CreatedAt, nil)
	if err != nil {
		w.Fatal(err)
	}
	if now.Sub(j.NextRunAt) > 2*time.Minute {
		w.Errorf("%s is behind in the end: next %v, now %v", j.Name, j.NextRunAt, now)
	}
	seen := map[int64]int{}
	page := everything
	for {
		got, err := w.sound.FindExecutions(ctx, engine.ExecutionFilter{Tenant: tenant.Default, Job: id}, page)
		if err != nil {
			w.Fatal(err)
		}
		for _, x := range got.Executions {
			if x.StartedAt.Before(x.ScheduledAt) && !x.StartedAt.IsZero() {
				w.Errorf("%s: %v started at %v", j.Name, x.ScheduledAt, x.StartedAt)
			}
			to := x.ScheduledAt
			if x.Status == job.Skipped && x.Metadata["to"] != "" {
				if to, err = time.Parse(time.RFC3339, x.Metadata["to"]); err != nil {
					w.Fatal(err)
				}
			}
			n := 0
			for at, ok := x.ScheduledAt, true; ok && !at.After(to); at, ok = plan.Next(at) {
				seen[at.Unix()]++
				n++
			}
			if count := x.Metadata["count"]; count != "" && count != strconv.Itoa(n) {
				w.Errorf("%s: a record of %s instants covers %d", j.Name, count, n)
			}
		}
		if page.Cursor = got.Next; got.Next == "" {
			break
		}
	}
	all := 0
	for at, ok := plan.Next(j.CreatedAt); ok && at.Before(j.NextRunAt); at, ok = plan.Next(at) {
		if n := seen[at.Unix()]; n != 1 {
			w.Errorf("%s (%s, %s): %v has %d executions or records", j.Name, j.Overlap, j.CatchUp, at, n)
			return
		}
		delete(seen, at.Unix())
		all++
	}
	if len(seen) > 0 || all < 20 {
		w.Errorf("%s: %d instants were, and %d executions or records are of none", j.Name, all, len(seen))
	}
}
