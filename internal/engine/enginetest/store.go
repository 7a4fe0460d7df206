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
	"github.com/carillon-jobs/carillon/internal/watchdog"
)

// Harness gives the suite access to an engine.
type Harness struct {
	// New makes a fresh, empty database and names it; it is removed at the test's end.
	New func(t testing.TB) string
	// Migrated makes one that already has its schema, faster than by running every migration; nil: not supported.
	Migrated func(t testing.TB) string
	// Open opens the named database without migrating it. The suite closes it.
	Open func(ctx context.Context, where string) (engine.Store, error)
	// Guest means that a store returned by Open cannot create a schema, and that New makes databases that have one.
	Guest bool
	// Shared means that several stores may be open over one database.
	Shared bool
	// Only names the groups of the suite to run; nil: all.
	Only []string
	// Behind makes decisions about the runs of a store by what was read in a transaction before the one that commits them; between is called
	// between the two.
	Behind func(s engine.Store, between func()) engine.Runs
	// AgeSeals makes the seals of the audit log in the named database, which is open, so much older.
	AgeSeals func(t testing.TB, where string, by time.Duration)
	// Rows counts the rows of every table of the named database, which is open.
	Rows func(t testing.TB, where string) map[string]int64
}

// Store runs the whole suite on an engine, with groups in parallel: each case has its own database.
func Store(t *testing.T, h Harness) {
	for _, g := range groups() {
		if g.name == "schema" && h.Guest || h.Only != nil && !slices.Contains(h.Only, g.name) {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.test(t, h)
		})
	}
	for _, name := range h.Only {
		if !slices.ContainsFunc(groups(), func(g group) bool { return g.name == name }) {
			t.Errorf("the suite has no group %q", name)
		}
	}
}

// longForGuests skips a long case without statements of its own: the short run covers it as the tables' owner.
func longForGuests(t *testing.T, h Harness) {
	t.Helper()
	if h.Guest && testing.Short() {
		t.Skip("make test-all runs it: it takes long")
	}
}

// group is a part of the suite.
type group struct {
	name string
	test func(t *testing.T, h Harness)
}

func groups() []group {
	return []group{
		{"schema", schema},
		{"create", create},
		{"idempotency", idempotency},
		{"find jobs", findJobs},
		{"find jobs by owner", findJobsByOwner},
		{"find jobs that are late", findJobsThatAreLate},
		{"manual jobs", manualJobs},
		{"inline jobs", inlineJobs},
		{"workflow runs", workflowRuns},
		{"acts on runs once", actsOnce},
		{"answers once", answersOnce},
		{"events once", eventsOnce},
		{"edges", edges},
		{"delete", deletion},
		{"stats", stats},
		{"stats of many", statsOfMany},
		{"trigger", trigger},
		{"fire", fire},
		{"due", due},
		{"overlap", overlap},
		{"runs", runs},
		{"overlapping", overlapping},
		{"update", update},
		{"calendars", calendars},
		{"notices", notices},
		{"who uses a calendar", calendarUsers},
		{"backfill", backfill},
		{"plan anew", planAnew},
		{"secrets", secrets},
		{"reaches", reaches},
		{"queue", queue},
		{"lease", lease},
		{"leased", leased},
		{"finish", finish},
		{"every attempt", everyAttempt},
		{"hand back", handBack},
		{"reap", reaping},
		{"cancel", cancel},
		{"workers", workers},
		{"dead letters", deadLetters},
		{"groups", concurrencyGroups},
		{"unique keys", uniqueKeys},
		{"expiry", expiry},
		{"overrun", overrun},
		{"snooze", snooze},
		{"drain", drain},
		{"events", events},
		{"automatic redrive", autoRedrive},
		{"operations", operations},
		{"tenants and limits", limits},
		{"pauses of queues", pauses},
		{"pauses of jobs", jobPauses},
		{"settling", settling},
		{"cordons of workers", cordons},
		{"buckets", buckets},
		{"one key, several rates", keyRates},
		{"quotas", quotas},
		{"audit", auditLog},
		{"owners", owners},
		{"executions", executions},
		{"search", search},
		{"counts", counts},
		{"sizes", sizes},
		{"traces", traces},
		{"tallies", tallies},
		{"glances", glances},
		{"revisions", revisions},
		{"forgetting", forgetting},
		{"own retentions", ownRetentions},
		{"archive", archived},
		{"archive beside dead letters", archivedBesideDeadLetters},
		{"archive beside holds", archivedBesideHolds},
		{"archive and jobs", archivedKeepJobs},
		{"archive sums", archivedSums},
		{"logs", logs},
		{"keys", keys},
		{"sign-ins", signIns},
		{"badges", badges},
		{"blobs", blobs},
		{"workflows", workflows},
		{"lists of sign-ins", signInLists},
		{"park", park},
		{"signing secrets", signingSecrets},
		{"faults", faults},
	}
}

// fixture is a migrated store with shorthands; calls that must not fail end the test if they do.
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
	watchdog.Watch(t)
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

// must is for calls that fail only if the engine is broken: there is no point in continuing.
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

// due returns an execution of the job that may start at once.
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

// rerunOf returns a new execution of a finished one.
func (f fixture) rerunOf(e job.Execution, by job.Trigger) job.Execution {
	f.Helper()
	j := job.Job{ID: e.Job, Tenant: e.Tenant, Definition: job.Definition{Name: e.JobName, Target: job.Target{Kind: job.HTTP}, Queue: job.DefaultQueue}}
	return j.Rerun(e, newID(), by, nil, f.now())
}

// add stores one job with one due execution, which is its only fire and has its id.
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

// expire lets a session expire.
func (f fixture) expire(w job.WorkerID) {
	f.Helper()
	must(f.Renew(f.ctx, []engine.Renewal{{Worker: w}}, -time.Second))
}

// take leases the executions for a new worker and requires all of them.
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

// accepted reports whether all verdicts are, with the given ends of executions in place of the finishes' own.
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
