package postgres

import (
	"cmp"
	"net/url"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// A lease that began before a job was paused or deleted, and takes what the change has not come to yet, has ended when the change is
// answered; also one of a server that has another database login, whose statements the first may not read.
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
		for login, open := range map[string]func(*testing.T) (s, other *Store){
			"same login":    func(t *testing.T) (s, other *Store) { s = fresh(t); return s, s },
			"another login": asGuest,
		} {
			t.Run(name+", "+login, func(t *testing.T) {
				t.Parallel()
				s, theirs := open(t)
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
				mine, other := direct(t, theirs), direct(t, theirs)
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
}

// asGuest is a store that runs with a role that owns nothing and reads nobody's statements, and that of the owner.
func asGuest(t *testing.T) (guest, owner *Store) {
	t.Helper()
	const app = "carillon_test_guest"
	postgrestest.Exec(t, postgrestest.Server(t), `DO $$ BEGIN CREATE ROLE `+app+` LOGIN PASSWORD 'x' NOINHERIT; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`)
	where := postgrestest.URL(t)
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(app, "x")
	for _, c := range []Config{{URL: where, AppRole: app}, {URL: u.String()}} {
		s, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		guest, owner = s, cmp.Or(owner, s)
	}
	return guest, owner
}
