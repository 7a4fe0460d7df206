package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// untilOneWaits returns when a statement of the store waits for a lock of the test's.
func untilOneWaits(t *testing.T, c *pgx.Conn) {
	t.Helper()
	for range 10_000 {
		if one[bool](t, c, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')") {
			return
		}
		if _, err := c.Exec(t.Context(), "SELECT pg_sleep(0.01)"); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("nothing waits for the test's lock")
}

// A token is drawn before its row is locked, so the row may have had a greater one meanwhile.
func TestTokensOnlyGrow(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 1)
	store(t, s, c)
	gs := []engine.Grant{{Worker: session(t, s, time.Hour), Executions: ids(c)}, {Worker: session(t, s, time.Hour)}}
	mine := direct(t, s)
	for n := 1; n <= 2; n++ {
		exec(t, mine, "UPDATE live SET lease = 0")
		exec(t, mine, "BEGIN")
		exec(t, mine, "UPDATE live SET lease = -(nextval('tokens') + 1000)")
		got := make(chan []job.Attempt)
		go func() {
			as, err := s.Lease(t.Context(), gs[:n], engine.Fence{})
			if err != nil {
				t.Errorf("lease: %v", err)
			}
			got <- as
		}()
		untilOneWaits(t, direct(t, s))
		exec(t, mine, "COMMIT")
		if as := <-got; len(as) != 0 {
			t.Errorf("of %d grants one was leased under %d, although the row has had a greater token", n, as[0].Token)
		}
	}
}

// Of two servers that lease one row at once one waits for the other and then finds it held, also where either leases to several.
func TestTwoLeasesOfOneRow(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	gs := []engine.Grant{{Worker: session(t, s, time.Hour)}, {Worker: session(t, s, time.Hour)}}
	mine := direct(t, s)
	registerArrays(mine)
	for first := 1; first <= 2; first++ {
		for second := 1; second <= 2; second++ {
			c := creation(t, s, 3)
			store(t, s, c)
			gs[0].Executions = ids(c)
			exec(t, mine, "BEGIN")
			sql, args := leaseArgs(gs[:first], engine.Fence{})
			if done, err := mine.Exec(t.Context(), sql, args...); err != nil || done.RowsAffected() != 3 {
				t.Fatalf("leased %v: %v", done, err)
			}
			got := make(chan []job.Attempt)
			go func() {
				as, err := s.Lease(t.Context(), gs[:second], engine.Fence{})
				if err != nil {
					t.Errorf("lease: %v", err)
				}
				got <- as
			}()
			untilOneWaits(t, direct(t, s))
			exec(t, mine, "COMMIT")
			if as := <-got; len(as) != 0 {
				t.Errorf("%d rows are leased twice, of %d and %d grants", len(as), first, second)
			}
		}
	}
}

// What one session is given does not depend on whether others are given something in the same commit.
func TestLeasesToOneAndToSeveralAgree(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	const n = 400
	c := creation(t, s, n)
	store(t, s, c)
	mine := direct(t, s)
	registerArrays(mine)
	server := attending(t, s, time.Hour)
	if err := s.Take(t.Context(), server, []job.Partition{0, 1, 2, 3, 4, 5, 6, 7}); err != nil {
		t.Fatal(err)
	}
	f := engine.Fence{Server: server, Epochs: map[job.Partition]int64{}}
	for p := range 16 { // half of which another holds
		f.Epochs[job.Partition(p)] = one[int64](t, mine, "SELECT epoch FROM partitions WHERE duty = 1 AND part = $1", p)
	}
	for _, change := range []string{ // each of a tenth, so that some have several
		"UPDATE live SET part = (random() * 24)::int2", "UPDATE live SET lease = nextval('tokens') WHERE random() < 0.1", "UPDATE live SET lease = -nextval('tokens') WHERE random() < 0.1",
		"UPDATE live SET lease = -9000000000000000 WHERE random() < 0.1", "UPDATE live SET hold = 1 WHERE random() < 0.1", "UPDATE live SET due_at = now() + interval '1 hour' WHERE random() < 0.1",
		"UPDATE live SET expires_at = now() - interval '1 hour' WHERE random() < 0.2", "UPDATE live SET started_at = now() WHERE random() < 0.2", "UPDATE live SET group_key = 1 WHERE random() < 0.3",
		"UPDATE jobs SET state = 4 WHERE random() < 0.1", "UPDATE live SET tenant = 'other' WHERE random() < 0.1", "UPDATE jobs SET tenant = 'other' WHERE id IN (SELECT id FROM live WHERE tenant = 'other')",
		"UPDATE live SET timeout_ms = 7, payload = 'p' WHERE random() < 0.1",
	} {
		exec(t, mine, change)
	}
	bound := job.Worker{ID: newID(), Tenant: "other", Host: "h", Version: "v", StartedAt: c.Jobs[0].CreatedAt}
	if err := s.Register(t.Context(), bound, time.Hour); err != nil {
		t.Fatal(err)
	}
	idle, total := session(t, s, time.Hour), 0
	for _, w := range []job.WorkerID{session(t, s, time.Hour), bound.ID, newID()} {
		for _, f := range []engine.Fence{{}, f} {
			var got [2][]string
			for k := range got {
				gs := []engine.Grant{{Worker: w, Executions: append(ids(c), newID(), ids(c)[0])}, {Worker: idle}}[:1+k]
				exec(t, mine, "BEGIN")
				sql, args := leaseArgs(gs, f)
				rows, err := mine.Query(t.Context(), sql, args...)
				if err != nil {
					t.Fatal(err)
				}
				for rows.Next() {
					all, err := rows.Values()
					if err != nil {
						t.Fatal(err)
					}
					// But for the token and when, which differ.
					got[k] = append(got[k], fmt.Sprint(all[0], all[2:10], all[10] == all[11], all[12:]))
				}
				if err := rows.Err(); err != nil {
					t.Fatal(err)
				}
				exec(t, mine, "ROLLBACK")
				slices.Sort(got[k])
			}
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("alone it is given %d, with others %d", len(got[0]), len(got[1]))
			}
			total += len(got[0])
		}
	}
	if total == 0 || total > 3*n {
		t.Errorf("%d leases show nothing", total)
	}
}

func TestNoTriggerOfAJobThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 1)
	store(t, s, c)
	mine := direct(t, s)
	exec(t, mine, "BEGIN")
	exec(t, mine, deleteJobSQL, string(tenant.Default), [16]byte(c.Jobs[0].ID), c.Jobs[0].CreatedAt)
	got := make(chan error)
	go func() {
		e := c.Executions[0]
		e.ID, e.Trigger = newID(), job.ByHand
		_, err := s.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{}, nil)
		got <- err
	}()
	untilOneWaits(t, direct(t, s))
	exec(t, mine, "COMMIT")
	if err := <-got; !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if n := one[int](t, mine, "SELECT count(*) FROM live"); n != 1 {
		t.Errorf("%d live executions, want the first only", n)
	}
}

// Two creations that want one job key at the same moment: one gets it, the other is told.
func TestAKeyTakenMeanwhile(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	first, second, beside := creation(t, s, 1), creation(t, s, 1), creation(t, s, 1)
	first.Jobs[0].Key, second.Jobs[0].Key = "wanted", "wanted"
	mine := direct(t, s)
	registerArrays(mine)
	exec(t, mine, "BEGIN")
	if err := (batch{all: []engine.Creation{first}, chosen: []int{0}}).insert(t.Context(), mine, nil); err != nil {
		t.Fatal(err)
	}
	got := make(chan []engine.Created)
	go func() {
		out, err := s.CreateJobs(t.Context(), []engine.Creation{second, beside})
		if err != nil {
			t.Errorf("create: %v", err)
		}
		got <- out
	}()
	untilOneWaits(t, direct(t, s))
	exec(t, mine, "COMMIT")
	if out := <-got; len(out) != 2 || out[0].Taken != "wanted" || out[1].Taken != "" {
		t.Errorf("got %+v", out)
	}
	for c, want := range map[*engine.Creation]bool{&first: true, &second: false, &beside: true} {
		if _, err := s.Job(t.Context(), tenant.Default, engine.Ref{ID: c.Jobs[0].ID}); (err == nil) != want {
			t.Errorf("stored: got %v, want %v", err, want)
		}
	}
}

// Whatever returns an execution to the queue while its job is being deleted waits for that, and ends it.
func TestNothingComesBackToAJobThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*testing.T, *Store, job.Attempt) error
		want job.Status
	}{
		"release": {func(t *testing.T, s *Store, a job.Attempt) error {
			_, err := s.Release(t.Context(), job.WorkerID{}, []job.Lease{a.Lease})
			return err
		}, job.Cancelled},
		"finish": {func(t *testing.T, s *Store, a job.Attempt) error {
			_, err := s.Finish(t.Context(), []job.Finish{failure(a)})
			return err
		}, job.Failed},
		"reap": {func(t *testing.T, s *Store, _ job.Attempt) error {
			_, err := s.Reap(t.Context(), 10, 0)
			return err
		}, job.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			a := leaseMany(t, s, 1)[0]
			mine := direct(t, s)
			if name == "reap" {
				exec(t, mine, "UPDATE sessions SET deposed = true")
			}
			exec(t, mine, "BEGIN")
			exec(t, mine, deleteJobSQL, string(tenant.Default), [16]byte(a.Job), a.LeasedAt)
			got := make(chan error)
			go func() { got <- c.end(t, s, a) }()
			untilOneWaits(t, direct(t, s))
			exec(t, mine, cancelSQL, string(tenant.Default), [16]byte(a.Job), jobDeleted, engine.CancelsAtOnce)
			exec(t, mine, "COMMIT")
			if err := <-got; err != nil {
				t.Error(err)
			}
			if e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, a.Execution)); e.Status != c.want {
				t.Errorf("it is %v, want %v", e.Status, c.want)
			}
		})
	}
}

// The other way round: the deletion waits for what returns to the queue, and cancels it.
func TestADeletionSeesWhatComesBack(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	a := leaseMany(t, s, 1)[0]
	mine := direct(t, s)
	registerArrays(mine)
	ids, tokens := pairs([]job.Lease{a.Lease})
	exec(t, mine, "BEGIN")
	exec(t, mine, releaseSQL, ids, tokens, jobDeleted, nil)
	got := make(chan error)
	go func() {
		_, err := s.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: a.Job, AsOf: a.LeasedAt})
		got <- err
	}()
	untilOneWaits(t, direct(t, s))
	exec(t, mine, "COMMIT")
	if err := <-got; err != nil {
		t.Error(err)
	}
	if e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, a.Execution)); e.Status != job.Cancelled {
		t.Errorf("it is %v", e.Status)
	}
}
