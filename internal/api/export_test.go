package api

import "github.com/carillon-jobs/carillon/internal/core/tenant"

// Route is a route of the table, for tests that walk all of it.
type Route struct {
	Method, Path, Sample string
	Needs                tenant.Permission
	Bytes                bool
}

// Table is every route.
func (s *Server) Table() []Route {
	out := make([]Route, len(s.routes))
	for i, r := range s.routes {
		out[i] = Route{r.method, r.path, r.sample, r.needs, r.bytes}
	}
	return out
}
