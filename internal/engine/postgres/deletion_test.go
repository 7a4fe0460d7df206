package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// product gives a store the timeouts that servers have, not the longer ones of this package's tests.
func product(t *testing.T, s *Store) {
	t.Helper()
	own := func(d time.Duration) map[string]string {
		return map[string]string{"statement_timeout": setting(d / 10), "idle_in_transaction_session_timeout": setting(d / 10)}
	}
	s.hot.Close()
	s.read.Close()
	var err error
	if s.hot, err = s.open(t.Context(), s.size.hot, hotSettings, own(hotStatement)); err != nil {
		t.Fatal(err)
	}
	if s.read, err = s.open(t.Context(), s.size.read, readSettings, own(readStatement)); err != nil {
		t.Fatal(err)
	}
}

// backlog gives a job n executions that wait, as a trigger would have made them.
func backlog(t *testing.T, c *pgx.Conn, j job.ID, n int, by job.Trigger) {
	t.Helper()
	exec(t, c, "SET synchronous_commit = off")
	exec(t, c, `
		INSERT INTO live (lane, due_at, scheduled_at, nonce, id, job, max_attempts, part, priority, trigger, tally, tenant, class)
		SELECT v.lane, v.due_at, now() - interval '1 s' * i, CASE WHEN $4 THEN 0 ELSE i END, lpad(to_hex(i), 32, '0')::uuid, v.job, 4, v.part, 5, $3, true, v.tenant, v.class
		FROM generate_series(1, $2::bigint) i, (SELECT * FROM live WHERE id = $1) v`, [16]byte(j), n, int16(by), by.OfItself())
	exec(t, c, "ANALYZE live")
}

// At the timeouts of servers, whatever waits: a deletion, and each piece of its rest.
func TestDeleteOfVeryManyThatWait(t *testing.T) {
	n := 300_000
	if testing.Short() {
		n = 60_000
	}
	s := fresh(t)
	made := creation(t, s, 1)
	store(t, s, made)
	id := made.Jobs[0].ID
	c := direct(t, s)
	backlog(t, c, id, n, job.ByHand)
	product(t, s)
	// As a backup would, it keeps what is deleted from being cleaned up, so that each piece has all those before it to pass over.
	old := direct(t, s)
	exec(t, old, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	exec(t, old, "SELECT count(*) FROM live")
	rest := job.Operation{ID: newID(), Tenant: tenant.Default, Kind: job.OpCancelWaiting, State: job.OpRunning, Spec: []byte("{}"), CreatedAt: time.Now(), UpdatedAt: time.Now(), Version: 1}
	begun := time.Now()
	got := must[engine.Deleted](t)(s.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: id, AsOf: time.Now(), Rest: &rest}))
	t.Logf("deleted in %v", time.Since(begun))
	if got.State != job.Deleted || got.Rest != rest.ID {
		t.Fatalf("the job is %v, the rest %v", got.State, got.Rest)
	}
	if o := must[job.Operation](t)(s.Operation(t.Context(), tenant.Default, rest.ID)); o.Total != int64(n+1-engine.CancelsAtOnce) {
		t.Errorf("the operation is over %d", o.Total)
	}
	done, longest := engine.CancelsAtOnce, time.Duration(0)
	for more := true; more; {
		piece := time.Now()
		k := len(must[[]engine.Ended](t)(s.CancelWaiting(t.Context(), tenant.Default, id, engine.CancelsAtOnce)))
		longest = max(longest, time.Since(piece))
		done, more = done+k, k == engine.CancelsAtOnce
	}
	t.Logf("cancelled in %v, the longest piece took %v", time.Since(begun), longest)
	var left, past int
	if err := c.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM live), (SELECT count(*) FROM executions WHERE status = 13)").Scan(&left, &past); err != nil {
		t.Fatal(err)
	}
	if done != n+1 || left != 0 || past != n+1 {
		t.Errorf("cancelled %d, left %d, in history %d", done, left, past)
	}
}
