package sqlite

import (
	"testing"

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
