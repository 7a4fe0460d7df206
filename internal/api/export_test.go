package api

import (
	"io"
	"reflect"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/service"
)

// Route is a route of the table, for tests that walk all of it.
type Route struct {
	Method, Path, Sample string
	Needs                tenant.Permission
	Bytes                bool
	Body                 reflect.Type // nil: none
	Params               []string
	Status               int
}

// Table is every route.
func (s *Server) Table() []Route {
	out := make([]Route, len(s.routes))
	for i, r := range s.routes {
		out[i] = Route{r.method, r.path, r.sample, r.needs, r.bytes, r.body, nil, r.status}
		for _, p := range r.params {
			out[i].Params = append(out[i].Params, p.name)
		}
	}
	return out
}

// BadgeSVG draws a badge.
func BadgeSVG(label string, is service.Condition) string { return badgeSVG(label, is) }

// Export writes executions as a format does.
func Export(format string, w io.Writer, es []client.Execution) error {
	s := formats[format].open(w)
	if err := s.write(es); err != nil {
		return err
	}
	return s.end()
}
