package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// hosted is a store on a machine whose clock is set while it runs.
type hosted struct {
	*testing.T
	*Store
	wall *clock.Manual
	mono time.Duration
	w    job.WorkerID
}

const sessionLife = 30 * time.Second

func newHosted(t *testing.T) *hosted {
	h := &hosted{T: t, wall: clock.NewManual(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	h.Store = start(t, Config{Path: filepath.Join(t.TempDir(), "c.db"), Clock: h.wall, Monotonic: func() time.Duration { return h.mono }})
	h.w = newID()
	if err := h.Register(t.Context(), job.Worker{ID: h.w, Host: "h", Capacity: 10, StartedAt: h.wall.Now()}, sessionLife); err != nil {
		t.Fatal(err)
	}
	return h
}

// pass lets time pass, which the machine's clock shows at a rate.
func (h *hosted) pass(d time.Duration, rate float64) {
	h.mono += d
	h.wall.Advance(time.Duration(float64(d) * rate))
}

func (h *hosted) beat() (lives bool) {
	h.Helper()
	o, err := h.Renew(h.Context(), []engine.Renewal{{Worker: h.w}}, sessionLife)
	if err != nil {
		h.Fatal(err)
	}
	return len(o.Ended) == 0
}

func (h *hosted) reap() engine.Reaped {
	h.Helper()
	r, err := h.Reap(h.Context(), 100, 3)
	if err != nil {
		h.Fatal(err)
	}
	return r
}

func (h *hosted) add(n int) []job.ExecutionID {
	h.Helper()
	c := some(h.Store, n)
	for i := range c.Executions {
		c.Executions[i].Timeout = 90 * time.Second
	}
	store(h.T, h.Store, c)
	return ids(c)
}

func (h *hosted) lease(xs ...job.ExecutionID) []job.Attempt {
	h.Helper()
	as, err := h.Lease(h.Context(), []engine.Grant{{Worker: h.w, Executions: xs}}, engine.Fence{})
	if err != nil {
		h.Fatal(err)
	}
	return as
}

// SPEC fault 10: however the machine's clock is set, a worker that beats keeps its leases, and one that does not loses them in time.
func TestLeasesOutlastAClockThatIsSet(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Minute, -2 * time.Minute, -time.Hour, 24 * time.Hour, 1100 * time.Millisecond} {
		t.Run(by.String(), func(t *testing.T) {
			h := newHosted(t)
			xs := h.add(2)
			as := h.lease(xs...)
			h.pass(10*time.Second, 1)
			h.beat()
			h.wall.Advance(by)
			if over, err := h.Overrun(t.Context(), 5*time.Second, 10); err != nil || len(over) != 0 {
				t.Errorf("%d attempts have lasted too long at once, %v", len(over), err)
			}
			if r := h.reap(); r.Sessions != 0 || !h.beat() {
				t.Fatalf("the worker was deposed: %+v", r)
			}
			if over, err := h.Overrun(t.Context(), 5*time.Second, 10); err != nil || len(over) != 0 {
				t.Errorf("%d attempts have lasted too long, %v", len(over), err)
			}
			if now, err := h.Now(t.Context()); err != nil || !now.Equal(h.wall.Now()) {
				t.Errorf("the store's clock shows %v, the machine's %v", now, h.wall.Now())
			}
			if vs, err := h.Finish(t.Context(), []job.Finish{success(as[0])}); err != nil || !vs[0].Accepted {
				t.Errorf("its result is refused: %+v, %v", vs, err)
			}
			e, err := h.Execution(t.Context(), tenant.Default, xs[0])
			if took := e.FinishedAt.Sub(e.StartedAt); err != nil || took != 10*time.Second {
				t.Errorf("it took %v, %v", took, err)
			}
			h.pass(sessionLife-time.Millisecond, 1)
			if r := h.reap(); r.Sessions != 0 {
				t.Errorf("it was reaped early")
			}
			h.pass(2*time.Millisecond, 1)
			if r := h.reap(); r.Sessions != 1 || len(r.Ready) != 1 {
				t.Errorf("silent for a lease, it was not reaped: %+v", r)
			}
			h.w = newID()
			if err := h.Register(t.Context(), job.Worker{ID: h.w, Host: "h", Capacity: 10, StartedAt: h.wall.Now()}, sessionLife); err != nil {
				t.Fatal(err)
			}
			if len(h.lease(xs[1])) != 1 {
				t.Error("what came back does not start at once")
			}
		})
	}
}

// What was due when the clock was set stays due, a delay stays as long as it was, and nothing starts before its instant.
func TestDueTimesAndAClockThatIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -2 * time.Minute, 2 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			h := newHosted(t)
			xs := h.add(4)
			waits, retries, decided := xs[0], xs[1], xs[2]
			as := h.lease(retries, decided, xs[3])
			again := func(a job.Attempt, after time.Duration, asOf time.Time) {
				t.Helper()
				f := job.Finish{
					Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: job.HandlerError, Message: "no"}},
					Then:    job.Transition{Move: job.Again, Status: job.Retrying, DueAt: asOf.Add(after), Tries: 1},
				}
				if vs, err := h.Finish(t.Context(), []job.Finish{f}); err != nil || !vs[0].Accepted {
					t.Fatalf("%+v, %v", vs, err)
				}
			}
			again(as[0], 20*time.Second, h.wall.Now())
			before := h.wall.Now()
			h.pass(5*time.Second, 1)
			h.wall.Advance(by)
			later := some(h.Store, 1)
			later.Executions[0].DueAt = h.wall.Now().Add(time.Minute)
			h.beat()
			store(t, h.Store, later)
			if by < 0 {
				again(as[1], 10*time.Second, before.Add(5*time.Second)) // by a server that has not noticed
			} else {
				again(as[1], 10*time.Second, h.wall.Now())
			}
			if len(h.lease(waits)) != 1 {
				t.Error("what was due is not any more")
			}
			if len(h.lease(ids(later)[0])) != 0 {
				t.Error("it started before its instant")
			}
			h.pass(9*time.Second, 1)
			if h.beat(); len(h.lease(decided)) != 0 || len(h.lease(retries)) != 0 {
				t.Error("a delay was cut short")
			}
			h.pass(time.Second, 1)
			if len(h.lease(decided)) != 1 {
				t.Error("a delay of 10 s has not passed after 10 s")
			}
			h.pass(5*time.Second, 1)
			if h.beat(); len(h.lease(retries)) != 1 {
				t.Error("a delay of 20 s has not passed after 20 s")
			}
			h.pass(45*time.Second, 1)
			if h.beat(); len(h.lease(ids(later)[0])) != 1 {
				t.Error("it did not start at its instant")
			}
		})
	}
}

// A clock that goes wrong slowly is followed, and leases last about as long as they should.
func TestAClockThatDrifts(t *testing.T) {
	for _, rate := range []float64{0.95, 1.05} {
		h := newHosted(t)
		for range 600 {
			h.pass(time.Second, rate)
			if !h.beat() || h.reap().Sessions != 0 {
				t.Fatalf("at %v the worker was deposed", rate)
			}
		}
		if now, err := h.Now(t.Context()); err != nil || now.Sub(h.wall.Now()).Abs() > time.Second {
			t.Errorf("the store's clock shows %v, the machine's %v", now, h.wall.Now())
		}
		silent := time.Duration(0)
		for ; h.reap().Sessions == 0 && silent < time.Hour; silent += time.Second {
			h.pass(time.Second, rate)
		}
		if silent < 27*time.Second || silent > 34*time.Second {
			t.Errorf("at %v it was reaped after %v", rate, silent)
		}
	}
}

// What has come stays fired: a change of a job takes nothing back that had come before the clock was set back, since the instants after
// it would fire once more.
func TestAChangeAfterTheClockWasSetBack(t *testing.T) {
	h := newHosted(t)
	ctx, begun := t.Context(), h.wall.Now()
	j := job.Job{ID: newID(), Tenant: tenant.Default, State: job.Active, CreatedAt: begun, UpdatedAt: begun, Revision: 1, NextRunAt: begun.Add(10 * time.Second), Definition: job.Definition{
		Name: "regular", Queue: "default", Priority: 5, Schedule: job.Schedule{Type: job.Interval, Every: 10 * time.Second}, Target: job.Target{Kind: job.Handler, Handler: "h", Timeout: time.Minute},
	}}
	if _, err := h.CreateJobs(ctx, []engine.Creation{{Tenant: tenant.Default, Jobs: []job.Job{j}}}); err != nil {
		t.Fatal(err)
	}
	h.pass(35*time.Second, 1)
	due, err := h.Due(ctx, engine.DueFilter{Until: h.wall.Now(), Limit: 1})
	if err != nil || len(due) != 1 {
		t.Fatalf("%v, %v", due, err)
	}
	e := j.FireLate(newID(), j.NextRunAt, 0, h.wall.Now())
	e.Trigger = job.BySchedule
	next := begun.Add(40 * time.Second)
	if rs, err := h.Fire(ctx, []engine.Firing{{Tenant: tenant.Default, Job: j.ID, Revision: due[0].Revision, Was: due[0].Job.NextRunAt, Next: next, Overlap: job.OverlapAllow, Runs: 1, Executions: []job.Execution{e}}}, engine.Fence{}); err != nil || len(rs.Ready) != 1 {
		t.Fatalf("%v, %v", rs.Ready, err)
	}
	h.wall.Advance(-time.Minute)
	h.beat() // a write, which follows the clock
	j.Description = "changed"
	got, err := h.UpdateJob(ctx, tenant.Default, engine.Update{Job: j, AsOf: h.wall.Now()})
	if err != nil || !got.NextRunAt.Equal(next) {
		t.Errorf("the next instant is %v, %v, and was %v", got.NextRunAt, err, next)
	}
	if _, err := h.Execution(ctx, tenant.Default, e.ID); err != nil {
		t.Errorf("what had come was taken back: %v", err)
	}
}
