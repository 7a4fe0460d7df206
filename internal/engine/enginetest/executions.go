package enginetest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func executions(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	j, _ := f.add("busy")
	f.add("another job's")
	var ids []job.ExecutionID
	for i := range 30 {
		e := f.due(j)
		e.Trigger = job.ByHand
		e.ScheduledAt = now.Add(-time.Duration(1+i/2) * time.Minute) // two share an instant
		if _, err := f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	_, as := f.take(ids[:20]...)
	for i, a := range as {
		switch i % 4 {
		case 0:
			f.report(succeed(a))
		case 1:
			f.report(die(a, 1))
		case 2:
			f.report(again(a, now.Add(time.Hour), 1))
		}
	}
	filter := engine.ExecutionFilter{Tenant: tenant.Default, Job: j.ID}
	t.Run("pages over live and finished, although some finish meanwhile", func(t *testing.T) {
		var got []job.Execution
		p := engine.Page{Limit: 4}
		running := []job.Attempt{as[3], as[7], as[11]}
		for {
			page := must(f.FindExecutions(f.ctx, filter, p))
			got = append(got, page.Executions...)
			if page.Total.Count != 31 || page.Total.Estimate {
				t.Errorf("total %+v", page.Total)
			}
			if page.Next == "" {
				break
			}
			p.Cursor = page.Next
			if len(running) > 0 {
				f.report(succeed(running[0]))
				running = running[1:]
			}
		}
		seen := map[job.ExecutionID]bool{}
		for i, e := range got {
			if seen[e.ID] {
				t.Error("one is listed twice")
			}
			seen[e.ID] = true
			if i > 0 && e.ScheduledAt.After(got[i-1].ScheduledAt) {
				t.Error("out of order")
			}
			if e.JobName != "busy" || e.Job != j.ID {
				t.Errorf("of %q", e.JobName)
			}
		}
		if len(got) != 31 {
			t.Errorf("%d listed, want 31", len(got))
		}
	})
	t.Run("by status", func(t *testing.T) {
		for _, c := range []struct {
			statuses []job.Status
			want     int
		}{
			{[]job.Status{job.Succeeded}, 8},
			{[]job.Status{job.Failed}, 5},
			{[]job.Status{job.Retrying}, 5},
			{[]job.Status{job.Running}, 2},
			{[]job.Status{job.Pending}, 11},
			{[]job.Status{job.Pending, job.Failed}, 16},
			{[]job.Status{job.Skipped}, 0},
		} {
			q := filter
			q.Statuses = c.statuses
			page := must(f.FindExecutions(f.ctx, q, engine.Page{Limit: 100}))
			if len(page.Executions) != c.want || page.Total.Count != int64(c.want) {
				t.Errorf("%v: got %d, total %d; want %d", c.statuses, len(page.Executions), page.Total.Count, c.want)
			}
			for _, e := range page.Executions {
				if !slices.Contains(c.statuses, e.Status) {
					t.Errorf("%v: got a %v", c.statuses, e.Status)
				}
			}
		}
	})
	t.Run("by time, start inclusive, end exclusive", func(t *testing.T) {
		q := filter
		q.From, q.Until = now.Add(-5*time.Minute), now.Add(-2*time.Minute)
		if page := must(f.FindExecutions(f.ctx, q, engine.Page{Limit: 100})); len(page.Executions) != 6 {
			t.Errorf("got %d, want 6", len(page.Executions))
		}
	})
	t.Run("not another tenant's", func(t *testing.T) {
		q := filter
		q.Tenant = "other"
		if page := must(f.FindExecutions(f.ctx, q, engine.Page{Limit: 100})); len(page.Executions) != 0 || page.Total.Count != 0 {
			t.Errorf("got %d", len(page.Executions))
		}
	})
	t.Run("a cursor that is none", func(t *testing.T) {
		for _, c := range []string{"x", strings.Repeat("g", 32), strings.Repeat("f", 32)} { // the others would be long before and after all times
			if _, err := f.FindExecutions(f.ctx, filter, engine.Page{Limit: 5, Cursor: c}); !errors.Is(err, engine.ErrCursor) {
				t.Errorf("%q: got %v, want ErrCursor", c, err)
			}
		}
	})
	t.Run("never missing while it finishes", func(t *testing.T) {
		var ids []job.ExecutionID
		for range 50 {
			_, e := f.add("moving")
			ids = append(ids, e.ID)
		}
		_, as := f.take(ids...)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := f.Execution(f.ctx, tenant.Default, ids[i%len(ids)]); err != nil {
						t.Errorf("execution: %v", err)
						return
					}
				}
			})
		}
		for _, a := range as {
			f.report(succeed(a))
		}
		close(stop)
		wg.Wait()
	})
}

func keys(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	key := func(b byte) engine.Key {
		return engine.Key{ID: string('a' + rune(b)), Tenant: tenant.Default, Role: tenant.System, Name: "bootstrap", Hash: [32]byte{b, 1}, CreatedAt: now}
	}
	if _, err := f.Key(f.ctx, [32]byte{1, 1}); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("before any: got %v, want ErrNotFound", err)
	}
	var mu sync.Mutex
	var stored []engine.Key
	var wg sync.WaitGroup
	for i := range byte(8) {
		wg.Go(func() {
			ok, err := f.Bootstrap(f.ctx, key(i))
			if err != nil {
				t.Errorf("bootstrap: %v", err)
			}
			if ok {
				mu.Lock()
				stored = append(stored, key(i))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(stored) != 1 {
		t.Fatalf("%d bootstrap keys, want 1", len(stored))
	}
	if got := must(f.Key(f.ctx, stored[0].Hash)); got != stored[0] {
		t.Errorf("got %+v, want %+v", got, stored[0])
	}
	managedKeys(t, f, stored[0])
	if ok := must(f.HasTenant(f.ctx, tenant.Default)); !ok {
		t.Error("there is no default tenant")
	}
	if ok := must(f.HasTenant(f.ctx, "nobody")); ok {
		t.Error("there is a tenant nobody made")
	}
}
