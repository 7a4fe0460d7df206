package api

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

var headParams = []param{{"limit", "integer", "How many, 1 to 100; default 20."}}

func (s settingsAPI) queueRoutes() []route {
	return []route{
		{
			method: "GET", path: "/api/v1/queues", needs: tenant.Read, group: "Queues", summary: "List the tenant's queues, with what waits and what holds it back",
			detail: "Lists queues that have work, a limit or a pause, and the default queue, by name. Counted at most every 2 s.",
			params: pageParams, status: 200, answer: of[client.Queues](), handle: s.listQueues,
		},
		{
			method: "GET", path: "/api/v1/queues/{queue}", needs: tenant.Read, group: "Queues", summary: "Read a queue",
			detail: "A queue exists as soon as a job names it; an unknown queue is empty.", status: 200, answer: of[client.Queue](), handle: s.getQueue,
		},
		{
			method: "GET", path: "/api/v1/queues/{queue}/waiting", needs: tenant.Read, group: "Queues", summary: "List the head of a queue: what starts next",
			detail: "Due executions in the order in which they start; limits may let others pass them.", params: headParams, status: 200, answer: of[client.QueueHead](), handle: s.queueHead,
		},
		{
			method: "POST", path: "/api/v1/queues/{queue}/pause", needs: tenant.Write, group: "Queues", summary: "Pause a queue",
			detail: "Within two seconds, no server starts its executions. Running executions continue, and new ones wait. The body is optional. Pausing it again changes reason and until.",
			body:   of[client.PauseRequest](), sample: `{"reason": "the mail server is moved", "until": "2030-01-01T06:00:00Z"}`, status: 200, answer: of[client.Queue](), handle: s.pauseQueue,
		},
		{
			method: "POST", path: "/api/v1/queues/{queue}/resume", needs: tenant.Write, group: "Queues", summary: "Resume a paused queue",
			detail: "Waiting executions start as limits allow. Resuming a queue that is not paused does nothing.", status: 200, answer: of[client.Queue](), handle: s.resumeQueue,
		},
		{
			method: "GET", path: "/api/v1/workers/{id}", needs: tenant.Read, group: "Workers", summary: "Read a worker",
			detail: "A worker that is gone shows as DEAD for an hour.", status: 200, answer: of[client.Worker](), handle: s.getWorker,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/cordon", needs: tenant.Write, group: "Workers", summary: "Cordon a worker",
			detail: "Within two seconds, no server gives it new executions until you uncordon it. It finishes what it has, stays connected and shows as CORDONED. To cordon a worker that serves all tenants you need the role system.",
			status: 200, answer: of[client.Worker](), handle: s.cordonWorker,
		},
		{
			method: "POST", path: "/api/v1/workers/{id}/uncordon", needs: tenant.Write, group: "Workers", summary: "Uncordon a worker",
			detail: "The worker gets executions again. Uncordoning one that is not cordoned does nothing.", status: 200, answer: of[client.Worker](), handle: s.uncordonWorker,
		},
	}
}

// queueName reads the queue that a path names.
func queueName(r *http.Request) (string, error) {
	queue := r.PathValue("queue")
	return queue, service.CheckQueue(queue).Err()
}

func (s settingsAPI) listQueues(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, pageParams)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	if page.Cursor != "" && !job.ValidKey(page.Cursor) {
		return engine.ErrCursor
	}
	ls, err := s.service.Limits(r.Context(), p)
	if err != nil {
		return err
	}
	by := map[string]job.Limit{}
	names := []string{job.DefaultQueue}
	for _, l := range ls {
		if l.Queue != "" {
			by[l.Queue], names = l, append(names, l.Queue)
		}
	}
	loads, err := s.cfg.Dispatch.QueuesOf(engine.Unconfined(r.Context()), p.Tenant, names...)
	if err != nil {
		return err
	}
	total := len(loads)
	from, found := slices.BinarySearchFunc(loads, page.Cursor, func(l dispatch.Load, after string) int { return cmp.Compare(l.Queue, after) })
	if found {
		from++
	}
	loads, next := loads[from:], ""
	if len(loads) > page.Limit {
		loads = loads[:page.Limit]
		next = loads[len(loads)-1].Queue
	}
	out := client.Queues{Queues: make([]client.Queue, len(loads)), Pagination: pagination(page, engine.Total{Count: int64(total)}, next)}
	for i := range loads {
		out.Queues[i] = s.wireQueue(loads[i], by[loads[i].Queue])
	}
	return reply(w, 200, out)
}

func (s settingsAPI) getQueue(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	queue, err := queueName(r)
	if err != nil {
		return err
	}
	if err := noParams(r); err != nil {
		return err
	}
	l, err := s.service.QueueLimit(r.Context(), p, queue)
	if err != nil {
		return err
	}
	return s.answerQueue(w, r, p, l)
}

// answerQueue responds with a queue whose limit and pause are known.
func (s settingsAPI) answerQueue(w http.ResponseWriter, r *http.Request, p tenant.Principal, l job.Limit) error {
	loads, err := s.cfg.Dispatch.QueuesOf(engine.Unconfined(r.Context()), p.Tenant, l.Queue)
	if err != nil {
		return err
	}
	for _, x := range loads {
		if x.Queue == l.Queue {
			return reply(w, 200, s.wireQueue(x, l))
		}
	}
	return reply(w, 200, s.wireQueue(dispatch.Load{Queue: l.Queue}, l))
}

func (s settingsAPI) wireQueue(x dispatch.Load, l job.Limit) client.Queue {
	oldest := x.Oldest
	if oldest.IsZero() || !x.Held.IsZero() && x.Held.Before(oldest) {
		oldest = x.Held
	}
	return client.Queue{
		Queue: x.Queue, Waiting: x.Waiting + x.Paused, Running: x.Running, Slots: x.Slots, OldestWaitingSeconds: age(oldest, s.cfg.Dispatch.Now()),
		MaxConcurrent: atOnce(l.Max), RateLimit: wireRate(l.Rate), Pause: wirePause(l.Pause),
	}
}

func wirePause(p job.Pause) *client.Pause {
	if p.IsZero() {
		return nil
	}
	return &client.Pause{At: p.At, Until: instant(p.Until), By: p.By, Reason: optional(p.Reason)}
}

func (s settingsAPI) queueHead(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	queue, err := queueName(r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r, headParams)
	if err != nil {
		return err
	}
	n := q.number("limit", 20, 1, 100)
	if err := q.err(); err != nil {
		return err
	}
	rs, err := s.cfg.Dispatch.Head(engine.Unconfined(r.Context()), p.Tenant, queue, n)
	if err != nil {
		return err
	}
	es, err := s.service.FirstExecutions(r.Context(), p, rs)
	if err != nil {
		return err
	}
	out := client.QueueHead{Executions: make([]client.Execution, len(es))}
	for i, e := range es {
		out.Executions[i] = wireExecution(e)
	}
	return reply(w, 200, out)
}

func (s settingsAPI) pauseQueue(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.PauseRequest
	if err := decodeAny(data, &req); err != nil {
		return err
	}
	l, err := s.service.PauseQueue(r.Context(), p, r.PathValue("queue"), req.Reason, written(req.Until)) // a second one gets the same response as the first, with or without a key
	if err != nil {
		return err
	}
	return s.answerQueue(w, r, p, l)
}

func (s settingsAPI) resumeQueue(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, err := body(w, r, maxBody)
	if err != nil {
		return err
	}
	var req struct{}
	if err := decodeAny(data, &req); err != nil {
		return err
	}
	l, err := s.service.ResumeQueue(r.Context(), p, r.PathValue("queue"))
	if err != nil {
		return err
	}
	return s.answerQueue(w, r, p, l)
}

func (s settingsAPI) getWorker(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := job.ParseWorkerID(r.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	if err := noParams(r); err != nil {
		return err
	}
	x, err := s.service.Worker(r.Context(), p, id)
	if err != nil {
		return err
	}
	return reply(w, 200, wireWorker(x))
}

func (s settingsAPI) cordonWorker(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.cordon(w, r, p, true)
}

func (s settingsAPI) uncordonWorker(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return s.cordon(w, r, p, false)
}

func (s settingsAPI) cordon(w http.ResponseWriter, r *http.Request, p tenant.Principal, on bool) error {
	id, err := job.ParseWorkerID(r.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	x, err := s.service.Cordon(r.Context(), p, id, on) // a second one gets the same response as the first, with or without a key
	if err != nil {
		return err
	}
	return reply(w, 200, wireWorker(x))
}
