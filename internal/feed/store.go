package feed

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Store is an observed store.
type Store struct {
	engine.Store
	counter *Counter
	hub     *Hub

	mu   sync.Mutex
	held map[job.ExecutionID]held // guarded by mu: what is leased here
}

// held is a lease that was given here.
type held struct {
	token job.Token
	owner owner
}

// heldMost limits how many leases are remembered; for others the store is asked.
const heldMost = 200_000

// Over wraps a store.
func Over(store engine.Store, c *Counter, h *Hub) *Store {
	return &Store{Store: store, counter: c, hub: h, held: map[job.ExecutionID]held{}}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func (s *Store) execution(t tenant.ID, what string, e job.ExecutionID, j job.ID, status job.Status) {
	c := Change{At: now(), Type: "execution." + what, Execution: e.String(), Status: status.String()}
	if !j.IsZero() {
		c.Job = j.String()
	}
	s.hub.Tell(t, c)
}

func (s *Store) job(j job.Job, what string) {
	s.hub.Tell(j.Tenant, Change{At: now(), Type: "job." + what, Job: j.ID.String(), Status: j.State.String()})
}

// CreateJobs stores creations.
func (s *Store) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	made, err := s.Store.CreateJobs(ctx, cs)
	if err != nil || !s.hub.Heard() {
		return made, err
	}
	for i, c := range cs {
		if x := made[i]; x.Replay != nil || x.Reused || x.Taken != "" || x.Unique != nil {
			continue
		}
		for _, j := range c.Jobs {
			s.job(j, "created")
		}
		for _, e := range c.Executions {
			s.execution(c.Tenant, "created", e.ID, e.Job, job.Pending)
		}
	}
	return made, nil
}

// UpdateJob stores a job again.
func (s *Store) UpdateJob(ctx context.Context, t tenant.ID, u engine.Update) (job.Job, error) {
	j, err := s.Store.UpdateJob(ctx, t, u)
	if err == nil && s.hub.Heard() {
		what := "changed"
		if j.State == job.Paused {
			what = "paused"
		}
		s.job(j, what)
	}
	return j, err
}

// DeleteJob marks a job deleted.
func (s *Store) DeleteJob(ctx context.Context, t tenant.ID, d engine.Deletion) (engine.Deleted, error) {
	j, err := s.Store.DeleteJob(ctx, t, d)
	s.counter.ended(j.Ended)
	if err == nil && s.hub.Heard() {
		s.job(j.Job, "deleted")
	}
	return j, err
}

// CancelWaiting cancels waiting executions of a deleted job.
func (s *Store) CancelWaiting(ctx context.Context, t tenant.ID, of job.ID, limit int) ([]engine.Ended, error) {
	es, err := s.Store.CancelWaiting(ctx, t, of, limit)
	s.counter.ended(es)
	return es, err
}

// Trigger adds one execution.
func (s *Store) Trigger(ctx context.Context, t tenant.ID, x job.Execution, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	c, err := s.Store.Trigger(ctx, t, x, i, e)
	if err == nil && s.hub.Heard() && c.Replay == nil && !c.Reused && c.Unique == nil {
		s.execution(t, "created", x.ID, x.Job, job.Pending)
	}
	return c, err
}

// Backfill adds executions of one job.
func (s *Store) Backfill(ctx context.Context, t tenant.ID, of job.ID, es []job.Execution) ([]job.ExecutionID, error) {
	ids, err := s.Store.Backfill(ctx, t, of, es)
	if err == nil && s.hub.Heard() {
		for _, id := range ids {
			s.execution(t, "created", id, of, job.Pending)
		}
	}
	return ids, err
}

// Rerun adds new executions of finished ones.
func (s *Store) Rerun(ctx context.Context, t tenant.ID, r engine.Rerun) (engine.Rerunning, error) {
	got, err := s.Store.Rerun(ctx, t, r)
	if err == nil && s.hub.Heard() {
		of := map[job.ExecutionID]job.ID{}
		for _, e := range r.Executions {
			of[e.ID] = e.Job
		}
		for _, id := range got.Added {
			s.execution(t, "created", id, of[id], job.Pending)
		}
	}
	return got, err
}

// Fire stores the executions of jobs.
func (s *Store) Fire(ctx context.Context, fs []engine.Firing, f engine.Fence) (engine.Fired, error) {
	rs, err := s.Store.Fire(ctx, fs, f)
	if err != nil {
		return rs, err
	}
	s.counter.fired(fs, rs.Ended)
	if !s.hub.Heard() {
		return rs, nil
	}
	of := map[job.ExecutionID]job.ID{}
	for _, x := range fs {
		for _, e := range x.Executions {
			of[e.ID] = x.Job
		}
	}
	for _, r := range rs.Ready {
		s.execution(r.Tenant, "created", r.ID, of[r.ID], job.Pending)
	}
	return rs, nil
}

// Lease gives sessions executions.
func (s *Store) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	as, err := s.Store.Lease(ctx, gs, f)
	if err != nil {
		return as, err
	}
	s.counter.started(as)
	s.remember(as)
	if !s.hub.Heard() {
		return as, nil
	}
	by := map[job.ExecutionID]job.WorkerID{}
	for _, g := range gs {
		for _, id := range g.Executions {
			by[id] = g.Worker
		}
	}
	for _, a := range as {
		s.hub.Tell(a.Tenant, Change{
			At: a.LeasedAt, Type: "execution.started", Execution: a.Execution.String(), Job: a.Job.String(), Worker: by[a.Execution].String(), Status: job.Running.String(),
		})
	}
	return as, nil
}

// remember records leases and whose executions they are of.
func (s *Store) remember(as []job.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held)+len(as) > heldMost {
		clear(s.held)
	}
	for i := range as {
		a := &as[i]
		s.held[a.Execution] = held{a.Token, ownerOf(a.Execution, a.Tenant, a.Job, a.Trigger, a.ScheduledAt)}
	}
}

// owners returns the owners of executions whose leases are remembered.
func (s *Store) owners(fs []job.Finish) (of map[job.Lease]owner, unknown []job.Lease) {
	of = make(map[job.Lease]owner, len(fs))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range fs {
		l := fs[i].Outcome.Lease
		if h, ok := s.held[l.Execution]; ok && h.token == l.Token {
			of[l] = h.owner
		} else {
			unknown = append(unknown, l)
		}
	}
	return of, unknown
}

// forget drops leases that have ended. Another of the same execution may have begun since.
func (s *Store) forget(fs []job.Finish) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range fs {
		l := fs[i].Outcome.Lease
		if s.held[l.Execution].token == l.Token {
			delete(s.held, l.Execution)
		}
	}
}

// news returns which results are to be counted and told of: those that were applied just now, and repeated ones whose
// first answer was lost on its way from the store, which are still held here. Each lease ends once.
func news(fs []job.Finish, vs []job.Verdict, of map[job.Lease]owner) []int {
	out := make([]int, 0, len(vs))
	for i := range vs {
		if !vs[i].Accepted {
			continue
		}
		l := fs[i].Outcome.Lease
		if _, ok := of[l]; vs[i].Repeated && (!ok || slices.ContainsFunc(out, func(k int) bool { return fs[k].Outcome.Lease == l })) {
			continue
		}
		out = append(out, i)
	}
	return out
}

// Finish applies transitions.
func (s *Store) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	return s.finish(ctx, fs, func() ([]job.Verdict, error) { return s.Store.Finish(ctx, fs) })
}

// FinishNodes applies transitions, and changes runs.
func (s *Store) FinishNodes(ctx context.Context, fs []job.Finish, decide engine.Decide) (vs []job.Verdict, out []engine.RunChanged, err error) {
	of := map[job.ExecutionID]change{}
	vs, err = s.finish(ctx, fs, func() (vs []job.Verdict, err error) {
		vs, out, err = s.Store.FinishNodes(ctx, fs, noting(of, decide))
		return vs, err
	})
	s.decided(of, out)
	return vs, out, err
}

// finish tells of what call finishes.
func (s *Store) finish(ctx context.Context, fs []job.Finish, call func() ([]job.Verdict, error)) ([]job.Verdict, error) {
	of, unknown := s.owners(fs)
	told := map[job.ExecutionID]owner{}
	if s.hub.Heard() && len(unknown) > 0 {
		hs, err := s.Store.Held(ctx, unknown)
		if err != nil {
			s.hub.Lose("")
		}
		for _, h := range hs {
			told[h.ID] = owner{tenant: h.Tenant, job: h.Job}
		}
	}
	vs, err := call()
	if err != nil {
		return vs, err
	}
	fresh := news(fs, vs, of)
	s.counter.finished(fs, vs, fresh, of)
	s.forget(fs)
	if !s.hub.Heard() {
		return vs, nil
	}
	for _, i := range fresh {
		v := vs[i]
		o, ok := of[fs[i].Outcome.Lease]
		if !ok {
			o, ok = told[v.Execution]
		}
		if !ok {
			continue
		}
		what, status := "finished", fs[i].Came(&vs[i]).Status
		switch {
		case status == job.Retrying:
			what = "retrying"
		case !status.Final():
			what = "released"
		}
		s.execution(o.tenant, what, v.Execution, o.job, status)
	}
	return vs, nil
}

// Cancel ends waiting executions and asks running ones to stop.
func (s *Store) Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string, e *audit.Entry) (engine.Cancelled, error) {
	st, err := s.Store.Cancel(ctx, t, id, reason, e)
	s.counter.ended(st.Ended)
	if err == nil && s.hub.Heard() {
		what := "cancelling"
		if st.Status.Final() {
			what = "finished"
		}
		s.execution(t, what, id, job.ID{}, st.Status)
	}
	return st, err
}

// released reports executions that returned to the queue.
func (s *Store) released(rs []job.Ready) {
	if s.hub.Heard() {
		for _, r := range rs {
			s.execution(r.Tenant, "released", r.ID, job.ID{}, job.Pending)
		}
	}
}

// requeued counts ended executions and reports those that returned to the queue.
func (s *Store) requeued(r engine.Requeued) {
	s.counter.ended(r.Ended)
	s.released(r.Ready)
}

// Release returns executions to the queue.
func (s *Store) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) (engine.Requeued, error) {
	rs, err := s.Store.Release(ctx, w, ls)
	s.requeued(rs)
	return rs, err
}

// Disown returns executions to the queue.
func (s *Store) Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) (engine.Requeued, error) {
	rs, err := s.Store.Disown(ctx, w, keep, before)
	s.requeued(rs)
	return rs, err
}

// Reap returns the executions of dead sessions to the queue.
func (s *Store) Reap(ctx context.Context, limit, poison int) (engine.Reaped, error) {
	got, err := s.Store.Reap(ctx, limit, poison)
	s.counter.ended(got.Ended)
	s.released(got.Ready)
	if err == nil && got.Lost() > 0 {
		s.hub.Lose("") // sessions have ended, and perhaps executions
	}
	return got, err
}

// Expire ends what did not start in time.
func (s *Store) Expire(ctx context.Context, limit int) ([]engine.Ended, error) {
	es, err := s.Store.Expire(ctx, limit)
	s.counter.ended(es)
	if len(es) > 0 {
		s.hub.Lose("")
	}
	return es, err
}

// Force ends executions that were asked to stop and did not.
func (s *Store) Force(ctx context.Context, grace time.Duration, limit int) ([]engine.Ended, error) {
	es, err := s.Store.Force(ctx, grace, limit)
	s.counter.ended(es)
	if len(es) > 0 {
		s.hub.Lose("")
	}
	return es, err
}

// BeginRuns stores runs.
func (s *Store) BeginRuns(ctx context.Context, all []engine.NewRun) ([]engine.Begun, error) {
	got, err := s.Store.BeginRuns(ctx, all)
	for i := range got {
		if got[i].New {
			s.ran(change{all[i].Run, &all[i].First}, got[i].Changed)
		}
	}
	return got, err
}

// ChangeRuns changes runs.
func (s *Store) ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide engine.Decide) ([]engine.RunChanged, error) {
	of := map[job.ExecutionID]change{}
	got, err := s.Store.ChangeRuns(ctx, ids, noting(of, decide))
	s.decided(of, got)
	return got, err
}

// noting is a decide that notes what was decided.
func noting(of map[job.ExecutionID]change, decide engine.Decide) engine.Decide {
	return func(v engine.RunView) (*engine.RunChange, error) {
		c, err := decide(v)
		of[v.Run.ID] = change{v.Run, c}
		return c, err
	}
}

// decided tells what came of decisions.
func (s *Store) decided(of map[job.ExecutionID]change, outs []engine.RunChanged) {
	for _, c := range outs {
		if made := of[c.Run]; c.Err == nil && made.to != nil {
			s.ran(made, c)
		}
	}
}

// change describes a change of a run.
type change struct {
	run engine.WorkflowRun // before it
	to  *engine.RunChange
}

// ran reports the results of a change of a run.
func (s *Store) ran(made change, c engine.RunChanged) {
	s.counter.ended(c.Ended)
	if !s.hub.Heard() {
		return
	}
	t, run := made.run.Tenant, made.run.ID.String()
	for _, e := range c.Ended {
		s.execution(t, "finished", e.Execution, e.Job, e.Status)
	}
	for i := range made.to.Members {
		e := &made.to.Members[i].Execution
		s.hub.Tell(t, Change{At: now(), Type: "execution.created", Execution: e.ID.String(), Job: e.Job.String(), Run: run, Status: e.Status.String()})
	}
	s.hub.Tell(t, Change{At: now(), Type: "run.changed", Run: run, Job: made.run.Workflow.String(), Status: workflow.Status(made.to.Status).String()})
}

// worker reports a worker to the tenants that it may serve.
func (s *Store) worker(w job.Worker, what string) {
	c := Change{At: now(), Type: "worker." + what, Worker: w.ID.String()}
	if w.Tenant != "" {
		s.hub.Tell(w.Tenant, c)
		return
	}
	s.hub.TellAll(c)
}

// Register begins a worker's session.
func (s *Store) Register(ctx context.Context, w job.Worker, ttl time.Duration) error {
	err := s.Store.Register(ctx, w, ttl)
	if err == nil && s.hub.Heard() {
		s.worker(w, "joined")
	}
	return err
}

// Leave ends a session.
func (s *Store) Leave(ctx context.Context, id job.WorkerID) (engine.Requeued, error) {
	var w job.Worker
	var unknown error
	if s.hub.Heard() {
		w, unknown = s.Store.Worker(ctx, id)
	}
	rs, err := s.Store.Leave(ctx, id)
	if err == nil && s.hub.Heard() && unknown == nil && !w.ID.IsZero() {
		s.worker(w, "left")
	}
	s.requeued(rs)
	return rs, err
}

// Drain asks a session to take no more work.
func (s *Store) Drain(ctx context.Context, t tenant.ID, id job.WorkerID, e *audit.Entry) error {
	err := s.Store.Drain(ctx, t, id, e)
	if err == nil && s.hub.Heard() {
		s.hub.Tell(t, Change{At: now(), Type: "worker.draining", Worker: id.String()})
	}
	return err
}
