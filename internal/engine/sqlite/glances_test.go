package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Where so many jobs of others are late that not all are looked at, none of mine is no promise.
func TestLateJobsBehindThoseOfOthers(t *testing.T) {
	s := fresh(t)
	late := func(n int) {
		t.Helper()
		err := s.write(t.Context(), "add schedules", func(c *conn, now int64) error {
			_, err := c.prepare(`
				WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
				INSERT INTO schedules (job, tenant, next_run_at, runs, revision, active) SELECT randomblob(16), 'herd', ?2, 0, 1, 1 FROM n`).int(int64(n)).int(now - 3_600_000_000).exec()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	late(countedLate - 1)
	for _, want := range []bool{false, true} {
		got, err := s.LateJobs(t.Context(), "mine", time.Now(), 10)
		if err != nil || got.Total != (engine.Total{Estimate: want}) || len(got.Jobs) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		late(1)
	}
}
