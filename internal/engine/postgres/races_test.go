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
	for range 1_000 {
		if one[bool](t, c, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity, pg_sleep(0.01) WHERE datname = current_database() AND wait_event_type = 'Lock')") {
			return
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
		as, err := s.Lease(t.Context(), []engine.Grant{{Worker: w, Executions: ids(c)}})
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
	if err := (batch{[]engine.Creation{first}, []int{0}, nil}).insert(t.Context(), mine, nil); err != nil {
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
