package postgres

import (
	"errors"
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
	w := session(t, s, time.Hour)
	mine := direct(t, s)
	exec(t, mine, "BEGIN")
	exec(t, mine, "UPDATE live SET lease = -(nextval('tokens') + 1000)")
	got := make(chan []job.Attempt)
	go func() {
		as, err := s.Lease(t.Context(), []engine.Grant{{Worker: w, Executions: ids(c)}}, engine.Fence{})
		if err != nil {
			t.Errorf("lease: %v", err)
		}
		got <- as
	}()
	untilOneWaits(t, direct(t, s))
	exec(t, mine, "COMMIT")
	if as := <-got; len(as) != 0 {
		t.Errorf("leased under %d, although the row has had a greater token", as[0].Token)
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
		_, err := s.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{})
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
			exec(t, mine, cancelSQL, string(tenant.Default), [16]byte(a.Job), jobDeleted)
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
		_, err := s.DeleteJob(t.Context(), tenant.Default, a.Job, a.LeasedAt)
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
