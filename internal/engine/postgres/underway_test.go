package postgres

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// A lease that began before a job was paused or deleted, and takes what the change has not come to yet, has ended when the change is
// answered.
func TestNoLeaseEndsAfterAPauseOrADeletionWasAnswered(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Store, job.Job) error{
		"pause": func(s *Store, j job.Job) error {
			j.State = job.Paused
			_, err := s.UpdateJob(t.Context(), tenant.Default, engine.Update{Job: j, AsOf: time.Now(), Holds: 2})
			return err
		},
		"deletion": func(s *Store, j job.Job) error {
			_, err := s.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: j.ID, AsOf: time.Now(), Most: 2})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			now := must[time.Time](t)(s.Now(t.Context()))
			j := recurring(t, s, 1, job.OverlapAllow, now.Add(time.Hour))[0]
			es := make([]job.Execution, 5)
			for i := range es {
				es[i] = j.Fire(newID(), now.Add(time.Duration(i-10)*time.Minute), now)
				es[i].Trigger = job.ByBackfill
			}
			if got := must[[]job.ExecutionID](t)(s.Backfill(t.Context(), tenant.Default, j.ID, es)); len(got) != len(es) {
				t.Fatalf("%d wait", len(got))
			}
			mine, other := direct(t, s), direct(t, s)
			registerArrays(mine)
			lease := func() int64 {
				t.Helper()
				sql, args := leaseArgs([]engine.Grant{{Worker: session(t, s, time.Hour), Executions: []job.ExecutionID{es[4].ID}}}, engine.Fence{})
				done, err := mine.Exec(t.Context(), sql, args...)
				if err != nil {
					t.Fatal(err)
				}
				return done.RowsAffected()
			}
			exec(t, mine, "BEGIN")
			if n := lease(); n != 1 {
				t.Fatalf("leased %d", n)
			}
			answered := make(chan error, 1)
			go func() {
				answered <- change(s, must[job.Job](t)(s.Job(t.Context(), tenant.Default, engine.Ref{ID: j.ID})))
			}()
			for waits := false; !waits; {
				select {
				case err := <-answered:
					t.Fatalf("answered while a lease was under way: %v", err)
				case <-time.After(5 * time.Millisecond):
				}
				waits = one[bool](t, other, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query = $1)", stillLeasingSQL)
			}
			if n := one[int16](t, other, "SELECT state FROM jobs WHERE id = $1", [16]byte(j.ID)); job.State(n) == job.Active {
				t.Errorf("the change waits before it is made")
			}
			exec(t, mine, "COMMIT")
			if err := <-answered; err != nil {
				t.Fatal(err)
			}
			exec(t, mine, "UPDATE live SET lease = -lease, worker = NULL WHERE id = $1", [16]byte(es[4].ID))
			if n := lease(); n != 0 {
				t.Errorf("%d were leased after the answer", n)
			}
		})
	}
}
