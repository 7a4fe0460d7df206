//go:build unix

package faults

import (
	"testing"
	"time"
)

// The owners of all partitions change under two servers, repeatedly, each time behind their backs: each continues for a while as if it
// owned what is the other's. Every instant that is owed fires once all the same (row 12).
func TestOwnersThatChangeAllTheTime(t *testing.T) {
	t.Parallel()
	flips := 10
	if all {
		flips = 50
	}
	c := newCluster(t)
	a, b := c.join(c.where), c.join(c.where)
	c.balanced()
	c.recur(60, kinds)
	c.arrived(30*time.Second, "the first calls", c.jobs, time.Time{})
	for range flips {
		rows[int](c, `WITH moved AS (UPDATE partitions SET owner = CASE owner WHEN $1::uuid THEN $2::uuid ELSE $1::uuid END, wanted = NULL, epoch = epoch + 1 WHERE duty = 2 AND owner IN ($1, $2) RETURNING 1)
			SELECT count(*)::int FROM moved`, a.id, b.id)
		<-time.After(300 * time.Millisecond)
	}
	c.balanced()
	c.arrived(30*time.Second, "calls after the last change", c.jobs, time.Now())
	c.verify(rows[time.Time](c, "SELECT date_trunc('second', now())")[0])
}
