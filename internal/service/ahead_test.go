package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// crowd is a store in whose lanes executions wait, and which takes its time to tell.
type crowd struct {
	keeping
	waits map[job.Lane][]job.Ready
}

func (c crowd) Ready(_ context.Context, cs []engine.LaneCursor, perLane int) (out []job.Ready, _ error) {
	<-time.After(2 * aheadTime)
	for _, at := range cs {
		rs := c.waits[at.Lane]
		out = append(out, rs[:min(perLane, len(rs))]...)
	}
	return out, nil
}

// A few that wait ahead are counted whole, however slow the store; of many it is said that there are more.
func TestAheadInASlowStore(t *testing.T) {
	e := &job.Execution{ID: job.ExecutionID{15: 1}, Job: job.ID{1}, Tenant: "default", Priority: 5, DueAt: time.Unix(1_800_000_000, 0)}
	for _, c := range []struct {
		each, want int
		more       bool
	}{{0, 0, false}, {1, job.Partitions, false}, {150, 8 * 150, true}} {
		synctest.Test(t, func(t *testing.T) {
			store := crowd{waits: map[job.Lane][]job.Ready{}}
			for p := range job.Partition(job.Partitions) {
				for n := range c.each {
					r := e.Ready()
					r.ID, r.Partition, r.DueAt = job.ExecutionID{14: byte(n), 15: byte(p)}, p, e.DueAt.Add(-time.Hour)
					store.waits[r.Lane()] = append(store.waits[r.Lane()], r)
				}
			}
			n, more, err := New(store, clock.System{}, Config{}).ahead(t.Context(), e)
			if err != nil || n != c.want || more != c.more {
				t.Errorf("%d in each partition: %d ahead, more %v, %v; want %d, %v", c.each, n, more, err, c.want, c.more)
			}
		})
	}
}
