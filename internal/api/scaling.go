package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
)

const (
	perWorker  = 10   // waiting executions per wanted worker
	maxDesired = 1000 // workers
)

var scalingParams = []param{{"queue", "string", "Only these queues, separated by commas. The totals cover only them; an empty or unknown queue counts as 0."}}

// scaling returns how many workers the load needs, for autoscalers.
func (s viewAPI) scaling(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	if p.Role == tenant.Worker && p.Tenant != "" {
		return refuse(403, "forbidden", "This covers all tenants: a key with the role worker must also be for all tenants.")
	}
	q, err := parseQuery(r, scalingParams)
	if err != nil {
		return err
	}
	named := q.text("queue")
	if err := q.err(); err != nil {
		return err
	}
	loads, all, err := s.cfg.Dispatch.Loads(r.Context())
	if err != nil {
		return err
	}
	if named != "" {
		loads, all = among(loads, strings.Split(named, ","))
	}
	out := client.Scaling{Queues: make([]client.QueueScaling, len(loads))}
	for i, l := range loads {
		out.Queues[i] = client.QueueScaling{Queue: l.Queue, Waiting: l.Waiting, Paused: l.Paused, Running: l.Running, Slots: l.Slots, DesiredWorkers: DesiredWorkers(l.Waiting)}
	}
	out.Waiting, out.Paused, out.Running, out.Slots, out.DesiredWorkers = all.Waiting, all.Paused, all.Running, all.Slots, DesiredWorkers(all.Waiting)
	return reply(w, 200, out)
}

// among returns the load of some queues and their sum. Its slots are those of the queue that has the most, as one
// worker may serve them all.
func among(loads []dispatch.Load, names []string) (of []dispatch.Load, all dispatch.Load) {
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		l := dispatch.Load{Queue: name}
		if i := slices.IndexFunc(loads, func(l dispatch.Load) bool { return l.Queue == name }); i >= 0 {
			l = loads[i]
		}
		of = append(of, l)
		all.Waiting, all.Running, all.Slots = all.Waiting+l.Waiting, all.Running+l.Running, max(all.Slots, l.Slots)
	}
	return of, all
}

// DesiredWorkers returns how many workers n waiting executions need.
func DesiredWorkers(waiting int) int { return min((waiting+perWorker-1)/perWorker, maxDesired) }
