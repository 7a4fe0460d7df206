package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// What waits and what runs when a file of the first schema is opened goes on.
func TestMigrationKeepsLiveRows(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "carillon.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	id, of, ended := newID(), newID(), newID()
	err = s.alter(t.Context(), time.Minute, "begin", func(c *conn) error {
		if _, err := applied(c); err != nil {
			return err
		}
		if err := s.apply(c, all[0]); err != nil {
			return err
		}
		_, err := c.prepare(`INSERT INTO live (id, lease, due_at, scheduled_at, nonce, attempt, max_attempts, part, priority, trigger, tally, job, tenant, class, payload)
			VALUES (?, -7, 1, 2, 3, 1, 4, 5, 6, 1, 0, ?, 'default', 'c', ?)`).id(id).id(of).bytes([]byte("payload")).exec()
		if err != nil {
			return err
		}
		_, err = c.prepare(`INSERT INTO jobs (tenant, id, state, kind, priority, revision, fires_at, created_at, updated_at, name, spec, target)
			VALUES ('default', ?, 1, 1, 5, 1, 2, 2, 2, 'old', x'', x'')`).id(of).exec()
		if err != nil {
			return err
		}
		_, err = c.prepare(`INSERT INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts, part,
			priority, trigger, tenant) VALUES (?, ?, 10, 5, 2000003, 2, 2, 3, 1, 0, 0, 1, 5, 6, 1, 'default')`).id(ended).id(of).exec()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Execution(t.Context(), tenant.Default, id)
	if err != nil || got.Job != of || got.Token != 7 || got.Attempt != 1 || got.MaxAttempts != 4 || got.Partition != 5 || string(got.Payload) != "payload" || got.Group.Key != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	stats, err := s.Stats(t.Context(), tenant.Default, []job.ID{of})
	took := 2 * time.Second
	want := job.Stats{
		Total: 1, Succeeded: 1, AvgDuration: took, P95Duration: job.BucketMiddle(job.Bucket(took)), LastStatus: job.Succeeded, LastRunAt: time.UnixMicro(3).UTC(),
	}
	if err != nil || stats[0] != want {
		t.Errorf("statistics %+v, %v; want %+v", stats, err, want)
	}
	lanes, err := s.Lanes(t.Context(), nil, 10)
	if want := (job.Lane{Partition: 5, Tenant: tenant.Default, Class: "c", Priority: 6}); err != nil || len(lanes) != 1 || lanes[0] != want {
		t.Errorf("lanes %+v, %v", lanes, err)
	}
}

// What is of a deleted job is neither snoozed nor run again by itself.
func TestDeletedJobsStayDown(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 3)
	store(t, b.Store, c)
	as := b.take(ids(c)...)
	dies := func(n int) job.Finish {
		return job.Finish{
			Outcome: job.Outcome{Lease: as[n].Lease, Status: job.OutcomeFailed},
			Then:    job.Transition{Move: job.Died, Status: job.Failed, RedriveAt: b.clock.Now()},
		}
	}
	report := func(f job.Finish) {
		t.Helper()
		for range 2 {
			if vs, err := b.Finish(t.Context(), []job.Finish{f}); err != nil || !vs[0].Accepted {
				t.Errorf("%+v, %v", vs, err)
			}
		}
	}
	redrivable := func(want int) {
		t.Helper()
		if es, err := b.Redrivable(t.Context(), 10); err != nil || len(es) != want {
			t.Errorf("%d are to be run again, %v; want %d", len(es), err, want)
		}
	}
	report(dies(0))
	redrivable(1)
	for _, j := range c.Jobs {
		if _, err := b.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: j.ID, AsOf: b.clock.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	redrivable(0)
	report(dies(1))
	redrivable(0)
	report(job.Finish{
		Outcome: job.Outcome{Lease: as[2].Lease, Status: job.OutcomeSnoozed, RetryAfter: time.Hour},
		Then:    job.Transition{Move: job.Snoozed, Status: job.Pending, DueAt: b.clock.Now().Add(time.Hour)},
	})
	b.status(as[2].Execution, job.Cancelled)
}

// Overrun does not look at a grant again before its first execution may have run for too long, and then it does.
func TestOverrunComesInTime(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 2)
	c.Executions[0].Timeout, c.Executions[1].Timeout = time.Minute, time.Hour
	store(t, b.Store, c)
	b.take(ids(c)...)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{2 * time.Second, 0}, {57 * time.Second, 0}, {2 * time.Second, 1}, {time.Second, 1}} {
		b.clock.Advance(step.after)
		got, err := b.Overrun(t.Context(), 0, 10)
		if err != nil || len(got) != step.want {
			t.Errorf("%s later: %d, %v; want %d", step.after, len(got), err, step.want)
		}
	}
}
