package api

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

func TestNoTenantHasAllSeats(t *testing.T) {
	s := newSeats(8)
	var given []func()
	take := func(of tenant.ID, ok bool) {
		t.Helper()
		release, err := s.take(of, "too_many", "seats")
		if (err == nil) != ok {
			t.Fatalf("%s: %v", of, err)
		}
		if ok {
			given = append(given, release)
		}
	}
	for range 6 {
		take("a", true)
	}
	take("a", false)
	take("b", true)
	take("b", true)
	take("c", false)
	given[0]()
	given[0]() // counts once
	take("c", true)
	take("c", false)
	for _, release := range given {
		release()
	}
	if s.taken != 0 || len(s.by) != 0 {
		t.Errorf("left: %d, %v", s.taken, s.by)
	}
}
