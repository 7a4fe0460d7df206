//go:build unix

package faults

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/test/harness"
)

// Of three servers one is an hour ahead from its start on, one's clock is set back by an hour while it fires, and one's ahead by a
// day. What is due is the database's to say: nothing fires early, twice or late, and those whose clock was set say so.
func TestWrongClocks(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	skewed := func(spec string) *member { return c.joinWith([]string{clock.SkewVariable + "=" + spec}, c.where) }
	skewed("+1h")
	back, ahead := skewed("-1h@10s"), skewed("+24h@12s")
	c.balanced()
	c.recur(60, kinds)
	began := time.Now()
	c.arrived(30*time.Second, "the first calls", c.jobs, time.Time{})
	for _, m := range []*member{back, ahead} {
		harness.Eventually(t, 30*time.Second, "the alarm of a clock that was set", func() bool { return m.Says("this machine's clock was changed") })
	}
	c.arrived(30*time.Second, "calls by all, with wrong clocks", c.jobs, time.Now().Add(2*time.Second))
	end := rows[time.Time](c, "SELECT date_trunc('second', now())")[0]
	c.verify(end)
	if n := rows[int](c, "SELECT count(*) FROM live WHERE scheduled_at > now() + interval '10 seconds'")[0]; n > 0 {
		t.Errorf("%d are staged long before their time", n)
	}
	t.Logf("the latest call came %v after its instant", c.latest(began, failover/2))
	harness.Eventually(t, 30*time.Second, "all servers to live", func() bool { return len(c.alive()) == len(c.members) })
}
