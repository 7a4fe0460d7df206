package postgres

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// At the timeouts of servers, whatever waits: a pause, its end, and each piece of what they leave.
func TestPauseOfVeryManyThatWait(t *testing.T) {
	const n, pieces = 300_000, 5 // they take the same, however many there are
	s := fresh(t)
	made := creation(t, s, 1)
	store(t, s, made)
	id := made.Jobs[0].ID
	c := direct(t, s)
	backlog(t, c, id, n, job.BySchedule)
	product(t, s)
	for _, state := range []job.State{job.Paused, job.Active} {
		j := must[job.Job](t)(s.Job(t.Context(), tenant.Default, engine.Ref{ID: id}))
		j.State = state
		begun := time.Now()
		must[job.Job](t)(s.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: j, AsOf: begun}))
		took := time.Since(begun)
		if took > time.Second {
			t.Errorf("%v: answered after %v", state, took)
		}
		longest := time.Duration(0)
		for range pieces {
			piece := time.Now()
			if k := must[int](t)(s.Settle(t.Context(), engine.HoldsAtOnce)); k != engine.HoldsAtOnce {
				t.Errorf("%v: a piece of %d", state, k)
			}
			longest = max(longest, time.Since(piece))
		}
		t.Logf("%v: answered after %v; the longest of %d pieces took %v", state, took, pieces, longest)
		want := 1 + (1+pieces)*engine.HoldsAtOnce
		if state == job.Active {
			want = 0
		}
		var held, left int
		if err := c.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM live WHERE hold <> 0), (SELECT count(*) FROM settling)").Scan(&held, &left); err != nil {
			t.Fatal(err)
		}
		if held != want || left != 1 {
			t.Errorf("%v: %d are held, want %d; %d notes are there", state, held, want, left)
		}
	}
}
