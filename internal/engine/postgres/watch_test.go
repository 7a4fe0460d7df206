package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A server that starts beside others, which hold very much, looks through it in pieces, each at the timeouts of servers, and finds
// what overruns within a few looks.
func TestTheFirstLookAtVeryManyLeases(t *testing.T) {
	leases, each := 600, 1000
	if testing.Short() {
		leases = 120
	}
	s := fresh(t)
	a := leaseMany(t, s, 1)[0]
	c := direct(t, s)
	exec(t, c, "SET synchronous_commit = off")
	exec(t, c, `
		INSERT INTO live (lane, due_at, scheduled_at, nonce, id, job, max_attempts, part, priority, trigger, tally, tenant, class, lease, worker, leased_at, started_at, attempt, timeout_ms)
		SELECT v.lane, v.due_at, now(), i, ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, v.job, 4, v.part, 5, 2, true, v.tenant, v.class, 1000 + i / $2, v.worker, now(), now(), 1,
			CASE WHEN i = $3 THEN 1 ELSE 3600000 END
		FROM generate_series(0, $1::bigint - 1) i, (SELECT * FROM live WHERE id = $4) v`, leases*each, each, leases*each-1, [16]byte(a.Execution))
	exec(t, c, `
		INSERT INTO leases (lease, worker, at, ids)
		SELECT lease, (array_agg(worker))[1], now() - interval '1 minute', array_agg(id ORDER BY id) FROM live WHERE lease BETWEEN 1000 AND 2000 GROUP BY lease`)
	exec(t, c, "ANALYZE live; ANALYZE leases")
	product(t, s)
	var found []engine.Overrun
	begun, looks, longest := time.Now(), 0, time.Duration(0)
	for len(found) == 0 && looks < 100 {
		since := time.Now()
		found = must[[]engine.Overrun](t)(s.Overrun(t.Context(), 0, 100))
		longest = max(longest, time.Since(since))
		looks++
	}
	t.Logf("found in %d looks and %v; the longest took %v", looks, time.Since(begun), longest)
	if len(found) != 1 || found[0].Held.ID != job.ExecutionID(uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012d", leases*each-1))) {
		t.Fatalf("found %+v", found)
	}
	if longest >= 5*time.Second { // for which a server waits in all
		t.Errorf("a look took %v", longest)
	}
	if again := must[[]engine.Overrun](t)(s.Overrun(t.Context(), 0, 100)); len(again) != 1 {
		t.Errorf("what is known to be late is not found first: %d", len(again))
	}
}
