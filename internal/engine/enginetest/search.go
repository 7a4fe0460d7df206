package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// all reads a list to its end, page by page, and requires it to be in order without repeats.
func (f fixture) all(q engine.ExecutionFilter, p engine.Page, between func()) []job.Execution {
	f.Helper()
	var got []job.Execution
	seen := map[job.ExecutionID]bool{}
	for range 10_000 {
		page := must(f.FindExecutions(f.ctx, q, p))
		for _, e := range page.Executions {
			if seen[e.ID] {
				f.Fatalf("%s is listed twice", e.ID)
			}
			seen[e.ID] = true
			if n := len(got); n > 0 && (e.ScheduledAt.After(got[n-1].ScheduledAt) || e.ScheduledAt.Equal(got[n-1].ScheduledAt) && string(e.ID[:]) > string(got[n-1].ID[:])) {
				f.Fatal("out of order")
			}
			if e.Tenant != q.Tenant {
				f.Fatalf("one of tenant %q", e.Tenant)
			}
			got = append(got, e)
		}
		if len(page.Executions) > p.Limit {
			f.Fatalf("a page of %d", len(page.Executions))
		}
		if page.Next == "" {
			return got
		}
		if !page.Partial && len(page.Executions) < p.Limit {
			f.Fatalf("a page of %d, which is not the last, nor partial", len(page.Executions))
		}
		p.Cursor = page.Next
		if between != nil {
			between()
		}
	}
	f.Fatal("a list without end")
	return nil
}

func search(t *testing.T, h Harness) {
	f := open(t, h)
	now := f.now()
	named, _ := f.add("the one", func(j *job.Job, _ *job.Execution) { j.Tags = []string{"rare"} })
	var jobs []job.Job
	var ids []job.ExecutionID
	for i := range 40 { // more than are looked up one by one
		j, e := f.add(fmt.Sprintf("job %d", i%3), func(j *job.Job, e *job.Execution) { e.ScheduledAt = now.Add(-time.Duration(i/2) * time.Minute) })
		jobs, ids = append(jobs, j), append(ids, e.ID)
	}
	e := f.due(named)
	e.Trigger, e.ScheduledAt = job.ByHand, now.Add(-5*time.Minute)
	must(f.Trigger(f.ctx, tenant.Default, e, engine.Idempotency{}, nil))
	if err := f.CreateTenant(f.ctx, tenant.Tenant{ID: "other", Name: "other", Tier: tenant.Pro, CreatedAt: now}, nil); err != nil {
		t.Fatal(err)
	}
	theirs, _ := f.add("theirs", func(j *job.Job, e *job.Execution) { j.Tenant, e.Tenant = "other", "other" })
	w, as := f.take(ids[:30]...)
	for i, a := range as {
		switch i % 5 {
		case 0, 1:
			f.report(succeed(a))
		case 2:
			x := die(a, 1)
			x.Outcome.Error = &job.Error{Type: job.HTTPError, Message: `The "Ünit" <is> away: 100%`, HTTPStatus: 503}
			f.report(x)
		case 3:
			f.report(again(a, now.Add(time.Hour), 1))
		}
	}
	mine := engine.ExecutionFilter{Tenant: tenant.Default}
	t.Run("the whole tenant, although some finish meanwhile", func(t *testing.T) {
		running := []job.Attempt{as[4], as[9], as[14]}
		got := f.all(mine, engine.Page{Limit: 4}, func() {
			if len(running) > 0 {
				f.report(succeed(running[0]))
				running = running[1:]
			}
		})
		if len(got) != 42 {
			t.Errorf("%d listed, want 42", len(got))
		}
		for _, e := range got {
			if e.JobName == "" {
				t.Errorf("%s has no name", e.ID)
			}
		}
		page := must(f.FindExecutions(f.ctx, mine, engine.Page{Limit: 4}))
		if page.Total != (engine.Total{Count: 42}) {
			t.Errorf("total %+v", page.Total)
		}
	})
	t.Run("another tenant", func(t *testing.T) {
		if got := f.all(engine.ExecutionFilter{Tenant: "other"}, engine.Page{Limit: 5}, nil); len(got) != 1 || got[0].Job != theirs.ID {
			t.Errorf("got %v", got)
		}
		if got := f.all(engine.ExecutionFilter{Tenant: "nobody"}, engine.Page{Limit: 5}, nil); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
	for name, c := range map[string]struct {
		change func(*engine.ExecutionFilter)
		want   int
	}{
		"failed":                  {func(q *engine.ExecutionFilter) { q.Statuses = []job.Status{job.Failed} }, 6},
		"failed or expired":       {func(q *engine.ExecutionFilter) { q.Statuses = []job.Status{job.Failed, job.Expired} }, 6},
		"succeeded":               {func(q *engine.ExecutionFilter) { q.Statuses = []job.Status{job.Succeeded} }, 15},
		"retrying or failed":      {func(q *engine.ExecutionFilter) { q.Statuses = []job.Status{job.Retrying, job.Failed} }, 12},
		"pending":                 {func(q *engine.ExecutionFilter) { q.Statuses = []job.Status{job.Pending} }, 12},
		"skipped":                 {func(q *engine.ExecutionFilter) { q.Statuses = []job.Status{job.Skipped} }, 0},
		"by hand":                 {func(q *engine.ExecutionFilter) { q.Triggers = []job.Trigger{job.ByHand} }, 1},
		"by hand or at once":      {func(q *engine.ExecutionFilter) { q.Triggers = []job.Trigger{job.ByHand, job.ByAPI} }, 42},
		"of a worker":             {func(q *engine.ExecutionFilter) { q.Worker = w }, 30},
		"of no worker":            {func(q *engine.ExecutionFilter) { q.Worker = newID() }, 0},
		"of a job":                {func(q *engine.ExecutionFilter) { q.Job = named.ID }, 2},
		"of a job's name":         {func(q *engine.ExecutionFilter) { q.JobName = "the one" }, 2},
		"of many jobs' name":      {func(q *engine.ExecutionFilter) { q.JobName = "job 1" }, 13},
		"of a tag":                {func(q *engine.ExecutionFilter) { q.Tag = "rare" }, 2},
		"of many jobs' tag":       {func(q *engine.ExecutionFilter) { q.Tag = "b c" }, 40},
		"of tag and name":         {func(q *engine.ExecutionFilter) { q.Tag, q.JobName = "a", "job 2" }, 13},
		"of no tag":               {func(q *engine.ExecutionFilter) { q.Tag = "b" }, 0},
		"text of an error":        {func(q *engine.ExecutionFilter) { q.Text = `"ünit" <IS>` }, 6},
		"text with a sign":        {func(q *engine.ExecutionFilter) { q.Text = "100%" }, 6},
		"text of an error's type": {func(q *engine.ExecutionFilter) { q.Text = "http_err" }, 6},
		"text of a name":          {func(q *engine.ExecutionFilter) { q.Text = "JOB 1" }, 13},
		"text of an answer":       {func(q *engine.ExecutionFilter) { q.Text = "sorry" }, 0},
		"text and status":         {func(q *engine.ExecutionFilter) { q.Text, q.Statuses = "job", []job.Status{job.Failed} }, 6},
		"text and tag":            {func(q *engine.ExecutionFilter) { q.Text, q.Tag = "away", "a" }, 6},
		"text and another tag":    {func(q *engine.ExecutionFilter) { q.Text, q.Tag = "away", "rare" }, 0},
		"from, inclusive":         {func(q *engine.ExecutionFilter) { q.From = now.Add(-2 * time.Minute) }, 7},
		"until, exclusive":        {func(q *engine.ExecutionFilter) { q.Until = now.Add(-2 * time.Minute) }, 35},
		"failed between": {func(q *engine.ExecutionFilter) {
			q.From, q.Until, q.Statuses = now.Add(-5*time.Minute), now.Add(-time.Minute), []job.Status{job.Failed}
		}, 1},
		"of a job of another's tenant": {func(q *engine.ExecutionFilter) { q.Job = theirs.ID }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := mine
			c.change(&q)
			for _, p := range []engine.Page{{Limit: 3}, {Limit: 3, Bounded: true}, {Limit: 1000, Bounded: true}} {
				if got := f.all(q, p, nil); len(got) != c.want {
					t.Errorf("%+v: got %d, want %d", p, len(got), c.want)
				}
				if page := must(f.FindExecutions(f.ctx, q, p)); !page.Partial && page.Total != (engine.Total{Count: int64(c.want)}) {
					t.Errorf("%+v: total %+v, want %d", p, page.Total, c.want)
				}
			}
		})
	}
	t.Run("few of many, step by step", func(t *testing.T) {
		var many []job.Execution
		var want []job.ExecutionID
		for i := range 1500 {
			e := f.due(jobs[0])
			e.ScheduledAt, e.Trigger = now.Add(-time.Hour-time.Duration(i)*time.Second), job.ByBackfill
			if i%500 == 250 {
				e.Trigger = job.ByRetry
				want = append(want, e.ID)
			}
			many = append(many, e)
		}
		if n := len(must(f.Backfill(f.ctx, tenant.Default, jobs[0].ID, many))); n != len(many) {
			t.Fatalf("%d of %d stored", n, len(many))
		}
		q := mine
		q.Triggers = []job.Trigger{job.ByRetry}
		var got []job.ExecutionID
		for _, e := range f.all(q, engine.Page{Limit: 50, Bounded: true, Uncounted: true}, nil) {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("long results", func(t *testing.T) {
		for _, a := range []job.Attempt{as[19], as[24], as[29]} {
			x := succeed(a)
			x.Outcome.Result = fmt.Appendf(nil, "%q", strings.Repeat("x", engine.PageBytes*5/8))
			f.report(x)
		}
		q := mine
		q.From = now.Add(-30 * time.Minute)
		p := engine.Page{Limit: 1000, Bounded: true}
		if page := must(f.FindExecutions(f.ctx, q, p)); !page.Partial || page.Next == "" || page.Total.Count != 42 {
			t.Errorf("%d on a page, partial %v, total %+v", len(page.Executions), page.Partial, page.Total)
		}
		for _, text := range []string{"", "job"} {
			q.Text = text
			whole := f.all(q, engine.Page{Limit: 1000}, nil)
			got := f.all(q, p, nil)
			if len(got) < 40 || !slices.EqualFunc(got, whole, func(a, b job.Execution) bool { return a.ID == b.ID && len(a.Result) == len(b.Result) }) {
				t.Errorf("%q: got %d of %d", text, len(got), len(whole))
			}
		}
	})
}
