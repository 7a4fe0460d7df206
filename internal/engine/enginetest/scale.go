package enginetest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// ScaleRows returns how many executions a measurement of pages covers, from CARILLON_SCALE; 0 for none.
func ScaleRows() int {
	n, _ := strconv.Atoi(os.Getenv("CARILLON_SCALE"))
	return n
}

// Pages measures pages of a store with very many executions: of the tenant "big", and of "t1", "t2" and so on, which
// have few. One in a hundred failed. It fails if a page takes too long.
func Pages(t *testing.T, s engine.Store) {
	filters := map[string]func(*engine.ExecutionFilter){
		"all":     func(*engine.ExecutionFilter) {},
		"failed":  func(f *engine.ExecutionFilter) { f.Statuses = []job.Status{job.Failed} },
		"pending": func(f *engine.ExecutionFilter) { f.Statuses = []job.Status{job.Pending} },
		"old":     func(f *engine.ExecutionFilter) { f.Until = time.Now().Add(-24 * time.Hour) },
		"text":    func(f *engine.ExecutionFilter) { f.Text = "nowhere to be found" },
		"worker":  func(f *engine.ExecutionFilter) { f.Worker = job.WorkerID{1} },
		"tag":     func(f *engine.ExecutionFilter) { f.Tag = "none" },
		"manual":  func(f *engine.ExecutionFilter) { f.Triggers = []job.Trigger{job.ByHand} },
	}
	for name, change := range filters {
		var took []time.Duration
		pages, partial := 0, 0
		for i := range 40 {
			f := engine.ExecutionFilter{Tenant: "big"}
			if i%2 == 1 {
				f.Tenant = tenant.ID(fmt.Sprintf("t%d", i))
			}
			change(&f)
			p := engine.Page{Limit: 50, Bounded: true}
			for range 5 {
				begun := time.Now()
				page, err := s.FindExecutions(t.Context(), f, p)
				if err != nil {
					t.Fatal(err)
				}
				took = append(took, time.Since(begun))
				pages++
				if page.Partial {
					partial++
				}
				if p.Cursor = page.Next; p.Cursor == "" {
					break
				}
			}
		}
		slices.Sort(took)
		line := fmt.Sprintf("%-8s %3d pages, %3d partial: p50 %8v  p99 %8v  max %8v", name, pages, partial, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
		t.Log(line)
		if took[len(took)*99/100] > 100*time.Millisecond {
			t.Errorf("too slow: %s", line)
		}
	}
}
