package sqlite

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// ask cancels executions, each a second after the one before.
func (b bench) ask(ids ...job.ExecutionID) {
	b.Helper()
	for _, id := range ids {
		if got, err := b.Cancel(b.Context(), tenant.Default, id, "enough", nil); err != nil || got.Status != job.Cancelling {
			b.Fatalf("cancel: %v, %v", got.Status, err)
		}
		b.clock.Advance(time.Second)
	}
}

// count counts the rows that a statement without parameters says there are.
func (b bench) count(sql string) (n int) {
	b.Helper()
	err := b.look(b.Context(), "count", func(c *conn) error {
		_, err := c.prepare(sql).first(func(r *row) error { n = r.int(); return nil })
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b bench) status(id job.ExecutionID, want job.Status) job.Execution {
	b.Helper()
	e, err := b.Execution(b.Context(), tenant.Default, id)
	if err != nil || e.Status != want {
		b.Errorf("it is %v, %v; want %v", e.Status, err, want)
	}
	return e
}

func ids(c engine.Creation) (out []job.ExecutionID) {
	for _, e := range c.Executions {
		out = append(out, e.ID)
	}
	return out
}

func success(a job.Attempt) job.Finish {
	return job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}
}

func retry(b bench, a job.Attempt) job.Finish {
	return job.Finish{
		Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: job.HandlerError, Message: "no"}},
		Then:    job.Transition{Move: job.Again, Status: job.Retrying, DueAt: b.clock.Now(), Tries: 1},
	}
}

func TestForce(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 4)
	store(t, b.Store, c)
	xs := ids(c)
	as := b.take(xs...)
	b.ask(xs...)
	force := func(grace time.Duration, limit, want int) {
		t.Helper()
		if n, err := b.Force(t.Context(), grace, limit); err != nil || len(n) != want {
			t.Errorf("ended %d, %v; want %d", len(n), err, want)
		}
	}
	if _, err := b.Finish(t.Context(), []job.Finish{success(as[0])}); err != nil {
		t.Fatal(err)
	}
	force(time.Hour, 10, 0)
	force(0, 0, 0)
	force(2*time.Second, 1, 1) // the first of them has ended by itself, the fourth is within the grace
	b.status(xs[0], job.Succeeded)
	b.status(xs[1], job.Cancelled)
	b.status(xs[2], job.Cancelling)
	if n := b.count("SELECT count(*) FROM orders"); n != 3 {
		t.Errorf("%d orders are left, want 3", n)
	}
	force(2*time.Second, 10, 1)
	b.status(xs[3], job.Cancelling)
	force(time.Second, 10, 1)
	force(0, 10, 0)
}

func TestOrders(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 3)
	store(t, b.Store, c)
	xs := ids(c)
	as := b.take(xs...)
	b.ask(xs...)
	w := b.status(xs[0], job.Cancelling).Worker
	orders := func(want ...job.Order) {
		t.Helper()
		got, err := b.Renew(t.Context(), []engine.Renewal{{Worker: w}}, 24*time.Hour)
		if err != nil || len(got.Ended) != 0 || !slices.Equal(got.Orders, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	order := func(n int, k job.OrderKind) job.Order { return job.Order{Worker: w, Lease: as[n].Lease, Kind: k} }
	orders(order(0, job.OrderCancel), order(1, job.OrderCancel), order(2, job.OrderCancel))
	if vs, err := b.Finish(t.Context(), []job.Finish{success(as[0])}); err != nil || !vs[0].Accepted {
		t.Fatalf("%+v, %v", vs, err)
	}
	if n, err := b.Force(t.Context(), 2*time.Second, 10); err != nil || len(n) != 1 {
		t.Fatalf("ended %d, %v", len(n), err)
	}
	orders(order(1, job.OrderLost), order(2, job.OrderCancel))
	b.clock.Advance(time.Hour - time.Microsecond)
	orders(order(1, job.OrderLost), order(2, job.OrderCancel))
	b.clock.Advance(time.Microsecond)
	orders(order(2, job.OrderCancel)) // which lasts as long as the lease

	if n, err := b.Force(t.Context(), 0, 10); err != nil || len(n) != 1 {
		t.Fatalf("ended %d, %v", len(n), err)
	}
	for n, after := range []time.Duration{time.Hour - time.Microsecond, time.Microsecond} {
		b.clock.Advance(after)
		if _, err := b.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.count("SELECT count(*) FROM orders"); got != 1-n {
			t.Errorf("%d orders are left, want %d", got, 1-n)
		}
	}
}

// What was asked to stop and fails once more is over, also where its job is
// gone; the attempt is kept, it is no dead letter, and the report may come again.
func TestRetryOfCancelled(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 2)
	store(t, b.Store, c)
	xs := ids(c)
	as := b.take(xs...)
	b.ask(xs...)
	if _, err := b.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: c.Jobs[1].ID, AsOf: b.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	for n, id := range xs {
		for range 2 {
			if vs, err := b.Finish(t.Context(), []job.Finish{retry(b, as[n])}); err != nil || !vs[0].Accepted {
				t.Errorf("%+v, %v", vs, err)
			}
		}
		if vs, err := b.Finish(t.Context(), []job.Finish{success(as[n])}); err != nil || vs[0].Accepted {
			t.Errorf("another result: %+v, %v", vs, err)
		}
		e := b.status(id, job.Cancelled)
		if e.Error == nil || *e.Error != (job.Error{Type: job.CancelledError, Message: "enough"}) || e.Tries != 1 || e.Token != as[n].Token {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
		past, err := b.Attempts(t.Context(), tenant.Default, id)
		if err != nil || len(past) != 1 || past[0].Error.Message != "no" {
			t.Errorf("attempts %+v, %v", past, err)
		}
		b.want(e.Job, job.Stats{Total: 1, AvgDuration: 2 * time.Second, P95Duration: 2 * time.Second, LastStatus: job.Cancelled, LastRunAt: as[n].LeasedAt})
	}
	if n := b.count("SELECT count(*) FROM dead_letters"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// A cancelled execution that is counted in job_stats, waiting or by force, is counted once.
func TestStatsOfCancelled(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 1)
	c.Executions = nil
	store(t, b.Store, c)
	trigger := func() job.ExecutionID {
		e := c.Jobs[0].Fire(newID(), b.clock.Now(), b.clock.Now())
		e.Trigger = job.ByHand
		if _, err := b.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{}, nil); err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	waits := trigger()
	for range 2 {
		if got, err := b.Cancel(t.Context(), tenant.Default, waits, "", nil); err != nil || got.Status != job.Cancelled {
			t.Errorf("got %v, %v", got.Status, err)
		}
	}
	runs := trigger()
	as := b.take(runs)
	b.ask(runs)
	for range 2 {
		if _, err := b.Force(t.Context(), 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	b.want(c.Jobs[0].ID, job.Stats{Total: 2, AvgDuration: time.Second, P95Duration: time.Second, LastStatus: job.Cancelled, LastRunAt: as[0].LeasedAt})
}

func TestCancellingInLists(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 1)
	store(t, b.Store, c)
	id := c.Executions[0].ID
	b.take(id)
	at := b.clock.Now()
	b.ask(id)
	for status, want := range map[job.Status]int{job.Cancelling: 1, job.Running: 0, job.Cancelled: 0} {
		f := engine.ExecutionFilter{Tenant: tenant.Default, Job: c.Jobs[0].ID, Statuses: []job.Status{status}}
		p, err := b.FindExecutions(t.Context(), f, engine.Page{Limit: 5})
		if err != nil || len(p.Executions) != want || p.Total.Count != int64(want) {
			t.Errorf("%v: %d, %v; want %d", status, len(p.Executions), err, want)
		}
		for _, e := range p.Executions {
			if e.Status != status || !e.CancelAt.Equal(at) {
				t.Errorf("%v, asked at %v", e.Status, e.CancelAt)
			}
		}
	}
}

func TestEndedWorkersAreListedForAnHour(t *testing.T) {
	b := newBench(t)
	w := job.Worker{ID: newID(), Host: "h", StartedAt: b.clock.Now()}
	if err := b.Register(t.Context(), w, time.Minute); err != nil {
		t.Fatal(err)
	}
	check := func(want int) {
		t.Helper()
		if ws, err := b.Workers(t.Context(), tenant.Default); err != nil || len(ws) != want {
			t.Errorf("%d workers, %v; want %d", len(ws), err, want)
		}
	}
	b.clock.Advance(2 * time.Minute)
	if _, err := b.Reap(t.Context(), 10, 3); err != nil {
		t.Fatal(err)
	}
	check(1)
	b.clock.Advance(58 * time.Minute)
	check(1)
	b.clock.Advance(time.Minute)
	check(0)
}
