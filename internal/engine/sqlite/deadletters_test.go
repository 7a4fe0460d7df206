package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Dead letters of one instant are paged by their ids, and what fails of a deleted job is one, too.
func TestDeadLettersOfOneInstant(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 5)
	store(t, b.Store, c)
	var fs []job.Finish
	for _, a := range b.take(ids(c)...) {
		fs = append(fs, retry(b, a))
	}
	for _, j := range c.Jobs {
		if _, err := b.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: j.ID, AsOf: b.clock.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := b.Finish(t.Context(), fs); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[job.ExecutionID]bool{}
	p := engine.Page{Limit: 2}
	for pages := 0; pages == 0 || p.Cursor != ""; pages++ {
		got, err := b.DeadLetters(t.Context(), engine.DeadLetterFilter{Tenant: tenant.Default, Text: "NO"}, p)
		if err != nil || got.Total.Count != 5 || pages > 2 {
			t.Fatalf("page %d: total %+v, %v", pages, got.Total, err)
		}
		for _, d := range got.DeadLetters {
			if seen[d.ID] || d.Status != job.Failed || d.Reason != job.DeadExhausted || len(d.Errors) != 1 || d.JobName == "" || !d.At.Equal(b.clock.Now()) {
				t.Errorf("got %+v", d)
			}
			seen[d.ID] = true
		}
		p.Cursor = got.Next
	}
	if len(seen) != 5 {
		t.Errorf("paged through %d", len(seen))
	}
}

func TestRerunKeepsNoKeyForNothing(t *testing.T) {
	b := newBench(t)
	c := some(b.Store, 2)
	store(t, b.Store, c)
	b.run(c.Executions[0].ID, time.Second, job.Failed)
	i := engine.Idempotency{Key: "k", Answer: []byte("answer"), Until: b.clock.Now().Add(time.Hour)}
	again := func(of job.Execution) job.Execution {
		return job.Job{ID: of.Job, Tenant: of.Tenant}.Rerun(of, newID(), job.ByRedrive, nil, b.clock.Now())
	}
	stray := again(c.Executions[0])
	stray.Job = c.Jobs[1].ID // not the job of what it is said to be of
	for _, es := range [][]job.Execution{nil, {stray}, {again(c.Executions[1])}} {
		got, err := b.Rerun(t.Context(), tenant.Default, engine.Rerun{Executions: es, DeadOnly: true, Idempotency: i})
		if err != nil || len(got.Added) != 0 || got.Replay != nil {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	// Of two for one dead letter the first is added, and is counted when it ends.
	es := []job.Execution{again(c.Executions[0]), again(c.Executions[0])}
	got, err := b.Rerun(t.Context(), tenant.Default, engine.Rerun{Executions: es, DeadOnly: true, Idempotency: i})
	if err != nil || len(got.Added) != 1 || got.Added[0] != es[0].ID {
		t.Fatalf("got %+v, %v", got, err)
	}
	b.run(es[0].ID, time.Second, job.Succeeded)
	for range 2 { // also once it has finished
		got, err := b.Rerun(t.Context(), tenant.Default, engine.Rerun{Executions: es, DeadOnly: true})
		if err != nil || len(got.Added) != 1 || got.Added[0] != es[0].ID {
			t.Errorf("again: %+v, %v", got, err)
		}
	}
	if n := b.count("SELECT total FROM job_stats"); n != 1 {
		t.Errorf("%d are counted, want 1", n)
	}
}
