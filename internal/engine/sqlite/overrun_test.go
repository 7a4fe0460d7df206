package sqlite

import (
	"fmt"
	"testing"
	"time"
)

// A server that starts with very much leased looks through it in pieces, each well within the timeout of a read, and finds what
// overruns within a few looks: where workers claim much at once, and where each claim gets one.
func TestTheFirstLookAtVeryManyLeases(t *testing.T) {
	all := int64(600_000)
	if testing.Short() {
		all = 60_000
	}
	for _, each := range []int64{1000, 1} {
		t.Run(fmt.Sprintf("%d a lease", each), func(t *testing.T) {
			s := fresh(t)
			made := some(s, 1)
			store(t, s, made)
			leaseOne(t, s, made.Executions[0].ID)
			err := s.write(t.Context(), "fill", func(c *conn, now int64) error {
				for _, sql := range []string{
					`WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < ?1)
						INSERT INTO live (id, job, due_at, scheduled_at, nonce, max_attempts, part, priority, trigger, tenant, class, lease, worker, leased_at, started_at, attempt, timeout_ms)
						SELECT CAST(printf('x%015d', i) AS BLOB), v.job, v.due_at, i, i, 4, i % 64, 5, 2, v.tenant, v.class, 1 + i / ?2, v.worker, ?3, ?3, 1, iif(i = ?1 - 1, 1, 3600000)
						FROM s, (SELECT * FROM live) v`,
					`WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < ?1 / ?2)
						INSERT INTO leases (lease, at, worker, ids)
						SELECT 1 + i, ?3, (SELECT id FROM sessions), CAST((WITH RECURSIVE k(j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM k WHERE j + 1 < ?2)
							SELECT group_concat(printf('x%015d', i * ?2 + j), '') FROM k) AS BLOB) FROM s`,
				} {
					if _, err := c.prepare(sql).int(all).int(each).int(now - time.Minute.Microseconds()).exec(); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			begun, looks, longest := time.Now(), 0, time.Duration(0)
			found := ""
			for ; found == "" && looks < 30; looks++ {
				since := time.Now()
				over, err := s.Overrun(t.Context(), 0, 100)
				if err != nil {
					t.Fatal(err)
				}
				longest = max(longest, time.Since(since))
				for _, o := range over {
					found += string(o.Held.ID[:])
				}
			}
			t.Logf("found in %d looks and %v; the longest took %v", looks, time.Since(begun), longest)
			if found != fmt.Sprintf("x%015d", all-1) {
				t.Fatalf("found %q", found)
			}
			if longest >= 5*time.Second {
				t.Errorf("a look took %v", longest)
			}
		})
	}
}
