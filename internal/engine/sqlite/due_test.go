package sqlite

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"time"
)

// All that is due is counted, also above a million. How long that takes: CARILLON_DUE=1000000 go test -run TestDueAtScale -v
func TestDueAtScale(t *testing.T) {
	n, _ := strconv.ParseInt(os.Getenv("CARILLON_DUE"), 10, 64)
	many := int64(1_200_000)
	if testing.Short() {
		many = 60_000
	}
	n = cmp.Or(n, many)
	s := fresh(t)
	err := s.write(t.Context(), "fill", func(c *conn, _ int64) error {
		_, err := c.prepare(`WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < ?)
			INSERT INTO live (id, job, due_at, scheduled_at, nonce, max_attempts, part, priority, trigger, tenant, class, timeout_ms)
			SELECT CAST(printf('x%015d', i) AS BLOB), CAST(printf('j%015d', i) AS BLOB), 1, i, i, 4, i % 64, 1 + i % 4, 1, 'default', 'http' || i % 3, 300000 FROM s`).int(n).exec()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		begun, sum := time.Now(), int64(0)
		all, err := s.CountDue(t.Context())
		for _, k := range all {
			sum += int64(k)
		}
		if err != nil || sum != n {
			t.Fatalf("%d of %d are due, %v", sum, n, err)
		}
		t.Logf("%d are due, counted in %v", sum, time.Since(begun))
	}
}
