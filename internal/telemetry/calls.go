package telemetry

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/notice"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The calls that are only timed. What they do says the port.

func (s *Store) CreateJobs(ctx context.Context, cs []engine.Creation) (_ []engine.Created, err error) {
	defer s.begin(&ctx, opCreate).end(&err)
	return s.Store.CreateJobs(ctx, cs)
}

func (s *Store) Job(ctx context.Context, t tenant.ID, ref engine.Ref) (_ job.Job, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Job(ctx, t, ref)
}

func (s *Store) FindJobs(ctx context.Context, f engine.JobFilter, p engine.Page) (_ engine.JobPage, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.FindJobs(ctx, f, p)
}

func (s *Store) Stats(ctx context.Context, t tenant.ID, ids []job.ID) (_ []job.Stats, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Stats(ctx, t, ids)
}

func (s *Store) UpdateJob(ctx context.Context, t tenant.ID, u engine.Update) (_ job.Job, err error) {
	defer s.begin(&ctx, opUpdate).end(&err)
	return s.Store.UpdateJob(ctx, t, u)
}

func (s *Store) Resumable(ctx context.Context, limit int) (_ []job.Job, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Resumable(ctx, limit)
}

func (s *Store) Settle(ctx context.Context, limit int) (_ int, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Settle(ctx, limit)
}

func (s *Store) Trigger(ctx context.Context, t tenant.ID, e job.Execution, i engine.Idempotency) (_ engine.Created, err error) {
	defer s.begin(&ctx, opTrigger).end(&err)
	return s.Store.Trigger(ctx, t, e, i)
}

func (s *Store) Backfill(ctx context.Context, t tenant.ID, of job.ID, es []job.Execution) (_ []job.ExecutionID, err error) {
	defer s.begin(&ctx, opTrigger).end(&err)
	return s.Store.Backfill(ctx, t, of, es)
}

func (s *Store) Rerun(ctx context.Context, t tenant.ID, r engine.Rerun) (_ engine.Rerunning, err error) {
	defer s.begin(&ctx, opTrigger).end(&err)
	return s.Store.Rerun(ctx, t, r)
}

func (s *Store) Due(ctx context.Context, f engine.DueFilter) (_ []engine.Due, err error) {
	defer s.begin(&ctx, opDue).end(&err)
	return s.Store.Due(ctx, f)
}

func (s *Store) Ahead(ctx context.Context, ps []job.Partition, from time.Time, seconds, limit int) (_ []int, err error) {
	defer s.begin(&ctx, opDue).end(&err)
	return s.Store.Ahead(ctx, ps, from, seconds, limit)
}

func (s *Store) Register(ctx context.Context, w job.Worker, ttl time.Duration) (err error) {
	defer s.begin(&ctx, opRegister).end(&err)
	return s.Store.Register(ctx, w, ttl)
}

func (s *Store) Renew(ctx context.Context, rs []engine.Renewal, ttl time.Duration) (_ engine.Orders, err error) {
	defer s.begin(&ctx, opRenew).end(&err)
	return s.Store.Renew(ctx, rs, ttl)
}

func (s *Store) Worker(ctx context.Context, w job.WorkerID) (_ job.Worker, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Worker(ctx, w)
}

func (s *Store) Workers(ctx context.Context, t tenant.ID) (_ []job.Worker, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Workers(ctx, t)
}

func (s *Store) Drain(ctx context.Context, t tenant.ID, w job.WorkerID) (err error) {
	defer s.begin(&ctx, opRegister).end(&err)
	return s.Store.Drain(ctx, t, w)
}

func (s *Store) Lanes(ctx context.Context, after *job.Lane, limit int) (_ []job.Lane, err error) {
	defer s.begin(&ctx, opReady).end(&err)
	return s.Store.Lanes(ctx, after, limit)
}

func (s *Store) Ready(ctx context.Context, cs []engine.LaneCursor, perLane int) (_ []job.Ready, err error) {
	defer s.begin(&ctx, opReady).end(&err)
	return s.Store.Ready(ctx, cs, perLane)
}

func (s *Store) Unpack(ctx context.Context, ids []job.ExecutionID) (err error) {
	defer s.begin(&ctx, opReady).end(&err)
	return s.Store.Unpack(ctx, ids)
}

func (s *Store) CountDue(ctx context.Context) (_ map[engine.DueKey]int, err error) {
	defer s.begin(&ctx, opReady).end(&err)
	return s.Store.CountDue(ctx)
}

func (s *Store) Running(ctx context.Context, ps []job.Partition) (_ []engine.Running, err error) {
	defer s.begin(&ctx, opReady).end(&err)
	return s.Store.Running(ctx, ps)
}

func (s *Store) Held(ctx context.Context, ls []job.Lease) (_ []job.Held, err error) {
	defer s.begin(&ctx, opHeld).end(&err)
	return s.Store.Held(ctx, ls)
}

func (s *Store) Overrun(ctx context.Context, slack time.Duration, limit int) (_ []engine.Overrun, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Overrun(ctx, slack, limit)
}

func (s *Store) Execution(ctx context.Context, t tenant.ID, id job.ExecutionID) (_ job.Execution, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Execution(ctx, t, id)
}

func (s *Store) FindExecutions(ctx context.Context, f engine.ExecutionFilter, p engine.Page) (_ engine.ExecutionPage, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.FindExecutions(ctx, f, p)
}

func (s *Store) Attempts(ctx context.Context, t tenant.ID, id job.ExecutionID) (_ []job.PastAttempt, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Attempts(ctx, t, id)
}

func (s *Store) DeadLetters(ctx context.Context, f engine.DeadLetterFilter, p engine.Page) (_ engine.DeadLetterPage, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.DeadLetters(ctx, f, p)
}

func (s *Store) Events(ctx context.Context, t tenant.ID, id job.ExecutionID) (_ []job.Event, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Events(ctx, t, id)
}

func (s *Store) Redrivable(ctx context.Context, limit int) (_ []job.Execution, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Redrivable(ctx, limit)
}

func (s *Store) Postpone(ctx context.Context, ids []job.ExecutionID, by time.Duration) (err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Postpone(ctx, ids, by)
}

func (s *Store) Discard(ctx context.Context, t tenant.ID, ids []job.ExecutionID) (_ int, err error) {
	defer s.begin(&ctx, opOperate).end(&err)
	return s.Store.Discard(ctx, t, ids)
}

func (s *Store) AppendLogs(ctx context.Context, as []engine.LogAppend) (_ []engine.LogAppended, err error) {
	defer s.begin(&ctx, opLogs).end(&err)
	return s.Store.AppendLogs(ctx, as)
}

func (s *Store) Logs(ctx context.Context, t tenant.ID, id job.ExecutionID, q engine.LogQuery) (_ []engine.LogChunk, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Logs(ctx, t, id, q)
}

func (s *Store) LogLines(ctx context.Context, t tenant.ID, id job.ExecutionID, attempt int) (_ int64, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.LogLines(ctx, t, id, attempt)
}

func (s *Store) AddOperation(ctx context.Context, o job.Operation, i engine.Idempotency) (_ engine.Created, err error) {
	defer s.begin(&ctx, opOperate).end(&err)
	return s.Store.AddOperation(ctx, o, i)
}

func (s *Store) Operation(ctx context.Context, t tenant.ID, id job.OperationID) (_ job.Operation, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Operation(ctx, t, id)
}

func (s *Store) FindOperations(ctx context.Context, t tenant.ID, p engine.Page) (_ engine.OperationPage, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.FindOperations(ctx, t, p)
}

func (s *Store) TakeOperation(ctx context.Context, ttl time.Duration) (_ job.Operation, err error) {
	defer s.begin(&ctx, opOperate).end(&err)
	return s.Store.TakeOperation(ctx, ttl)
}

func (s *Store) SaveOperation(ctx context.Context, o job.Operation, ttl time.Duration) (_ job.Operation, err error) {
	defer s.begin(&ctx, opOperate).end(&err)
	return s.Store.SaveOperation(ctx, o, ttl)
}

func (s *Store) CancelOperation(ctx context.Context, t tenant.ID, id job.OperationID) (_ job.Operation, err error) {
	defer s.begin(&ctx, opOperate).end(&err)
	return s.Store.CancelOperation(ctx, t, id)
}

func (s *Store) CreateTenant(ctx context.Context, t tenant.Tenant) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.CreateTenant(ctx, t)
}

func (s *Store) Tenants(ctx context.Context) (_ []tenant.Tenant, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Tenants(ctx)
}

func (s *Store) Reaches(ctx context.Context) (_ map[tenant.ID]engine.Reach, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Reaches(ctx)
}

func (s *Store) UpdateTenant(ctx context.Context, t tenant.Tenant) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.UpdateTenant(ctx, t)
}

func (s *Store) SetLimit(ctx context.Context, l job.Limit) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.SetLimit(ctx, l)
}

func (s *Store) Cordon(ctx context.Context, t tenant.ID, w job.WorkerID, on bool) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Cordon(ctx, t, w, on)
}

func (s *Store) Cordoned(ctx context.Context) (_ []job.WorkerID, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Cordoned(ctx)
}

func (s *Store) PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.PauseQueue(ctx, t, queue, p)
}

func (s *Store) Limits(ctx context.Context, t tenant.ID) (_ []job.Limit, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Limits(ctx, t)
}

func (s *Store) CountJobs(ctx context.Context, t tenant.ID) (_ int64, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.CountJobs(ctx, t)
}

func (s *Store) Charge(ctx context.Context, cs []engine.Charge) (_ []time.Duration, err error) {
	defer s.begin(&ctx, opCharge).end(&err)
	return s.Store.Charge(ctx, cs)
}

func (s *Store) Record(ctx context.Context, e audit.Entry) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Record(ctx, e)
}

func (s *Store) AuditEntries(ctx context.Context, f engine.AuditFilter, p engine.Page) (_ engine.AuditPage, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.AuditEntries(ctx, f, p)
}

func (s *Store) SealAudit(ctx context.Context) (_ bool, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.SealAudit(ctx)
}

func (s *Store) AuditSeals(ctx context.Context, t tenant.ID, after int64, limit int) (_ []engine.Sealed, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.AuditSeals(ctx, t, after, limit)
}

func (s *Store) Unsealed(ctx context.Context, t tenant.ID) (_ int64, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Unsealed(ctx, t)
}

func (s *Store) PutCalendar(ctx context.Context, c engine.Calendar) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.PutCalendar(ctx, c)
}

func (s *Store) Calendar(ctx context.Context, t tenant.ID, name string) (_ engine.Calendar, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Calendar(ctx, t, name)
}

func (s *Store) Calendars(ctx context.Context, t tenant.ID) (_ []engine.Calendar, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Calendars(ctx, t)
}

func (s *Store) DeleteCalendar(ctx context.Context, t tenant.ID, name string) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.DeleteCalendar(ctx, t, name)
}

func (s *Store) CalendarUsers(ctx context.Context, t tenant.ID, name string, after job.ID, look int) (_ []job.Job, _ job.ID, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.CalendarUsers(ctx, t, name, after, look)
}

func (s *Store) PutRule(ctx context.Context, r notice.Rule, most int) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.PutRule(ctx, r, most)
}

func (s *Store) Rule(ctx context.Context, t tenant.ID, name string) (_ notice.Rule, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Rule(ctx, t, name)
}

func (s *Store) Rules(ctx context.Context, t tenant.ID) (_ []notice.Rule, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Rules(ctx, t)
}

func (s *Store) DeleteRule(ctx context.Context, t tenant.ID, name string) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.DeleteRule(ctx, t, name)
}

func (s *Store) Unwell(ctx context.Context, ts []tenant.ID, after engine.Mark, limit int) (_ []job.Execution, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Unwell(ctx, ts, after, limit)
}

func (s *Store) Late(ctx context.Context, t tenant.ID, before time.Time, limit int) (_ []engine.Late, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Late(ctx, t, before, limit)
}

func (s *Store) Alarms(ctx context.Context) (_ []notice.Alarm, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Alarms(ctx)
}

func (s *Store) SetAlarms(ctx context.Context, began, ended []notice.Alarm) (err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.SetAlarms(ctx, began, ended)
}

func (s *Store) Watched(ctx context.Context) (_ time.Time, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Watched(ctx)
}

func (s *Store) SetWatched(ctx context.Context, at time.Time) (err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.SetWatched(ctx, at)
}

func (s *Store) PutSecret(ctx context.Context, x engine.Secret, most int) (_ engine.Secret, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.PutSecret(ctx, x, most)
}

func (s *Store) Secret(ctx context.Context, t tenant.ID, name string) (_ engine.Secret, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Secret(ctx, t, name)
}

func (s *Store) Secrets(ctx context.Context, t tenant.ID) (_ []engine.Secret, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Secrets(ctx, t)
}

func (s *Store) SealedSecrets(ctx context.Context, t tenant.ID) (_ []engine.Secret, _ string, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.SealedSecrets(ctx, t)
}

func (s *Store) SecretStamp(ctx context.Context, t tenant.ID) (_ string, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.SecretStamp(ctx, t)
}

func (s *Store) LackSecrets(ctx context.Context, t tenant.ID, names []string) (_ []string, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.LackSecrets(ctx, t, names)
}

func (s *Store) DeleteSecret(ctx context.Context, t tenant.ID, name string) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.DeleteSecret(ctx, t, name)
}

func (s *Store) SecretsOf(ctx context.Context, ids []job.ExecutionID) (_ []engine.SecretUse, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.SecretsOf(ctx, ids)
}

func (s *Store) SecretKeys(ctx context.Context) (_ []engine.Secret, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.SecretKeys(ctx)
}

func (s *Store) SecretsNotUnder(ctx context.Context, key string, after engine.Secret, limit int) (_ []engine.Secret, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.SecretsNotUnder(ctx, key, after, limit)
}

func (s *Store) ResealSecret(ctx context.Context, x engine.Secret, was []byte) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.ResealSecret(ctx, x, was)
}

func (s *Store) Bootstrap(ctx context.Context, k engine.Key) (_ bool, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.Bootstrap(ctx, k)
}

func (s *Store) Key(ctx context.Context, hash [32]byte) (_ engine.Key, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.Key(ctx, hash)
}

func (s *Store) AddKey(ctx context.Context, asks tenant.ID, k engine.Key, most int, i engine.Idempotency) (_ engine.Created, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.AddKey(ctx, asks, k, most, i)
}

func (s *Store) Keys(ctx context.Context, t tenant.ID) (_ []engine.Key, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.Keys(ctx, t)
}

func (s *Store) KeyOf(ctx context.Context, t tenant.ID, id string) (_ engine.Key, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.KeyOf(ctx, t, id)
}

func (s *Store) RevokeKey(ctx context.Context, t tenant.ID, id string, now time.Time) (err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.RevokeKey(ctx, t, id, now)
}

func (s *Store) ExpireKey(ctx context.Context, t tenant.ID, id string, at time.Time) (err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.ExpireKey(ctx, t, id, at)
}

func (s *Store) UseKeys(ctx context.Context, used map[string]time.Time) (err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.UseKeys(ctx, used)
}

func (s *Store) HasTenant(ctx context.Context, t tenant.ID) (_ bool, err error) {
	defer s.begin(&ctx, opAccess).end(&err)
	return s.Store.HasTenant(ctx, t)
}

func (s *Store) AddSigningSecret(ctx context.Context, x engine.SigningSecret, othersUntil time.Time) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.AddSigningSecret(ctx, x, othersUntil)
}

func (s *Store) SigningSecrets(ctx context.Context, t tenant.ID) (_ []engine.SigningSecret, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.SigningSecrets(ctx, t)
}

func (s *Store) DeleteSigningSecret(ctx context.Context, t tenant.ID, id string) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.DeleteSigningSecret(ctx, t, id)
}

func (s *Store) SeedSigningSecret(ctx context.Context, x engine.SigningSecret) (_ bool, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.SeedSigningSecret(ctx, x)
}

func (s *Store) ShowSigningSecret(ctx context.Context, t tenant.ID, id, prefix string) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.ShowSigningSecret(ctx, t, id, prefix)
}

func (s *Store) ResealSigningSecret(ctx context.Context, x engine.SigningSecret, was []byte) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.ResealSigningSecret(ctx, x, was)
}

func (s *Store) Share(ctx context.Context, name string, value []byte) (_ []byte, err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Share(ctx, name, value)
}

func (s *Store) Reshare(ctx context.Context, name string, was, value []byte) (err error) {
	defer s.begin(&ctx, opSettings).end(&err)
	return s.Store.Reshare(ctx, name, was, value)
}

func (s *Store) KeepMinutes(ctx context.Context, x engine.ServerID, ms []engine.Minute) (err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.KeepMinutes(ctx, x, ms)
}

func (s *Store) Minutes(ctx context.Context, from time.Time) (_ []engine.Minute, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Minutes(ctx, from)
}

func (s *Store) Census(ctx context.Context, overdue time.Time) (_ engine.Census, err error) {
	defer s.begin(&ctx, opFind).end(&err)
	return s.Store.Census(ctx, overdue)
}

func (s *Store) KeepTraces(ctx context.Context, ts []engine.Trace) (err error) {
	defer s.begin(&ctx, opTrace).end(&err)
	return s.Store.KeepTraces(ctx, ts)
}

func (s *Store) Traces(ctx context.Context, ids [][16]byte) (_ []engine.Trace, err error) {
	defer s.begin(&ctx, opTrace).end(&err)
	return s.Store.Traces(ctx, ids)
}

func (s *Store) Tidy(ctx context.Context) (_ bool, err error) {
	defer s.begin(&ctx, opUpkeep).end(&err)
	return s.Store.Tidy(ctx)
}
