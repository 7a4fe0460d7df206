package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func one[T any](t *testing.T, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestAStepWithAnotherTextIsNotOurs(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	exec(t, c, "INSERT INTO carillon_migrations (version, name, sum, oldest) VALUES (9999, 'of a newer version', 'x', 1)")
	if err := s.Migrate(t.Context()); err != nil {
		t.Errorf("beside a newer version: %v", err)
	}
	exec(t, c, "UPDATE carillon_migrations SET oldest = 9999 WHERE version = 9999")
	for name, err := range map[string]error{"migrate": s.Migrate(t.Context()), "check": s.CheckSchema(t.Context()), "ping": s.Ping(t.Context())} {
		if !errors.Is(err, engine.ErrSchema) || !strings.Contains(err.Error(), "of a newer version") {
			t.Errorf("%s on a newer database: %v", name, err)
		}
	}
	exec(t, c, "DELETE FROM carillon_migrations WHERE version = 9999")
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("it is not ready again: %v", err)
	}
	exec(t, c, "UPDATE carillon_migrations SET sum = 'x' WHERE version = 1")
	if err := s.Migrate(t.Context()); !errors.Is(err, engine.ErrSchema) {
		t.Errorf("got %v, want ErrSchema", err)
	}
}

func TestTheTablesLieInTheSchemaOfTheConnection(t *testing.T) {
	t.Parallel()
	base, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Open(t.Context(), Config{URL: base.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := plain.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := direct(t, plain)
	exec(t, c, "CREATE SCHEMA apart")
	q := base.Query()
	q.Set("search_path", "apart")
	base.RawQuery = q.Encode()
	s, err := Open(t.Context(), Config{URL: base.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	as := leaseMany(t, s, 1)
	must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{success(as[0])}))
	if a, b := one[int](t, c, "SELECT count(*) FROM apart.executions"), one[int](t, c, "SELECT count(*) FROM public.executions"); a != 1 || b != 0 {
		t.Errorf("%d executions there and %d in public, want 1 and 0", a, b)
	}
}

const days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'executions'::regclass"

func dropDays(t *testing.T, c *pgx.Conn) {
	t.Helper()
	rows, _ := c.Query(t.Context(), "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'executions'::regclass")
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		exec(t, c, "DROP TABLE "+name)
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	if got := one[int](t, c, days); got != daysAhead+1 {
		t.Errorf("migrating made %d days", got)
	}
	if name := one[string](t, c, "SELECT to_char(now() AT TIME ZONE 'UTC', '\"executions_\"YYYYMMDD')"); one[bool](t, c, "SELECT to_regclass($1) IS NULL", name) {
		t.Errorf("there is no table %s", name)
	}
	dropDays(t, c)
	must[bool](t)(s.Tidy(t.Context()))
	if got := one[int](t, c, days); got != daysAhead+1 {
		t.Errorf("tidying made %d days", got)
	}
	as := leaseMany(t, s, 2)
	dropDays(t, c)
	vs := must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{success(as[0]), failure(as[1])}))
	if !vs[0].Accepted || !vs[1].Accepted {
		t.Errorf("without today's table: %+v", vs)
	}
	dropDays(t, c)
	if got := must[engine.Deleted](t)(s.DeleteJob(t.Context(), tenant.Default, engine.Deletion{Job: as[1].Job, AsOf: as[1].LeasedAt})); got.State != job.Deleted {
		t.Errorf("without today's table the job is %v", got.State)
	}
	if got := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[1].Execution)); got.Status != job.Cancelled || got.Token != as[1].Token {
		t.Errorf("what waited is %v under %d", got.Status, got.Token)
	}
}

// A lease that commits while its session is being deposed is found by the next pass.
func TestReapIsLevelTriggered(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 5)
	store(t, s, c)
	w := session(t, s, time.Hour)
	must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: w, Executions: ids(c)}}, engine.Fence{}))
	exec(t, direct(t, s), "UPDATE sessions SET deposed = true WHERE id = $1", [16]byte(w))
	if rs := must[engine.Reaped](t)(s.Reap(t.Context(), 10, 0)).Ready; len(rs) != 5 {
		t.Errorf("%d came back, want 5", len(rs))
	}
	past := must[[]job.PastAttempt](t)(s.Attempts(t.Context(), tenant.Default, c.Executions[0].ID))
	if len(past) != 1 || !strings.Contains(past[0].Error.Message, w.String()) || !strings.Contains(past[0].Error.Message, "host-7") {
		t.Errorf("attempts: %+v", past)
	}
}

func TestReapGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 6)
	store(t, s, c)
	w := session(t, s, time.Hour)
	for _, id := range ids(c) {
		must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: w, Executions: []job.ExecutionID{id}}}, engine.Fence{}))
	}
	must[engine.Orders](t)(s.Renew(t.Context(), []engine.Renewal{{Worker: w}}, -time.Second))
	for pass, want := range []int{4, 2, 0} {
		if rs := must[engine.Reaped](t)(s.Reap(t.Context(), 4, 0)).Ready; len(rs) != want {
			t.Errorf("pass %d: %d came back, want %d", pass, len(rs), want)
		}
	}
}

func TestTidyShrinksTheDirectory(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	gone, most, held := leaseMany(t, s, 3), leaseMany(t, s, 10), leaseMany(t, s, 3)
	var fs []job.Finish
	for _, a := range append(gone, most[1:]...) {
		fs = append(fs, success(a))
	}
	must[[]job.Verdict](t)(s.Finish(t.Context(), fs))
	must[bool](t)(s.Tidy(t.Context()))
	if got := one[int](t, c, "SELECT count(*) FROM leases"); got != 3 {
		t.Errorf("%d rows after a first pass, want 3: they are young", got)
	}
	exec(t, c, "UPDATE leases SET at = at - interval '2 minutes'")
	must[bool](t)(s.Tidy(t.Context()))
	size := func(a job.Attempt) int {
		return one[int](t, c, "SELECT coalesce((SELECT cardinality(ids) FROM leases WHERE lease = $1), 0)", int64(a.Token))
	}
	if a, b, h := size(gone[0]), size(most[0]), size(held[0]); a != 0 || b != 1 || h != 3 {
		t.Errorf("left %d, %d and %d, want 0, 1 and 3", a, b, h)
	}
	if rs := must[engine.Requeued](t)(s.Leave(t.Context(), one[[16]byte](t, c, "SELECT worker FROM leases WHERE lease = $1", int64(most[0].Token)))).Ready; len(rs) != 1 {
		t.Errorf("%d came back from the shrunk row, want 1", len(rs))
	}
}

func TestTidyDropsWhatHasExpired(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	now := must[time.Time](t)(s.Now(t.Context()))
	for i, until := range []time.Time{now.Add(-time.Hour), now.Add(time.Hour)} {
		x := creation(t, s, 1)
		x.Idempotency = engine.Idempotency{Key: fmt.Sprint(i), Until: until}
		store(t, s, x)
	}
	old, holds, young, alive := session(t, s, time.Hour), session(t, s, time.Hour), session(t, s, time.Hour), session(t, s, time.Hour)
	x := creation(t, s, 1)
	store(t, s, x)
	must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: holds, Executions: ids(x)}}, engine.Fence{}))
	exec(t, c, "UPDATE sessions SET deposed = true WHERE id <> $1", [16]byte(alive))
	exec(t, c, "UPDATE sessions SET expires_at = now() - interval '2 hours' WHERE id = ANY ($1)", [][16]byte{old, holds})
	if more := must[bool](t)(s.Tidy(t.Context())); more {
		t.Error("more is left")
	}
	if got := one[string](t, c, "SELECT string_agg(key, ',') FROM idempotency"); got != "1" {
		t.Errorf("idempotency keys left: %s", got)
	}
	for w, want := range map[job.WorkerID]bool{old: false, holds: true, young: true, alive: true} {
		if got := one[bool](t, c, "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = $1)", [16]byte(w)); got != want {
			t.Errorf("a session is kept: %v, want %v", got, want)
		}
	}
}

// Only losses of the last hour are counted, and none if there is no limit.
func TestPoison(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 2)
	store(t, s, c)
	lose := func(poison int, id job.ExecutionID) int {
		t.Helper()
		w := session(t, s, time.Hour)
		if as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: w, Executions: []job.ExecutionID{id}}}, engine.Fence{})); len(as) != 1 {
			t.Fatal("not leased")
		}
		must[engine.Orders](t)(s.Renew(t.Context(), []engine.Renewal{{Worker: w}}, -time.Second))
		return len(must[engine.Reaped](t)(s.Reap(t.Context(), 10, poison)).Ready)
	}
	for n := range 5 {
		if lose(0, c.Executions[0].ID) != 1 {
			t.Errorf("without a limit it ended at loss %d", n+1)
		}
	}
	old := c.Executions[1].ID
	lose(2, old)
	exec(t, direct(t, s), "UPDATE attempts SET ended_at = ended_at - interval '61 minutes' WHERE execution = $1", [16]byte(old))
	if lose(2, old) != 1 {
		t.Error("a loss of more than an hour ago counted")
	}
	if lose(2, old) != 0 {
		t.Error("the second within the hour did not end it")
	}
	got := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, old))
	if got.Status != job.Failed || got.Lost != 3 || got.Error == nil || *got.Error != (job.Error{Type: job.Poison, Message: "lost 2 workers within an hour"}) {
		t.Errorf("it is %v: %+v", got.Status, got.Error)
	}
	if n := len(must[[]job.PastAttempt](t)(s.Attempts(t.Context(), tenant.Default, old))); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

func TestTidyEndsWhatADeletionLeftBehind(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 3)
	store(t, s, c)
	d := direct(t, s)
	manual(t, s, c.Executions[0])
	runs := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: ids(c)[1:2]}}, engine.Fence{}))
	exec(t, d, "UPDATE jobs SET state = 4 WHERE id <> $1", [16]byte(c.Jobs[2].ID))
	if as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: ids(c)[:1]}}, engine.Fence{})); len(as) != 0 {
		t.Error("what is of a deleted job was leased")
	}
	must[bool](t)(s.Tidy(t.Context()))
	for i, want := range []job.Status{job.Cancelled, job.Running, job.Pending} {
		if got := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, c.Executions[i].ID)); got.Status != want {
			t.Errorf("%d is %v, want %v", i, got.Status, want)
		}
	}
	if got := must[[]job.Stats](t)(s.Stats(t.Context(), tenant.Default, []job.ID{c.Jobs[0].ID})); got[0].Total != 2 || got[0].LastStatus != job.Cancelled {
		t.Errorf("statistics: %+v", got)
	}
	dropDays(t, d)
	if rs := must[engine.Requeued](t)(s.Release(t.Context(), job.WorkerID{}, []job.Lease{runs[0].Lease})).Ready; len(rs) != 0 {
		t.Errorf("%d came back", len(rs))
	}
}

// Where so many jobs of others are late that not all are looked at, none of mine is no promise.
func TestLateJobsBehindThoseOfOthers(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	exec(t, direct(t, s), "INSERT INTO schedules (part, job, tenant, next_run_at, runs, active, revision) SELECT 0, gen_random_uuid(), 'herd', now() - interval '1 hour', 0, true, 1 FROM generate_series(1, $1::int)", lateEach-1)
	for _, want := range []bool{false, true} {
		got, err := s.LateJobs(t.Context(), "mine", time.Now(), 10)
		if err != nil || got.Total != (engine.Total{Estimate: want}) || len(got.Jobs) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		exec(t, direct(t, s), "INSERT INTO schedules (part, job, tenant, next_run_at, runs, active, revision) VALUES (0, gen_random_uuid(), 'herd', now() - interval '1 hour', 0, true, 1)")
	}
}

// Tables of past days go when they are empty, even to a role that owns none, and never those that have rows.
func TestEmptyDaysAreDropped(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	as := leaseMany(t, s, 2)
	must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{success(as[0]), success(as[1])}))
	for _, ago := range []int{2, 3, 20} {
		exec(t, c, "SELECT carillon_make_day((now() AT TIME ZONE 'UTC')::date - $1::int)", ago)
	}
	exec(t, c, "UPDATE executions SET finished_at = finished_at - interval '3 days' WHERE id = $1", [16]byte(as[0].Execution))
	// Somebody reads the table meanwhile: nothing waits, and it goes later.
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM executions"); err != nil {
		t.Fatal(err)
	}
	must[bool](t)(s.Tidy(t.Context()))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// One that had rows goes only after vacuum.
	exec(t, c, "INSERT INTO executions SELECT (e).* FROM (SELECT jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid(), 'finished_at', now() - interval '20 days')) AS e FROM executions e LIMIT 1) x")
	exec(t, c, "DELETE FROM executions WHERE finished_at < now() - interval '19 days'")
	if got := one[int](t, c, days); got != daysAhead+1+3 {
		t.Errorf("%d days while one is read", got)
	}
	must[bool](t)(s.Tidy(t.Context()))
	if got := one[int](t, c, days); got != daysAhead+1+2 {
		t.Errorf("%d days are left before vacuum", got)
	}
	exec(t, c, "VACUUM (TRUNCATE) executions")
	must[bool](t)(s.Tidy(t.Context()))
	if got := one[int](t, c, days); got != daysAhead+1+1 {
		t.Errorf("%d days are left", got)
	}
	if _, err := s.Execution(t.Context(), tenant.Default, as[0].Execution); err != nil {
		t.Errorf("the execution of a past day: %v", err)
	}
	if one[bool](t, c, "SELECT carillon_drop_day((now() AT TIME ZONE 'UTC')::date)") {
		t.Error("today is dropped")
	}
}
