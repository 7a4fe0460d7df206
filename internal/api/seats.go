package api

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// seats limits long-lived resources, so that no tenant takes all of them.
type seats struct {
	all, each int

	mu    sync.Mutex
	taken int               // guarded by mu
	by    map[tenant.ID]int // guarded by mu
}

// newSeats makes n seats; one tenant may hold three quarters of them.
func newSeats(all int) *seats {
	return &seats{all: all, each: max(1, all*3/4), by: map[tenant.ID]int{}}
}

// take takes a seat until it is released, or refuses with a code and the name of what there are too many of.
func (s *seats) take(of tenant.ID, code, what string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken >= s.all:
		return nil, refuse(http.StatusTooManyRequests, code, fmt.Sprintf("This server already has %d %s. Try again later, or use another server.", s.all, what))
	case s.by[of] >= s.each:
		return nil, refuse(http.StatusTooManyRequests, code, fmt.Sprintf("The tenant already has %d %s at this server, which is the limit. Try again later, or use another server.", s.each, what))
	}
	s.taken++
	s.by[of]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
		if s.by[of]--; s.by[of] == 0 {
			delete(s.by, of)
		}
	}), nil
}
