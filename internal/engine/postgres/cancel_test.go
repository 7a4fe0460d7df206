package postgres

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var stopped = engine.EncodeEnd(&job.Error{Type: job.CancelledError, Message: "enough"}, nil)

// Whatever ends a lease while its execution is being cancelled waits for that, and ends it.
func TestNothingComesBackThatIsBeingCancelled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *Store, job.WorkerID, job.Attempt) error{
		"release": func(t *testing.T, s *Store, _ job.WorkerID, a job.Attempt) error {
			_, err := s.Release(t.Context(), job.WorkerID{}, []job.Lease{a.Lease})
			return err
		},
		"leave": func(t *testing.T, s *Store, w job.WorkerID, _ job.Attempt) error {
			_, err := s.Leave(t.Context(), w)
			return err
		},
		"disown": func(t *testing.T, s *Store, w job.WorkerID, _ job.Attempt) error {
			_, err := s.Disown(t.Context(), w, nil, time.Time{})
			return err
		},
		"reap": func(t *testing.T, s *Store, _ job.WorkerID, _ job.Attempt) error {
			_, err := s.Reap(t.Context(), 10, 1)
			return err
		},
		"finish": func(t *testing.T, s *Store, _ job.WorkerID, a job.Attempt) error {
			_, err := s.Finish(t.Context(), []job.Finish{failure(a)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			a := leaseMany(t, s, 1)[0]
			mine := direct(t, s)
			w := one[[16]byte](t, mine, "SELECT worker FROM live")
			if name == "reap" {
				exec(t, mine, "UPDATE sessions SET deposed = true")
			}
			exec(t, mine, "BEGIN")
			exec(t, mine, askSQL, [16]byte(a.Execution), stopped, "stopped")
			got := make(chan error)
			go func() { got <- end(t, s, w, a) }()
			untilOneWaits(t, direct(t, s))
			exec(t, mine, "COMMIT")
			if err := <-got; err != nil {
				t.Error(err)
			}
			e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, a.Execution))
			if e.Status != job.Cancelled || e.Error == nil || e.Error.Message != "enough" {
				t.Errorf("it is %v: %+v", e.Status, e.Error)
			}
			if n := one[int](t, mine, "SELECT count(*) FROM dead_letters"); n != 0 {
				t.Errorf("%d dead letters", n)
			}
			past := must[[]job.PastAttempt](t)(s.Attempts(t.Context(), tenant.Default, a.Execution))
			want := 0
			if name == "finish" || name == "reap" {
				want = 1
			}
			if len(past) != want {
				t.Errorf("%d attempts are recorded, want %d", len(past), want)
			}
			vs := must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{failure(a)}))
			if vs[0].Accepted != (name == "finish") {
				t.Errorf("the failure, reported after it: %+v", vs)
			}
		})
	}
}

// A retry makes a new row, which a cancel that waited for the old one does not see at once.
func TestACancelFindsWhatWasReturnedMeanwhile(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	a := leaseMany(t, s, 1)[0]
	mine := direct(t, s)
	registerArrays(mine)
	exec(t, mine, "BEGIN")
	sql, args := finishArgs([]job.Finish{failure(a)}, []int{0})
	exec(t, mine, sql, args...)
	got := make(chan job.Status)
	go func() {
		status, err := s.Cancel(t.Context(), tenant.Default, a.Execution, "enough", nil)
		if err != nil {
			t.Errorf("cancel: %v", err)
		}
		got <- status.Status
	}()
	untilOneWaits(t, direct(t, s))
	exec(t, mine, "COMMIT")
	if status := <-got; status != job.Cancelled {
		t.Errorf("got %v", status)
	}
	if e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, a.Execution)); e.Status != job.Cancelled {
		t.Errorf("it is %v", e.Status)
	}
}

func TestTidyDropsOrdersThatAreOver(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	as := leaseMany(t, s, 4)
	w := one[[16]byte](t, c, "SELECT worker FROM live LIMIT 1")
	ask := func(a job.Attempt) {
		must[engine.Cancelled](t)(s.Cancel(t.Context(), tenant.Default, a.Execution, "", nil))
	}
	ask(as[0])
	if n := len(must[[]engine.Ended](t)(s.Force(t.Context(), -time.Second, 10))); n != 1 {
		t.Fatalf("%d were ended", n)
	}
	exec(t, c, "UPDATE orders SET at = at - interval '2 hours'")
	ask(as[1])
	if n := len(must[[]engine.Ended](t)(s.Force(t.Context(), -time.Second, 10))); n != 1 {
		t.Fatalf("%d were ended", n)
	}
	ask(as[2])
	must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{success(as[2])}))
	ask(as[3])
	want := []job.Order{{Worker: w, Lease: as[1].Lease, Kind: job.OrderLost}, {Worker: w, Lease: as[3].Lease, Kind: job.OrderCancel}}
	for range 2 {
		got := must[engine.Orders](t)(s.Renew(t.Context(), []engine.Renewal{{Worker: w}}, time.Hour))
		slices.SortFunc(got.Orders, func(a, b job.Order) int { return int(b.Kind) - int(a.Kind) })
		if !slices.Equal(got.Orders, want) {
			t.Errorf("orders %+v, want %+v", got.Orders, want)
		}
		must[bool](t)(s.Tidy(t.Context()))
	}
	if n := one[int](t, c, "SELECT count(*) FROM orders"); n != 2 {
		t.Errorf("%d orders are left", n)
	}
}

// A worker's message may be anything; a text of the database may not.
func TestADeadLetterWithAnyMessage(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	f := failure(leaseMany(t, s, 1)[0])
	f.Outcome.Error = &job.Error{Type: job.HandlerError, Message: "be\x00fore \xff after"}
	f.Then = job.Transition{Move: job.Died, Status: job.Failed, Tries: 1}
	must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{f}))
	for text, want := range map[string]int{"AFTER": 1, "be\x00fore": 1, "\xff": 1, "during": 0} {
		page := must[engine.DeadLetterPage](t)(s.DeadLetters(t.Context(), engine.DeadLetterFilter{Tenant: tenant.Default, Text: text}, engine.Page{Limit: 10}))
		if len(page.DeadLetters) != want {
			t.Errorf("%q: %d, want %d", text, len(page.DeadLetters), want)
		}
	}
}

// The same call twice at once adds once, and both hear of it.
func TestTheSameRerunAtOnce(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for i := range 20 {
		f := failure(leaseMany(t, s, 1)[0])
		f.Then = job.Transition{Move: job.Died, Status: job.Failed, Tries: 1}
		must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{f}))
		old := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, f.Outcome.Execution))
		e := job.Job{ID: old.Job, Tenant: old.Tenant}.Rerun(old, newID(), job.ByRedrive, nil, old.FinishedAt)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				got, err := s.Rerun(t.Context(), tenant.Default, engine.Rerun{Executions: []job.Execution{e}, DeadOnly: i%2 == 0})
				if err != nil || !slices.Equal(got.Added, []job.ExecutionID{e.ID}) {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
		wg.Wait()
	}
}

func TestARerunOfNothingKeepsNoKey(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 1)
	store(t, s, c)
	e := c.Jobs[0].Rerun(c.Executions[0], newID(), job.ByRetry, nil, c.Executions[0].DueAt)
	key := engine.Idempotency{Key: "k", Until: e.DueAt.Add(time.Hour)}
	if got := must[engine.Rerunning](t)(s.Rerun(t.Context(), tenant.Default, engine.Rerun{Executions: []job.Execution{e}, Idempotency: key})); len(got.Added) != 0 {
		t.Errorf("added %v", got.Added)
	}
	if n := one[int](t, direct(t, s), "SELECT count(*) FROM idempotency"); n != 0 {
		t.Errorf("%d keys are kept", n)
	}
}
