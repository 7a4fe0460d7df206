package api

import (
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

const (
	perWorker  = 10   // executions that wait for each worker that is wanted
	maxDesired = 1000 // workers
)

// scaling says how many workers the load asks for, for whatever starts them.
func (s *Server) scaling(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	q, err := parseQuery(r, nil)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	loads, all, err := s.cfg.Dispatch.Loads(r.Context())
	if err != nil {
		return err
	}
	out := client.Scaling{Queues: make([]client.QueueScaling, len(loads))}
	for i, l := range loads {
		out.Queues[i] = client.QueueScaling{Queue: l.Queue, Waiting: l.Waiting, Paused: l.Paused, Running: l.Running, Slots: l.Slots, DesiredWorkers: DesiredWorkers(l.Waiting)}
	}
	out.Waiting, out.Paused, out.Running, out.Slots, out.DesiredWorkers = all.Waiting, all.Paused, all.Running, all.Slots, DesiredWorkers(all.Waiting)
	return reply(w, 200, out)
}

// DesiredWorkers is how many workers so many executions that wait ask for.
func DesiredWorkers(waiting int) int { return min((waiting+perWorker-1)/perWorker, maxDesired) }
