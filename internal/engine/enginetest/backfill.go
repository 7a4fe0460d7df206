package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func backfill(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	hour := func(n int) time.Time { return now.Add(time.Duration(n-100) * time.Hour) }
	fills := func(j job.Job, hours ...int) (es []job.Execution, ids []job.ExecutionID) {
		for _, n := range hours {
			e := j.Fire(newID(), hour(n), now)
			e.Trigger = job.ByBackfill
			es, ids = append(es, e), append(ids, e.ID)
		}
		return es, ids
	}
	j := f.recurring("filled", now.Add(time.Hour), func(j *job.Job) { j.Overlap = job.OverlapAllow })
	es, ids := fills(j, 1, 2, 3)
	for range 2 { // the answer may have been lost
		if got := must(f.Backfill(f.ctx, tenant.Default, j.ID, es)); !cmp.Equal(got, ids) {
			t.Fatalf("got %v, want %v", got, ids)
		}
	}
	f.report(succeed(f.took(ids[0])))
	if got := must(f.Backfill(f.ctx, tenant.Default, j.ID, es)); !cmp.Equal(got, ids) {
		t.Errorf("after one has run: %v, want %v", got, ids)
	}
	if e := f.execution(ids[0]); e.Status != job.Succeeded || e.Trigger != job.ByBackfill || !e.ScheduledAt.Equal(hour(1)) {
		t.Errorf("the first is %v by %v at %v", e.Status, e.Trigger, e.ScheduledAt)
	}
	// Another backfill over live executions adds none of them.
	others, otherIDs := fills(j, 2, 3, 4)
	if got := must(f.Backfill(f.ctx, tenant.Default, j.ID, others)); !slices.Equal(got, otherIDs[2:]) {
		t.Errorf("of three, two live: got %v, want %v", got, otherIDs[2:])
	}
	page := must(f.FindExecutions(f.ctx, engine.ExecutionFilter{Tenant: tenant.Default, Job: j.ID}, engine.Page{Limit: 10}))
	if len(page.Executions) != 4 {
		t.Errorf("%d executions, want 4", len(page.Executions))
	}
	u := f.recurring("keyed", now.Add(time.Hour), func(j *job.Job) { j.Overlap, j.UniqueKey = job.OverlapAllow, "only" })
	es, ids = fills(u, 1, 2)
	for range 2 {
		if got := must(f.Backfill(f.ctx, tenant.Default, u.ID, es)); !slices.Equal(got, ids[:1]) {
			t.Errorf("under a unique key: got %v, want %v", got, ids[:1])
		}
	}
	if got := must(f.Backfill(f.ctx, tenant.Default, j.ID, nil)); len(got) != 0 {
		t.Errorf("nothing: %v", got)
	}
	es, _ = fills(j, 9)
	if _, err := f.Backfill(f.ctx, "other", j.ID, es); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another tenant's: %v", err)
	}
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: j.ID, AsOf: f.now()}))
	if _, err := f.Backfill(f.ctx, tenant.Default, j.ID, es); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

func calendarUsers(t *testing.T, h Harness) {
	f := open(t, h)
	far := f.now().Add(time.Hour)
	var want []job.ID
	for i := range 10 {
		j := f.recurring(fmt.Sprint(i), far, func(j *job.Job) {
			switch i % 3 {
			case 0:
				j.Schedule.Calendar = "mine"
			case 1:
				j.Schedule.Calendar, j.Description = "mine2", `says "cal":"mine"`
			default:
				j.Schedule.Calendar = ""
			}
		})
		if i%3 == 0 {
			want = append(want, j.ID)
		}
	}
	must(f.DeleteJob(f.ctx, tenant.Default, engine.Deletion{Job: want[1], AsOf: f.now()}))
	want = slices.Delete(want, 1, 2)
	for _, look := range []int{1, 3, 10, 100} {
		var got []job.ID
		calls := 0
		for after, more := (job.ID{}), true; more; more = after != (job.ID{}) {
			if calls++; calls > 11 {
				t.Fatalf("it does not end, %d at a time", look)
			}
			users, last, err := f.CalendarUsers(f.ctx, tenant.Default, "mine", after, look)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range users {
				if j.Schedule.Calendar != "mine" {
					t.Errorf("%q is listed", j.Schedule.Calendar)
				}
				got = append(got, j.ID)
			}
			after = last
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d at a time: got %v, want %v", look, got, want)
		}
	}
	if users, last, err := f.CalendarUsers(f.ctx, "other", "mine", job.ID{}, 10); err != nil || len(users) != 0 || last != (job.ID{}) {
		t.Errorf("another tenant's: %v, %v, %v", users, last, err)
	}
	for _, uncounted := range []bool{false, true} {
		page := must(f.FindJobs(f.ctx, engine.JobFilter{Tenant: tenant.Default}, engine.Page{Limit: 2, Uncounted: uncounted}))
		if len(page.Jobs) != 2 || page.Next == "" || page.Total.Count != 9 && !uncounted {
			t.Errorf("%d jobs of %d", len(page.Jobs), page.Total.Count)
		}
	}
}

// An instant that is planned again may have passed meanwhile, and have fired already.
func planAnew(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	plan := func(j job.Job, at time.Time) error {
		j.NextRunAt = at
		_, err := f.UpdateJob(f.ctx, tenant.Default, engine.Update{Job: j, Revision: j.Revision, Replan: true, AsOf: now})
		return err
	}
	j := f.recurring("planned", now.Add(time.Hour))
	if err := plan(j, now.Add(-time.Millisecond)); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("an instant that has come, of a job that owes nothing: %v", err)
	}
	if err := plan(f.job(j.ID), now.Add(time.Minute)); err != nil {
		t.Errorf("one to come: %v", err)
	}
	owing := f.recurring("owing", now.Add(-time.Hour))
	if err := plan(owing, now.Add(-time.Minute)); err != nil {
		t.Errorf("one that has come, of a job that owes: %v", err)
	}
	once := f.recurring("once", now.Add(time.Hour))
	once.Schedule = job.Schedule{Type: job.OneTime, At: now.Add(-time.Minute)}
	if err := plan(once, now.Add(-time.Minute)); err != nil {
		t.Errorf("a past time of a job that fires once: %v", err)
	}
}
