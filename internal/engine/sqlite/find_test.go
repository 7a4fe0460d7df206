package sqlite

import (
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func TestTextInAnyCase(t *testing.T) {
	s := fresh(t)
	c := some(s, 1)
	c.Jobs[0].Name, c.Jobs[0].Description = "Äpfel für ΟΔΥΣΣΕΎΣ", `50% \ off_ers'`
	store(t, s, c)
	for text, want := range map[string]int{
		"äpfel": 1, "ÄPFEL FÜR": 1, "οδυσσεύς": 1, "apfel": 0, "0% \\ OFF_ERS'": 1, "0%off": 0, "off.ers": 0, "%": 1, "_": 1,
	} {
		p, err := s.FindJobs(t.Context(), engine.JobFilter{Tenant: tenant.Default, Text: text}, engine.Page{Limit: 5})
		if err != nil || len(p.Jobs) != want {
			t.Errorf("%q: found %d, %v; want %d", text, len(p.Jobs), err, want)
		}
	}
}

// The values are what PostgreSQL's percentile_cont(0.95) answers.
func TestPercentile(t *testing.T) {
	for _, c := range []struct {
		list []int64
		want float64
	}{
		{[]int64{7}, 7},
		{[]int64{20, 10}, 20}, // 19.5, to the even one
		{[]int64{100, 200, 300, 400}, 385},
		{[]int64{5, 1, 4, 2, 3}, 5}, // 4.8
		{[]int64{0, 0, 0, 0, 0, 0, 0, 0, 0, 1000}, 550},
	} {
		if got := percentile(c.list, 0.95); got != c.want {
			t.Errorf("%v: got %v, want %v", c.list, got, c.want)
		}
	}
}

func TestStats(t *testing.T) {
	s := fresh(t)
	c := some(s, 1)
	store(t, s, c)
	begun := c.Executions[0].ScheduledAt.UTC().Truncate(time.Microsecond)
	err := s.write(t.Context(), "add history", func(conn *conn, _ int64) error {
		if _, err := conn.prepare("DELETE FROM live").exec(); err != nil {
			return err
		}
		for i, status := range []job.Status{job.Succeeded, job.Succeeded, job.Failed, job.Cancelled} {
			started := begun.Add(time.Duration(i) * time.Hour)
			q := conn.prepare(`
				INSERT INTO executions (id, job, status, token, finished_at, scheduled_at, due_at, started_at, attempt, tries, lost, max_attempts, part, priority, trigger, tenant)
				VALUES (?, ?, ?, 0, ?, 0, 0, ?, 0, 0, 0, 1, 0, 5, 1, 'default')`).
				id(newID()).id(c.Jobs[0].ID).int(int64(status)).at(started.Add(time.Duration(i+1) * time.Second))
			if status == job.Cancelled { // before it started
				q.null()
			} else {
				q.at(started)
			}
			if _, err := q.exec(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Job(t.Context(), tenant.Default, engine.Ref{ID: c.Jobs[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	want := job.Stats{Total: 4, Succeeded: 2, AvgDuration: 2 * time.Second, P95Duration: 2900 * time.Millisecond, LastStatus: job.Cancelled}
	if j.Stats != want || !j.LastRunAt.Equal(begun.Add(2*time.Hour)) || j.State != job.Completed {
		t.Errorf("got %+v, last run %v, %v; want %+v", j.Stats, j.LastRunAt, j.State, want)
	}
}

func TestTally(t *testing.T) {
	s := fresh(t)
	const list = "WITH RECURSIVE n(i) AS (SELECT ? UNION ALL SELECT i - 1 FROM n WHERE i > 1) SELECT i FROM n"
	for _, n := range []int64{1, engine.TotalExact, 30_000_000} {
		var got engine.Total
		err := s.look(t.Context(), "count", func(c *conn) (err error) {
			got, err = tally(c.prepare(list).int(n), c.prepare("SELECT 1"))
			return err
		})
		if exact := n <= engine.TotalExact; err != nil || got.Estimate == exact || got.Count < n*99/100 || got.Count > n*101/100 {
			t.Errorf("counted %+v of %d, %v", got, n, err)
		}
	}
}
