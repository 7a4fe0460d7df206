package postgres

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// Where the rows of a table take too long to be counted, how many there are is an estimate, and the others are told.
func TestSizesOfWhatTakesLong(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	store(t, s, creation(t, s, 2))
	c := direct(t, s)
	exec(t, c, "ALTER TABLE live RENAME TO live_before")
	exec(t, c, "CREATE VIEW live AS SELECT pg_sleep(3600)::text AS slept")
	got := must[engine.Sizes](t)(s.Sizes(t.Context()))
	if len(got.Tables) != len(engine.SizedTables) {
		t.Fatalf("got %+v", got)
	}
	for _, x := range got.Tables {
		if x.Name == "live" && !x.Rows.Estimate || x.Name == "jobs" && !x.Rows.Estimate && x.Rows.Count != 2 { // which a slow machine may not count either
			t.Errorf("%s: %+v", x.Name, x.Rows)
		}
	}
	if pid := must[int](t)(s.Backend(t.Context())); pid == 0 {
		t.Error("its connection is lost")
	}
}
