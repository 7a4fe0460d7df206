package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Faults says how often a store misbehaves, as shares from 0 to 1.
type Faults struct {
	Seed   uint64
	Before float64       // fails and does nothing
	After  float64       // does it, then fails
	Slow   float64       // takes Delay longer
	Delay  time.Duration // of a slow call
	Only   string        // the one method to disturb; "" for all
}

// Faulty is a store that misbehaves. Migrate, Steps, CheckSchema, Describe and Close are left alone.
type Faulty struct {
	engine.Store

	mu       sync.Mutex
	faults   Faults         // guarded by mu
	rng      *rand.Rand     // guarded by mu
	injected map[string]int // guarded by mu: method and kind → how many
}

// NewFaulty wraps a store; the same seed and calls give the same faults.
func NewFaulty(s engine.Store, f Faults) *Faulty {
	return &Faulty{Store: s, faults: f, rng: rand.New(rand.NewPCG(f.Seed, 1)), injected: map[string]int{}}
}

// Injected counts the faults so far, by method and kind ("Lease after").
func (f *Faulty) Injected() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]int, len(f.injected))
	for k, n := range f.injected {
		out[k] = n
	}
	return out
}

// Set changes how the store misbehaves from now on; the seed stays.
func (f *Faulty) Set(x Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = x
}

func (f *Faulty) roll(method string) (before, after bool, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults.Only != "" && f.faults.Only != method {
		return false, false, 0
	}
	before = f.rng.Float64() < f.faults.Before
	after = !before && f.rng.Float64() < f.faults.After
	slow := f.rng.Float64() < f.faults.Slow
	if slow {
		delay = f.faults.Delay
	}
	for kind, hit := range map[string]bool{"before": before, "after": after, "slow": slow} {
		if hit {
			f.injected[method+" "+kind]++
		}
	}
	return before, after, delay
}

func disturb[T any](ctx context.Context, f *Faulty, method string, call func() (T, error)) (T, error) {
	var zero T
	before, after, delay := f.roll(method)
	if delay > 0 {
		select {
		case <-ctx.Done():
			return zero, ctx.Err()
		case <-time.After(delay):
		}
	}
	if before {
		return zero, fmt.Errorf("%s: injected before it: %w", method, engine.ErrUnavailable)
	}
	out, err := call()
	if after && err == nil {
		return zero, fmt.Errorf("%s: injected after its commit: %w", method, engine.ErrUnavailable)
	}
	return out, err
}

func none(err error) (struct{}, error) { return struct{}{}, err }

func (f *Faulty) Now(ctx context.Context) (time.Time, error) {
	return disturb(ctx, f, "Now", func() (time.Time, error) { return f.Store.Now(ctx) })
}

func (f *Faulty) Ping(ctx context.Context) error {
	_, err := disturb(ctx, f, "Ping", func() (struct{}, error) { return none(f.Store.Ping(ctx)) })
	return err
}

func (f *Faulty) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	return disturb(ctx, f, "CreateJobs", func() ([]engine.Created, error) { return f.Store.CreateJobs(ctx, cs) })
}

func (f *Faulty) Job(ctx context.Context, t tenant.ID, ref engine.Ref) (job.Job, error) {
	return disturb(ctx, f, "Job", func() (job.Job, error) { return f.Store.Job(ctx, t, ref) })
}

func (f *Faulty) FindJobs(ctx context.Context, q engine.JobFilter, p engine.Page) (engine.JobPage, error) {
	return disturb(ctx, f, "FindJobs", func() (engine.JobPage, error) { return f.Store.FindJobs(ctx, q, p) })
}

func (f *Faulty) Stats(ctx context.Context, t tenant.ID, ids []job.ID) ([]job.Stats, error) {
	return disturb(ctx, f, "Stats", func() ([]job.Stats, error) { return f.Store.Stats(ctx, t, ids) })
}

func (f *Faulty) DeleteJob(ctx context.Context, t tenant.ID, d engine.Deletion) (engine.Deleted, error) {
	return disturb(ctx, f, "DeleteJob", func() (engine.Deleted, error) { return f.Store.DeleteJob(ctx, t, d) })
}

// CancelWaiting cancels what waits of a deleted job.
func (f *Faulty) CancelWaiting(ctx context.Context, t tenant.ID, of job.ID, limit int) (int, error) {
	return disturb(ctx, f, "CancelWaiting", func() (int, error) { return f.Store.CancelWaiting(ctx, t, of, limit) })
}

func (f *Faulty) Trigger(ctx context.Context, t tenant.ID, e job.Execution, i engine.Idempotency) (engine.Created, error) {
	return disturb(ctx, f, "Trigger", func() (engine.Created, error) { return f.Store.Trigger(ctx, t, e, i) })
}

func (f *Faulty) Due(ctx context.Context, q engine.DueFilter) ([]engine.Due, error) {
	return disturb(ctx, f, "Due", func() ([]engine.Due, error) { return f.Store.Due(ctx, q) })
}

func (f *Faulty) Ahead(ctx context.Context, ps []job.Partition, from time.Time, seconds, limit int) ([]int, error) {
	return disturb(ctx, f, "Ahead", func() ([]int, error) { return f.Store.Ahead(ctx, ps, from, seconds, limit) })
}

func (f *Faulty) Fire(ctx context.Context, fs []engine.Firing, x engine.Fence) ([]job.Ready, error) {
	return disturb(ctx, f, "Fire", func() ([]job.Ready, error) { return f.Store.Fire(ctx, fs, x) })
}

func (f *Faulty) Register(ctx context.Context, w job.Worker, ttl time.Duration) error {
	_, err := disturb(ctx, f, "Register", func() (struct{}, error) { return none(f.Store.Register(ctx, w, ttl)) })
	return err
}

func (f *Faulty) Renew(ctx context.Context, rs []engine.Renewal, ttl time.Duration) (engine.Orders, error) {
	return disturb(ctx, f, "Renew", func() (engine.Orders, error) { return f.Store.Renew(ctx, rs, ttl) })
}

func (f *Faulty) Worker(ctx context.Context, w job.WorkerID) (job.Worker, error) {
	return disturb(ctx, f, "Worker", func() (job.Worker, error) { return f.Store.Worker(ctx, w) })
}

func (f *Faulty) Workers(ctx context.Context, t tenant.ID) ([]job.Worker, error) {
	return disturb(ctx, f, "Workers", func() ([]job.Worker, error) { return f.Store.Workers(ctx, t) })
}

func (f *Faulty) Cancel(ctx context.Context, t tenant.ID, id job.ExecutionID, reason string) (job.Status, error) {
	return disturb(ctx, f, "Cancel", func() (job.Status, error) { return f.Store.Cancel(ctx, t, id, reason) })
}

func (f *Faulty) Force(ctx context.Context, grace time.Duration, limit int) (int, error) {
	return disturb(ctx, f, "Force", func() (int, error) { return f.Store.Force(ctx, grace, limit) })
}

func (f *Faulty) Rerun(ctx context.Context, t tenant.ID, r engine.Rerun) (engine.Rerunning, error) {
	return disturb(ctx, f, "Rerun", func() (engine.Rerunning, error) { return f.Store.Rerun(ctx, t, r) })
}

func (f *Faulty) DeadLetters(ctx context.Context, q engine.DeadLetterFilter, p engine.Page) (engine.DeadLetterPage, error) {
	return disturb(ctx, f, "DeadLetters", func() (engine.DeadLetterPage, error) { return f.Store.DeadLetters(ctx, q, p) })
}

func (f *Faulty) Discard(ctx context.Context, t tenant.ID, ids []job.ExecutionID) (int, error) {
	return disturb(ctx, f, "Discard", func() (int, error) { return f.Store.Discard(ctx, t, ids) })
}

func (f *Faulty) Leave(ctx context.Context, w job.WorkerID) ([]job.Ready, error) {
	return disturb(ctx, f, "Leave", func() ([]job.Ready, error) { return f.Store.Leave(ctx, w) })
}

func (f *Faulty) Lanes(ctx context.Context, after *job.Lane, limit int) ([]job.Lane, error) {
	return disturb(ctx, f, "Lanes", func() ([]job.Lane, error) { return f.Store.Lanes(ctx, after, limit) })
}

func (f *Faulty) Unpack(ctx context.Context, ids []job.ExecutionID) error {
	_, err := disturb(ctx, f, "Unpack", func() (struct{}, error) { return none(f.Store.Unpack(ctx, ids)) })
	return err
}

func (f *Faulty) CountDue(ctx context.Context) (map[engine.DueKey]int, error) {
	return disturb(ctx, f, "CountDue", func() (map[engine.DueKey]int, error) { return f.Store.CountDue(ctx) })
}

func (f *Faulty) Ready(ctx context.Context, cs []engine.LaneCursor, perLane int) ([]job.Ready, error) {
	return disturb(ctx, f, "Ready", func() ([]job.Ready, error) { return f.Store.Ready(ctx, cs, perLane) })
}

func (f *Faulty) Lease(ctx context.Context, gs []engine.Grant, x engine.Fence) ([]job.Attempt, error) {
	return disturb(ctx, f, "Lease", func() ([]job.Attempt, error) { return f.Store.Lease(ctx, gs, x) })
}

func (f *Faulty) Held(ctx context.Context, ls []job.Lease) ([]job.Held, error) {
	return disturb(ctx, f, "Held", func() ([]job.Held, error) { return f.Store.Held(ctx, ls) })
}

func (f *Faulty) Finish(ctx context.Context, fs []job.Finish) ([]job.Verdict, error) {
	return disturb(ctx, f, "Finish", func() ([]job.Verdict, error) { return f.Store.Finish(ctx, fs) })
}

func (f *Faulty) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) ([]job.Ready, error) {
	return disturb(ctx, f, "Release", func() ([]job.Ready, error) { return f.Store.Release(ctx, w, ls) })
}

func (f *Faulty) Disown(ctx context.Context, w job.WorkerID, keep []job.Token, before time.Time) ([]job.Ready, error) {
	return disturb(ctx, f, "Disown", func() ([]job.Ready, error) { return f.Store.Disown(ctx, w, keep, before) })
}

func (f *Faulty) Reap(ctx context.Context, limit, poison int) (engine.Reaped, error) {
	return disturb(ctx, f, "Reap", func() (engine.Reaped, error) { return f.Store.Reap(ctx, limit, poison) })
}

func (f *Faulty) Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (job.Execution, error) {
	return disturb(ctx, f, "Execution", func() (job.Execution, error) { return f.Store.Execution(ctx, t, id) })
}

func (f *Faulty) FindExecutions(ctx context.Context, q engine.ExecutionFilter, p engine.Page) (engine.ExecutionPage, error) {
	return disturb(ctx, f, "FindExecutions", func() (engine.ExecutionPage, error) { return f.Store.FindExecutions(ctx, q, p) })
}

func (f *Faulty) Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.PastAttempt, error) {
	return disturb(ctx, f, "Attempts", func() ([]job.PastAttempt, error) { return f.Store.Attempts(ctx, t, id) })
}

func (f *Faulty) Bootstrap(ctx context.Context, k engine.Key) (bool, error) {
	return disturb(ctx, f, "Bootstrap", func() (bool, error) { return f.Store.Bootstrap(ctx, k) })
}

func (f *Faulty) Key(ctx context.Context, hash [32]byte) (engine.Key, error) {
	return disturb(ctx, f, "Key", func() (engine.Key, error) { return f.Store.Key(ctx, hash) })
}

func (f *Faulty) AddKey(ctx context.Context, asks tenant.ID, k engine.Key, most int, i engine.Idempotency) (engine.Created, error) {
	return disturb(ctx, f, "AddKey", func() (engine.Created, error) { return f.Store.AddKey(ctx, asks, k, most, i) })
}

func (f *Faulty) Keys(ctx context.Context, t tenant.ID) ([]engine.Key, error) {
	return disturb(ctx, f, "Keys", func() ([]engine.Key, error) { return f.Store.Keys(ctx, t) })
}

func (f *Faulty) KeyOf(ctx context.Context, t tenant.ID, id string) (engine.Key, error) {
	return disturb(ctx, f, "KeyOf", func() (engine.Key, error) { return f.Store.KeyOf(ctx, t, id) })
}

func (f *Faulty) RevokeKey(ctx context.Context, t tenant.ID, id string, now time.Time) error {
	_, err := disturb(ctx, f, "RevokeKey", func() (struct{}, error) { return none(f.Store.RevokeKey(ctx, t, id, now)) })
	return err
}

func (f *Faulty) ExpireKey(ctx context.Context, t tenant.ID, id string, at time.Time) error {
	_, err := disturb(ctx, f, "ExpireKey", func() (struct{}, error) { return none(f.Store.ExpireKey(ctx, t, id, at)) })
	return err
}

func (f *Faulty) UseKeys(ctx context.Context, used map[string]time.Time) error {
	_, err := disturb(ctx, f, "UseKeys", func() (struct{}, error) { return none(f.Store.UseKeys(ctx, used)) })
	return err
}

func (f *Faulty) HasTenant(ctx context.Context, t tenant.ID) (bool, error) {
	return disturb(ctx, f, "HasTenant", func() (bool, error) { return f.Store.HasTenant(ctx, t) })
}

func (f *Faulty) Tidy(ctx context.Context) (bool, error) {
	return disturb(ctx, f, "Tidy", func() (bool, error) { return f.Store.Tidy(ctx) })
}

func (f *Faulty) Drain(ctx context.Context, t tenant.ID, w job.WorkerID) error {
	_, err := disturb(ctx, f, "Drain", func() (struct{}, error) { return none(f.Store.Drain(ctx, t, w)) })
	return err
}

func (f *Faulty) Running(ctx context.Context, ps []job.Partition) ([]engine.Running, error) {
	return disturb(ctx, f, "Running", func() ([]engine.Running, error) { return f.Store.Running(ctx, ps) })
}

func (f *Faulty) Overrun(ctx context.Context, slack time.Duration, limit int) ([]engine.Overrun, error) {
	return disturb(ctx, f, "Overrun", func() ([]engine.Overrun, error) { return f.Store.Overrun(ctx, slack, limit) })
}

func (f *Faulty) Expire(ctx context.Context, limit int) (int, error) {
	return disturb(ctx, f, "Expire", func() (int, error) { return f.Store.Expire(ctx, limit) })
}

func (f *Faulty) Events(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.Event, error) {
	return disturb(ctx, f, "Events", func() ([]job.Event, error) { return f.Store.Events(ctx, t, id) })
}

func (f *Faulty) Redrivable(ctx context.Context, limit int) ([]job.Execution, error) {
	return disturb(ctx, f, "Redrivable", func() ([]job.Execution, error) { return f.Store.Redrivable(ctx, limit) })
}

func (f *Faulty) Postpone(ctx context.Context, ids []job.ExecutionID, by time.Duration) error {
	_, err := disturb(ctx, f, "Postpone", func() (struct{}, error) { return struct{}{}, f.Store.Postpone(ctx, ids, by) })
	return err
}

func (f *Faulty) AddOperation(ctx context.Context, o job.Operation, i engine.Idempotency) (engine.Created, error) {
	return disturb(ctx, f, "AddOperation", func() (engine.Created, error) { return f.Store.AddOperation(ctx, o, i) })
}

func (f *Faulty) Operation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error) {
	return disturb(ctx, f, "Operation", func() (job.Operation, error) { return f.Store.Operation(ctx, t, id) })
}

func (f *Faulty) FindOperations(ctx context.Context, t tenant.ID, p engine.Page) (engine.OperationPage, error) {
	return disturb(ctx, f, "FindOperations", func() (engine.OperationPage, error) { return f.Store.FindOperations(ctx, t, p) })
}

func (f *Faulty) TakeOperation(ctx context.Context, ttl time.Duration) (job.Operation, error) {
	return disturb(ctx, f, "TakeOperation", func() (job.Operation, error) { return f.Store.TakeOperation(ctx, ttl) })
}

func (f *Faulty) SaveOperation(ctx context.Context, o job.Operation, ttl time.Duration) (job.Operation, error) {
	return disturb(ctx, f, "SaveOperation", func() (job.Operation, error) { return f.Store.SaveOperation(ctx, o, ttl) })
}

func (f *Faulty) CancelOperation(ctx context.Context, t tenant.ID, id job.OperationID) (job.Operation, error) {
	return disturb(ctx, f, "CancelOperation", func() (job.Operation, error) { return f.Store.CancelOperation(ctx, t, id) })
}

func (f *Faulty) CreateTenant(ctx context.Context, t tenant.Tenant) error {
	_, err := disturb(ctx, f, "CreateTenant", func() (struct{}, error) { return none(f.Store.CreateTenant(ctx, t)) })
	return err
}

func (f *Faulty) UpdateTenant(ctx context.Context, t tenant.Tenant) error {
	_, err := disturb(ctx, f, "UpdateTenant", func() (struct{}, error) { return none(f.Store.UpdateTenant(ctx, t)) })
	return err
}

func (f *Faulty) SetLimit(ctx context.Context, l job.Limit) error {
	_, err := disturb(ctx, f, "SetLimit", func() (struct{}, error) { return none(f.Store.SetLimit(ctx, l)) })
	return err
}

func (f *Faulty) Cordon(ctx context.Context, t tenant.ID, w job.WorkerID, on bool) error {
	_, err := disturb(ctx, f, "Cordon", func() (struct{}, error) { return none(f.Store.Cordon(ctx, t, w, on)) })
	return err
}

func (f *Faulty) Cordoned(ctx context.Context) ([]job.WorkerID, error) {
	return disturb(ctx, f, "Cordoned", func() ([]job.WorkerID, error) { return f.Store.Cordoned(ctx) })
}

func (f *Faulty) PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause) error {
	_, err := disturb(ctx, f, "PauseQueue", func() (struct{}, error) { return none(f.Store.PauseQueue(ctx, t, queue, p)) })
	return err
}

func (f *Faulty) Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error) {
	return disturb(ctx, f, "Limits", func() ([]job.Limit, error) { return f.Store.Limits(ctx, t) })
}

func (f *Faulty) Draw(ctx context.Context, ds []engine.Draw) ([]engine.Drawn, error) {
	return disturb(ctx, f, "Draw", func() ([]engine.Drawn, error) { return f.Store.Draw(ctx, ds) })
}

func (f *Faulty) Tenants(ctx context.Context) ([]tenant.Tenant, error) {
	return disturb(ctx, f, "Tenants", func() ([]tenant.Tenant, error) { return f.Store.Tenants(ctx) })
}

func (f *Faulty) UpdateJob(ctx context.Context, t tenant.ID, u engine.Update) (job.Job, error) {
	return disturb(ctx, f, "UpdateJob", func() (job.Job, error) { return f.Store.UpdateJob(ctx, t, u) })
}

func (f *Faulty) Resumable(ctx context.Context, limit int) ([]job.Job, error) {
	return disturb(ctx, f, "Resumable", func() ([]job.Job, error) { return f.Store.Resumable(ctx, limit) })
}

func (f *Faulty) Settle(ctx context.Context, limit int) (int, error) {
	return disturb(ctx, f, "Settle", func() (int, error) { return f.Store.Settle(ctx, limit) })
}

func (f *Faulty) Backfill(ctx context.Context, t tenant.ID, of job.ID, es []job.Execution) ([]job.ExecutionID, error) {
	return disturb(ctx, f, "Backfill", func() ([]job.ExecutionID, error) { return f.Store.Backfill(ctx, t, of, es) })
}

func (f *Faulty) CalendarUsers(ctx context.Context, t tenant.ID, name string, after job.ID, look int) (users []job.Job, last job.ID, err error) {
	users, err = disturb(ctx, f, "CalendarUsers", func() (us []job.Job, err error) {
		us, last, err = f.Store.CalendarUsers(ctx, t, name, after, look)
		return us, err
	})
	return users, last, err
}

func (f *Faulty) PutCalendar(ctx context.Context, c engine.Calendar) error {
	_, err := disturb(ctx, f, "PutCalendar", func() (struct{}, error) { return none(f.Store.PutCalendar(ctx, c)) })
	return err
}

func (f *Faulty) Calendar(ctx context.Context, t tenant.ID, name string) (engine.Calendar, error) {
	return disturb(ctx, f, "Calendar", func() (engine.Calendar, error) { return f.Store.Calendar(ctx, t, name) })
}

func (f *Faulty) Calendars(ctx context.Context, t tenant.ID) ([]engine.Calendar, error) {
	return disturb(ctx, f, "Calendars", func() ([]engine.Calendar, error) { return f.Store.Calendars(ctx, t) })
}

func (f *Faulty) DeleteCalendar(ctx context.Context, t tenant.ID, name string) error {
	_, err := disturb(ctx, f, "DeleteCalendar", func() (struct{}, error) { return none(f.Store.DeleteCalendar(ctx, t, name)) })
	return err
}

func (f *Faulty) Park(ctx context.Context, ps []engine.Parking) ([]job.Verdict, error) {
	return disturb(ctx, f, "Park", func() ([]job.Verdict, error) { return f.Store.Park(ctx, ps) })
}

func (f *Faulty) AddSigningSecret(ctx context.Context, s engine.SigningSecret, othersUntil time.Time) error {
	_, err := disturb(ctx, f, "AddSigningSecret", func() (struct{}, error) { return none(f.Store.AddSigningSecret(ctx, s, othersUntil)) })
	return err
}

func (f *Faulty) SigningSecrets(ctx context.Context, t tenant.ID) ([]engine.SigningSecret, error) {
	return disturb(ctx, f, "SigningSecrets", func() ([]engine.SigningSecret, error) { return f.Store.SigningSecrets(ctx, t) })
}

func (f *Faulty) DeleteSigningSecret(ctx context.Context, t tenant.ID, id string) error {
	_, err := disturb(ctx, f, "DeleteSigningSecret", func() (struct{}, error) { return none(f.Store.DeleteSigningSecret(ctx, t, id)) })
	return err
}

func (f *Faulty) SeedSigningSecret(ctx context.Context, s engine.SigningSecret) (bool, error) {
	return disturb(ctx, f, "SeedSigningSecret", func() (bool, error) { return f.Store.SeedSigningSecret(ctx, s) })
}

func (f *Faulty) ShowSigningSecret(ctx context.Context, t tenant.ID, id, prefix string) error {
	_, err := disturb(ctx, f, "ShowSigningSecret", func() (struct{}, error) { return none(f.Store.ShowSigningSecret(ctx, t, id, prefix)) })
	return err
}

func (f *Faulty) ResealSigningSecret(ctx context.Context, s engine.SigningSecret, was []byte) error {
	_, err := disturb(ctx, f, "ResealSigningSecret", func() (struct{}, error) { return none(f.Store.ResealSigningSecret(ctx, s, was)) })
	return err
}

func (f *Faulty) Reshare(ctx context.Context, name string, was, value []byte) error {
	_, err := disturb(ctx, f, "Reshare", func() (struct{}, error) { return none(f.Store.Reshare(ctx, name, was, value)) })
	return err
}

func (f *Faulty) Share(ctx context.Context, name string, value []byte) ([]byte, error) {
	return disturb(ctx, f, "Share", func() ([]byte, error) { return f.Store.Share(ctx, name, value) })
}
