package postgres

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// manyRows stores jobs and credentials of them.
func manyRows(t *testing.T, c *pgx.Conn, jobs, credentials int) {
	t.Helper()
	exec(t, c, "SET synchronous_commit = off; SET session_replication_role = replica")
	exec(t, c, `INSERT INTO jobs (tenant, id, part, state, kind, priority, max_attempts, revision, created_at, updated_at, name, spec, target)
		SELECT 'default', ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 0, 1, 3, 5, 1, 1, now(), now(), 'job ' || i, '{}', '{}' FROM generate_series(1, $1::int) i`, jobs)
	exec(t, c, `INSERT INTO secrets (tenant, name, job, version, created_at, updated_at, key_id, sealed)
		SELECT 'default', 'credential ' || i, ('00000000-0000-7000-8000-' || lpad((1 + i % $2)::text, 12, '0'))::uuid, 1, now(), now(), 'k', 'x' FROM generate_series(1, $1::int) i`, credentials, jobs)
	exec(t, c, "RESET session_replication_role; RESET synchronous_commit")
}

// keptOut measures for how long writers of a table are kept out at a stretch, until it is stopped.
func keptOut(t *testing.T, s *Store, table string) (stop func() time.Duration) {
	t.Helper()
	c := direct(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var longest time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		var since time.Time
		for ctx.Err() == nil {
			var held bool
			err := c.QueryRow(context.WithoutCancel(ctx), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = $1::regclass AND granted
				AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))`, table).Scan(&held)
			switch now := time.Now(); {
			case err != nil:
				t.Error(err)
				return
			case !held:
				since = time.Time{}
			case since.IsZero():
				since = now
			default:
				longest = max(longest, now.Sub(since))
			}
			<-time.After(5 * time.Millisecond)
		}
	})
	return func() time.Duration { cancel(); wg.Wait(); return longest }
}

// made is a step that a later version might have: a column, and an index and a constraint over large tables.
var made = engine.Migration{Version: 2, Name: "made up", Sum: "x", Oldest: 1, SQL: `
-- works with: 0001
-- part: a column, which changes the catalog only
ALTER TABLE calendars ADD COLUMN IF NOT EXISTS made_up int;
-- part: an index
CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_made_up ON jobs (tenant, description, name, id);
-- part: the constraint, unchecked
ALTER TABLE secrets DROP CONSTRAINT IF EXISTS made_up_fkey;
ALTER TABLE secrets ADD CONSTRAINT made_up_fkey FOREIGN KEY (tenant, job) REFERENCES jobs (tenant, id) NOT VALID;
-- part: its check, while others write
ALTER TABLE secrets VALIDATE CONSTRAINT made_up_fkey;
`}

// killedWithin takes the step, and has its connection killed when it waits, within a statement, for a writer of a table.
func killedWithin(t *testing.T, s *Store, table, statement string) error {
	t.Helper()
	c, victim, writer := direct(t, s), direct(t, s), direct(t, s)
	exec(t, writer, "BEGIN")
	exec(t, writer, "LOCK TABLE "+table+" IN ROW EXCLUSIVE MODE")
	defer exec(t, writer, "ROLLBACK")
	pid := victim.PgConn().PID()
	failed := make(chan error, 1)
	go func() { failed <- apply(t.Context(), victim, made) }()
	for {
		select {
		case err := <-failed:
			return err
		case <-time.After(time.Millisecond):
			exec(t, c, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock' AND query LIKE $2", pid, "%"+statement+"%")
		}
	}
}

// A step in parts keeps writers of a large table out for less than a second, and continues after it was killed, wherever that was.
func TestStepsInParts(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	manyRows(t, c, 100_000, 100_000)
	stops := map[string]func() time.Duration{"jobs": keptOut(t, s, "jobs"), "secrets": keptOut(t, s, "secrets")}
	index := "SELECT coalesce((SELECT CASE WHEN indisvalid THEN 'valid' ELSE 'invalid' END FROM pg_index WHERE indexrelid = to_regclass('jobs_made_up')), 'none')"
	valid := "SELECT coalesce((SELECT convalidated FROM pg_constraint WHERE conname = 'made_up_fkey'), false)"

	if err := killedWithin(t, s, "jobs", "CREATE INDEX CONCURRENTLY"); err == nil {
		t.Fatal("the step was not killed within the index")
	}
	if got := one[string](t, c, index); got != "invalid" {
		t.Errorf("the index is %s, want it half built", got)
	}
	if err := killedWithin(t, s, "secrets", "ADD CONSTRAINT"); err == nil {
		t.Fatal("the step was not killed within the constraint")
	}
	if got := one[string](t, c, index); got != "valid" || one[bool](t, c, valid) {
		t.Errorf("the index is %s; the constraint is valid: %v", got, one[bool](t, c, valid))
	}
	if n := one[int](t, c, "SELECT count(*) FROM carillon_migrations"); n != 1 {
		t.Errorf("%d steps are written down, want only the first", n)
	}
	if err := apply(t.Context(), direct(t, s), made); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, c, index); got != "valid" || !one[bool](t, c, valid) || one[int](t, c, "SELECT max(version) FROM carillon_migrations") != 2 {
		t.Errorf("the index is %s; the constraint is valid: %v", got, one[bool](t, c, valid))
	}
	for table, stop := range stops {
		if longest := stop(); longest >= time.Second {
			t.Errorf("writers were kept out of %s for %v at a stretch, want less than a second", table, longest)
		} else {
			t.Logf("writers were kept out of %s for %v at a stretch", table, longest)
		}
	}

	// Servers of this version run on beside it, as the step says.
	if err := s.Migrate(t.Context()); err != nil {
		t.Errorf("a server that does not know the step: %v", err)
	}
}

// A step that waits for a table which a long transaction holds keeps nobody else from that table for a second, and is taken once
// the transaction has ended.
func TestAStepThatWaitsForATable(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for name, sql := range map[string]string{"whole": "ALTER TABLE jobs ADD COLUMN whole int;", "in parts": "-- part: a column\nALTER TABLE jobs ADD COLUMN in_parts int;"} {
		holder, reader, watcher, c := direct(t, s), direct(t, s), direct(t, s), direct(t, s)
		exec(t, reader, "SET lock_timeout = '3s'")
		exec(t, holder, "BEGIN")
		one[int](t, holder, "SELECT count(*) FROM jobs")
		pid := c.PgConn().PID()
		again := func() chan error {
			taken := make(chan error, 1)
			go func() {
				taken <- apply(t.Context(), c, engine.Migration{Version: map[string]int{"whole": 2, "in parts": 3}[name], Name: name, Sum: "x", Oldest: 1, SQL: sql})
			}()
			return taken
		}
		taken := again()
		var longest time.Duration
		for waits, waited := 0, false; waits < 2; {
			began := time.Now()
			one[int](t, reader, "SELECT count(*) FROM jobs")
			longest = max(longest, time.Since(began))
			waiting := one[bool](t, watcher, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pid = $1 AND relation = 'jobs'::regclass AND NOT granted)", pid)
			if waited && !waiting {
				waits++
			}
			waited = waiting
			select {
			case err := <-taken:
				if !isCode(err, lockNotAvailable) {
					t.Fatalf("%s: the step ended beside a transaction that holds the table: %v", name, err)
				}
				taken, waits = again(), waits+1 // on a busy machine its patience ends before two pauses are seen
			case <-time.After(time.Millisecond):
			}
		}
		exec(t, holder, "ROLLBACK")
		if err := <-taken; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if longest >= time.Second {
			t.Errorf("%s: a reader waited for %v, want less than a second", name, longest)
		}
		t.Logf("%s: a reader waited for %v at most", name, longest)
	}
}

func TestAStepInPartsHasNothingBeforeThem(t *testing.T) {
	bad := engine.Migration{SQL: "-- First.\nCREATE TABLE a ();\n-- part: b\nCREATE TABLE b ();\n"}
	if _, err := parts(bad); err == nil || !strings.Contains(err.Error(), `"CREATE TABLE a ();"`) {
		t.Errorf("got %v", err)
	}
	for _, m := range must[[]engine.Migration](t)(migrations()) {
		if _, err := parts(m); err != nil {
			t.Errorf("step %04d: %v", m.Version, err)
		}
	}
}
