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

// The scheduler that owns the most is killed again and again. It measures how long its partitions have no owner, how long
// until the first instant that they owed is called, and until nothing is owed any more; make bench-failover kills twenty.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	kills := 1
	if n, err := strconv.Atoi(os.Getenv("CARILLON_FAILOVER_KILLS")); err == nil {
		kills = n
	}
	c := newCluster(t)
	c.front = harness.Start(t, settings(""), "serve", "--database", c.where, "--roles", "api,worker")
	for range 3 {
		c.join(c.where, "--roles", "scheduler")
	}
	c.balanced()
	c.recur(3*job.Partitions, kinds[:1])
	c.arrived(30*time.Second, "the first calls", c.jobs, time.Time{})
	var owned, first, caughtUp []time.Duration
	for n := range kills {
		m := c.richest()
		lost := c.owners()[m.id]
		its := slices.DeleteFunc(slices.Clone(c.jobs), func(j *recurring) bool { return !slices.Contains(lost, j.partition(t)) })
		began := time.Now()
		m.Kill()
		c.leave(m)
		owned = append(owned, c.settled(m.id, began))
		first = append(first, c.fired(its, began))
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
	if worst := first[len(first)-1]; worst > failover {
		t.Errorf("the first instant fired after %v, want %v at the most", worst, failover)
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

// fired waits for the first call of a job for an instant that its dead owner cannot have staged, and returns how long after
// an instant it came.
func (c *cluster) fired(jobs []*recurring, died time.Time) time.Duration {
	c.Helper()
	ids := map[string]bool{}
	for _, j := range jobs {
		ids[j.id] = true
	}
	staged := died.Add(2 * time.Second) // the look-ahead is one
	var at time.Time
	harness.Eventually(c.T, 3*failover, "an instant that was owed", func() bool {
		for _, a := range c.sink.Seen() {
			if ids[a.Job] && a.Instant.After(staged) {
				at = a.At
				return true
			}
		}
		return false
	})
	return at.Sub(died)
}
