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

// bench is a store with a clock that stands still, and a session that lives as long as it is told to.
type bench struct {
	*testing.T
	*Store
	clock *clock.Manual
}

func newBench(t *testing.T) bench {
	t.Helper()
	c := clock.NewManual(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	return bench{T: t, Store: start(t, Config{Path: filepath.Join(t.TempDir(), "carillon.db"), Clock: c}), clock: c}
}

// take leases executions for a new session of an hour.
func (b bench) take(ids ...job.ExecutionID) []job.Attempt {
	b.Helper()
	w := job.Worker{ID: newID(), Host: "h", StartedAt: b.clock.Now()}
	if err := b.Register(b.Context(), w, time.Hour); err != nil {
		b.Fatal(err)
	}
	as, err := b.Lease(b.Context(), []engine.Grant{{Worker: w.ID, Executions: ids}}, engine.Fence{})
	if err != nil {
		b.Fatal(err)
	}
	return as
}

// run leases an execution and ends it after a while.
func (b bench) run(id job.ExecutionID, after time.Duration, status job.Status) {
	b.Helper()
	as := b.take(id)
	if len(as) != 1 {
		b.Fatal("it cannot be leased")
	}
	b.clock.Advance(after)
	f := job.Finish{Outcome: job.Outcome{Lease: as[0].Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: status}}
	if status != job.Succeeded {
		f.Outcome.Status, f.Then.Move = job.OutcomeFailed, job.Died
	}
	for range 2 { // the second time is a repeat
		if vs, err := b.Finish(b.Context(), []job.Finish{f}); err != nil || !vs[0].Accepted {
			b.Fatalf("%+v, %v", vs, err)
		}
	}
}

// rows counts what a job has in job_stats and job_durations.
func (b bench) rows(id job.ID) (n int) {
	b.Helper()
	err := b.look(b.Context(), "count", func(c *conn) error {
		for _, sql := range []string{"SELECT count(*) FROM job_stats WHERE job = ?", "SELECT count(*) FROM job_durations WHERE job = ?"} {
			if _, err := c.prepare(sql).id(id).first(func(r *row) error { n += r.int(); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func (b bench) want(id job.ID, want job.Stats) {
	b.Helper()
	got, err := b.Stats(b.Context(), tenant.Default, []job.ID{id})
	if err != nil {
		b.Fatal(err)
	}
	if want.P95Duration != 0 {
		want.P95Duration = job.BucketMiddle(job.Bucket(want.P95Duration))
	}
	if got[0] != want {
		b.Errorf("got %+v, want %+v", got[0], want)
	}
}

func TestStatsOfOneOffs(t *testing.T) {
	b := newBench(t)
	now := some(b.Store, 1)
	planned := some(b.Store, 1)
	at := b.clock.Now().Add(time.Minute)
	planned.Executions, planned.Jobs[0].NextRunAt = nil, at
	planned.Jobs[0].Schedule = job.Schedule{Type: job.OneTime, At: at}
	store(t, b.Store, now)
	store(t, b.Store, planned)

	began := b.clock.Now()
	b.run(now.Executions[0].ID, 2*time.Second, job.Failed)
	id := now.Jobs[0].ID
	b.want(id, job.Stats{Total: 1, AvgDuration: 2 * time.Second, P95Duration: 2 * time.Second, LastStatus: job.Failed, LastRunAt: began})
	if n := b.rows(id); n != 0 {
		t.Errorf("its own fire wrote %d rows", n)
	}

	b.clock.Advance(time.Minute)
	j := planned.Jobs[0]
	by := func(trigger job.Trigger) job.ExecutionID {
		e := j.Fire(newID(), b.clock.Now(), b.clock.Now())
		e.Trigger = trigger
		if _, err := b.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{}, nil); err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	b.run(by(job.ByHand), 4*time.Second, job.Succeeded) // before it fires
	own := j.Fire(newID(), at, b.clock.Now())
	rs, err := b.Fire(t.Context(), []engine.Firing{{Tenant: tenant.Default, Job: j.ID, Revision: 1, Was: at, Executions: []job.Execution{own}}}, engine.Fence{})
	if err != nil || len(rs.Ready) != 1 {
		t.Fatalf("fired %d, %v", len(rs.Ready), err)
	}
	began = b.clock.Now()
	b.run(own.ID, time.Second, job.TimedOut)
	b.want(j.ID, job.Stats{Total: 2, Succeeded: 1, AvgDuration: 2500 * time.Millisecond, P95Duration: 4 * time.Second, LastStatus: job.TimedOut, LastRunAt: began})
	b.clock.Advance(time.Second)
	began = b.clock.Now()
	b.run(by(job.ByRetry), time.Second, job.Succeeded)
	b.want(j.ID, job.Stats{Total: 3, Succeeded: 2, AvgDuration: 2 * time.Second, P95Duration: 4 * time.Second, LastStatus: job.Succeeded, LastRunAt: began})
	if n := b.rows(j.ID); n != 3 {
		t.Errorf("%d rows, want one of sums and two of durations", n)
	}
}

func TestStatsOfMoreFires(t *testing.T) {
	b := newBench(t)
	for _, kind := range []job.ScheduleType{job.Cron, job.OneTime} {
		c := some(b.Store, 1)
		j := &c.Jobs[0]
		j.Schedule.Type, j.NextRunAt = kind, b.clock.Now()
		c.Executions = nil
		store(t, b.Store, c)
		for range 3 { // also of a ONE_TIME job, should one ever be planned again
			f := engine.Firing{Tenant: tenant.Default, Job: j.ID, Revision: 1, Was: j.NextRunAt, Next: j.NextRunAt.Add(time.Minute)}
			f.Executions = []job.Execution{j.Fire(newID(), f.Was, b.clock.Now())}
			if rs, err := b.Fire(t.Context(), []engine.Firing{f}, engine.Fence{}); err != nil || len(rs.Ready) != 1 {
				t.Fatalf("fired %d, %v", len(rs.Ready), err)
			}
			j.NextRunAt = f.Next
			b.run(f.Executions[0].ID, time.Second, job.Succeeded)
			b.clock.Advance(time.Minute)
		}
		last := b.clock.Now().Add(-time.Minute - time.Second)
		b.want(j.ID, job.Stats{Total: 3, Succeeded: 3, AvgDuration: time.Second, P95Duration: time.Second, LastStatus: job.Succeeded, LastRunAt: last})
	}
}

// lose lets a new session die over an execution, and says whether that is queued again.
func (b bench) lose(id job.ExecutionID, poison int) bool {
	b.Helper()
	if as := b.take(id); len(as) != 1 {
		b.Fatal("it cannot be leased")
	}
	b.clock.Advance(time.Hour + time.Microsecond)
	rs, err := b.Reap(b.Context(), 10, poison)
	if err != nil {
		b.Fatal(err)
	}
	return len(rs.Ready) == 1
}

func TestPoisonIsOfAnHour(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 1)
	store(t, b.Store, c)
	id := c.Executions[0].ID
	for range 5 { // each more than an hour after the one before
		if !b.lose(id, 2) {
			t.Fatal("it ended")
		}
	}
	if b.lose(id, 1) {
		t.Fatal("it is queued again")
	}
	e, err := b.Execution(t.Context(), tenant.Default, id)
	if err != nil || e.Status != job.Failed || e.Error == nil || e.Error.Message != "lost 1 workers within an hour" || e.Lost != 6 {
		t.Errorf("got %+v, %+v, %v", e, e.Error, err)
	}
	if got, err := b.Stats(t.Context(), tenant.Default, []job.ID{c.Jobs[0].ID}); err != nil || got[0].Total != 1 || got[0].LastStatus != job.Failed {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestPoisonIsOff(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 1)
	store(t, b.Store, c)
	for range 3 {
		if !b.lose(c.Executions[0].ID, 0) {
			t.Fatal("it ended")
		}
	}
}

func TestDeletedIsNotLeased(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 2)
	store(t, b.Store, c)
	err := b.write(t.Context(), "mark deleted", func(conn *conn, _ int64) error {
		_, err := conn.prepare("UPDATE jobs SET state = 4 WHERE id = ?").id(c.Jobs[0].ID).exec()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if as := b.take(c.Executions[0].ID, c.Executions[1].ID); len(as) != 1 || as[0].Execution != c.Executions[1].ID {
		t.Errorf("got %+v", as)
	}
}
