package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// tidyAll tidies until there is no more, and says how often that took.
func (b bench) tidyAll() (rounds int) {
	b.Helper()
	for more := true; more; rounds++ {
		var err error
		if more, err = b.Tidy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return rounds
}

// What secrets were goes after a while, however much it is.
func TestPastSecretsGo(t *testing.T) {
	b := newBench(t)
	now := b.clock.Now().UnixMicro()
	put := func(n int, at int64) {
		t.Helper()
		err := b.write(t.Context(), "put", func(c *conn, _ int64) error {
			for range n {
				_, err := c.prepare("INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at) VALUES ('default', 'x', ?, 'k', x'78', ?)").id(newID()).int(at).exec()
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(2*tidyRows+1, now-engine.PastLife.Microseconds()-1)
	put(3, now-engine.PastLife.Microseconds()+1_000_000)
	if rounds := b.tidyAll(); rounds != 3 {
		t.Errorf("it took %d rounds", rounds)
	}
	left := 0
	err := b.look(t.Context(), "count", func(c *conn) error {
		_, err := c.prepare("SELECT count(*) FROM past_secrets").first(func(r *row) error { left = r.int(); return nil })
		return err
	})
	if err != nil || left != 3 {
		t.Errorf("%d are left, %v", left, err)
	}
}

// What runs of a deleted job may last for a week, and tell its credentials until then.
func TestCredentialsOfADeletedJobOutliveWhatRuns(t *testing.T) {
	b := newBench(t)
	now := b.clock.Now()
	j := job.Job{ID: newID(), Tenant: tenant.Default, State: job.Active, CreatedAt: now, UpdatedAt: now, Revision: 1}
	j.Name, j.Schedule.Type, j.Queue = "x", job.Immediate, job.DefaultQueue
	j.Target = job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: time.Minute}
	s := engine.Secret{Tenant: j.Tenant, Name: "~" + j.ID.String() + "/x-token", Job: j.ID, CreatedAt: now, UpdatedAt: now, Key: "k", Sealed: []byte("x")}
	if _, err := b.CreateJobs(t.Context(), []engine.Creation{{Tenant: j.Tenant, Jobs: []job.Job{j}, Secrets: []engine.Secret{s}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteJob(t.Context(), j.Tenant, engine.Deletion{Job: j.ID, AsOf: now}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		later time.Duration
		there bool
	}{{engine.PastLife - time.Hour, true}, {2 * time.Hour, false}} {
		b.clock.Advance(at.later)
		b.tidyAll()
		if _, err := b.Secret(t.Context(), s.Tenant, s.Name); (err == nil) != at.there {
			t.Errorf("%s later: %v", at.later, err)
		}
	}
}
