package postgres

import (
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// manual triggers one more execution of a job.
func manual(t testing.TB, s *Store, e job.Execution) job.ExecutionID {
	t.Helper()
	e.ID, e.Trigger = newID(), job.ByHand
	must[engine.Created](t)(s.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{}, nil))
	return e.ID
}

func TestBucketsAreTheCore(t *testing.T) {
	t.Parallel()
	c := direct(t, fresh(t))
	const sql = "SELECT " + bucket + " FROM (SELECT now() + $1 AS finished_at, now() AS started_at) x"
	for us := int64(1); us < int64(400*24*time.Hour/time.Microsecond); us += 1 + us/7 {
		d := time.Duration(us) * time.Microsecond
		if got := one[int](t, c, sql, d); got != job.Bucket(d) {
			t.Errorf("%v: bucket %d, want %d", d, got, job.Bucket(d))
		}
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if got := one[int](t, c, sql, d); got != 0 {
			t.Errorf("%v: bucket %d, want 0", d, got)
		}
	}
}

// A job that recurs is tallied also where its schedule fires it; the own fire that comes with a one-off one is not, so
// that it costs no row.
func TestWhatIsTallied(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 3)
	now := c.Jobs[0].CreatedAt
	recurs, later := &c.Jobs[0], &c.Jobs[2]
	recurs.Schedule.Type = job.Interval
	recurs.NextRunAt = now
	later.Schedule.Type, later.NextRunAt = job.OneTime, now
	fires := []engine.Firing{
		{Tenant: tenant.Default, Job: recurs.ID, Revision: 1, Was: now, Next: now.Add(time.Hour), Executions: []job.Execution{recurs.Fire(newID(), now.Add(-time.Second), now)}},
		{Tenant: tenant.Default, Job: later.ID, Revision: 1, Was: now, Executions: []job.Execution{later.Fire(newID(), now, now)}},
	}
	c.Executions = c.Executions[:2]
	store(t, s, c)
	if rs := must[engine.Fired](t)(s.Fire(t.Context(), fires, engine.Fence{})).Ready; len(rs) != 2 {
		t.Fatalf("%d fired", len(rs))
	}
	all := append(ids(c), fires[0].Executions[0].ID, fires[1].Executions[0].ID)
	as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: all}}, engine.Fence{}))
	var fs []job.Finish
	for _, a := range as {
		fs = append(fs, success(a))
	}
	for range 2 {
		must[[]job.Verdict](t)(s.Finish(t.Context(), fs))
	}
	stats := must[[]job.Stats](t)(s.Stats(t.Context(), tenant.Default, []job.ID{c.Jobs[0].ID, c.Jobs[1].ID, c.Jobs[2].ID}))
	for i, want := range []int64{2, 1, 1} {
		if stats[i].Total != want || stats[i].Succeeded != want || stats[i].AvgDuration == 0 || stats[i].P95Duration == 0 {
			t.Errorf("job %d: %+v", i, stats[i])
		}
	}
	d := direct(t, s)
	if got := one[int](t, d, "SELECT count(*) FROM job_stats"); got != 2 {
		t.Errorf("%d jobs are tallied, want the one that recurs and the one that fired later", got)
	}
	if got := one[int](t, d, "SELECT sum(n) FROM job_durations"); got != 3 {
		t.Errorf("%d durations, want 3", got)
	}
	if p := must[engine.ExecutionPage](t)(s.FindExecutions(t.Context(), engine.ExecutionFilter{Tenant: tenant.Default, Job: c.Jobs[1].ID}, engine.Page{Limit: 5})); len(p.Executions) != 1 || p.Total.Count != 1 {
		t.Errorf("listed: %+v", p)
	}
}

// Batches that end executions of the same jobs at the same time lose no count, whatever their order.
func TestTalliesAddUp(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 7)
	store(t, s, c)
	const clients, each = 6, 35
	var wg sync.WaitGroup
	for client := range clients {
		var mine []job.ExecutionID
		for i := range each {
			mine = append(mine, manual(t, s, c.Executions[(i+client)%len(c.Jobs)]))
		}
		as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: mine}}, engine.Fence{}))
		wg.Go(func() {
			for i := 0; i < len(as); i += 7 {
				var fs []job.Finish
				for k, a := range as[i : i+7] {
					f := success(a)
					if k == 3 {
						f = failure(a)
						f.Then = job.Transition{Move: job.Died, Status: job.Failed, Tries: 1}
					}
					fs = append(fs, f)
				}
				if _, err := s.Finish(t.Context(), fs); err != nil {
					t.Errorf("finish: %v", err)
				}
			}
		})
	}
	wg.Wait()
	d := direct(t, s)
	if n := one[int](t, d, `
		SELECT count(*) FROM job_stats s JOIN (
			SELECT job, count(*) AS total, count(*) FILTER (WHERE status = 10) AS good, max(finished_at) AS last, max(started_at) AS run,
				sum(extract(epoch FROM finished_at - started_at) * 1000000) AS us
			FROM executions WHERE tally GROUP BY job) x USING (job)
		WHERE s.total = x.total AND s.succeeded = x.good AND s.timed = x.total AND s.sum_us = x.us AND s.last_finished_at = x.last AND s.last_run_at = x.run
			AND s.last_status IN (SELECT status FROM executions e WHERE e.job = s.job AND e.finished_at = x.last)
			AND s.total = (SELECT sum(n) FROM job_durations d WHERE d.job = s.job)`); n != len(c.Jobs) {
		t.Errorf("%d of %d jobs are tallied as their history has it", n, len(c.Jobs))
	}
	if n := one[int](t, d, "SELECT sum(total) FROM job_stats"); n != clients*each {
		t.Errorf("%d are tallied, want %d", n, clients*each)
	}
}
