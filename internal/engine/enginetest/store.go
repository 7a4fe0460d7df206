package enginetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Harness is how the suite gets at an engine.
type Harness struct {
	// New makes a fresh, empty database and names it; it is gone at the test's end.
	New func(t testing.TB) string
	// Migrated makes one that has its schema already, faster than by running every migration; nil: there is no such way.
	Migrated func(t testing.TB) string
	// Open opens the named database, without migrating it. The suite closes it.
	Open func(ctx context.Context, where string) (engine.Store, error)
	// Guest says that what Open opens cannot make a schema, and that New makes databases that have one.
	Guest bool
	// Shared says that several stores may be open over one database.
	Shared bool
	// AgeSeals makes the seals of the audit log in the named database, which is open, so much older.
	AgeSeals func(t testing.TB, where string, by time.Duration)
}

// Store runs the whole suite on an engine.
func Store(t *testing.T, h Harness) {
	if !h.Guest {
		t.Run("schema", func(t *testing.T) { schema(t, h) })
	}
	t.Run("create", func(t *testing.T) { create(t, h) })
	t.Run("idempotency", func(t *testing.T) { idempotency(t, h) })
	t.Run("find jobs", func(t *testing.T) { findJobs(t, h) })
	t.Run("find jobs by owner", func(t *testing.T) { findJobsByOwner(t, h) })
	t.Run("find jobs that are late", func(t *testing.T) { findJobsThatAreLate(t, h) })
	t.Run("delete", func(t *testing.T) { deletion(t, h) })
	t.Run("stats", func(t *testing.T) { stats(t, h) })
	t.Run("stats of many", func(t *testing.T) { statsOfMany(t, h) })
	t.Run("trigger", func(t *testing.T) { trigger(t, h) })
	t.Run("fire", func(t *testing.T) { fire(t, h) })
	t.Run("due", func(t *testing.T) { due(t, h) })
	t.Run("overlap", func(t *testing.T) { overlap(t, h) })
	t.Run("runs", func(t *testing.T) { runs(t, h) })
	t.Run("overlapping", func(t *testing.T) { overlapping(t, h) })
	t.Run("update", func(t *testing.T) { update(t, h) })
	t.Run("calendars", func(t *testing.T) { calendars(t, h) })
	t.Run("notices", func(t *testing.T) { notices(t, h) })
	t.Run("who uses a calendar", func(t *testing.T) { calendarUsers(t, h) })
	t.Run("backfill", func(t *testing.T) { backfill(t, h) })
	t.Run("plan anew", func(t *testing.T) { planAnew(t, h) })
	t.Run("secrets", func(t *testing.T) { secrets(t, h) })
	t.Run("reaches", func(t *testing.T) { reaches(t, h) })
	t.Run("queue", func(t *testing.T) { queue(t, h) })
	t.Run("lease", func(t *testing.T) { lease(t, h) })
	t.Run("finish", func(t *testing.T) { finish(t, h) })
	t.Run("every attempt", func(t *testing.T) { everyAttempt(t, h) })
	t.Run("hand back", func(t *testing.T) { handBack(t, h) })
	t.Run("reap", func(t *testing.T) { reaping(t, h) })
	t.Run("cancel", func(t *testing.T) { cancel(t, h) })
	t.Run("workers", func(t *testing.T) { workers(t, h) })
	t.Run("dead letters", func(t *testing.T) { deadLetters(t, h) })
	t.Run("groups", func(t *testing.T) { groups(t, h) })
	t.Run("unique keys", func(t *testing.T) { uniqueKeys(t, h) })
	t.Run("expiry", func(t *testing.T) { expiry(t, h) })
	t.Run("overrun", func(t *testing.T) { overrun(t, h) })
	t.Run("snooze", func(t *testing.T) { snooze(t, h) })
	t.Run("drain", func(t *testing.T) { drain(t, h) })
	t.Run("events", func(t *testing.T) { events(t, h) })
	t.Run("automatic redrive", func(t *testing.T) { autoRedrive(t, h) })
	t.Run("operations", func(t *testing.T) { operations(t, h) })
	t.Run("tenants and limits", func(t *testing.T) { limits(t, h) })
	t.Run("pauses of queues", func(t *testing.T) { pauses(t, h) })
	t.Run("pauses of jobs", func(t *testing.T) { jobPauses(t, h) })
	t.Run("cordons of workers", func(t *testing.T) { cordons(t, h) })
	t.Run("buckets", func(t *testing.T) { buckets(t, h) })
	t.Run("quotas", func(t *testing.T) { quotas(t, h) })
	t.Run("audit", func(t *testing.T) { auditLog(t, h) })
	t.Run("owners", func(t *testing.T) { owners(t, h) })
	t.Run("executions", func(t *testing.T) { executions(t, h) })
	t.Run("search", func(t *testing.T) { search(t, h) })
	t.Run("counts", func(t *testing.T) { counts(t, h) })
	t.Run("sizes", func(t *testing.T) { sizes(t, h) })
	t.Run("traces", func(t *testing.T) { traces(t, h) })
	t.Run("tallies", func(t *testing.T) { tallies(t, h) })
	t.Run("glances", func(t *testing.T) { glances(t, h) })
	t.Run("revisions", func(t *testing.T) { revisions(t, h) })
	t.Run("forgetting", func(t *testing.T) { forgetting(t, h) })
	t.Run("logs", func(t *testing.T) { logs(t, h) })
	t.Run("keys", func(t *testing.T) { keys(t, h) })
	t.Run("sign-ins", func(t *testing.T) { signIns(t, h) })
	t.Run("badges", func(t *testing.T) { badges(t, h) })
	t.Run("lists of sign-ins", func(t *testing.T) { signInLists(t, h) })
	t.Run("park", func(t *testing.T) { park(t, h) })
	t.Run("signing secrets", func(t *testing.T) { signingSecrets(t, h) })
	t.Run("faults", func(t *testing.T) { faults(t, h) })
}

// fixture is a migrated store with shorthands; a call that must not fail ends the test if it does.
type fixture struct {
	testing.TB
	engine.Store
	ctx   context.Context
	where string
}

func open(t testing.TB, h Harness) fixture {
	t.Helper()
	fresh := h.New
	if h.Migrated != nil {
		fresh = h.Migrated
	}
	return reopen(t, h, fresh(t))
}

func reopen(t testing.TB, h Harness, where string) fixture {
	t.Helper()
	s, err := h.Open(t.Context(), where)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return fixture{TB: t, Store: s, ctx: t.Context(), where: where}
}

// must is for calls that fail only if the engine is broken: there is nothing to go on with then.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

func (f fixture) now() time.Time {
	f.Helper()
	return must(f.Store.Now(f.ctx)).UTC().Truncate(time.Microsecond)
}

// sample is a job with something in every field.
func (f fixture) sample(name string) job.Job {
	f.Helper()
	now := f.now()
	return job.Job{
		ID: newID(), Tenant: tenant.Default,
		Definition: job.Definition{
			Name: name, Description: "what it is for: ünïcode ✓", Schedule: job.Schedule{Type: job.Immediate},
			Target: job.Target{
				Kind: job.HTTP, URL: "https://example.com/hook?a=b", Method: "PUT", Headers: map[string]string{"X-A": "b"},
				Timeout: 90 * time.Second, ExpectStatus: []int{200, 204}, ExpectBody: "ok", FollowRedirects: true,
			},
			Payload:  []byte(`{"n":12345678901234567890,"s":"a b"}`),
			Retry:    job.RetryPolicy{MaxRetries: 2, Backoff: job.Linear, InitialDelay: time.Second, MaxDelay: time.Minute},
			Priority: 5, Queue: "slow", Labels: []string{"eu", "gpu"}, Tags: []string{"a", "b c"}, Owner: "team", Runbook: "https://example.com/runbook",
		},
		State: job.Active, CreatedAt: now, UpdatedAt: now, Revision: 1,
	}
}

// due is an execution of the job that may start at once.
func (f fixture) due(j job.Job) job.Execution {
	f.Helper()
	now, by := f.now(), job.BySchedule
	if j.Schedule.Type == job.Immediate {
		by = job.ByAPI
	}
	return job.Execution{
		ID: newID(), Job: j.ID, JobName: j.Name, Tenant: j.Tenant, Status: job.Pending, Trigger: by,
		ScheduledAt: now, DueAt: now, MaxAttempts: j.Retry.MaxRetries + 1, Priority: j.Priority, Partition: job.PartitionOf(j.ID), Class: j.Class(),
	}
}

// rerunOf is a new execution of a finished one.
func (f fixture) rerunOf(e job.Execution, by job.Trigger) job.Execution {
	f.Helper()
	j := job.Job{ID: e.Job, Tenant: e.Tenant, Definition: job.Definition{Name: e.JobName, Target: job.Target{Kind: job.HTTP}, Queue: job.DefaultQueue}}
	return j.Rerun(e, newID(), by, nil, f.now())
}

// add stores one job with one due execution, its own fire, which has its id.
func (f fixture) add(name string, change ...func(*job.Job, *job.Execution)) (job.Job, job.Execution) {
	f.Helper()
	j := f.sample(name)
	e := f.due(j)
	e.ID = job.ExecutionID(j.ID)
	for _, c := range change {
		c(&j, &e)
	}
	f.store(engine.Creation{Tenant: j.Tenant, Jobs: []job.Job{j}, Executions: []job.Execution{e}})
	return j, e
}

func (f fixture) store(c engine.Creation) {
	f.Helper()
	got := must(f.CreateJobs(f.ctx, []engine.Creation{c}))
	if len(got) != 1 || got[0].Replay != nil || got[0].Reused || got[0].Taken != "" || got[0].Unique != nil {
		f.Fatalf("create: got %+v, want it stored", got)
	}
}

// worker registers a session that lives for an hour.
func (f fixture) worker() job.WorkerID {
	f.Helper()
	w := job.Worker{ID: newID(), Host: "host", Version: "v", Capacity: 10, StartedAt: f.now()}
	if err := f.Register(f.ctx, w, time.Hour); err != nil {
		f.Fatal(err)
	}
	return w.ID
}

// expire lets a session run out.
func (f fixture) expire(w job.WorkerID) {
	f.Helper()
	must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, -time.Second))
}

// take leases the executions for a new worker and wants all of them.
func (f fixture) take(ids ...job.ExecutionID) (job.WorkerID, []job.Attempt) {
	f.Helper()
	w := f.worker()
	as := must(f.Lease(f.ctx, []engine.Grant{{Worker: w, Executions: ids}}, engine.Fence{}))
	if len(as) != len(ids) {
		f.Fatalf("leased %d of %d", len(as), len(ids))
	}
	return w, as
}

func (f fixture) execution(id job.ExecutionID) job.Execution {
	f.Helper()
	e, err := f.Execution(f.ctx, tenant.Default, id)
	if err != nil {
		f.Fatalf("execution %s: %v", id, err)
	}
	return e
}

// end reports one success.
func succeed(a job.Attempt) job.Finish {
	return job.Finish{
		Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded, Result: []byte(`{"ok":true}`)},
		Then:    job.Transition{Move: job.Done, Status: job.Succeeded},
	}
}

var boom = &job.Error{Type: job.HTTPError, Message: "answered 503", HTTPStatus: 503}

func again(a job.Attempt, at time.Time, tries int) job.Finish {
	return job.Finish{
		Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: boom, Retryable: true},
		Then:    job.Transition{Move: job.Again, Status: job.Retrying, DueAt: at, Tries: tries},
	}
}

func die(a job.Attempt, tries int) job.Finish {
	return job.Finish{
		Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: boom, Response: &job.Response{HTTPStatus: 503, BodyPreview: "sorry"}},
		Then:    job.Transition{Move: job.Died, Status: job.Failed, Tries: tries},
	}
}

// accepted reports whether all of the verdicts are, and say that executions ended so, in place of what the finishes meant.
func accepted(vs []job.Verdict, ended ...job.Status) bool {
	return len(vs) == len(ended) && !slices.ContainsFunc(vs, func(v job.Verdict) bool { return !v.Accepted }) &&
		slices.EqualFunc(vs, ended, func(v job.Verdict, s job.Status) bool { return v.Ended == s })
}

func (f fixture) report(fs ...job.Finish) []job.Verdict {
	f.Helper()
	vs := must(f.Finish(f.ctx, fs))
	if len(vs) != len(fs) {
		f.Fatalf("finish: %d verdicts for %d", len(vs), len(fs))
	}
	for i, v := range vs {
		if v.Execution != fs[i].Outcome.Execution {
			f.Fatalf("finish: verdict %d is of another execution", i)
		}
	}
	return vs
}
