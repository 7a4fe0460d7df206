package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A pause and its end answer at once, whatever waits, and no piece of what they leave keeps other writers waiting.
func TestPauseOfVeryManyThatWait(t *testing.T) {
	const n, pieces = 300_000, 5 // they take the same, however many there are
	b := newBench(t)
	c := some(b.Store, 1)
	store(t, b.Store, c)
	err := b.write(t.Context(), "fill", func(x *conn, _ int64) error {
		_, err := x.prepare(fmt.Sprintf(`
			WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d)
			INSERT INTO live (tenant, job, id, part, class, priority, due_at, scheduled_at, nonce, trigger, max_attempts, hold, timeout_ms)
			SELECT tenant, job, CAST(printf('x%%015d', i) AS BLOB), part, class, priority, due_at, scheduled_at - i * 1000000, 0, 1, 4, 0, timeout_ms FROM s CROSS JOIN live WHERE id = ?`, n)).id(c.Jobs[0].ID).exec()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []job.State{job.Paused, job.Active} {
		j := b.job(c.Jobs[0].ID)
		j.State = state
		begun := time.Now()
		b.update(j)
		took, longest := time.Since(begun), time.Duration(0)
		if took > time.Second {
			t.Errorf("%v: answered after %v", state, took)
		}
		for range pieces {
			piece := time.Now()
			if k, err := b.Settle(t.Context(), engine.HoldsAtOnce); err != nil || k != engine.HoldsAtOnce {
				t.Fatalf("%v: a piece of %d, %v", state, k, err)
			}
			longest = max(longest, time.Since(piece))
		}
		t.Logf("%v: answered after %v; the longest of %d pieces took %v", state, took, pieces, longest)
		want := 1 + (1+pieces)*engine.HoldsAtOnce
		if state == job.Active {
			want = 0
		}
		if held, left := b.count("SELECT count(*) FROM live WHERE hold <> 0"), b.count("SELECT count(*) FROM settling"); held != want || left != 1 {
			t.Errorf("%v: %d are held, want %d; %d notes are there", state, held, want, left)
		}
	}
}
