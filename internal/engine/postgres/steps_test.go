package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// upTo is a store over a database that has the steps up to one.
func upTo(t *testing.T, version int) *Store {
	t.Helper()
	s := must[*Store](t)(Open(t.Context(), Config{URL: postgrestest.URL(t)}))
	t.Cleanup(func() { _ = s.Close() })
	c := direct(t, s)
	must[[]engine.Applied](t)(applied(t.Context(), c))
	for _, m := range must[[]engine.Migration](t)(migrations())[:version] {
		if err := apply(t.Context(), c, m); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// manyRows gives a database jobs, credentials of them and dead letters.
func manyRows(t *testing.T, c *pgx.Conn, jobs, credentials int) {
	t.Helper()
	exec(t, c, "SET synchronous_commit = off; SET session_replication_role = replica")
	exec(t, c, `INSERT INTO jobs (tenant, id, part, state, kind, priority, max_attempts, revision, created_at, updated_at, name, spec, target)
		SELECT 'default', ('00000000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 0, 1, 3, 5, 1, 1, now(), now(), 'job ' || i, '{}', '{}' FROM generate_series(1, $1::int) i`, jobs)
	exec(t, c, `INSERT INTO secrets (tenant, name, job, version, created_at, updated_at, key_id, sealed)
		SELECT 'default', 'credential ' || i, ('00000000-0000-7000-8000-' || lpad((1 + i % $2)::text, 12, '0'))::uuid, 1, now(), now(), 'k', 'x' FROM generate_series(1, $1::int) i`, credentials, jobs)
	exec(t, c, "RESET session_replication_role; RESET synchronous_commit")
}

// keptOut samples for how long writers of a table are kept out at a stretch, until it is stopped.
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

// likeNew compares indexes and constraints with those of a database that never was large.
func likeNew(t *testing.T, s *Store) {
	t.Helper()
	shape := func(s *Store) string {
		return one[string](t, direct(t, s), `
			SELECT string_agg(x, E'\n' ORDER BY x) FROM (
				SELECT indexrelid::regclass || ' ' || pg_get_indexdef(indexrelid) || ' ' || indisvalid AS x FROM pg_index WHERE indrelid IN ('jobs'::regclass, 'secrets'::regclass, 'dead_letters'::regclass)
				UNION ALL
				SELECT conname || ' ' || pg_get_constraintdef(oid) || ' ' || convalidated FROM pg_constraint WHERE conrelid IN ('jobs'::regclass, 'secrets'::regclass, 'dead_letters'::regclass)
			) x`)
	}
	if got, want := shape(s), shape(fresh(t)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// killedWithin migrates, and has the connection that does so killed within a statement: while it builds an index, which it leaves half
// made, or before it commits anything else.
func killedWithin(t *testing.T, s *Store, c *pgx.Conn, statement string) error {
	t.Helper()
	if strings.HasPrefix(statement, "CREATE INDEX CONCURRENTLY") {
		failed := make(chan error, 1)
		go func() { failed <- s.Migrate(t.Context()) }()
		for {
			select {
			case err := <-failed:
				return err
			case <-time.After(2 * time.Millisecond):
				exec(t, c, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE $1", statement)
			}
		}
	}
	exec(t, c, `CREATE FUNCTION kill_within() RETURNS event_trigger LANGUAGE plpgsql AS
		$$ BEGIN IF current_query() LIKE '`+statement+`' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; END $$`)
	exec(t, c, "CREATE EVENT TRIGGER kill_within ON ddl_command_end EXECUTE FUNCTION kill_within()")
	err := s.Migrate(t.Context())
	exec(t, c, "DROP EVENT TRIGGER kill_within")
	exec(t, c, "DROP FUNCTION kill_within()")
	return err
}

// No step that servers run on through keeps writers of a large table out for a second, and one that is killed is gone on with.
func TestStepsOverLargeTables(t *testing.T) {
	for _, x := range []struct {
		from              int
		jobs, credentials int
		table, during     string
	}{
		{18, 300_000, 10, "jobs", "CREATE INDEX CONCURRENTLY jobs_name%"},
		{22, 1000, 500_000, "jobs", "ALTER TABLE secrets VALIDATE%"},
	} {
		t.Run(fmt.Sprintf("after %d", x.from), func(t *testing.T) {
			s := upTo(t, x.from)
			c := direct(t, s)
			manyRows(t, c, x.jobs, x.credentials)
			stop := keptOut(t, s, x.table)
			if err := killedWithin(t, s, c, x.during); err == nil {
				t.Fatal("the step was killed, and did not fail")
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if longest := stop(); longest >= time.Second {
				t.Errorf("writers were kept out of %s for %v", x.table, longest)
			} else {
				t.Logf("writers were kept out of %s for %v at a stretch", x.table, longest)
			}
			likeNew(t, s)
		})
	}
}
