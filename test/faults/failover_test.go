//go:build unix

package faults

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/test/harness"
)

// The scheduler that owns the most is killed repeatedly. It measures how long its partitions have no owner, how long
// until the first instant that they owed fires, and until nothing is owed any more; make bench-failover kills twenty.
func TestFailover(t *testing.T) {
	t.Parallel()
	kills := 1
	if n, err := strconv.Atoi(os.Getenv("CARILLON_FAILOVER_KILLS")); err == nil {
		kills = n
	}
	c := newCluster(t)
	c.front = harness.Start(t, settings("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=30"), "serve", "--database", c.where, "--roles", "api,worker")
	for range 3 {
		c.join(c.where, "--roles", "scheduler")
	}
	c.balanced()
	c.recur(2*job.Partitions, kinds[:1])
	c.arrived(30*time.Second, "the first calls", c.jobs, time.Time{})
	var owned, first, caughtUp []time.Duration
	for n := range kills {
		m := c.richest()
		lost := c.owners()[m.id]
		its := slices.DeleteFunc(slices.Clone(c.jobs), func(j *recurring) bool { return !slices.Contains(lost, j.partition(t)) })
		began := time.Now()
		m.Kill()
		c.leave(m)
		first = append(first, c.fired(its, began))
		owned = append(owned, c.settled(m.id, began))
		c.arrived(30*time.Second, "what was owed meanwhile", its, began.Add(owned[n]))
		caughtUp = append(caughtUp, time.Since(began))
		t.Logf("kill %d of %d: %d partitions with %d jobs owned again after %v, first instant after %v, none owed after %v", n+1, kills, len(lost), len(its), owned[n], first[n], caughtUp[n])
		c.join(c.where, "--roles", "scheduler")
		c.balanced()
	}
	for _, x := range []struct {
		what string
		all  []time.Duration
	}{{"every partition has an owner", owned}, {"the first instant fires", first}, {"nothing is owed", caughtUp}} {
		slices.Sort(x.all)
		t.Logf("%-29s p50 %-8v p99 %-8v of %d kills", x.what, quantile(x.all, 0.5), quantile(x.all, 0.99), len(x.all))
	}
	if worst := first[len(first)-1]; worst > atMost(failover) {
		t.Errorf("the first instant fired after %v, want %v at the most", worst, atMost(failover))
	}
	c.verify(rows[time.Time](c, "SELECT date_trunc('second', now())")[0])
}

// partition is the one that the job is in.
func (j *recurring) partition(t *testing.T) job.Partition {
	id, err := job.ParseID(j.id)
	if err != nil {
		t.Fatal(err)
	}
	return job.PartitionOf(id)
}

// quantile is the least of the sorted values that a share of them does not exceed.
func quantile(sorted []time.Duration, share float64) time.Duration {
	i := int(share*float64(len(sorted))+0.999999) - 1
	return sorted[max(i, 0)].Round(time.Millisecond)
}

// fired waits for the first execution of a job for an instant that its dead owner cannot have staged, and returns how long
// after an instant it was there.
func (c *cluster) fired(jobs []*recurring, died time.Time) time.Duration {
	c.Helper()
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.id)
	}
	const there = `SELECT EXISTS (SELECT FROM live WHERE job = ANY ($1::uuid[]) AND scheduled_at > $2)
		OR EXISTS (SELECT FROM executions WHERE job = ANY ($1::uuid[]) AND scheduled_at > $2)`
	staged := died.Add(2 * time.Second) // the look-ahead is one
	harness.Eventually(c.T, 3*failover, "an instant that was owed", func() bool { return rows[bool](c, there, ids, staged)[0] })
	return time.Since(died)
}
