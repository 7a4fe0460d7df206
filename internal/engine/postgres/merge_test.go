package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Of a bundle's ids some may be in rows, between those that are not: page by page all are listed, in their order, and no page goes past
// a row that was not read.
func TestRowsBetweenTheMembersOfABundle(t *testing.T) {
	lane := job.Lane{Tenant: "t", Priority: 5}
	due := time.Unix(1000, 0)
	at := func(id job.ID) job.Ready {
		return job.Ready{ID: job.ExecutionID(id), Tenant: lane.Tenant, Priority: lane.Priority, DueAt: due}
	}
	var all, rows []job.Ready
	var bundles []free
	for i := range 9 {
		b := free{Ready: at(job.ID{})}
		for n, id := range job.BundleIDs([16]byte{byte(i)}, 0, job.Bundle) {
			all = append(all, at(id))
			if n < 3 || n == 31 {
				b.ids = append(b.ids, job.ExecutionID(id))
			} else {
				rows = append(rows, at(id))
			}
		}
		bundles = append(bundles, b)
	}
	behind := func(list []job.Ready, c *engine.LaneCursor, most int) []job.Ready { // as readySQL
		out := slices.DeleteFunc(slices.Clone(list), func(r job.Ready) bool { return !behindCursor(&r, c) })
		return out[:min(most, len(out))]
	}
	for _, per := range []int{1, 7, 31, 32, 40, 99, 100, 101, 128, 500} {
		c := engine.LaneCursor{Lane: lane}
		var got []job.Ready
		for {
			low := at(job.ID(job.BundleOf(c.After)))
			some := slices.DeleteFunc(slices.Clone(bundles), func(b free) bool { return !c.DueAt.IsZero() && string(b.ids[0][:]) < string(low.ID[:]) }) // as readyBundlesSQL
			page, _ := mergeReady([]engine.LaneCursor{c}, some, behind(rows, &c, per), per, len(some)+1)
			got = append(got, page...)
			if len(page) < per {
				break
			}
			if len(page) >= per+job.Bundle || per < job.Bundle && len(page) > per {
				t.Errorf("by %d: a page of %d", per, len(page))
			}
			c.DueAt, c.After = page[len(page)-1].DueAt, page[len(page)-1].ID
		}
		if !slices.EqualFunc(got, all, func(a, b job.Ready) bool { return a.ID == b.ID }) {
			t.Errorf("by %d: %d are listed, want %d in their order", per, len(got), len(all))
		}
	}
}
