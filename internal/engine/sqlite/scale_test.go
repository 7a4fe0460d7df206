package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
)

// Pages of very many executions: CARILLON_SCALE=10000000 go test -run TestPagesAtScale -v -timeout 30m
func TestPagesAtScale(t *testing.T) {
	n := int64(enginetest.ScaleRows())
	if n == 0 {
		t.Skip("a measurement; CARILLON_SCALE says over how many executions")
	}
	s := fresh(t)
	run := func(sql string, args ...int64) {
		t.Helper()
		err := s.write(t.Context(), "fill", func(c *conn, _ int64) error {
			q := c.prepare(sql)
			for _, a := range args {
				q.int(a)
			}
			_, err := q.exec()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const series = "WITH RECURSIVE s(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < ?2) "
	run(series+`
		INSERT INTO jobs (tenant, id, state, kind, priority, revision, created_at, updated_at, name, spec, target)
		SELECT iif(i < 2000, 'big', 't' || i % 1000), CAST(printf('job%013d', i) AS BLOB), 1, 3, 5, 1, 0, 0, 'job ' || i, x'7b7d', x'7b7d' FROM s`, 0, 4000)
	begun := time.Now()
	const step = 250_000
	for i := int64(0); i < n; i += step {
		run(series+`
			INSERT INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger, worker, tenant, ending)
			SELECT CAST(printf('x%015d', i) AS BLOB), CAST(printf('job%013d', iif(i % 5 < 4, i % 2000, 2000 + i / 5 % 2000)) AS BLOB), iif(i % 100 = 0, 11, 10), i, ?3, ?3 - (?4 - i) * (604800000000 / ?4), ?3, ?3,
				1, 0, 0, 4, 0, 5, 1, x'11111111111111111111111111111111', iif(i % 5 < 4, 'big', 't' || (2000 + i / 5 % 2000) % 1000), iif(i % 100 = 0, CAST('{"t":"HTTP_ERROR","m":"answered 503","s":503}' AS BLOB), NULL) FROM s`,
			i, min(i+step, n), time.Now().UnixMicro(), n)
	}
	t.Logf("%d executions stored in %v", n, time.Since(begun))
	enginetest.Pages(t, s)
}

// What one more index costs an execution that finishes.
func TestIndexCost(t *testing.T) {
	n := int64(enginetest.ScaleRows() / 20)
	if n == 0 {
		t.Skip("a measurement; CARILLON_SCALE says over how many executions, twenty times over")
	}
	s := fresh(t)
	do := func(sql string, args ...int64) {
		t.Helper()
		err := s.write(t.Context(), "fill", func(c *conn, _ int64) error {
			q := c.prepare(sql)
			for _, a := range args {
				q.int(a)
			}
			_, err := q.exec()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	measure := func() time.Duration {
		do("DELETE FROM executions")
		begun := time.Now()
		for i := int64(0); i < n; i += 1000 {
			do(`WITH RECURSIVE s(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < ?2)
				INSERT INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger, worker, tenant)
				SELECT CAST(printf('x%015d', i) AS BLOB), CAST(printf('x%015d', i) AS BLOB), 10, i, i, i, i, i, 1, 0, 0, 4, 0, 5, 1, x'11111111111111111111111111111111', 'default' FROM s`, i, min(i+1000, n))
		}
		return time.Since(begun) / time.Duration(n)
	}
	least := map[string]time.Duration{}
	for range 3 { // by turns, as others may use the machine; the least counts
		for name, change := range map[string]string{
			"with":    "CREATE INDEX IF NOT EXISTS executions_tenant ON executions (tenant, scheduled_at, id) WHERE status > 0",
			"without": "DROP INDEX IF EXISTS executions_tenant",
		} {
			do("DELETE FROM executions")
			do(change)
			if took := measure(); least[name] == 0 || took < least[name] {
				least[name] = took
			}
		}
	}
	t.Logf("a row: %v", least)
}
