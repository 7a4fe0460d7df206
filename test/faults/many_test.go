//go:build unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// Three servers share a few hundred recurring jobs. One is killed, one stands still for longer than it may and continues, one
// is cut off from the database, another joins: every time the partitions move within ten seconds, and in the end every
// instant that is owed, counted by looking at every second, has fired once or is recorded as skipped.
func TestManySchedulers(t *testing.T) {
	t.Parallel()
	jobs, rounds := 200, 1
	if all {
		jobs, rounds = 400, 4
	}
	c := newCluster(t)
	c.join(c.where)
	c.join(c.where)
	link, through := harness.LinkTo(t, c.where)
	cut := c.join(through)
	c.balanced()
	c.recur(jobs, kinds)
	c.arrived(30*time.Second, "the first calls", c.jobs, time.Time{})
	faults := []func(){
		func() { // kill -9, and another comes
			m := c.other(cut)
			began := time.Now()
			m.Kill()
			c.Logf("killed: the partitions moved within %v", c.settled(m.id, began))
			c.leave(m)
		},
		func() { // it joins, and is given its part
			began := time.Now()
			c.join(c.where)
			c.balanced()
			took := time.Since(began)
			c.arrived(30*time.Second, "calls after another has joined", c.jobs, time.Now())
			c.Logf("joined: even after %v; the latest call came %v after its instant", took, c.latest(began, failover))
		},
		func() { // it stands still, and continues as if it owned what it owned
			m := c.other(cut)
			began := time.Now()
			m.Freeze()
			c.Logf("stopped: the partitions moved within %v", c.settled(m.id, began))
			c.arrived(30*time.Second, "calls while one stands still", c.jobs, time.Now())
			m.Thaw()
			harness.Eventually(t, 30*time.Second, "it to notice", func() bool { return m.Says("this server missed its time") })
			c.known(m)
			c.balanced()
		},
		func() { // nothing comes through, then all connections are reset
			began := time.Now()
			link.Hold(harness.There, harness.Back)
			c.Logf("cut off: the partitions moved within %v", c.settled(cut.id, began))
			c.arrived(30*time.Second, "calls while one is cut off", c.jobs, time.Now())
			link.Reset()
			c.known(cut)
			c.balanced()
		},
	}
	for r := range rounds {
		if r > 0 {
			rand.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		}
		for _, f := range faults {
			f()
		}
	}
	c.verify(rows[time.Time](c, "SELECT date_trunc('second', now())")[0])
}

// other is a member that may fail: not the one behind the link.
func (c *cluster) other(but *member) *member {
	return c.members[slices.IndexFunc(c.members, func(m *member) bool { return m != but })]
}

// latest returns how late the latest call came, of instants from one on; more than is allowed is wrong.
func (c *cluster) latest(from time.Time, most time.Duration) (late time.Duration) {
	for _, a := range c.sink.Seen() {
		if a.Instant.After(from) && a.Attempt == 1 {
			late = max(late, a.At.Sub(a.Instant))
		}
	}
	if most = atMost(most); late > most {
		c.Errorf("a call came %v after its instant, want %v at the most", late, most)
	}
	return late
}

// verify waits until all that is owed until an instant has ended, and compares the oracle, the API, the tables and the calls.
func (c *cluster) verify(end time.Time) {
	c.Helper()
	const kept = `SELECT count(*) FROM (SELECT FROM executions WHERE job = $1::uuid AND scheduled_at <= $2
		UNION ALL SELECT FROM live WHERE job = $1::uuid AND scheduled_at <= $2) x`
	api, late, owed := c.api(), time.Now().Add(patience), 0
	all := make([][]client.Execution, len(c.jobs))
	for i, j := range c.jobs {
		instants := j.instants(end)
		owed += len(instants)
		var wrong []string
		harness.Within(time.Until(late), func() bool {
			all[i] = executions(api, j.id, end)
			wrong = cover(instants, all[i])
			return len(wrong) == 0
		})
		for _, w := range wrong {
			c.Errorf("job %s (%s): %s", j.id, j.body, w)
		}
		if n := rows[int](c, kept, j.id, end)[0]; n != len(all[i]) {
			c.Errorf("job %s: the tables have %d executions, the API %d", j.id, n, len(all[i]))
		}
	}
	calls := map[string][]harness.Arrival{}
	for _, a := range c.sink.Seen() {
		if a.At.Before(a.Instant) {
			c.Errorf("job %s: the instant %v arrived %v early", a.Job, a.Instant, a.Instant.Sub(a.At))
		}
		if !a.Instant.After(end) {
			calls[a.Execution] = append(calls[a.Execution], a)
		}
	}
	skipped, again := 0, 0
	for _, e := range slices.Concat(all...) {
		if e.Status == "SKIPPED" {
			skipped++
			continue
		}
		x := ended{id: e.ExecutionID, job: e.JobID, status: e.Status}
		if len(calls[x.id]) > 1 {
			x.past = harness.Read[client.ExecutionAttempts](api, "/api/v1/executions/"+x.id+"/attempts").Attempts
			again++
		}
		for _, w := range checkCalls(x, calls[x.id], history{stale: true}) {
			c.Errorf("%s (execution %s of %v, calls %s)", w, x.id, e.ScheduledTime, show(calls[x.id]))
		}
		delete(calls, x.id)
	}
	for id, as := range calls {
		c.Errorf("the target saw execution %s of %v, which is not there", id, as[0].Instant)
	}
	c.Logf("%d jobs, %d instants owed; %d records of skipped ones, %d called again", len(c.jobs), owed, skipped, again)
}

// executions are those of a job until an instant, by the API.
func executions(api harness.Asker, id string, end time.Time) (all []client.Execution) {
	api.Helper()
	path := "/api/v1/jobs/" + id + "/executions?limit=1000"
	for cursor := ""; ; {
		page := harness.Read[client.Executions](api, path+cursor)
		for _, e := range page.Executions {
			if !e.ScheduledTime.After(end) {
				all = append(all, e)
			}
		}
		if page.Pagination.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + *page.Pagination.NextCursor
	}
}

// cover says which instants that are owed have not exactly one execution or record, and what is there that is not owed.
func cover(owed []time.Time, es []client.Execution) (wrong []string) {
	times := map[time.Time]int{}
	for _, e := range es {
		from, to, count := e.ScheduledTime.UTC(), e.ScheduledTime.UTC(), 1
		switch {
		case e.Status == "SKIPPED" && e.Metadata["count"] != "":
			var err error
			if from, err = time.Parse(time.RFC3339, e.Metadata["from"]); err == nil {
				if to, err = time.Parse(time.RFC3339, e.Metadata["to"]); err == nil {
					count, err = strconv.Atoi(e.Metadata["count"])
				}
			}
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("a record of skipped instants: %v", err))
			}
		case e.Status != "SKIPPED" && e.Status != "SUCCEEDED":
			wrong = append(wrong, fmt.Sprintf("the instant %v is %s", from, e.Status))
		}
		n := 0
		for _, t := range owed {
			if !t.Before(from) && !t.After(to) {
				times[t]++
				n++
			}
		}
		if n != count {
			wrong = append(wrong, fmt.Sprintf("from %v to %v there are %d instants, and an execution stands for %d (%s)", from, to, n, count, e.Status))
		}
	}
	for _, t := range owed {
		switch n := times[t]; {
		case n == 0:
			wrong = append(wrong, fmt.Sprintf("the instant %v is lost", t))
		case n > 1:
			wrong = append(wrong, fmt.Sprintf("the instant %v is there %d times", t, n))
		}
	}
	return wrong
}

// The comparison is itself checked: each of these is wrong, and it says so.
func TestCoverTurnsRed(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	j := recurring{kind: interval(2, ""), created: at.Add(300 * time.Millisecond)}
	owed := j.instants(at.Add(9 * time.Second)) // 2, 4, 6, 8
	sec := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	ran := func(n int) client.Execution { return client.Execution{Status: "SUCCEEDED", ScheduledTime: sec(n)} }
	skip := func(from, to, count int) client.Execution {
		return client.Execution{Status: "SKIPPED", ScheduledTime: sec(from), Metadata: map[string]string{
			"from": sec(from).Format(time.RFC3339), "to": sec(to).Format(time.RFC3339), "count": strconv.Itoa(count),
		}}
	}
	if wrong := cover(owed, []client.Execution{ran(8), skip(4, 6, 2), ran(2)}); len(wrong) != 0 {
		t.Errorf("sound: %v", wrong)
	}
	for name, es := range map[string][]client.Execution{
		"one is lost":           {ran(2), ran(4), ran(8)},
		"one is doubled":        {ran(2), ran(4), ran(4), ran(6), ran(8)},
		"one is not owed":       {ran(2), ran(3), ran(4), ran(6), ran(8)},
		"skipped and ran":       {ran(2), skip(4, 6, 2), ran(6), ran(8)},
		"a record counts wrong": {ran(2), skip(4, 6, 3), ran(8)},
		"one failed":            {ran(2), ran(4), ran(6), {Status: "FAILED", ScheduledTime: sec(8)}},
	} {
		if wrong := cover(owed, es); len(wrong) == 0 {
			t.Errorf("%s: nothing is said", name)
		}
	}
}
