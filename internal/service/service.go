package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/egress"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/ratelimit"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/sign"
	"github.com/carillon-jobs/carillon/internal/workflows"
)

// The errors that callers act on, besides the store's.
var (
	ErrKeyReused = errors.New("the idempotency key was used with another request")
	ErrForbidden = errors.New("the role does not allow this")
)

// KeyTaken is the error that a job's key belongs to another job.
type KeyTaken struct{ Key string }

func (k *KeyTaken) Error() string { return fmt.Sprintf("the key %q belongs to another job", k.Key) }

// MaxBatch limits how many jobs one request may create.
const MaxBatch = 10_000

// keyLife is how long an idempotency key is remembered.
const keyLife = 24 * time.Hour

// Store is the part of a store that the service uses.
type Store interface {
	engine.Settings
	engine.Jobs
	engine.Executions
	engine.Reads
	engine.Logs
	engine.Runs
	engine.Edges
	engine.Buckets
	Drain(ctx context.Context, t tenant.ID, w job.WorkerID, e *audit.Entry) error
	Cordon(ctx context.Context, t tenant.ID, w job.WorkerID, on bool, e *audit.Entry) error
	Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string, e *audit.Entry) (engine.Cancelled, error)
	Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error)
	Ready(ctx context.Context, cs []engine.LaneCursor, perLane int) ([]job.Ready, error)
	Running(ctx context.Context, ps []job.Partition) ([]engine.Running, error)
}

// Config holds the options of a service.
type Config struct {
	LookAhead time.Duration      // a job due within it gets its execution when it is created
	Hint      func([]job.Ready)  // called with executions that may be leased
	Nudge     func()             // called when there are orders for workers
	Refresh   func()             // called when limits or tenants have changed
	Replan    func()             // called when the scheduler has something to do soon
	Schedules *schedule.Cache    // compiles schedules; shared with others
	Secrets   *secret.Vault      // seals; nil: nothing can be
	Direct    bool               // creations do not share commits, but go to the store one by one
	Sealer    sign.Sealer        // seals signing secrets; nil: none can be made
	Resign    func(tenant.ID)    // called when a tenant's signing secrets have changed
	Commands  bool               // jobs may have the target command
	Egress    egress.Rules       // where callbacks may go
	Artifacts *artifact.Store    // nil: none are kept
	Limiter   *ratelimit.Limiter // of what tenants may begin; nil: this process's own
	Unmetered bool               // no quota holds
	KeepDays  int                // that history is kept for tenants without a shorter or an explicit limit; none or fewer: for ever
	Runs      *workflows.Runner  // changes runs of workflows; nil: one of the service's own

	// Lent lists the servers' shares of a tenant's limits; nil: they share none.
	Lent func(ctx context.Context, t tenant.ID) ([]engine.Lending, error)

	// Begun is called with the jobs and executions that a request begins, before they are stored; nil: never.
	Begun func(ctx context.Context, t tenant.ID, ids ...[16]byte)
}

// Service serves users' requests. Each part handles one subject, and calls only the parts before it.
type Service struct {
	*shared
	*Jobs
	*Workflows
	*Executions
	*WorkflowRuns
	*Reruns
	*Operations
	*Access
	*Settings
	*Views
}

// shared is used by all parts: the store and its clock, quotas, the audit log.
type shared struct {
	store  Store
	clock  clock.Clock // the store's
	cfg    Config
	gate   *gate
	inside chan struct{} // one for each request that writes without the gate
	wake   chan struct{} // an operation was added
	holds  *artifact.Inspector
	quotas quotas
	runner *workflows.Runner
}

// Jobs creates, changes and plans jobs.
type Jobs struct {
	*shared
	placed atomic.Uint64 // one-off jobs, counted from this process's starting point
}

// Workflows creates, changes and shows the definitions of workflows.
type Workflows struct {
	*shared
	jobs *Jobs
}

// Executions shows and cancels executions.
type Executions struct {
	*shared
	jobs *Jobs
}

// WorkflowRuns shows runs of workflows, and applies people's actions to them.
type WorkflowRuns struct {
	*shared
	jobs       *Jobs
	executions *Executions
}

// Reruns runs again what has ended: executions, and the parts of runs of workflows that executions stand for.
type Reruns struct {
	*shared
	jobs       *Jobs
	executions *Executions
	runs       *WorkflowRuns
}

// Operations does over many jobs or executions what a user asks for once.
type Operations struct {
	*shared
	jobs       *Jobs
	executions *Executions
	reruns     *Reruns
}

// Access manages credentials: keys, sign-ins, secrets, signing secrets, and the audit log.
type Access struct {
	*shared
	jobs *Jobs
}

// Settings manages a tenant's configuration: tenants, queues, calendars, notification rules, artifacts, badges.
type Settings struct {
	*shared
	jobs       *Jobs
	operations *Operations
	access     *Access
}

// Views provides sums and forecasts for overviews of a tenant.
type Views struct {
	*shared
	jobs       *Jobs
	executions *Executions
	access     *Access
	foretold   *foretelling
}

// maxInside limits how many requests write at once without the gate; more are refused, so that results and heartbeats
// are not.
const maxInside = 200

// New makes a service over a store and its clock.
func New(store Store, clk clock.Clock, cfg Config) *Service {
	if cfg.Hint == nil {
		cfg.Hint = func([]job.Ready) {}
	}
	if cfg.Nudge == nil {
		cfg.Nudge = func() {}
	}
	if cfg.Refresh == nil {
		cfg.Refresh = func() {}
	}
	if cfg.Replan == nil {
		cfg.Replan = func() {}
	}
	if cfg.Resign == nil {
		cfg.Resign = func(tenant.ID) {}
	}
	if cfg.Limiter == nil {
		cfg.Limiter = ratelimit.New(store, clk)
	}
	if cfg.Schedules == nil {
		cfg.Schedules = schedule.NewCache(time.LoadLocation)
	}
	all := &shared{
		store: store, clock: clk, cfg: cfg, gate: &gate{store: store, direct: cfg.Direct}, inside: make(chan struct{}, maxInside), wake: make(chan struct{}, 1),
		holds: artifact.NewInspector(cfg.Artifacts), quotas: quotas{reading: make(chan struct{}, 1)}, runner: cfg.Runs,
	}
	if all.runner == nil {
		all.runner = workflows.New(store, clk, workflows.Config{Hint: cfg.Hint, Refuse: RefusePayload, Limits: all.RunLimits})
	}
	jobs := &Jobs{shared: all}
	jobs.placed.Store(rand.Uint64()) // so that servers that begin together do not go through the partitions in step
	executions := &Executions{all, jobs}
	runs := &WorkflowRuns{all, jobs, executions}
	reruns := &Reruns{all, jobs, executions, runs}
	operations := &Operations{all, jobs, executions, reruns}
	access := &Access{all, jobs}
	return &Service{
		all, jobs, &Workflows{all, jobs}, executions, runs, reruns, operations, access, &Settings{all, jobs, operations, access},
		&Views{all, jobs, executions, access, newForetelling()},
	}
}

// enter admits a request that writes, or refuses it if too many are inside already: the store is slow.
func (s *shared) enter() (leave func(), err error) {
	select {
	case s.inside <- struct{}{}:
		return func() { <-s.inside }, nil
	default:
		return nil, fmt.Errorf("%d requests wait for the store already: %w", maxInside, engine.ErrUnavailable)
	}
}

// Once makes a request safe to retry: the same key and hash get the first answer. The zero value does nothing.
type Once[T any] struct {
	Key    string
	Hash   [32]byte
	Encode func(T) []byte // the answer, in the form to repeat
}

func (o Once[T]) with(v T, now time.Time) engine.Idempotency {
	if o.Key == "" {
		return engine.Idempotency{}
	}
	return engine.Idempotency{Key: o.Key, Hash: o.Hash, Answer: o.Encode(v), Until: now.Add(keyLife)}
}

// Report is a job and the statistics of its executions.
type Report struct {
	job.Job
	Stats   job.Stats
	Rest    job.OperationID // of a deletion: the operation that cancels the remaining executions; zero: none
	Dropped []string        // hidden credentials that a change removed, by field
}

// Job finds one job by id or key.
func (s *Jobs) Job(ctx context.Context, p tenant.Principal, ref engine.Ref) (Report, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Report{}, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return Report{}, err
	}
	return s.report(ctx, p, j)
}

// find finds the job that a request names. Nobody can name the job of a workflow's inline node.
func (s *shared) find(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error) {
	if ref.ID.OfNode() {
		return job.Job{}, engine.ErrNotFound
	}
	return s.store.Job(ctx, t, ref)
}

// report adds the statistics to one job.
func (s *Jobs) report(ctx context.Context, p tenant.Principal, j job.Job) (Report, error) {
	stats, err := s.store.Stats(ctx, p.Tenant, []job.ID{j.ID})
	if err != nil {
		return Report{}, err
	}
	return Report{Job: s.planned(ctx, j, s.plans(p.Tenant)), Stats: stats[0]}, nil
}

// HasJob returns engine.ErrNotFound if there is no such job; a deleted one exists.
func (s *Jobs) HasJob(ctx context.Context, p tenant.Principal, ref engine.Ref) error {
	if err := allow(p, tenant.Read); err != nil {
		return err
	}
	_, err := s.find(ctx, p.Tenant, ref)
	return err
}

// planned sets the next instant of a job as its user sees it: one that is staged already counts, although it is no
// longer planned in the store, and there is none while the job is paused.
func (s *Jobs) planned(ctx context.Context, j job.Job, ps *plans) job.Job {
	now := s.clock.Now()
	switch {
	case j.State != job.Active:
		j.NextRunAt = time.Time{}
	case j.Schedule.Type == job.OneTime && j.Schedule.At.After(now):
		j.NextRunAt = j.Schedule.At
	case spent(j):
		if first, _, _, err := ps.staged(ctx, j); err == nil {
			j.NextRunAt = first
		}
	case j.Schedule.Type.Recurs() && (j.Overlap == "" || j.Overlap == job.OverlapAllow || j.Schedule.Calendar != ""):
		plan, err := ps.plan(ctx, j)
		if err != nil {
			break // the store decides
		}
		if j.Schedule.Calendar != "" && j.NextRunAt.After(now) && !plan.At(j.NextRunAt) {
			j.NextRunAt, _ = plan.Next(now) // it is only to be looked at again then
			break
		}
		if j.Overlap != "" && j.Overlap != job.OverlapAllow {
			break
		}
		ahead := s.cfg.LookAhead
		if j.Schedule.Herds() {
			ahead = max(ahead, schedule.HerdAhead)
		}
		if t, ok := plan.Next(now); ok && !t.After(now.Add(ahead)) && (j.NextRunAt.IsZero() || t.Before(j.NextRunAt)) && j.UpdatedAt.Before(t) {
			j.NextRunAt = t
		}
	}
	return j
}

// Reports is one page of jobs and the statistics of their executions.
type Reports struct {
	Jobs    []Report
	Next    string
	Partial bool // the page ended early, because few of the examined rows match
	Total   engine.Total
}

// FindJobs lists jobs, newest first.
func (s *Jobs) FindJobs(ctx context.Context, p tenant.Principal, f engine.JobFilter, page engine.Page) (Reports, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Reports{}, err
	}
	f.Tenant, page.Bounded = p.Tenant, true
	found, err := s.store.FindJobs(ctx, f, page)
	if err != nil {
		return Reports{}, err
	}
	ids := make([]job.ID, len(found.Jobs))
	for i, j := range found.Jobs {
		ids[i] = j.ID
	}
	stats, err := s.store.Stats(ctx, p.Tenant, ids)
	if err != nil {
		return Reports{}, err
	}
	out := Reports{Jobs: make([]Report, len(found.Jobs)), Next: found.Next, Partial: found.Partial, Total: found.Total}
	ps := s.plans(p.Tenant)
	for i, j := range found.Jobs {
		out.Jobs[i] = Report{Job: s.planned(ctx, j, ps), Stats: stats[i]}
	}
	return out, nil
}

// now is the store's time, to the microsecond that stores keep.
func (s *shared) now() time.Time { return s.clock.Now().UTC().Truncate(time.Microsecond) }

func isConflict(err error) bool { return errors.Is(err, engine.ErrConflict) }

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

func allow(p tenant.Principal, need tenant.Permission) error {
	if !p.Role.Allows(need) {
		return fmt.Errorf("%w: it needs the permission %q, which the role %q has not", ErrForbidden, need, p.Role)
	}
	return nil
}

func outcome(c engine.Created) (replay []byte, err error) {
	switch {
	case c.Reused:
		return nil, ErrKeyReused
	case c.Taken != "":
		return nil, &KeyTaken{c.Taken}
	}
	return c.Replay, nil
}
