package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A dead letter is discarded while its day leaves the store, between two statements of that. No file has its execution, so it stays.
func TestADeadLetterThatGoesWhileItsDayLeaves(t *testing.T) {
	t.Parallel()
	const gate = `
		ALTER TABLE dead_letters RENAME TO the_dead;
		CREATE FUNCTION gate() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN true; END $$;
		CREATE VIEW dead_letters AS SELECT * FROM the_dead WHERE gate()`
	for name, lock := range map[string]string{
		"while they are looked for": "SELECT pg_advisory_xact_lock(1)",
		"before the table is empty": "SELECT count(*) FROM executions",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, s := t.Context(), fresh(t)
			as := leaseMany(t, s, 2)
			dies := failure(as[1])
			dies.Then = job.Transition{Move: job.Died, Status: job.Failed, Tries: 3}
			must[[]job.Verdict](t)(s.Finish(ctx, []job.Finish{success(as[0]), dies}))
			turn, day := written(t, s, as[0].Execution)
			mine, other := direct(t, s), direct(t, s)
			exec(t, mine, gate)
			exec(t, mine, "BEGIN")
			exec(t, mine, lock)
			left := make(chan error)
			go func() { left <- s.LeaveDay(ctx, turn, day) }()
			untilOneWaits(t, other)
			exec(t, other, "DELETE FROM the_dead")
			exec(t, mine, "COMMIT")
			err := <-left
			if err != nil && !errors.Is(err, engine.ErrConflict) {
				t.Fatal(err)
			}
			if _, err := s.Execution(ctx, tenant.Default, as[1].Execution); err != nil {
				t.Errorf("the execution of the dead letter: %v", err)
			}
			if _, look := s.Execution(ctx, tenant.Default, as[0].Execution); errors.Is(look, engine.ErrNotFound) != (err == nil) {
				t.Errorf("the day left: %v, and the other execution: %v", err, look)
			}
		})
	}
}

// written begins the turn of a mover that has written a file of one execution, and returns its day.
func written(t *testing.T, s *Store, id job.ExecutionID) (engine.ArchiveTurn, time.Time) {
	t.Helper()
	e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, id))
	turn := must[engine.ArchiveTurn](t)(s.TakeArchive(t.Context(), [16]byte{1}, time.Hour))
	file := engine.ArchiveFile{
		Name: "executions/a", Kind: engine.ArchivedExecutions, Day: e.FinishedAt.Truncate(24 * time.Hour), Rows: 1, Bytes: 1,
		Check: (&engine.Finished{Execution: e}).Check(), ReadAt: e.FinishedAt, WrittenAt: e.FinishedAt,
	}
	if err := errors.Join(s.BeginFile(t.Context(), turn, file), s.ProveFile(t.Context(), turn, file.Name)); err != nil {
		t.Fatal(err)
	}
	return turn, file.Day
}

// A day whose executions were read stays if another was committed before its table was locked, whatever isolation the database has by default.
func TestAnExecutionThatEndsWhileItsDayLeaves(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"read committed", "repeatable read"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			ctx, s := t.Context(), fresh(t)
			as := leaseMany(t, s, 1)
			must[[]job.Verdict](t)(s.Finish(ctx, []job.Finish{success(as[0])}))
			turn, day := written(t, s, as[0].Execution)
			mine, other := direct(t, s), direct(t, s)
			exec(t, mine, fmt.Sprintf(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET default_transaction_isolation = %%L', current_database(), '%s'); END $$`, isolation))
			exec(t, mine, "BEGIN")
			late := job.ExecutionID{15: 1}
			exec(t, mine, "INSERT INTO executions SELECT (jsonb_populate_record(e, jsonb_build_object('id', $1::uuid))).* FROM executions e", [16]byte(late))
			left := make(chan error)
			go func() { left <- s.LeaveDay(ctx, turn, day) }()
			untilOneWaits(t, other)
			exec(t, mine, "COMMIT")
			if err := <-left; !errors.Is(err, engine.ErrConflict) {
				t.Errorf("the day left: %v", err)
			}
			for _, id := range []job.ExecutionID{as[0].Execution, late} {
				if _, err := s.Execution(ctx, tenant.Default, id); err != nil {
					t.Errorf("%v: %v", id, err)
				}
			}
		})
	}
}

// A file stays if a hold was committed before its tenant was locked, whatever isolation the database has by default.
func TestAHoldThatComesWhileAFileIsRetired(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"read committed", "repeatable read"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			ctx, url := t.Context(), migratedURL(t)
			exec(t, direct(t, opened(t, url)), fmt.Sprintf(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET default_transaction_isolation = %%L', current_database(), '%s'); END $$`, isolation))
			s := opened(t, url)
			turn := must[engine.ArchiveTurn](t)(s.TakeArchive(ctx, [16]byte{1}, time.Hour))
			day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			file := engine.ArchiveFile{Name: "logs/a", Kind: engine.ArchivedLogs, Day: day, Rows: 1, Bytes: 1, ReadAt: day, WrittenAt: day}
			file.Shares = []engine.ArchiveShare{{Tenant: tenant.Default, Rows: 1, First: day, Last: day, Made: day, Until: day}}
			if err := errors.Join(s.BeginFile(ctx, turn, file), s.ProveFile(ctx, turn, file.Name), s.LeaveDay(ctx, turn, day), s.SettleFile(ctx, turn, file.Name)); err != nil {
				t.Fatal(err)
			}
			mine, other := direct(t, s), direct(t, s)
			exec(t, mine, "BEGIN")
			exec(t, mine, "SELECT 1 FROM tenants WHERE id = 'default' FOR NO KEY UPDATE")
			exec(t, mine, "INSERT INTO holds (at, id, tenant, reason, by_whom) VALUES (now(), 'h', 'default', 'a case', 'ann')")
			retired := make(chan error)
			go func() { retired <- s.RetireFile(ctx, turn, file.Name) }()
			untilOneWaits(t, other)
			exec(t, mine, "COMMIT")
			var held *engine.Held
			if err := <-retired; !errors.As(err, &held) {
				t.Errorf("it is retired: %v", err)
			}
		})
	}
}

// opened opens a store of a database that has the schema.
func opened(t *testing.T, url string) *Store {
	t.Helper()
	s := must[*Store](t)(Open(t.Context(), Config{URL: url}))
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
