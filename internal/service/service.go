package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// Errors on which callers decide, beside the store's.
var (
	ErrKeyReused = errors.New("the idempotency key was used with another request")
	ErrForbidden = errors.New("the role does not allow this")
)

// KeyTaken says that a job's key is another job's.
type KeyTaken struct{ Key string }

func (k *KeyTaken) Error() string { return fmt.Sprintf("the key %q belongs to another job", k.Key) }

// MaxBatch is how many jobs one request may create.
const MaxBatch = 10_000

// keyLife is how long an idempotency key answers again.
const keyLife = 24 * time.Hour

// Store is the part of a store that the service asks.
type Store interface {
	engine.Jobs
	engine.Executions
	Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string) (job.Status, error)
	Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error)
}

// Config is what a service may be told.
type Config struct {
	LookAhead time.Duration     // a job due within it gets its execution when it is created
	Hint      func([]job.Ready) // told of executions that may be leased
	Nudge     func()            // told that there are orders for workers
}

// Service answers users.
type Service struct {
	store Store
	clock clock.Clock // the store's
	cfg   Config
	gate  *gate
}

// New makes a service over a store whose clock is given.
func New(store Store, clk clock.Clock, cfg Config) *Service {
	if cfg.Hint == nil {
		cfg.Hint = func([]job.Ready) {}
	}
	if cfg.Nudge == nil {
		cfg.Nudge = func() {}
	}
	return &Service{store: store, clock: clk, cfg: cfg, gate: &gate{store: store}}
}

// Once makes a request safe to send again: the same key and hash get the first answer.
// The zero value asks for nothing.
type Once[T any] struct {
	Key    string
	Hash   [32]byte
	Encode func(T) []byte // the answer, as it is to be given again
}

func (o Once[T]) with(v T, now time.Time) engine.Idempotency {
	if o.Key == "" {
		return engine.Idempotency{}
	}
	return engine.Idempotency{Key: o.Key, Hash: o.Hash, Answer: o.Encode(v), Until: now.Add(keyLife)}
}

// NewJob is a created job and, where it fires at once, its execution.
type NewJob struct {
	Job       job.Job
	Execution job.ExecutionID // zero: it fires later
}

// CreateJob stores one job. replay is the answer given to the same request before.
func (s *Service) CreateJob(ctx context.Context, p tenant.Principal, d job.Definition, once Once[[]NewJob]) (made NewJob, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return made, nil, err
	}
	if err := d.Check().Err(); err != nil {
		return made, nil, err
	}
	all, replay, err := s.create(ctx, p, []job.Definition{d}, once)
	if len(all) == 1 {
		made = all[0]
	}
	return made, replay, err
}

// CreateJobs stores all the jobs of a list or none.
func (s *Service) CreateJobs(ctx context.Context, p tenant.Principal, defs []job.Definition, once Once[[]NewJob]) (made []NewJob, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return nil, nil, err
	}
	if err := checkAll(defs); err != nil {
		return nil, nil, err
	}
	return s.create(ctx, p, defs, once)
}

func (s *Service) create(ctx context.Context, p tenant.Principal, defs []job.Definition, once Once[[]NewJob]) (made []NewJob, replay []byte, err error) {
	now := s.now()
	c := engine.Creation{Tenant: p.Tenant}
	made = make([]NewJob, len(defs))
	ready := make([]job.Ready, 0, len(defs))
	for i, d := range defs {
		d.Schedule.At = d.Schedule.At.UTC().Truncate(time.Microsecond)
		j := job.Job{ID: job.ID(newID()), Tenant: p.Tenant, Definition: d, State: job.Active, CreatedAt: now, UpdatedAt: now, Revision: 1}
		at := schedule.First(d.Schedule, now)
		if at.After(now.Add(s.cfg.LookAhead)) {
			j.NextRunAt = at
		} else {
			e := j.Fire(job.ExecutionID(newID()), at, now)
			c.Executions = append(c.Executions, e)
			ready = append(ready, e.Ready())
			made[i].Execution = e.ID
		}
		made[i].Job = s.planned(j)
		c.Jobs = append(c.Jobs, j)
	}
	c.Idempotency = once.with(made, now)
	if err := failpoint.Hit("api.beforeTx"); err != nil {
		return nil, nil, err
	}
	out, err := s.gate.pass(ctx, c)
	if err == nil {
		err = failpoint.Hit("api.afterCommitBeforeReply")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("create jobs: %w", err)
	}
	if replay, err := outcome(out); replay != nil || err != nil {
		return nil, replay, err
	}
	s.cfg.Hint(ready)
	return made, nil, nil
}

// Report is a job and how its executions did.
type Report struct {
	job.Job
	Stats job.Stats
}

// Job finds one job by id or key.
func (s *Service) Job(ctx context.Context, p tenant.Principal, ref engine.Ref) (Report, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Report{}, err
	}
	j, err := s.store.Job(ctx, p.Tenant, ref)
	if err != nil {
		return Report{}, err
	}
	return s.report(ctx, p, j)
}

// report adds the statistics to one job.
func (s *Service) report(ctx context.Context, p tenant.Principal, j job.Job) (Report, error) {
	stats, err := s.store.Stats(ctx, p.Tenant, []job.ID{j.ID})
	if err != nil {
		return Report{}, err
	}
	return Report{s.planned(j), stats[0]}, nil
}

// HasJob says with engine.ErrNotFound that there is no such job; a deleted one is there.
func (s *Service) HasJob(ctx context.Context, p tenant.Principal, ref engine.Ref) error {
	if err := allow(p, tenant.Read); err != nil {
		return err
	}
	_, err := s.store.Job(ctx, p.Tenant, ref)
	return err
}

// planned shows the instant of a job that is staged already, and so no longer planned in the store.
func (s *Service) planned(j job.Job) job.Job {
	if j.Schedule.Type == job.OneTime && j.State == job.Active && j.Schedule.At.After(s.clock.Now()) {
		j.NextRunAt = j.Schedule.At
	}
	return j
}

// Reports is one page of jobs and how their executions did.
type Reports struct {
	Jobs  []Report
	Next  string
	Total engine.Total
}

// FindJobs lists jobs, the newest first.
func (s *Service) FindJobs(ctx context.Context, p tenant.Principal, f engine.JobFilter, page engine.Page) (Reports, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Reports{}, err
	}
	f.Tenant = p.Tenant
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
	out := Reports{Jobs: make([]Report, len(found.Jobs)), Next: found.Next, Total: found.Total}
	for i, j := range found.Jobs {
		out.Jobs[i] = Report{s.planned(j), stats[i]}
	}
	return out, nil
}

// DeleteJob deletes a job, cancels its executions that wait, and leaves those that run.
func (s *Service) DeleteJob(ctx context.Context, p tenant.Principal, ref engine.Ref) (Report, error) {
	if err := allow(p, tenant.Write); err != nil {
		return Report{}, err
	}
	j, err := s.store.Job(ctx, p.Tenant, ref)
	if err != nil {
		return Report{}, err
	}
	if j, err = s.store.DeleteJob(ctx, p.Tenant, j.ID, s.now()); err != nil {
		return Report{}, err
	}
	return s.report(ctx, p, j)
}

// Trigger runs a job now, ranked two priorities higher than the job. override, if not nil, replaces the payload.
func (s *Service) Trigger(ctx context.Context, p tenant.Principal, ref engine.Ref, override []byte, once Once[job.Execution]) (e job.Execution, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return e, nil, err
	}
	j, err := s.store.Job(ctx, p.Tenant, ref)
	if err != nil {
		return e, nil, err
	}
	now := s.now() // whether it is deleted is the store's to say, after it has looked for the key
	e = j.Fire(job.ExecutionID(newID()), now, now)
	e.Trigger, e.Payload, e.Priority = job.ByHand, override, max(1, j.Priority-2)
	if err := failpoint.Hit("api.beforeTx"); err != nil {
		return e, nil, err
	}
	out, err := s.store.Trigger(ctx, p.Tenant, e, once.with(e, now))
	if err == nil {
		err = failpoint.Hit("api.afterCommitBeforeReply")
	}
	if err != nil {
		return e, nil, fmt.Errorf("trigger: %w", err)
	}
	if replay, err := outcome(out); replay != nil || err != nil {
		return e, replay, err
	}
	s.cfg.Hint([]job.Ready{e.Ready()})
	return e, nil, nil
}

// now is the store's time, to the microsecond that stores keep.
func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Microsecond) }

func isConflict(err error) bool { return errors.Is(err, engine.ErrConflict) }

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

func allow(p tenant.Principal, need tenant.Permission) error {
	if !p.Role.Allows(need) {
		return fmt.Errorf("%w: it needs the permission %q, which the role %q has not", ErrForbidden, need, p.Role)
	}
	return nil
}

func checkAll(defs []job.Definition) error {
	var all job.Invalids
	if len(defs) == 0 || len(defs) > MaxBatch {
		all.Add("", fmt.Sprintf("%d jobs", len(defs)), fmt.Sprintf("1 to %d jobs", MaxBatch))
		return all
	}
	for i, d := range defs {
		all = append(all, d.Check().Under(fmt.Sprintf("[%d].", i))...)
		if len(all) >= 20 {
			break // enough to begin with
		}
	}
	return all.Err()
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
