package enginetest

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var herdSize = flag.Int("herd", 20_000, "jobs that BenchmarkHerd fires in one instant")

// Herd is a benchmark: many jobs are due at one instant, and are fired in batches as a scheduler does it,
// sequentially or concurrently, each with its own partitions.
func Herd(b *testing.B, open func(*testing.B) engine.Store, sizes, lanes []int) {
	for _, size := range sizes {
		for _, n := range lanes {
			b.Run(fmt.Sprintf("batch=%d/at-once=%d", size, n), func(b *testing.B) {
				s := open(b)
				ctx := b.Context()
				for range b.N {
					b.StopTimer()
					at := loadHerd(ctx, b, s, *herdSize)
					h := herd{store: s, at: at, batch: size}
					b.StartTimer()
					h.run(ctx, b, n)
					total := b.Elapsed()
					b.ReportMetric(float64(*herdSize)*float64(b.N)/total.Seconds(), "jobs/s")
					b.ReportMetric(float64(h.due.Microseconds())/float64(*herdSize), "µs-due/job")
					b.ReportMetric(float64(h.fire.Microseconds())/float64(*herdSize), "µs-fire/job")
				}
			})
		}
	}
}

// loadHerd stores n jobs that are due at one instant, a minute ahead.
func loadHerd(ctx context.Context, b *testing.B, s engine.Store, n int) time.Time {
	b.Helper()
	now, err := s.Now(ctx)
	if err != nil {
		b.Fatal(err)
	}
	at := now.Truncate(time.Second).Add(time.Minute)
	for from := 0; from < n; from += 5000 {
		c := engine.Creation{Tenant: tenant.Default}
		for i := from; i < min(n, from+5000); i++ {
			c.Jobs = append(c.Jobs, job.Job{
				ID: job.ID(uuid.Must(uuid.NewV7())), Tenant: tenant.Default, State: job.Active, CreatedAt: now, UpdatedAt: now, Revision: 1, NextRunAt: at,
				Definition: job.Definition{
					Name: fmt.Sprint("job ", i), Schedule: job.Schedule{Type: job.Cron, Cron: "0 * * * *", Zone: "Europe/Berlin", Day: "vixie"},
					Retry: job.DefaultRetry, Priority: 5, Overlap: job.OverlapAllow, CatchUp: job.CatchUpLatest,
					Target: job.Target{Kind: job.HTTP, URL: "https://example.com/hooks/nightly", Method: "POST", Timeout: time.Minute}, Payload: []byte(`{"customer":4711,"report":"daily"}`),
				},
			})
		}
		if _, err := s.CreateJobs(ctx, []engine.Creation{c}); err != nil {
			b.Fatal(err)
		}
	}
	return at
}

type herd struct {
	store engine.Store
	at    time.Time
	batch int

	mu        sync.Mutex // guards the rest
	due, fire time.Duration
	fired     int
}

// run fires all, n batches at once.
func (h *herd) run(ctx context.Context, b *testing.B, n int) {
	b.Helper()
	var wg sync.WaitGroup
	for lane := range n {
		var ps []job.Partition
		for p := lane; p < job.Partitions; p += n {
			ps = append(ps, job.Partition(p))
		}
		wg.Go(func() {
			for {
				more, err := h.one(ctx, ps)
				if err != nil {
					b.Error(err)
				}
				if err != nil || !more {
					return
				}
			}
		})
	}
	wg.Wait()
	if h.fired != *herdSize {
		b.Errorf("%d of %d fired", h.fired, *herdSize)
	}
}

// one fires a batch.
func (h *herd) one(ctx context.Context, ps []job.Partition) (more bool, err error) {
	begun := time.Now()
	due, err := h.store.Due(ctx, engine.DueFilter{Partitions: ps, Until: h.at, Limit: h.batch})
	if err != nil || len(due) == 0 {
		return false, err
	}
	read := time.Since(begun)
	fs := make([]engine.Firing, 0, len(due))
	for _, d := range due {
		e := d.Job.Fire(job.ExecutionID(uuid.Must(uuid.NewV7())), h.at, h.at)
		e.Queue(d.Job)
		fs = append(fs, engine.Firing{
			Tenant: d.Job.Tenant, Job: d.Job.ID, Revision: d.Revision, Was: d.Job.NextRunAt, Next: h.at.Add(time.Hour), Runs: 1,
			Overlap: job.OverlapAllow, Executions: []job.Execution{e},
		})
	}
	begun = time.Now()
	rs, err := h.store.Fire(ctx, fs, engine.Fence{})
	wrote := time.Since(begun)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due, h.fire, h.fired = h.due+read, h.fire+wrote, h.fired+len(rs.Ready)
	return true, err
}
