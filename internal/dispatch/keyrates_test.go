package dispatch_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/service"
)

// Two jobs that share a concurrency key are each held to their own rate, also while the key goes from one server to another.
func TestServersKeepTheRatesOfASharedKey(t *testing.T) {
	overStores(t, func(t *testing.T, s shared) {
		every, rounds := time.Minute, 4 // one slow start in so long
		if _, real := s.(*postgres.Store); real {
			every, rounds = 6*time.Second, 2
		}
		c, stop := newCluster(t, s)
		defer stop()
		a, b := c.node("a"), c.node("b")
		slow, fast := job.Rate{Count: 1, Per: every, Burst: 1}, job.Rate{Count: 50, Per: time.Second, Burst: 5}
		create := func(name string, r job.Rate, n int) {
			ds := make([]job.Definition, n)
			for i := range ds {
				ds[i] = job.Definition{
					Name: name, Priority: job.DefaultPriority, Queue: job.DefaultQueue, Schedule: job.Schedule{Type: job.Immediate}, Retry: job.DefaultRetry,
					Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: job.DefaultTimeout},
					Rate:   r, ConcurrencyKey: "payload.customer", Payload: json.RawMessage(`{"customer":"acme"}`),
				}
			}
			if _, _, err := c.svc.CreateJobs(c.ctx, tenant.Local(), ds, service.Once[[]service.NewJob]{}); err != nil {
				t.Fatal(err)
			}
			<-time.After(5 * time.Millisecond) // what comes next is due later, and the key is in order
		}
		const each, patience = 20, 10 * time.Minute
		w := c.register(a)
		ran := func() int { return c.at("a") + c.at("b") }
		for i := range rounds {
			here, leave := context.WithCancel(c.ctx)
			c.work(here, []*node{a, b}[i%2], w, 4, time.Millisecond)
			create("slow", slow, 1)
			create("fast", fast, each)
			c.eventually(patience, "a round runs", func() bool { return ran() == (i+1)*(1+each) })
			<-time.After(every / 4) // the bucket of the fast rate is full again
			leave()
		}
		if c.at("a") == 0 || c.at("b") == 0 {
			t.Errorf("ran %v: the key never moved, and this shows nothing", c.tally())
		}
		at := c.starts("slow")
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < every-every/20 {
				t.Errorf("slow starts %d and %d are %v apart, want %v", i, i+1, d, every)
			}
		}
		if n := len(c.starts("fast")); len(at) != rounds || n != rounds*each {
			t.Errorf("%d slow and %d fast starts", len(at), n)
		}
	})
}

// A rate that is raised holds for what waits already, whichever server it was raised at.
func TestARaisedRateHoldsForWhatWaits(t *testing.T) {
	limit := func(queue string) func(*cluster, job.ID, job.Rate) error {
		return func(c *cluster, _ job.ID, r job.Rate) error {
			return c.store.SetLimit(c.ctx, job.Limit{Tenant: tenant.Default, Queue: queue, Rate: r}, nil)
		}
	}
	for of, set := range map[string]func(*cluster, job.ID, job.Rate) error{
		"a job": func(c *cluster, id job.ID, r job.Rate) error {
			_, err := c.svc.UpdateJob(c.ctx, tenant.Local(), engine.Ref{ID: id}, 0, func(j job.Job) (job.Definition, error) {
				j.Rate = r
				return j.Definition, nil
			})
			return err
		},
		"a tenant": limit(""),
		"a queue":  limit(job.DefaultQueue),
	} {
		t.Run(of, func(t *testing.T) {
			overStores(t, func(t *testing.T, s shared) {
				c, stop := newCluster(t, s)
				defer stop()
				made, _, err := c.svc.CreateJobs(c.ctx, tenant.Local(), []job.Definition{{
					Name: of, Priority: job.DefaultPriority, Queue: job.DefaultQueue, Schedule: job.Schedule{Type: job.OneTime, At: c.clock.Now().Add(24 * time.Hour)}, Retry: job.DefaultRetry,
					Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: job.DefaultTimeout},
				}}, service.Once[[]service.NewJob]{})
				if err != nil {
					t.Fatal(err)
				}
				id := made[0].Job.ID
				if err := set(c, id, job.Rate{Count: 1, Per: time.Hour, Burst: 1}); err != nil {
					t.Fatal(err)
				}
				const all = 10
				for range all {
					if _, _, err := c.svc.Trigger(c.ctx, tenant.Local(), engine.Ref{ID: id}, nil, service.Once[job.Execution]{}); err != nil {
						t.Fatal(err)
					}
				}
				a := c.node("a")
				c.work(c.ctx, a, c.register(a), 4, time.Millisecond)
				c.eventually(10*time.Second, "one runs", func() bool { return c.at("a") == 1 })
				<-time.After(2 * time.Second) // the server knows how long the rate holds the others
				if n := c.at("a"); n != 1 {
					t.Fatalf("%d started at one an hour", n)
				}
				if err := set(c, id, job.Rate{Count: 1000, Per: time.Second, Burst: 100}); err != nil {
					t.Fatal(err)
				}
				c.eventually(10*time.Second, "the others run", func() bool { return c.at("a") == all })
			})
		})
	}
}

// starts lists when executions of the jobs of a name were leased, in order.
func (c *cluster) starts(name string) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(slices.Values(c.began[name]), time.Time.Compare)
}
