package postgres

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
)

// Pages of very many executions: CARILLON_SCALE=10000000 go test -run TestPagesAtScale -v -timeout 30m
func TestPagesAtScale(t *testing.T) {
	n := enginetest.ScaleRows()
	if n == 0 {
		t.Skip("a measurement; CARILLON_SCALE says over how many executions")
	}
	s := fresh(t)
	c := direct(t, s)
	exec(t, c, "SET synchronous_commit = off; SET maintenance_work_mem = '256MB'; SET work_mem = '64MB'")
	exec(t, c, `
		INSERT INTO jobs (tenant, id, state, kind, part, priority, max_attempts, revision, created_at, updated_at, name, spec, target)
		SELECT CASE WHEN i < 2000 THEN 'big' ELSE 't' || i % 1000 END, ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 1, 3, 0, 5, 4, 1, now(), now(), 'job ' || i, '{}', '{}'
		FROM generate_series(0, 3999) i`)
	insert := `
		INSERT INTO executions (finished_at, scheduled_at, due_at, started_at, token, attempt, tries, lost, max_attempts, status, trigger, priority, part, tally, id, job, worker, tenant, ending)
		SELECT now() - interval '10 minutes', x.at, x.at, x.at, i, 1, 0, 0, 4, CASE WHEN i % 100 = 0 THEN 11 ELSE 10 END, 1, 5, 0, true,
			('00000000-' || lpad((i >> 32)::text, 4, '0') || '-7000-9000-' || lpad(i::text, 12, '0'))::uuid, ('00000000-0000-7000-8000-' || lpad(x.job::text, 12, '0'))::uuid, '11111111-1111-1111-1111-111111111111',
			CASE WHEN x.big THEN 'big' ELSE 't' || x.job % 1000 END, CASE WHEN i % 100 = 0 THEN convert_to('{"t":"HTTP_ERROR","m":"answered 503","s":503}', 'UTF8') END
		FROM generate_series($1::bigint, $2::bigint) i,
			LATERAL (SELECT i % 5 < 4 AS big, now() - interval '7 days' * (1 - i::float8 / $3) AS at, CASE WHEN i % 5 < 4 THEN i % 2000 ELSE 2000 + i / 5 % 2000 END AS job) x`
	const step = 250_000
	begun := time.Now()
	for i := 0; i < n; i += step {
		exec(t, c, insert, i, min(i+step, n)-1, n)
	}
	t.Logf("%d executions stored in %v", n, time.Since(begun))
	exec(t, c, "VACUUM (ANALYZE) jobs")
	exec(t, c, "ANALYZE executions")
	enginetest.Pages(t, s)
}

// What one more index costs an execution that finishes, and one that is created.
func TestIndexCost(t *testing.T) {
	n := enginetest.ScaleRows() / 20
	if n == 0 {
		t.Skip("a measurement; CARILLON_SCALE says over how many executions, twenty times over")
	}
	s := fresh(t)
	c := direct(t, s)
	insert := `
		INSERT INTO executions (finished_at, scheduled_at, due_at, started_at, token, attempt, tries, lost, max_attempts, status, trigger, priority, part, tally, id, job, worker, tenant)
		SELECT now(), now() + interval '1 ms' * i, now(), now(), i, 1, 0, 0, 4, 10, 1, 5, 0, false, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'default'
		FROM generate_series($1::bigint, $2::bigint) i`
	live := `
		INSERT INTO live (lane, due_at, scheduled_at, nonce, id, job, max_attempts, part, priority, trigger, tally, tenant, class)
		SELECT (i % 64) << 56, now(), now() + interval '1 ms' * i, i, gen_random_uuid(), gen_random_uuid(), 4, i % 64, 5, 1, false, 'default', 'http' FROM generate_series($1::bigint, $2::bigint) i`
	measure := func(sql string) time.Duration {
		exec(t, c, "TRUNCATE executions, live")
		begun := time.Now()
		for i := 0; i < n; i += 1000 {
			exec(t, c, sql, i, min(i+1000, n)-1)
		}
		return time.Since(begun) / time.Duration(n)
	}
	exec(t, c, "SET synchronous_commit = off")
	least := map[string]time.Duration{}
	for range 4 { // by turns, as others may use the machine; the least counts
		for name, change := range map[string]string{
			"with":    "CREATE INDEX IF NOT EXISTS executions_tenant ON executions (tenant, scheduled_at, id) WHERE status > 0; CREATE INDEX IF NOT EXISTS live_tenant ON live (tenant, scheduled_at, id) WHERE priority > 0",
			"without": "DROP INDEX IF EXISTS executions_tenant; DROP INDEX IF EXISTS live_tenant",
		} {
			exec(t, c, "TRUNCATE executions, live")
			exec(t, c, change)
			for what, sql := range map[string]string{"history": insert, "live": live} {
				took := measure(sql)
				if k := what + " " + name; least[k] == 0 || took < least[k] {
					least[k] = took
				}
			}
		}
	}
	t.Logf("a row: %v", least)
}
