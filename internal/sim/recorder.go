package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
)

// recorder is a store that records what is committed, in the order of the commits. After each call it reads what that
// may have changed, so that no state is missed.
type recorder struct {
	newest map[job.Partition]job.Token // as observe saw them last
	engine.Store
	history *check.History
	begun   time.Time
	fired   func(job.Execution) // called with scheduled executions

	mu       sync.Mutex                   // held while something is committed and recorded
	known    map[job.ExecutionID]*seen    // guarded by mu
	jobs     map[job.ID]*knownJob         // guarded by mu
	limits   map[[2]string]job.Limit      // guarded by mu: by tenant and queue
	paid     map[string]int               // guarded by mu: by bucket, starts that were drawn and not used
	redriven time.Time                    // guarded by mu, by the store's clock: when the last dead letter with a free unique key had been redriven
	now      func() time.Time             // returns the time of the store's clock
	named    int                          // guarded by mu: executions so far
	planned  map[job.ID]bool              // guarded by mu: jobs that will fire later
	deleted  map[job.ID]bool              // guarded by mu
	redrives map[job.ExecutionID]*seen    // guarded by mu: dead letters to be redriven automatically
	sessions map[job.WorkerID]*session    // guarded by mu
	flows    map[job.ExecutionID]*flowRun // guarded by mu: runs of workflows
	events   map[eventKey]bool            // guarded by mu: that were sent
	inline   map[job.ID]tenant.ID         // guarded by mu: jobs of nodes
	links    map[job.ID]tenant.ID         // guarded by mu: jobs that depend on others, or did

	shared *enginetest.Shared // of servers that share the limit most on their tenant's running executions; nil: it is not checked
	most   int
	over   []check.Violation // guarded by mu
}

// seen is an execution in its last known state.
type seen struct {
	id        job.ExecutionID
	name      string // for people
	job       job.ID
	tenant    tenant.ID
	status    job.Status
	token     job.Token
	worker    job.WorkerID
	tag       string
	queue     string
	group     job.Group
	scheduled bool // its job's schedule fired it
	unique    string
	fades     bool // it may expire
	part      job.Partition
	epoch     int64         // under which it was leased
	waits     time.Duration // for a turn
	orphaned  time.Duration // since its worker's session ended
	parked    bool          // its target completes it
	due       time.Time
	flow      bool   // it is the run of a workflow
	run       string // the run it is a node of, or a later attempt of
}

func (s *seen) held() bool { return s.status == job.Running || s.status == job.Cancelling }

// session is a worker's session according to its answers.
type session struct {
	name    string
	expires time.Time
}

func newRecorder(s engine.Store, h *check.History, now func() time.Time) *recorder {
	return &recorder{
		Store: s, history: h, now: now, begun: time.Now(), known: map[job.ExecutionID]*seen{}, jobs: map[job.ID]*knownJob{}, paid: map[string]int{}, limits: map[[2]string]job.Limit{}, planned: map[job.ID]bool{},
		sessions: map[job.WorkerID]*session{}, deleted: map[job.ID]bool{}, redrives: map[job.ExecutionID]*seen{}, flows: map[job.ExecutionID]*flowRun{}, events: map[eventKey]bool{},
		inline: map[job.ID]tenant.ID{}, links: map[job.ID]tenant.ID{},
	}
}

// add records an event.
func (r *recorder) add(e check.Event) {
	if e.At = time.Since(r.begun); e.Tenant == "" {
		e.Tenant = string(tenant.Default)
	}
	r.history.Add(e)
}

// name returns a readable name of an execution.
func (r *recorder) name(id job.ExecutionID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.known[id]; s != nil {
		return s.name
	}
	return id.String()
}

// tag returns the tag of an execution.
func (r *recorder) tag(id job.ExecutionID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.known[id]; s != nil {
		return s.tag
	}
	return ""
}

// open returns how many executions have not ended, how many jobs are still to fire, and how many dead letters to be
// redriven.
func (r *recorder) open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.planned) + len(r.redrives)
	if r.now().Before(r.redriven) {
		n++
	}
	for _, s := range r.known {
		if !s.status.Final() {
			n++
		}
	}
	return n
}

// commit runs a call that changes something. It is not abandoned half way: a caller that leaves is not told.
func commit[T any](ctx context.Context, r *recorder, call func(context.Context) (T, error), note func(context.Context, T)) (T, error) {
	ctx = context.WithoutCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	out, err := call(ctx)
	if err == nil {
		note(ctx, out)
	}
	return out, err
}

// load is the payload of everything that clients request.
type load struct {
	Tag string `json:"tag,omitempty"`
	Key string `json:"k"`
}

func payload(tag, key string) []byte {
	b, _ := json.Marshal(load{tag, key}) // texts always encode
	return b
}

// tagOf returns the tag of an execution that a client requested; "" if a schedule fired it, or it was redriven.
func tagOf(e job.Execution) string {
	var p load
	if e.Trigger == job.ByHand || e.Trigger == job.ByRetry {
		_ = json.Unmarshal(e.Payload, &p) // without one it is nobody's
	}
	return p.Tag
}

// added records a new execution. The caller holds mu.
func (r *recorder) added(e job.Execution) { r.addedOf(e, "") }

// addedOf records a new execution, of a run of a workflow if that has a name. The caller holds mu.
func (r *recorder) addedOf(e job.Execution, run string) {
	s := &seen{
		flow: e.Class == job.Class(job.Workflow), run: run,
		id: e.ID, name: fmt.Sprintf("%s/%d", e.JobName, r.named), job: e.Job, tenant: e.Tenant, status: job.Pending,
		tag: tagOf(e), queue: e.Class.Needs().Queue, group: e.Group, unique: e.UniqueKey, fades: !e.ExpiresAt.IsZero(), part: e.Partition, due: e.DueAt, scheduled: e.Trigger == job.BySchedule || e.Trigger == job.ByCatchUp,
	}
	if run != "" {
		s.tag = "" // which is that of the run
	}
	r.named++
	r.known[e.ID] = s
	r.add(check.Event{
		Proc: "store", Kind: check.Commit, Op: check.Added, Tenant: string(s.tenant), Job: e.JobName, Execution: s.name, SchedAt: e.ScheduledAt, Tag: s.tag, Unique: s.unique,
		Redrive: e.Trigger == job.ByRedrive, Version: e.Priority - 1, Result: s.status.String(), Run: run, Parks: s.flow,
	})
}

// look records the outcome of an execution; how names the call. The caller holds mu.
func (r *recorder) look(ctx context.Context, s *seen, how string) {
	e, err := r.Store.Execution(ctx, s.tenant, s.id)
	if errors.Is(err, engine.ErrNotFound) && (how == changed || how == "deleted") && !s.held() {
		r.withdraw(s)
		return
	}
	if err != nil {
		r.add(check.Event{Proc: "store", Kind: check.Commit, Op: check.Became, Tenant: string(s.tenant), Job: r.jobName(s.job), Execution: s.name, Result: err.Error()})
		return
	}
	s.due = e.DueAt
	holds := e.Status == job.Running || e.Status == job.Cancelling
	if s.held() && (!holds || e.Token != s.token) {
		r.add(check.Event{Proc: "store", Kind: check.Commit, Op: check.Ended, Tenant: string(s.tenant), Job: e.JobName, Execution: s.name, Token: int64(s.token), Result: how})
		s.parked = false
	}
	if e.Status != s.status {
		s.status = e.Status
		r.add(check.Event{Proc: "store", Kind: check.Commit, Op: check.Became, Tenant: string(s.tenant), Job: e.JobName, Execution: s.name, Attempt: e.Attempt, Result: e.Status.String()})
		if s.status.Final() { // which may free executions that waited for it
			r.lookAt(ctx, "", func(o *seen) bool { return o.job == s.job && o.status == job.Waiting })
		}
	}
}

// lookAt looks at those executions that f selects. The caller holds mu.
func (r *recorder) lookAt(ctx context.Context, how string, f func(*seen) bool) {
	var some []*seen
	for _, s := range r.known {
		if !s.status.Final() && f(s) {
			some = append(some, s)
		}
	}
	slices.SortFunc(some, func(a, b *seen) int { return slices.Compare(a.id[:], b.id[:]) })
	for _, s := range some {
		r.look(ctx, s, how)
	}
}

// stored reports whether a creation was stored.
func stored(c engine.Created) bool {
	return c.Replay == nil && !c.Reused && c.Taken == "" && len(c.Unique) == 0 && !c.Over
}

func (r *recorder) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	return commit(ctx, r, func(ctx context.Context) ([]engine.Created, error) { return r.Store.CreateJobs(ctx, cs) }, func(_ context.Context, out []engine.Created) {
		for i, c := range cs {
			if !stored(out[i]) {
				continue
			}
			for _, j := range c.Jobs {
				r.plan(j)
			}
			r.nodes(c.Tenant, c.Nodes)
			for _, e := range c.Executions {
				r.added(e)
			}
		}
	})
}

// nodes notes the jobs of a workflow's nodes. The caller holds mu.
func (r *recorder) nodes(t tenant.ID, js []job.Job) {
	for _, j := range js {
		r.inline[j.ID] = t
		r.plan(j)
	}
}

func (r *recorder) DeleteJob(ctx context.Context, t tenant.ID, d engine.Deletion) (engine.Deleted, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Deleted, error) { return r.Store.DeleteJob(ctx, t, d) }, func(ctx context.Context, _ engine.Deleted) {
		id := d.Job
		delete(r.planned, id)
		r.deleted[id] = true
		maps.DeleteFunc(r.redrives, func(_ job.ExecutionID, s *seen) bool { return s.job == id })
		r.lookAt(ctx, "deleted", func(s *seen) bool { return s.job == id })
	})
}

func (r *recorder) CancelWaiting(ctx context.Context, t tenant.ID, of job.ID, limit int) ([]engine.Ended, error) {
	return commit(ctx, r, func(ctx context.Context) ([]engine.Ended, error) { return r.Store.CancelWaiting(ctx, t, of, limit) }, func(ctx context.Context, _ []engine.Ended) {
		r.lookAt(ctx, "deleted", func(s *seen) bool { return s.job == of })
	})
}

func (r *recorder) Trigger(ctx context.Context, t tenant.ID, x job.Execution, i engine.Idempotency, e *audit.Entry) (engine.Created, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Created, error) { return r.Store.Trigger(ctx, t, x, i, e) }, func(_ context.Context, out engine.Created) {
		if stored(out) {
			r.added(x)
		}
	})
}

func (r *recorder) Rerun(ctx context.Context, t tenant.ID, x engine.Rerun) (engine.Rerunning, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Rerunning, error) { return r.Store.Rerun(ctx, t, x) }, func(_ context.Context, out engine.Rerunning) {
		if out.Replay != nil {
			return
		}
		for _, e := range x.Executions {
			if slices.Contains(out.Added, e.ID) {
				delete(r.redrives, e.RetryOf)
				r.added(e)
			}
		}
	})
}

func (r *recorder) Register(ctx context.Context, w job.Worker, ttl time.Duration) error {
	_, err := commit(ctx, r, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.Store.Register(ctx, w, ttl) }, func(context.Context, struct{}) {
		r.sessions[w.ID] = &session{name: w.Host, expires: time.Now().Add(ttl)}
	})
	return err
}

func (r *recorder) Renew(ctx context.Context, rs []engine.Renewal, ttl time.Duration) (engine.Orders, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Orders, error) { return r.Store.Renew(ctx, rs, ttl) }, func(_ context.Context, out engine.Orders) {
		for _, x := range rs {
			if s := r.sessions[x.Worker]; s != nil && !slices.Contains(out.Ended, x.Worker) {
				s.expires = time.Now().Add(ttl)
			}
		}
	})
}

func (r *recorder) Leave(ctx context.Context, w job.WorkerID) (engine.Requeued, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Requeued, error) { return r.Store.Leave(ctx, w) }, func(ctx context.Context, _ engine.Requeued) {
		r.lookAt(ctx, "left", func(s *seen) bool { return s.held() && s.worker == w })
	})
}

func (r *recorder) Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) (engine.Requeued, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Requeued, error) { return r.Store.Disown(ctx, w, keep, before) }, func(ctx context.Context, _ engine.Requeued) {
		r.lookAt(ctx, "disowned", func(s *seen) bool { return s.held() && s.worker == w })
	})
}

func (r *recorder) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	return commit(ctx, r, func(ctx context.Context) ([]job.Attempt, error) { return r.Store.Lease(ctx, gs, f) }, func(ctx context.Context, out []job.Attempt) {
		owner := map[job.ExecutionID]job.WorkerID{}
		for _, g := range gs {
			for _, id := range g.Executions {
				owner[id] = g.Worker
			}
		}
		for _, a := range out {
			s := r.known[a.Execution]
			if s == nil {
				continue
			}
			s.token = a.Token
			s.epoch = f.Epochs[s.part]
			if w, asked := owner[a.Execution]; asked {
				s.worker = w
			}
			r.add(check.Event{
				Proc: r.worker(s.worker), Kind: check.Commit, Op: check.Leased, Tenant: string(s.tenant), Job: a.JobName, Execution: s.name, SchedAt: a.ScheduledAt,
				Attempt: a.Number, Token: int64(a.Token), Queue: s.queue, Group: groupName(s.group), Max: s.group.Max, Parks: s.flow,
			})
			r.pay(s)
			r.look(ctx, s, "")
		}
		if len(out) > 0 {
			r.limited()
		}
	})
}

// limited records a violation if more run under the limit that servers share than it allows. It leaves out what runs
// in partitions that have moved since: their new owner counts it, and it may have ended. The caller holds mu.
func (r *recorder) limited() {
	if r.shared == nil {
		return
	}
	n := 0
	for _, s := range r.known {
		if s.held() && !s.flow && s.tenant == tenant.Default && s.epoch == r.shared.Epoch(s.part) {
			n++
		}
	}
	if n > r.most {
		r.over = append(r.over, check.Violation{Check: "shares", What: fmt.Sprintf("after %v %d run under a limit of %d, none of them in a partition that has moved", time.Since(r.begun), n, r.most)})
	}
}

// groupName returns a readable name of a group; "" for none.
func groupName(g job.Group) string {
	if g.Key == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", uint64(g.Key))
}

// worker returns the name of a session's worker. The caller holds mu.
func (r *recorder) worker(id job.WorkerID) string {
	if s := r.sessions[id]; s != nil {
		return s.name
	}
	return id.String()
}

var outcomes = map[job.OutcomeStatus]string{job.OutcomeSucceeded: "SUCCEEDED", job.OutcomeFailed: "FAILED", job.OutcomeCancelled: "CANCELLED", job.OutcomeSnoozed: "SNOOZED", job.OutcomeSkipped: "SKIPPED"}

func (r *recorder) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	return commit(ctx, r, func(ctx context.Context) ([]job.Verdict, error) { return r.Store.Finish(ctx, fs) }, func(ctx context.Context, out []job.Verdict) { r.finished(ctx, fs, out) })
}

// finished writes down what came of finishes. The caller holds mu.
func (r *recorder) finished(ctx context.Context, fs []job.Finish, out []job.Verdict) {
	for i, f := range fs {
		s := r.known[f.Outcome.Execution]
		if s == nil {
			continue
		}
		e := check.Event{
			Proc: "store", Kind: check.Commit, Op: check.Finished, Tenant: string(s.tenant), Job: r.jobName(s.job), Execution: s.name, Token: int64(f.Outcome.Token), Result: outcomes[f.Outcome.Status],
		}
		if !out[i].Accepted {
			e.Op = check.Refused
		}
		r.add(e)
		was, how := s.status, "finished"
		switch {
		case f.Expel:
			how = "expelled"
		case f.Then.Move == job.Snoozed:
			how = "snoozed"
		}
		r.look(ctx, s, how)
		if at := f.Then.RedriveAt.Add(3 * time.Second); !f.Then.RedriveAt.IsZero() && at.After(r.redriven) {
			r.redriven = at
		}
		// Another may have its unique key for longer than a run lasts.
		if dead := s.status == job.Failed || s.status == job.TimedOut; dead && was != s.status && !f.Then.RedriveAt.IsZero() && s.unique == "" && !r.deleted[s.job] {
			r.redrives[s.id] = s
		}
	}
}

func (r *recorder) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) (engine.Requeued, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Requeued, error) { return r.Store.Release(ctx, w, ls) }, func(ctx context.Context, _ engine.Requeued) {
		r.lookAt(ctx, "released", func(s *seen) bool {
			return slices.ContainsFunc(ls, func(l job.Lease) bool { return l.Execution == s.id })
		})
	})
}

func (r *recorder) Reap(ctx context.Context, limit, poison int) (engine.Reaped, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Reaped, error) { return r.Store.Reap(ctx, limit, poison) }, func(ctx context.Context, _ engine.Reaped) {
		now := time.Now()
		r.lookAt(ctx, "lost", func(s *seen) bool {
			x := r.sessions[s.worker]
			return s.held() && x != nil && !x.expires.After(now)
		})
	})
}

func (r *recorder) Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string, e *audit.Entry) (engine.Cancelled, error) {
	return commit(ctx, r, func(ctx context.Context) (engine.Cancelled, error) { return r.Store.Cancel(ctx, t, id, reason, e) }, func(ctx context.Context, _ engine.Cancelled) {
		r.lookAt(ctx, "cancelled", func(s *seen) bool { return s.id == id })
	})
}

func (r *recorder) Expire(ctx context.Context, limit int) ([]engine.Ended, error) {
	return commit(ctx, r, func(ctx context.Context) ([]engine.Ended, error) { return r.Store.Expire(ctx, limit) }, func(ctx context.Context, n []engine.Ended) {
		if len(n) > 0 {
			r.lookAt(ctx, "expired", func(s *seen) bool { return s.fades })
		}
	})
}

func (r *recorder) Force(ctx context.Context, grace time.Duration, limit int) ([]engine.Ended, error) {
	return commit(ctx, r, func(ctx context.Context) ([]engine.Ended, error) { return r.Store.Force(ctx, grace, limit) }, func(ctx context.Context, n []engine.Ended) {
		if len(n) > 0 {
			r.lookAt(ctx, "forced", func(s *seen) bool { return s.status == job.Cancelling })
		}
	})
}
