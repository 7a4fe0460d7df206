package postgres

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// What there is very much of is counted for gauges and the overview, or estimated within 5 %: dead letters, of which there may be
// more than are counted, and more since the last vacuum.
func TestCensusOfVeryMuch(t *testing.T) {
	s := fresh(t)
	c := direct(t, s)
	exec(t, c, "SET synchronous_commit = off")
	many := 60_000
	if testing.Short() {
		many = 11_000
	}
	exec(t, c, `INSERT INTO schedules (next_run_at, runs, job, revision, part, active, tenant)
		SELECT now() - interval '1 minute', 0, gen_random_uuid(), 1, i % 64, true, 'default' FROM generate_series(1, $1::int) i`, many)
	exec(t, c, `INSERT INTO runs (begun_at, scheduled_at, seq, token, id, execution, workflow, version, attempt, status, tenant, state)
		SELECT now(), now(), 1, 1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 1, 1, 'default', '' FROM generate_series(1, $1::int)`, many)
	exec(t, c, `INSERT INTO run_waits (begun_at, run, node, kind, tenant, event, digest)
		SELECT now(), gen_random_uuid(), 0, 2, 'default', '', '' FROM generate_series(1, $1::int)`, many)
	die := func(n int) {
		exec(t, c, `INSERT INTO dead_letters (at, execution, job, tenant, reason, message)
			SELECT now(), gen_random_uuid(), gen_random_uuid(), 'default', 'NOT_RETRYABLE', 'answered 503' FROM generate_series(1, $1::int)`, n)
	}
	census := func() engine.Census {
		t.Helper()
		return must[engine.Census](t)(s.Census(t.Context(), time.Now()))
	}
	die(many)
	got := census()
	for what, x := range map[string]engine.Total{"overdue jobs": got.Overdue, "runs": got.Runs, "approvals": got.Approvals, "dead letters": got.DeadLetters} {
		if x != (engine.Total{Count: int64(many)}) {
			t.Errorf("%s: %+v, want %d", what, x, many)
		}
	}
	if testing.Short() {
		return
	}
	exec(t, c, "VACUUM ANALYZE dead_letters")
	for dead := many + many; dead <= 4*many; dead += many {
		die(many)
		if x := census().DeadLetters; x.Estimate != (dead > countedInCensus) || x.Count < int64(dead)*95/100 || x.Count > int64(dead)*105/100 {
			t.Errorf("%d dead letters: %+v", dead, x)
		}
	}
}
