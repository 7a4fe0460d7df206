package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/expression"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// NewJob is a created job and, if it fires at once, its execution.
type NewJob struct {
	Job       *job.Job
	Execution job.ExecutionID // zero: it fires later
	Instead   bool            // nothing was created: these belong to the holder of the unique key
}

// CreateJob stores one job. replay is the earlier answer to the same request. If another execution holds the unique
// key, it returns that execution and its job.
func (s *Jobs) CreateJob(ctx context.Context, p tenant.Principal, d job.Definition, once Once[[]NewJob]) (made NewJob, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return made, nil, err
	}
	q, err := s.Quota(ctx, p)
	if err == nil {
		err = fits(q, &d, nil)
	}
	if err != nil {
		return made, nil, err
	}
	ps := s.plans(p.Tenant)
	ps.stored = p.Internal
	if v, err := s.check(ctx, ps, &d); err != nil || v != nil {
		return made, nil, errors.Join(err, v.Err())
	}
	if err := s.metered(ctx, q, ps, &d, nil); err != nil {
		return made, nil, err
	}
	all, replay, err := s.create(ctx, p, ps, q, []job.Definition{d}, once)
	if len(all) == 1 {
		made = all[0]
	}
	return made, replay, err
}

// CreateJobs stores all the jobs of a list or none, except those whose unique key another execution holds: for each
// of these it returns the ids of that one.
func (s *Jobs) CreateJobs(ctx context.Context, p tenant.Principal, defs []job.Definition, once Once[[]NewJob]) (made []NewJob, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return nil, nil, err
	}
	q, err := s.Quota(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	for i := range defs {
		if err := within(fits(q, &defs[i], nil), i); err != nil {
			return nil, nil, err
		}
	}
	ps := s.plans(p.Tenant)
	if err := s.checkAll(ctx, ps, defs); err != nil {
		return nil, nil, err
	}
	for i := range defs {
		if err := within(s.metered(ctx, q, ps, &defs[i], nil), i); err != nil {
			return nil, nil, err
		}
	}
	return s.create(ctx, p, ps, q, defs, once)
}

// within adds the index of the job in a list to an error.
func within(err error, i int) error {
	var over *OverQuota
	if errors.As(err, &over) {
		over.Field = fmt.Sprintf("[%d].%s", i, over.Field)
	}
	return err
}

// Check returns everything that is wrong with a definition by itself, including its expressions. It does not check
// its payload, or whether its calendar and secrets exist.
func (s *Jobs) Check(d job.Definition) job.Invalids {
	v := d.Check()
	if d.ConcurrencyKey != "" {
		if _, err := expression.Compile(d.ConcurrencyKey); err != nil {
			badKey(&v, d.ConcurrencyKey, err)
		}
	}
	return append(append(v, s.off(&d.Target)...), s.expression(d.Schedule, s.now())...)
}

// expression returns what is wrong with a schedule's expression, if nothing else is wrong with the schedule.
func (s *Jobs) expression(x job.Schedule, at time.Time) job.Invalids {
	if len(x.Check()) > 0 {
		return nil
	}
	return s.cfg.Schedules.Check(x, at, nil)
}

const wantCalendar = "the name of a calendar that exists; PUT /calendars/{name} makes one"

// check returns everything that is wrong with a definition, including a missing calendar or secret.
func (s *Jobs) check(ctx context.Context, ps *plans, d *job.Definition) (job.Invalids, error) {
	key, v := check(d)
	ps.keys = append(ps.keys, key)
	v = append(v, s.off(&d.Target)...)
	if len(v) == 0 && ps.stored {
		return s.checkSchedule(ctx, ps, &d.Schedule)
	}
	if len(v) == 0 {
		barred, err := s.barred(ctx, ps.tenant, &d.Target)
		if err != nil {
			return nil, err
		}
		v = barred
	}
	if len(v) > 0 {
		return append(v, s.expression(d.Schedule, ps.at)...), nil
	}
	if v, err := s.runnable(ctx, ps.tenant, &d.Target); err != nil || v != nil {
		return v, err
	}
	v, err := s.checkSchedule(ctx, ps, &d.Schedule)
	if err != nil {
		return nil, err
	}
	wrong, err := ps.references(ctx, d, nil)
	return append(v, wrong...), err
}

// checkUpdate returns what else is wrong with a definition that replaces another.
func (s *Jobs) checkUpdate(ctx context.Context, ps *plans, d, was job.Definition, replan bool) (v job.Invalids, err error) {
	if replan {
		if v, err = s.checkSchedule(ctx, ps, &d.Schedule); err != nil {
			return nil, err
		}
	}
	wrong, err := ps.references(ctx, &d, &was)
	return append(v, wrong...), err
}

// checkSchedule returns what is wrong with a schedule, including a missing calendar.
func (s *Jobs) checkSchedule(ctx context.Context, ps *plans, x *job.Schedule) (job.Invalids, error) {
	if !x.Type.Recurs() && x.Calendar == "" {
		return nil, nil // there is nothing that its own check does not cover
	}
	cal, err := ps.calendar(ctx, x.Calendar)
	if errors.Is(err, engine.ErrNotFound) {
		return job.Invalids{{Field: "schedule.calendar", Value: job.Show(x.Calendar), Want: wantCalendar}}, nil
	}
	return s.cfg.Schedules.Check(*x, ps.at, cal), err
}

// check returns what is wrong with a definition, whose payload fits, except its schedule. key is the value of its
// concurrency key for its payload.
func check(d *job.Definition) (key string, v job.Invalids) {
	v = d.Check()
	if d.ConcurrencyKey == "" {
		return "", v
	}
	key, err := evaluate(d.ConcurrencyKey, d.Payload)
	if err != nil {
		badKey(&v, d.ConcurrencyKey, err)
	}
	return key, v
}

func badKey(v *job.Invalids, key string, err error) {
	v.Add("concurrency_key", key, "an expression over payload with a plain value, such as payload.customer_id; "+err.Error())
}

// evaluate returns the value of a concurrency key for a payload.
func evaluate(key string, payload []byte) (string, error) {
	e, err := expression.Compile(key)
	if err != nil {
		return "", err
	}
	return e.Eval(payload)
}

// regroup puts an execution with its own payload into the group for that payload, if it may have one.
func regroup(j job.Job, e *job.Execution) error {
	if e.Payload == nil {
		return nil
	}
	if err := overridable(j, e); err != nil {
		return err
	}
	if j.ConcurrencyKey == "" {
		return nil
	}
	key, err := evaluate(j.ConcurrencyKey, e.Payload)
	if err != nil {
		return job.Invalids{{Field: "payload_override", Value: job.Show(string(e.Payload)), Want: fmt.Sprintf("a payload for which the job's concurrency_key, %s, has a plain value: %s", job.Show(j.ConcurrencyKey), err)}}
	}
	e.Join(j.GroupOf(key))
	return nil
}

// maxRounds limits how often a creation is retried because others took its unique keys meanwhile.
const maxRounds = 5

func (s *Jobs) create(ctx context.Context, p tenant.Principal, ps *plans, q tenant.Quota, defs []job.Definition, once Once[[]NewJob]) ([]NewJob, []byte, error) {
	d, err := s.draft(ctx, p, ps, defs)
	if err != nil {
		return nil, nil, err
	}
	for round := range maxRounds {
		c, ready := d.creation()
		made, err := s.named(ctx, p, ps, d)
		if err != nil {
			return nil, nil, err
		}
		if round == 0 {
			if s.cfg.Begun != nil {
				s.cfg.Begun(ctx, p.Tenant, d.ids()...)
			}
			if err := s.takeExecutions(q, p.Tenant, len(ready)); err != nil {
				return nil, nil, err
			}
		}
		c.Most = max(q.ActiveJobs, 0)
		if q.ActiveJobs == 0 && len(c.Jobs) > 0 {
			return nil, nil, s.crowded(ctx, p.Tenant, len(c.Jobs), 0)
		}
		if len(c.Jobs) == 0 && once.Key == "" {
			return made, nil, nil
		}
		c.Idempotency, c.Entry = once.with(made, d.at), s.created(p, made, len(c.Jobs))
		if err := failpoint.Hit("api.beforeTx"); err != nil {
			return nil, nil, err
		}
		out, err := s.commit(ctx, ps, c)
		if err == nil {
			err = failpoint.Hit("api.afterCommitBeforeReply")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("create jobs: %w", err)
		}
		if len(out.Unique) > 0 {
			d.yield(out.Unique)
			continue
		}
		if out.Over {
			if err := s.crowded(ctx, p.Tenant, len(c.Jobs), c.Most); err != nil {
				return nil, nil, err
			}
			continue
		}
		if replay, err := outcome(out); replay != nil || err != nil {
			return nil, replay, err
		}
		if out.Packed {
			for i := range ready {
				ready[i].Packed = ready[i].Group.Key != 0 && job.Bundled(ready[i].ID)
			}
		}
		s.cfg.Hint(ready)
		if d.soon() {
			s.cfg.Replan()
		}
		return made, nil, nil
	}
	return nil, nil, fmt.Errorf("create jobs: others took the unique keys, or the room, %d times: %w", maxRounds, engine.ErrConflict)
}

// commit stores a creation. A workflow goes alone, with its nodes and its version: what is wrong with it must not undo others.
func (s *Jobs) commit(ctx context.Context, ps *plans, c engine.Creation) (engine.Created, error) {
	if ps.flow == nil || len(c.Jobs) == 0 {
		return s.gate.pass(ctx, c)
	}
	leave, err := s.enter()
	if err != nil {
		return engine.Created{}, err
	}
	defer leave()
	c.Workflow, c.Nodes, c.Secrets = &ps.flow.version, ps.flow.jobs, append(c.Secrets, ps.flow.secrets...)
	out, err := s.store.CreateJobs(engine.Unconfined(ctx), []engine.Creation{c}) // as through the gate
	if errors.Is(err, engine.ErrNotFound) {
		err = fmt.Errorf("a job that the workflow uses was deleted meanwhile: %w", engine.ErrConflict)
	}
	if err != nil {
		return engine.Created{}, err
	}
	return out[0], nil
}

// draft holds jobs to be stored, in the order of their ids, which may differ from that of the request.
type draft struct {
	tenant     tenant.ID
	at         time.Time
	jobs       []job.Job
	places     []int             // by job: its position in the request
	executions []job.Execution   // by job; zero if it fires later
	secrets    [][]engine.Secret // by job: the credentials of its headers
	holders    map[string]engine.Incumbent
}

func (s *Jobs) draft(ctx context.Context, p tenant.Principal, ps *plans, defs []job.Definition) (*draft, error) {
	n := len(defs)
	d := &draft{
		tenant: p.Tenant, at: ps.at, jobs: make([]job.Job, n), places: make([]int, n), executions: make([]job.Execution, n), secrets: make([][]engine.Secret, n), holders: map[string]engine.Incumbent{},
	}
	for i, x := range s.identify(p.Tenant, defs, ps.keys) {
		if !ps.id.IsZero() {
			x = identity{id: ps.id, group: defs[0].GroupOf(p.Tenant, cmp.Or(ps.keys[0], ps.id.String()))}
		}
		j := &d.jobs[i]
		d.places[i] = x.place
		j.Tenant, j.Definition, j.ID, j.Group, j.State, j.CreatedAt, j.UpdatedAt, j.Revision = p.Tenant, defs[x.place], x.id, x.group, job.Active, d.at, d.at, 1
		if j.Asleep {
			j.State, j.PauseNote, j.PausedAt, j.Asleep = job.Paused, "created so", d.at, false
		}
		if j.Schedule.Type != job.Immediate { // which names no instant
			j.Schedule = stored(j.Schedule)
		}
		hidden, _, err := s.cfg.Secrets.Hide(j, nil, d.at)
		if err != nil {
			return nil, nested(err, x.place, n)
		}
		d.secrets[i] = hidden
		at, err := ps.next(ctx, j, d.at)
		if err != nil {
			return nil, err
		}
		ahead := s.cfg.LookAhead
		if j.UniqueKey != "" {
			ahead = 0 // the unique key is checked when it is due
		}
		if !j.Schedule.Type.OneOff() || j.State == job.Paused || at.After(d.at.Add(ahead)) {
			j.NextRunAt = at
		} else {
			d.executions[i] = j.FireLate(job.ExecutionID(j.ID), at, schedule.Jitter(j.ID, at, j.Schedule.Jitter), d.at)
		}
	}
	return d, nil
}

// ids are those of the jobs, which their first executions share.
func (d *draft) ids() [][16]byte {
	out := make([][16]byte, len(d.jobs))
	for i := range d.jobs {
		out[i] = d.jobs[i].ID
	}
	return out
}

// soon reports whether a job fires before the scheduler would next look by itself.
func (d *draft) soon() bool {
	for i := range d.jobs {
		if j := &d.jobs[i]; !j.NextRunAt.IsZero() && j.NextRunAt.Before(d.at.Add(2*time.Second)) {
			return true
		}
	}
	return false
}

// holder returns the holder of the i-th execution's unique key in its place.
func (d *draft) holder(i int) (engine.Incumbent, bool) {
	key := d.executions[i].UniqueKey
	h, ok := d.holders[key]
	return h, ok && key != "" && h.Execution != d.executions[i].ID
}

// yield records the holders of unique keys.
func (d *draft) yield(holders []engine.Incumbent) {
	for _, h := range holders {
		d.holders[h.Key] = h
	}
}

// creation returns what to store: all but those whose key another holds.
func (d *draft) creation() (engine.Creation, []job.Ready) {
	n := len(d.jobs)
	c := engine.Creation{Tenant: d.tenant, Jobs: d.jobs, Executions: d.executions}
	whole := len(d.holders) == 0
	for i := 0; whole && i < n; i++ {
		whole = !d.executions[i].ID.IsZero()
	}
	if !whole {
		c.Executions = make([]job.Execution, 0, n)
	}
	if len(d.holders) > 0 {
		c.Jobs = make([]job.Job, 0, n)
	}
	ready := make([]job.Ready, 0, n)
	for i := range d.jobs {
		if _, ok := d.holder(i); ok {
			continue
		}
		c.Secrets = append(c.Secrets, d.secrets[i]...)
		if len(d.holders) > 0 {
			c.Jobs = append(c.Jobs, d.jobs[i])
		}
		if e := &d.executions[i]; !e.ID.IsZero() {
			ready = append(ready, e.Ready())
			if !whole {
				c.Executions = append(c.Executions, *e)
			}
		}
	}
	return c, ready
}

// named returns the answer. For a single job that gave way it is the holder's whole job, for a list its ids.
func (s *Jobs) named(ctx context.Context, p tenant.Principal, ps *plans, d *draft) ([]NewJob, error) {
	made := make([]NewJob, len(d.jobs))
	for i, place := range d.places {
		h, ok := d.holder(i)
		switch {
		case !ok:
			made[place] = NewJob{Job: &d.jobs[i], Execution: d.executions[i].ID}
			if d.jobs[i].Schedule.Type != job.Immediate { // which is never planned
				made[place].Job = new(s.planned(ctx, d.jobs[i], ps))
			}
		case len(d.jobs) > 1:
			made[place] = NewJob{Job: &job.Job{ID: h.Job}, Execution: h.Execution, Instead: true}
		default:
			j, err := s.store.Job(ctx, p.Tenant, engine.Ref{ID: h.Job})
			if err != nil {
				return nil, err
			}
			made[place] = NewJob{Job: new(s.planned(ctx, j, s.plans(p.Tenant))), Execution: h.Execution, Instead: true}
		}
	}
	return made, nil
}

// Triggered is an execution that a request started or, if another holds its unique key, that one.
type Triggered struct {
	job.Execution
	Instead bool
}

// Trigger runs a job now, with a priority two levels above the job's. override, if not nil, replaces the payload.
func (s *Jobs) Trigger(ctx context.Context, p tenant.Principal, ref engine.Ref, override []byte, once Once[job.Execution]) (t Triggered, replay []byte, err error) {
	if err := s.overrideFits(ctx, p, override); err != nil {
		return t, nil, err
	}
	return s.trigger(ctx, p, ref, firing{id: job.ExecutionID(newID()), payload: override}, once, s.beginOne)
}

// firing is what a trigger specifies about its execution.
type firing struct {
	id      job.ExecutionID
	payload []byte // nil: the job's
	unique  string // empty: the job's
}

// trigger creates the execution with an id; an existing one stays as it is. may decides whether the tenant may start
// it.
func (s *Jobs) trigger(ctx context.Context, p tenant.Principal, ref engine.Ref, f firing, once Once[job.Execution], may func(context.Context, tenant.Principal) error) (t Triggered, replay []byte, err error) {
	if err := allow(p, tenant.Write); err != nil {
		return t, nil, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return t, nil, err
	}
	now := s.now() // the store checks whether it is deleted, after looking up the key
	override := f.payload
	e := j.Fire(f.id, now, now)
	e.Trigger, e.Payload, e.Priority = job.ByHand, override, max(1, j.Priority-2)
	if f.unique != "" {
		e.UniqueKey = f.unique
	}
	if err := s.checkInput(ctx, &j, override); err != nil {
		return t, nil, err
	}
	if err := regroup(j, &e); err != nil {
		return t, nil, err
	}
	if err := s.plans(p.Tenant).overriding(ctx, override); err != nil {
		return t, nil, err
	}
	if err := may(ctx, p); err != nil {
		return t, nil, err
	}
	leave, err := s.enter()
	if err != nil {
		return t, nil, err
	}
	defer leave()
	if err := failpoint.Hit("api.beforeTx"); err != nil {
		return t, nil, err
	}
	if s.cfg.Begun != nil {
		s.cfg.Begun(ctx, p.Tenant, e.ID)
	}
	told := detail{After: fields{"execution_id": e.ID.String()}}
	if override != nil {
		told.After["payload_override"] = digest(override)
	}
	out, err := s.store.Trigger(ctx, p.Tenant, e, once.with(e, now), s.audited(p, "job.trigger", j.ID.String(), told))
	if err == nil {
		err = failpoint.Hit("api.afterCommitBeforeReply")
	}
	if err != nil {
		return t, nil, fmt.Errorf("trigger: %w", err)
	}
	if len(out.Unique) > 0 {
		return s.instead(ctx, p, out.Unique[0], once)
	}
	if replay, err := outcome(out); replay != nil || err != nil {
		return t, replay, err
	}
	s.cfg.Hint([]job.Ready{e.Ready()})
	return Triggered{Execution: e}, nil, nil
}

// instead returns the holder of a unique key, and stores that answer under the request's key.
func (s *Jobs) instead(ctx context.Context, p tenant.Principal, h engine.Incumbent, once Once[job.Execution]) (Triggered, []byte, error) {
	e, err := s.store.Execution(ctx, p.Tenant, h.Execution)
	if err != nil {
		return Triggered{}, nil, err
	}
	replay, err := keep(ctx, s.shared, p, e, once)
	return Triggered{Execution: e, Instead: true}, replay, err
}

// keep stores the answer to a request that itself stored nothing, if it has a key.
func keep[T any](ctx context.Context, s *shared, p tenant.Principal, v T, once Once[T]) (replay []byte, err error) {
	if once.Key == "" {
		return nil, nil
	}
	out, err := s.gate.pass(ctx, engine.Creation{Tenant: p.Tenant, Idempotency: once.with(v, s.now())})
	if err != nil {
		return nil, fmt.Errorf("keep an answer: %w", err)
	}
	return outcome(out)
}

func (s *Jobs) checkAll(ctx context.Context, ps *plans, defs []job.Definition) error {
	var all job.Invalids
	if len(defs) == 0 || len(defs) > MaxBatch {
		all.Add("", fmt.Sprintf("%d jobs", len(defs)), fmt.Sprintf("1 to %d jobs", MaxBatch))
		return all
	}
	ps.keys = slices.Grow(ps.keys, len(defs))
	for i := range defs {
		v, err := s.check(ctx, ps, &defs[i])
		if err != nil {
			return err
		}
		if len(v) > 0 {
			all = append(all, v.Under(fmt.Sprintf("[%d].", i))...)
		}
		if len(all) >= 20 {
			break // enough to begin with
		}
	}
	return all.Err()
}

// isInvalid reports whether an error is about the request.
func isInvalid(err error) bool {
	var v job.Invalids
	return errors.As(err, &v)
}
