package postgres

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The rows of a large batch are made before its transaction, and of them those go that nothing stands in the way of.
func TestPages(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	first := creation(t, s, 1)
	first.Jobs[0].Key = "taken"
	must[[]engine.Created](t)(s.CreateJobs(t.Context(), []engine.Creation{first}))
	cs := []engine.Creation{creation(t, s, copyFrom), creation(t, s, copyFrom), creation(t, s, copyFrom)}
	cs[0].Jobs[3].Key = "free"
	cs[1].Jobs[7].Key = "taken"
	cs[2].Executions[5].UniqueKey = "only"
	out := must[[]engine.Created](t)(s.CreateJobs(t.Context(), cs))
	if out[0].Taken != "" || out[1].Taken != "taken" || out[2].Taken != "" {
		t.Errorf("got %+v", out)
	}
	for i, c := range cs {
		for n, j := range c.Jobs {
			got, err := s.Job(t.Context(), tenant.Default, engine.Ref{ID: j.ID})
			if stored := err == nil; stored != (i != 1) || stored && (got.Key != j.Key || got.Name != j.Name) {
				t.Fatalf("job %d of %d: %+v, %v", n, i, got, err)
			}
			if e, err := s.Execution(t.Context(), tenant.Default, c.Executions[n].ID); (err == nil) != (i != 1) || err == nil && e.Job != c.Executions[n].Job {
				t.Fatalf("execution %d of %d: %+v, %v", n, i, e, err)
			}
		}
	}

	// Nothing is encoded any more once there are pages.
	c := creation(t, s, copyFrom)
	b := batch{all: []engine.Creation{c}, chosen: []int{0}}.paged(packMany)
	name := c.Jobs[0].Name
	c.Jobs[0].Name = "changed later"
	if err := b.insert(t.Context(), direct(t, s), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Job(t.Context(), tenant.Default, engine.Ref{ID: c.Jobs[0].ID}); err != nil || got.Name != name {
		t.Errorf("got %q, %v", got.Name, err)
	}
}
