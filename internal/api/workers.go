package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
)

var targets = []string{string(job.HTTP), string(job.Command), string(job.Handler), string(job.Simulate)}

// checkRegistration validates a worker's registration.
func checkRegistration(r client.Registration) job.Invalids {
	var v job.Invalids
	for field, text := range map[string]string{"host": r.Host, "version": r.Version} {
		if len(text) > 255 || strings.ContainsFunc(text, unicode.IsControl) {
			v.Add(field, text, "at most 255 characters, without control characters")
		}
	}
	checkMemory(&v, r.Memory)
	if r.Capacity < 1 || r.Capacity > 10_000 {
		v.Add("capacity", r.Capacity, "a whole number from 1 to 10000")
	}
	each := func(field string, list []string, ok func(string) bool, want string) {
		if len(list) > 100 {
			v.Add(field, fmt.Sprintf("%d", len(list)), "at most 100")
		}
		for i, x := range list {
			if !ok(x) {
				v.Add(fmt.Sprintf("%s[%d]", field, i), x, want)
			}
		}
	}
	const names = "1 to 128 of letters, digits, '.', '_', ':', '/' and '-'"
	each("labels", r.Labels, job.ValidName, names)
	each("kinds", r.Kinds, job.ValidName, names)
	each("queues", r.Queues, job.ValidKey, "1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
	each("targets", r.Targets, func(s string) bool { return slices.Contains(targets, s) }, "one of "+strings.Join(targets, ", "))
	return v
}

// checkMemory validates the memory that a worker reports.
func checkMemory(v *job.Invalids, m client.Memory) {
	for field, n := range map[string]*int64{"memory_used_bytes": m.MemoryUsed, "memory_limit_bytes": m.MemoryLimit} {
		if n != nil && (*n < 1 || *n > job.MaxMemory) {
			v.Add(field, *n, fmt.Sprintf("a whole number of bytes from 1 to %d (64 TiB); leave it out where it is unknown", int64(job.MaxMemory)))
		}
	}
}

// memoryOf reads the memory that a worker reports.
func memoryOf(m client.Memory) job.Memory {
	return job.Memory{Used: deref(m.MemoryUsed, 0), Limit: deref(m.MemoryLimit, 0)}
}

// wireMemory leaves out what is unknown.
func wireMemory(m job.Memory) (out client.Memory) {
	if m.Used > 0 {
		out.MemoryUsed = &m.Used
	}
	if m.Limit > 0 {
		out.MemoryLimit = &m.Limit
	}
	return out
}

func (s workerAPI) registerWorker(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req client.Registration
	if err := s.readInto(w, r, maxBody, &req); err != nil {
		return err
	}
	if req.Capacity == 0 {
		req.Capacity = 1
	}
	if len(req.Targets) == 0 {
		req.Targets = []string{string(job.Handler)}
	}
	v := checkRegistration(req)
	if i := slices.Index(req.Targets, string(job.Command)); i >= 0 && (p.Role == tenant.System || p.Tenant == "") && !s.cfg.Shared {
		v.Add(fmt.Sprintf("targets[%d]", i), req.Targets[i], "no commands for a worker that serves every tenant, since tenants in one worker process are not kept apart: use a key of role worker, or have an operator set commands.shared")
	}
	if err := v.Err(); err != nil {
		return err
	}
	if err := s.service.TakeRegistration(p); err != nil {
		s.cfg.Metrics.Limited("worker_registrations")
		return err
	}
	secret := rand.Text()
	x := job.Worker{
		ID: job.WorkerID(uuid.Must(uuid.NewV7())), Tenant: p.Tenant, Secret: sha256.Sum256([]byte(secret)), Host: req.Host, Version: req.Version,
		Labels: req.Labels, Queues: req.Queues, Targets: req.Targets, Kinds: req.Kinds, Capacity: req.Capacity, StartedAt: time.Now().UTC().Truncate(time.Microsecond),
		Beat: job.Beat{Memory: memoryOf(req.Memory)},
	}
	x.Tenant = servedBy(p)
	if err := s.sessions.begin(x.Tenant, x.ID, time.Now()); err != nil {
		s.cfg.Metrics.Limited("worker_sessions")
		return err
	}
	if err := s.cfg.Dispatch.Register(r.Context(), x); err != nil {
		s.sessions.end(x.Tenant, x.ID)
		return err
	}
	lease := int(s.cfg.Dispatch.LeaseTTL() / time.Second)
	return reply(w, 201, client.Session{WorkerID: x.ID.String(), Session: secret, LeaseSeconds: lease, BeatSeconds: max(1, lease/3)})
}

// servedBy returns the tenant that a worker with a credential serves; "" for all of them.
func servedBy(p tenant.Principal) tenant.ID {
	if p.Role == tenant.System {
		return ""
	}
	return p.Tenant
}

// worker finds the worker that a request acts for. Unknown workers, those of other tenants and unauthenticated ones
// get the same answer, so that ids cannot be probed; only the session's own worker learns that it has ended.
func (s *Server) worker(r *http.Request, p tenant.Principal) (job.WorkerID, error) {
	return s.workerNamed(r, p, r.PathValue("id"))
}

func (s *Server) workerNamed(r *http.Request, p tenant.Principal, name string) (job.WorkerID, error) {
	id, err := job.ParseWorkerID(name)
	if err != nil {
		return id, engine.ErrNotFound
	}
	x, err := s.cfg.Dispatch.Worker(r.Context(), id)
	if err != nil && !errors.Is(err, engine.ErrSession) {
		return id, err
	}
	proof := sha256.Sum256([]byte(r.Header.Get("X-Worker-Session")))
	proved := subtle.ConstantTimeCompare(proof[:], x.Secret[:]) == 1
	if !proved || x.Tenant != p.Tenant && !(x.Tenant == "" && p.Role == tenant.System) {
		return id, engine.ErrNotFound
	}
	return id, err
}

// intake returns the intake for what workers report.
func (s *Server) intake() intake { return intake{s.cfg.Dispatch, s.cfg.Secrets, true} }

const maxWait = 60 * time.Second

func (s workerAPI) claim(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := s.worker(r, p)
	if err != nil {
		return err
	}
	var req client.ClaimRequest
	if err := s.readInto(w, r, maxBody, &req); err != nil {
		return err
	}
	wait := seconds(int64(deref(req.WaitSeconds, 20)))
	var v job.Invalids
	if req.Max == 0 {
		req.Max = 1
	}
	if req.Max < 1 || req.Max > client.MaxClaim {
		v.Add("max", req.Max, fmt.Sprintf("a whole number from 1 to %d", client.MaxClaim))
	}
	if wait < 0 || wait > maxWait {
		v.Add("wait_seconds", *req.WaitSeconds, "a whole number from 0 to 60")
	}
	if err := v.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), max(wait, time.Millisecond))
	defer cancel()
	vigil := s.watch(r, p, tenant.Work)
	stop := vigil.during(cancel)
	as, err := s.cfg.Dispatch.Claim(ctx, id, req.Max)
	stop()
	if err != nil {
		return err
	}
	if r.Context().Err() != nil { // the worker has gone, and will never receive it
		s.handBack(r.Context(), id, as)
		return nil
	}
	if err := vigil.confirm(); err != nil { // while it waited, or while this was leased
		s.handBack(r.Context(), id, as)
		return err
	}
	n := fits(as)
	if n < len(as) {
		s.handBack(r.Context(), id, as[n:])
	}
	var late func(*job.Attempt) bool
	if req.LateSecrets {
		late = secret.Named
	}
	out := client.Claimed{Attempts: s.cfg.Delivery.Give(r.Context(), id, as[:n], late)}
	if !vigil.allowed() { // the hand-out took long
		s.handBack(r.Context(), id, as[:n])
		return errRevoked
	}
	data, err := verbatim(out)
	if err != nil {
		return err
	}
	if r.Context().Err() != nil || !delivered(w, data) {
		s.handBack(r.Context(), id, as[:n])
	}
	return nil
}

// verbatim encodes attempts. Payloads keep the bytes that were counted and signed, also a < or an &.
func verbatim(v any) ([]byte, error) {
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return data.Bytes(), err
}

// start hands out an attempt that was claimed without the values of its secrets, to the worker that is about to begin
// it. It changes nothing, so it can be repeated.
func (s workerAPI) start(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := job.ParseExecutionID(r.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	by, err := s.workerNamed(r, p, r.Header.Get("X-Worker-ID"))
	if errors.Is(err, engine.ErrNotFound) {
		return errNoWorker
	}
	if err != nil {
		return err
	}
	var req client.StartRequest
	if err := s.readInto(w, r, maxBody, &req); err != nil {
		return err
	}
	vigil := s.watch(r, p, tenant.Work)
	a, err := s.cfg.Dispatch.Start(r.Context(), by, job.Lease{Execution: id, Token: job.Token(req.FencingToken)})
	if err != nil {
		return err
	}
	out, err := s.cfg.Delivery.Start(r.Context(), by, &a)
	if err != nil {
		return err
	}
	if !vigil.allowed() { // a backend of secrets took long
		s.handBack(r.Context(), by, []job.Attempt{a})
		return errRevoked
	}
	data, err := verbatim(out)
	if err != nil {
		return err
	}
	delivered(w, data) // if it gets lost, the worker asks again
	return nil
}

var errNoWorker = refuse(http.StatusNotFound, "not_found", "No worker has the worker_id in X-Worker-ID and the session in X-Worker-Session. Send both, or register again.")

// delivered writes a response, and reports whether it could be sent, which it cannot if the caller is known to have
// gone. A caller that goes unnoticed may still lose it.
func delivered(w http.ResponseWriter, data []byte) bool {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(200)
	if _, err := w.Write(data); err != nil {
		return false
	}
	err := http.NewResponseController(w).Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// maxGrant limits the payloads and targets in one claim's response, far below what a client reads.
const maxGrant = 8 << 20

// fits returns how many attempts fit into one response, at least one.
func fits(as []job.Attempt) int {
	size := 0
	for i, a := range as {
		size += len(a.Payload) + len(a.Target.URL) + len(a.Target.ExpectBody)
		for name, value := range a.Target.Headers {
			size += len(name) + len(value)
		}
		for name, value := range a.Target.Env {
			size += len(name) + len(value)
		}
		if i > 0 && size > maxGrant {
			return i
		}
	}
	return len(as)
}

// handBack returns undelivered attempts at once. If that fails, the worker's heartbeats show that it does not have
// them.
func (s workerAPI) handBack(ctx context.Context, id job.WorkerID, as []job.Attempt) {
	if len(as) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline) // also if the worker has gone
	defer cancel()
	ls := make([]job.Lease, len(as))
	for i, a := range as {
		ls[i] = job.Lease{Execution: a.Execution, Token: a.Token}
	}
	if err := s.cfg.Dispatch.Release(ctx, id, ls); err != nil {
		s.log.Warn("what a claim's answer does not hold could not be handed back", "worker", id, "executions", len(ls), "error", err)
	}
}

func (s workerAPI) beat(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := s.worker(r, p)
	if err != nil {
		return err
	}
	var req client.Beat
	if err := s.readInto(w, r, maxBatch, &req); err != nil {
		return err
	}
	orders, err := s.intake().beat(r.Context(), id, req)
	if err != nil {
		return err
	}
	s.sessions.heard(servedBy(p), id, time.Now())
	return reply(w, 200, orders)
}

func (s workerAPI) complete(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := s.worker(r, p)
	if err != nil {
		return err
	}
	var req client.CompleteRequest
	if err := s.readInto(w, r, maxBatch, &req); err != nil {
		return err
	}
	vs, err := s.intake().report(r.Context(), id, req.Outcomes)
	if err != nil {
		return err
	}
	return reply(w, 200, client.Verdicts{Verdicts: vs})
}

func (s workerAPI) release(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := s.worker(r, p)
	if err != nil {
		return err
	}
	var req client.ReleaseRequest
	if err := s.readInto(w, r, maxBatch, &req); err != nil {
		return err
	}
	ls, err := leases(req.Executions)
	if err != nil {
		return err
	}
	if err := s.cfg.Dispatch.Release(r.Context(), id, ls); err != nil {
		return err
	}
	return reply(w, 200, struct{}{})
}

func (s workerAPI) leave(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := s.worker(r, p)
	if err != nil {
		return err
	}
	if err := s.cfg.Dispatch.Leave(r.Context(), id); err != nil {
		return err
	}
	s.sessions.end(servedBy(p), id)
	return reply(w, 200, struct{}{})
}

// readInto reads an optional body of a worker.
func (s *Server) readInto(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	data, err := body(w, r, limit)
	if err != nil || len(data) == 0 {
		return err
	}
	return decode(data, v)
}

// leases reads the leases that a worker lists; nil if it lists none.
func leases(held []client.Held) ([]job.Lease, error) {
	if held == nil {
		return nil, nil
	}
	ls := make([]job.Lease, len(held))
	for i, h := range held {
		id, err := job.ParseExecutionID(h.ExecutionID)
		if err != nil {
			return nil, job.Invalids{{Field: fmt.Sprintf("executions[%d].execution_id", i), Value: job.Show(h.ExecutionID), Want: "an execution's id"}}
		}
		ls[i] = job.Lease{Execution: id, Token: job.Token(h.FencingToken)}
	}
	return ls, nil
}

// signOf reads a heartbeat.
func signOf(b client.Beat) (dispatch.Sign, error) {
	ls, err := leases(b.Executions)
	if err != nil {
		return dispatch.Sign{}, err
	}
	sign := dispatch.Sign{Held: ls, Draining: b.Draining, Memory: memoryOf(b.Memory)}
	var v job.Invalids
	checkMemory(&v, b.Memory)
	for i, h := range b.Executions {
		p := h.Progress
		if p == nil {
			continue
		}
		if p.Percent < 0 || p.Percent > 100 {
			v.Add(fmt.Sprintf("executions[%d].progress.percent", i), p.Percent, "a whole number from 0 to 100")
		}
		if !job.ValidNote(p.Message) {
			v.Add(fmt.Sprintf("executions[%d].progress.message", i), p.Message, "at most 1000 characters, without control characters other than tabs and line breaks")
		}
		sign.Advances = append(sign.Advances, job.Advance{Lease: ls[i], Percent: p.Percent, Message: p.Message})
	}
	return sign, v.Err()
}

// drainWorker asks a worker to take no more work.
func (s workerAPI) drainWorker(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := job.ParseWorkerID(r.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	if err := s.service.Drain(r.Context(), p, id); err != nil { // a second one gets the same response as the first, with or without a key
		return err
	}
	return reply(w, 202, client.Draining{WorkerID: id.String(), Status: string(job.WorkerDraining)})
}

// under adds a prefix to the fields of an error.
func under(err error, prefix string) error {
	var v job.Invalids
	if errors.As(err, &v) {
		return v.Under(prefix)
	}
	return err
}

// wireOrders returns the orders for a worker. The wire names executions, not leases, so a lost lease is left out if
// the worker holds a newer one of the same execution: it would drop the wrong one.
func wireOrders(orders dispatch.Orders, held []job.Lease) client.Orders {
	out := client.Orders{Cancel: []string{}, Lost: []string{}, Drain: orders.Drain}
	for _, o := range orders.Orders {
		newer := slices.ContainsFunc(held, func(l job.Lease) bool { return l.Execution == o.Execution && l.Token > o.Token })
		switch {
		case newer:
		case o.Kind == job.OrderCancel:
			out.Cancel = append(out.Cancel, o.Execution.String())
		default:
			out.Lost = append(out.Lost, o.Execution.String())
		}
	}
	return out
}

func wireVerdicts(outcomes []client.Outcome, vs []job.Verdict) []client.Verdict {
	out := make([]client.Verdict, len(vs))
	for i, v := range vs {
		out[i] = client.Verdict{ExecutionID: outcomes[i].ExecutionID, Verdict: client.Accepted, Reason: v.Reason}
		if !v.Accepted {
			out[i].Verdict = client.Refused
		}
	}
	return out
}
