package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// newID makes an id that has not, by chance, the mark of those that may be in bundles: how many rows of the directory there
// are, and which statements run, depends on it.
func newID() [16]byte {
	id := uuid.Must(uuid.NewV7())
	id[9] &^= 1
	return [16]byte(id)
}

// creation is one request for n jobs, each with an execution that is due.
func creation(t testing.TB, s *Store, n int) engine.Creation {
	t.Helper()
	now := must[time.Time](t)(s.Now(t.Context()))
	c := engine.Creation{Tenant: tenant.Default}
	for i := range n {
		j := job.Job{
			ID: newID(), Tenant: tenant.Default, State: job.Active, CreatedAt: now, UpdatedAt: now, Revision: 1,
			Definition: job.Definition{
				Name: fmt.Sprint("job ", i), Schedule: job.Schedule{Type: job.Immediate}, Retry: job.DefaultRetry, Priority: 5,
				Target: job.Target{Kind: job.Simulate, WorkKind: "noop", Timeout: time.Minute}, Payload: []byte(`{"n":1}`),
			},
		}
		c.Jobs = append(c.Jobs, j)
		c.Executions = append(c.Executions, job.Execution{
			ID: job.ExecutionID(j.ID), Job: j.ID, Tenant: tenant.Default, Status: job.Pending, Trigger: job.ByAPI, ScheduledAt: now, DueAt: now,
			MaxAttempts: 4, Priority: 5, Partition: job.PartitionOf(j.ID), Class: j.Class(),
		})
	}
	return c
}

func store(t testing.TB, s *Store, cs ...engine.Creation) []engine.Created {
	t.Helper()
	return must[[]engine.Created](t)(s.CreateJobs(t.Context(), cs))
}

func ids(c engine.Creation) []job.ExecutionID {
	var out []job.ExecutionID
	for _, e := range c.Executions {
		out = append(out, e.ID)
	}
	return out
}

func session(t testing.TB, s *Store, ttl time.Duration) job.WorkerID {
	t.Helper()
	w := job.Worker{ID: newID(), Host: "host-7", Version: "v", Capacity: 10, StartedAt: must[time.Time](t)(s.Now(t.Context()))}
	if err := s.Register(t.Context(), w, ttl); err != nil {
		t.Fatal(err)
	}
	return w.ID
}

func leaseMany(t testing.TB, s *Store, n int) []job.Attempt {
	t.Helper()
	c := creation(t, s, n)
	store(t, s, c)
	as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: ids(c)}}, engine.Fence{}))
	if len(as) != n {
		t.Fatalf("leased %d of %d", len(as), n)
	}
	return as
}

func release(t testing.TB, s *Store, as []job.Attempt) {
	t.Helper()
	var ls []job.Lease
	for _, a := range as {
		ls = append(ls, a.Lease)
	}
	if rs := must[engine.Requeued](t)(s.Release(t.Context(), job.WorkerID{}, ls)).Ready; len(rs) != len(as) {
		t.Fatalf("released %d of %d", len(rs), len(as))
	}
}

func success(a job.Attempt) job.Finish {
	return job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Move: job.Done, Status: job.Succeeded}}
}

func failure(a job.Attempt) job.Finish {
	return job.Finish{
		Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeFailed, Error: &job.Error{Type: job.HandlerError, Message: "no"}},
		Then:    job.Transition{Move: job.Again, Status: job.Retrying, DueAt: a.LeasedAt, Tries: 1},
	}
}

// The same call again comes to the same end, also where the execution has ended meanwhile.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for _, n := range []int{1, copyFrom + 10} {
		c := creation(t, s, n)
		c.Jobs[0].Key = fmt.Sprint("key-", n)
		store(t, s, c)
		as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: ids(c)}}, engine.Fence{}))
		must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{success(as[0])}))
		other := creation(t, s, 1)
		got := store(t, s, other, c)
		if got[0].Taken != "" || got[1].Taken != "" || got[1].Replay != nil {
			t.Errorf("%d jobs: got %+v, want both stored", n, got)
		}
		if e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, c.Executions[0].ID)); e.Status != job.Succeeded {
			t.Errorf("%d jobs: what had ended is %v", n, e.Status)
		}
		var live int
		if err := direct(t, s).QueryRow(t.Context(), "SELECT count(*) FROM live WHERE id = $1", [16]byte(c.Executions[0].ID)).Scan(&live); err != nil || live != 0 {
			t.Errorf("%d jobs: what had ended is live again (%v)", n, err)
		}
		if _, err := s.Job(t.Context(), tenant.Default, engine.Ref{ID: other.Jobs[0].ID}); err != nil {
			t.Errorf("%d jobs: the one beside it: %v", n, err)
		}
	}
}

func TestTriggerAgain(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 1)
	store(t, s, c)
	e := c.Executions[0]
	e.ID, e.Trigger = newID(), job.ByHand
	for range 2 {
		must[engine.Created](t)(s.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{}, nil))
	}
	as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: []job.ExecutionID{e.ID}}}, engine.Fence{}))
	must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{success(as[0])}))
	must[engine.Created](t)(s.Trigger(t.Context(), tenant.Default, e, engine.Idempotency{}, nil))
	if got := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, e.ID)); got.Status != job.Succeeded {
		t.Errorf("what had ended is %v", got.Status)
	}
}

// Both ways into a table store the same.
func TestTextsArriveWhole(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	want := []string{`a"b`, `c\d`, `{e,f}`, "ü ✓", "NULL", " g "}
	for _, n := range []int{1, copyFrom} {
		c := creation(t, s, n)
		c.Jobs[0].Tags, c.Jobs[0].Description, c.Jobs[0].Payload = want, "ünï", nil
		store(t, s, c)
		got := must[job.Job](t)(s.Job(t.Context(), tenant.Default, engine.Ref{ID: c.Jobs[0].ID}))
		if !slices.Equal(got.Tags, want) || got.Description != "ünï" || got.Payload != nil {
			t.Errorf("%d jobs: got %q, %q, %q", n, got.Tags, got.Description, got.Payload)
		}
		if p := must[engine.JobPage](t)(s.FindJobs(t.Context(), engine.JobFilter{Tenant: tenant.Default, Tag: `c\d`}, engine.Page{Limit: 9})); len(p.Jobs) == 0 {
			t.Errorf("%d jobs: not found by a tag", n)
		}
	}
}

func TestTotalsPastTheExactOnes(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	store(t, s, creation(t, s, engine.TotalExact))
	list := func() engine.Total {
		return must[engine.JobPage](t)(s.FindJobs(t.Context(), engine.JobFilter{Tenant: tenant.Default}, engine.Page{Limit: 1})).Total
	}
	if got := list(); got != (engine.Total{Count: engine.TotalExact}) {
		t.Errorf("got %+v", got)
	}
	store(t, s, creation(t, s, 500))
	if got := list(); !got.Estimate || got.Count <= engine.TotalExact {
		t.Errorf("got %+v, want an estimate", got)
	}
}

func TestNoLeaseWithoutItsJob(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 2)
	store(t, s, c)
	exec(t, direct(t, s), "DELETE FROM jobs WHERE id = $1", [16]byte(c.Jobs[0].ID))
	as := must[[]job.Attempt](t)(s.Lease(t.Context(), []engine.Grant{{Worker: session(t, s, time.Hour), Executions: ids(c)}}, engine.Fence{}))
	if len(as) != 1 || as[0].Job != c.Jobs[1].ID {
		t.Errorf("got %+v", as)
	}
}

func TestNoLeaseAcrossTenants(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 1)
	store(t, s, c)
	bound := job.Worker{ID: newID(), Tenant: "other", Host: "h", Version: "v", StartedAt: c.Jobs[0].CreatedAt}
	if err := s.Register(t.Context(), bound, time.Hour); err != nil {
		t.Fatal(err)
	}
	if as, err := s.Lease(t.Context(), []engine.Grant{{Worker: bound.ID, Executions: ids(c)}}, engine.Fence{}); err != nil || len(as) != 0 {
		t.Errorf("got %+v, %v; want nothing", as, err)
	}
}

// A token that no lease can have changes nothing, although a free row carries it as its last.
func TestTokensThatAreNone(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	as := leaseMany(t, s, 1)
	release(t, s, as)
	for _, token := range []job.Token{-as[0].Token, 0, -1} {
		a := as[0]
		a.Token = token
		for _, f := range []job.Finish{success(a), failure(a)} {
			if vs := must[[]job.Verdict](t)(s.Finish(t.Context(), []job.Finish{f})); vs[0].Accepted {
				t.Errorf("token %d was accepted", token)
			}
		}
		if rs := must[engine.Requeued](t)(s.Release(t.Context(), job.WorkerID{}, []job.Lease{a.Lease})).Ready; len(rs) != 0 {
			t.Errorf("token %d was released", token)
		}
	}
	if e := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, as[0].Execution)); e.Status != job.Pending || e.Token != as[0].Token {
		t.Errorf("it is %v under %d", e.Status, e.Token)
	}
}

func TestDeadlocksAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for _, c := range []struct{ fails, want int }{{2, 3}, {99, 4}} {
		tries := 0
		err := s.write(t.Context(), "test", func(context.Context, *pgxpool.Conn) error {
			if tries++; tries <= c.fails {
				return &pgconn.PgError{Code: deadlockDetected}
			}
			return nil
		})
		if tries != c.want || (err != nil) != (c.fails >= c.want) || err != nil && !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("%d failures: %d tries, %v", c.fails, tries, err)
		}
	}
}

func TestABrokenConnectionIsUnavailableAndHeals(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	err := s.write(t.Context(), "test", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
		return err
	})
	if !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if _, err := s.Now(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Now(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("cancelled: got %v", err)
	}
}

// A server that restarts ends every connection, and not one read fails for it.
func TestReadsOutliveTheirConnections(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 1)
	store(t, s, c)
	d := direct(t, s)
	reads := map[string]func() error{
		"job":   func() error { _, err := s.Job(t.Context(), tenant.Default, engine.Ref{ID: c.Jobs[0].ID}); return err },
		"lanes": func() error { _, err := s.Lanes(t.Context(), nil, 1000); return err },
		"ping":  func() error { return s.Ping(t.Context()) },
	}
	for name, read := range reads {
		var wg sync.WaitGroup
		for range 8 { // so that several connections are idle
			wg.Go(func() {
				if err := read(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		exec(t, d, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		for n := range 8 {
			if err := read(); err != nil {
				t.Errorf("%s: read %d after the end of all connections: %v", name, n, err)
			}
		}
	}
	tries := 0
	err := s.look(t.Context(), "test", func(context.Context, *pgxpool.Conn) error { tries++; return io.ErrUnexpectedEOF })
	if tries != 2 || !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a read that always fails: %d tries, %v", tries, err)
	}
	tries = 0
	err = s.write(t.Context(), "test", func(context.Context, *pgxpool.Conn) error { tries++; return io.ErrUnexpectedEOF })
	if tries != 1 || !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a write: %d tries, %v", tries, err)
	}
}

// Many clients lease, fail, hand back, lose and finish the same executions at
// random: each ends once, under its newest token.
func TestEveryExecutionEndsOnceUnderItsNewestToken(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := creation(t, s, 300)
	store(t, s, c)
	var mu sync.Mutex
	ended := map[job.ExecutionID][]job.Token{}
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ended) == len(c.Executions)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for client := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(client)))
			for !done() && ctx.Err() == nil {
				w := job.Worker{ID: newID(), Host: "h", Version: "v", StartedAt: c.Jobs[0].CreatedAt}
				if err := s.Register(ctx, w, time.Minute); err != nil {
					t.Errorf("register: %v", err)
					return
				}
				wanted := ids(c)
				rng.Shuffle(len(wanted), func(i, k int) { wanted[i], wanted[k] = wanted[k], wanted[i] })
				as, err := s.Lease(ctx, []engine.Grant{{Worker: w.ID, Executions: wanted[:40]}}, engine.Fence{})
				if errors.Is(err, engine.ErrUnavailable) {
					continue // the machine was too busy
				}
				if err != nil {
					t.Errorf("lease: %v", err)
					return
				}
				if rng.IntN(4) == 0 { // this one dies with what it holds, but does not know it
					_, err := s.Renew(ctx, []engine.Renewal{{Worker: w.ID}}, -time.Second)
					if err == nil {
						_, err = s.Reap(ctx, 100, 0)
					}
					if err != nil {
						t.Errorf("reap: %v", err)
					}
				}
				var fs []job.Finish
				for _, a := range as {
					if rng.IntN(3) == 0 {
						fs = append(fs, failure(a))
					} else {
						fs = append(fs, success(a))
					}
				}
				vs, err := s.Finish(ctx, fs)
				if err != nil {
					t.Errorf("finish: %v", err)
					return
				}
				mu.Lock()
				for i, v := range vs {
					if v.Accepted && fs[i].Then.Status.Final() {
						ended[v.Execution] = append(ended[v.Execution], fs[i].Outcome.Token)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, e := range c.Executions {
		got := must[job.Execution](t)(s.Execution(t.Context(), tenant.Default, e.ID))
		if tokens := ended[e.ID]; len(tokens) != 1 || got.Status != job.Succeeded || got.Token != tokens[0] {
			t.Errorf("ended under %v; it is %v under %d", tokens, got.Status, got.Token)
		}
		for _, a := range must[[]job.PastAttempt](t)(s.Attempts(t.Context(), tenant.Default, e.ID)) {
			if a.Token > got.Token || strings.Contains(a.Error.Message, "%!") {
				t.Errorf("an attempt after the end: %+v", a)
			}
		}
	}
}

// A database that takes no writes is not ready, and is again by itself.
func TestPingOfAReadOnlyDatabase(t *testing.T) {
	s := fresh(t)
	c := direct(t, s)
	var name string
	if err := c.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		change string
		want   error
	}{{"SET default_transaction_read_only = on", engine.ErrReadOnly}, {"RESET default_transaction_read_only", nil}} {
		exec(t, c, "ALTER DATABASE "+name+" "+x.change)
		s.hot.Reset() // connections take it at their start
		if err := s.Ping(t.Context()); !errors.Is(err, x.want) || x.want != nil && !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("%s: got %v, want %v", x.change, err, x.want)
		}
	}
}

// After a write that found no room, a ping looks for some, and leaves nothing behind.
func TestPingLooksForRoom(t *testing.T) {
	s := fresh(t)
	s.full.Store(true)
	for range 2 {
		if err := s.Ping(t.Context()); err != nil || s.full.Load() {
			t.Errorf("got %v, full: %v", err, s.full.Load())
		}
	}
	err := s.write(t.Context(), "write", func(context.Context, *pgxpool.Conn) error { return &pgconn.PgError{Code: diskFull} })
	if !errors.Is(err, engine.ErrUnavailable) || !s.full.Load() {
		t.Errorf("got %v, full: %v", err, s.full.Load())
	}
}
