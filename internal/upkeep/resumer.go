package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Resumer resumes jobs whose pause has expired.
type Resumer struct {
	Store  engine.Jobs
	Resume func(context.Context, job.Job) error
	Log    *slog.Logger

	stuck map[job.ID]time.Time // those that could not be resumed, and when to retry
}

const (
	resumeBatch = 100
	maxStuck    = 10_000
	resumeAgain = 10 * time.Second
)

// Tick resumes what is due. A job that cannot be resumed is skipped for a while.
func (r *Resumer) Tick(ctx context.Context) (time.Duration, error) {
	now := time.Now()
	due, err := r.Store.Resumable(ctx, resumeBatch+len(r.stuck)) // so that those never hide the others
	if err != nil {
		return 0, fmt.Errorf("look for pauses that are over: %w", err)
	}
	stuck := map[job.ID]time.Time{}
	done := 0
	for _, j := range due {
		if at, ok := r.stuck[j.ID]; ok && now.Before(at) {
			stuck[j.ID] = at
			continue
		}
		if err := r.Resume(ctx, j); err != nil {
			if ctx.Err() != nil {
				return 0, err
			}
			r.Log.Warn("a job whose pause is over could not be resumed", "job", j.ID, "error", err)
			if len(stuck) < maxStuck {
				stuck[j.ID] = now.Add(resumeAgain)
			}
			continue
		}
		done++
	}
	r.stuck = stuck
	if done > 0 {
		r.Log.Info("jobs whose pause is over were resumed", "jobs", done)
	}
	if done >= resumeBatch {
		return 0, nil
	}
	return time.Second, nil
}
