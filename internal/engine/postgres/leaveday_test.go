package postgres

import (
	"errors"
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
			good := must[job.Execution](t)(s.Execution(ctx, tenant.Default, as[0].Execution))
			turn := must[engine.ArchiveTurn](t)(s.TakeArchive(ctx, [16]byte{1}, time.Hour))
			day := good.FinishedAt.Truncate(24 * time.Hour)
			file := engine.ArchiveFile{
				Name: "executions/a", Kind: engine.ArchivedExecutions, Day: day, Rows: 1, Bytes: 1, Check: (&engine.Finished{Execution: good}).Check(), ReadAt: good.FinishedAt, WrittenAt: good.FinishedAt,
			}
			if err := errors.Join(s.BeginFile(ctx, turn, file), s.ProveFile(ctx, turn, file.Name)); err != nil {
				t.Fatal(err)
			}
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
