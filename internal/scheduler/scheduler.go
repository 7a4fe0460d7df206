// Package scheduler turns due instants into executions.
//
// A pass asks the store which jobs fire within the look-ahead, makes their
// executions and moves their next instants, both in one transaction of the
// store in which each job's instant moves by compare-and-set. So any number of
// schedulers may run over one store: an instant fires once, whoever comes
// first. Rows are staged early and never run early: a lease takes only what
// the store's clock calls due.
//
// The scheduler holds no schedule in memory and never decides whether a fire
// counts: the store's condition does.
package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// Config is what a scheduler may be told.
type Config struct {
	LookAhead time.Duration     // how early executions are staged
	Hint      func([]job.Ready) // told of executions that may be leased
}

// Scheduler fires due jobs.
type Scheduler struct {
	store engine.Firings
	clock clock.Clock // the store's
	cfg   Config
}

// New makes a scheduler over a store whose clock is given.
func New(store engine.Firings, clk clock.Clock, cfg Config) *Scheduler {
	return &Scheduler{store: store, clock: clk, cfg: cfg}
}

const (
	batch = 1000
	// Within the look-ahead of what was created meanwhile there is always another pass.
	between = time.Second
)

// Tick fires one batch of what is due within the look-ahead.
func (s *Scheduler) Tick(ctx context.Context) (time.Duration, error) {
	now := s.clock.Now()
	due, err := s.store.Due(ctx, now.Add(s.cfg.LookAhead), batch)
	if err != nil {
		return 0, fmt.Errorf("find due jobs: %w", err)
	}
	if len(due) == 0 {
		return between, nil
	}
	fs := make([]engine.Firing, len(due))
	for i, d := range due {
		at := d.Job.NextRunAt
		next, _ := schedule.Next(d.Job.Schedule, at)
		fs[i] = engine.Firing{
			Tenant: d.Job.Tenant, Job: d.Job.ID, Revision: d.Revision, Was: at, Next: next,
			Executions: []job.Execution{d.Job.Fire(job.ExecutionID(uuid.Must(uuid.NewV7())), at, now)},
		}
	}
	ready, err := s.store.Fire(ctx, fs)
	if err == nil {
		err = failpoint.Hit("sched.afterCommitBeforeNotify")
	}
	if err != nil {
		return 0, fmt.Errorf("fire %d jobs: %w", len(fs), err)
	}
	s.cfg.Hint(ready)
	if len(due) == batch {
		return 0, nil
	}
	return between, nil
}
