package enqueue_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/enqueue"
	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// bed is a database with Carillon's schema and a connection of a user's.
type bed struct {
	*testing.T
	url  string
	conn *pgx.Conn
}

func newBed(t *testing.T) bed {
	t.Helper()
	b := bed{t, postgrestest.URL(t), nil}
	store, err := postgres.Open(t.Context(), postgres.Config{URL: b.url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.conn = b.connect()
	b.exec("CREATE TABLE purchases (id int PRIMARY KEY)")
	return b
}

func (b bed) connect() *pgx.Conn {
	b.Helper()
	c, err := pgx.Connect(b.Context(), b.url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func (b bed) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.conn.Exec(b.Context(), sql, args...); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

func (b bed) begin() pgx.Tx {
	b.Helper()
	tx, err := b.conn.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return tx
}

// count returns how many jobs there are, and how many executions that have not finished.
func (b bed) count(c *pgx.Conn) (jobs, live int) {
	b.Helper()
	if err := c.QueryRow(b.Context(), "SELECT (SELECT count(*) FROM public.jobs), (SELECT count(*) FROM public.live)").Scan(&jobs, &live); err != nil {
		b.Fatal(err)
	}
	return jobs, live
}

func request(name string) client.JobRequest {
	return client.JobRequest{Name: name, Execution: client.Target{Target: "simulate", WorkKind: "noop"}}
}

func TestExistsIfCommitted(t *testing.T) {
	b := newBed(t)
	other := b.connect()
	tx := b.begin()
	made, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, request("one"), request("two"))
	if err != nil || len(made) != 2 || made[0].JobID == "" || made[1].ExecutionID == "" {
		t.Fatalf("made: %+v, %v", made, err)
	}
	if jobs, _ := b.count(other); jobs != 0 {
		t.Error("it is seen before the commit")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if jobs, live := b.count(other); jobs+live != 0 {
		t.Error("it is there after a rollback")
	}
	tx = b.begin()
	if _, err := tx.Exec(t.Context(), "INSERT INTO purchases VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	inner, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enqueue.Insert(t.Context(), inner, enqueue.Options{}, request("undone")); err != nil {
		t.Fatal(err)
	}
	if err := inner.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err = enqueue.Insert(t.Context(), tx, enqueue.Options{}, request("kept")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var name string
	if err := other.QueryRow(t.Context(), "SELECT name FROM public.jobs").Scan(&name); err != nil || name != "kept" {
		t.Errorf("after a savepoint: %q, %v", name, err)
	}
}

// TestMany takes the way of large batches.
func TestMany(t *testing.T) {
	b := newBed(t)
	tx := b.begin()
	rs := make([]client.JobRequest, 300)
	for i := range rs {
		rs[i] = request("many")
	}
	if made, err := enqueue.Insert(t.Context(), tx, enqueue.Options{IdempotencyKey: "many"}, rs...); err != nil || len(made) != 300 {
		t.Fatalf("made %d, %v", len(made), err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if jobs, live := b.count(b.conn); jobs != 300 || live != 300 {
		t.Errorf("%d jobs, %d executions", jobs, live)
	}
}

func TestRefusalsLeaveTheTransactionAsItWas(t *testing.T) {
	b := newBed(t)
	b.exec("CREATE SCHEMA elsewhere")
	b.exec("SET search_path TO elsewhere")
	keyed := request("keyed")
	keyed.Key = new("k")
	tx := b.begin()
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, keyed); err != nil {
		t.Fatal(err)
	}
	bad := request("")
	bad.Priority = new(99)
	var wrong *enqueue.InvalidError
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, request("good"), bad); !errors.As(err, &wrong) || wrong.Problems[0].Field != "[1].name" {
		t.Errorf("what is wrong: %v", err)
	}
	naming := request("names")
	naming.Execution.Payload = []byte(`{"a": "${secret:nope}"}`)
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, naming); !errors.As(err, &wrong) || wrong.Problems[0].Field != "[0].execution.payload" {
		t.Errorf("an unknown secret: %v", err)
	}
	literal := client.JobRequest{Name: "x", Execution: client.Target{CallbackURL: "https://example.com/", Headers: map[string]string{"Authorization": "Bearer topsecret"}}}
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, literal); !errors.As(err, &wrong) || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("a credential without a key: %v", err)
	}
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, keyed); !errors.Is(err, enqueue.ErrKeyTaken) {
		t.Errorf("a key that is taken: %v", err)
	}
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{Tenant: "nobody"}, request("x")); !errors.Is(err, enqueue.ErrUnknownTenant) {
		t.Errorf("another tenant: %v", err)
	}
	var path string
	if err := tx.QueryRow(t.Context(), "SHOW search_path").Scan(&path); err != nil || path != "elsewhere" {
		t.Errorf("the search_path is %q, %v", path, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if jobs, _ := b.count(b.conn); jobs != 1 {
		t.Errorf("%d jobs", jobs)
	}
	var list []string // the connection's own types still work
	if err := b.conn.QueryRow(t.Context(), "SELECT $1::text[]", []string{"a", "b"}).Scan(&list); err != nil || len(list) != 2 {
		t.Errorf("arrays: %v, %v", list, err)
	}
}

func TestOnceAndUnique(t *testing.T) {
	b := newBed(t)
	unique := request("unique")
	unique.UniqueKey = new("u")
	var first enqueue.Created
	for i := range 3 {
		tx := b.begin()
		made, err := enqueue.Insert(t.Context(), tx, enqueue.Options{IdempotencyKey: "once"}, request("once"))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && made[0] != first {
			t.Errorf("again: %+v, first %+v", made[0], first)
		}
		first = made[0]
		if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{IdempotencyKey: "once"}, request("other")); !errors.Is(err, enqueue.ErrKeyReused) {
			t.Errorf("another request: %v", err)
		}
		made, err = enqueue.Insert(t.Context(), tx, enqueue.Options{}, unique)
		if err != nil || made[0].Duplicate != (i > 0) {
			t.Errorf("unique: %+v, %v", made, err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if jobs, _ := b.count(b.conn); jobs != 2 {
		t.Errorf("%d jobs", jobs)
	}
}

func TestOtherVersion(t *testing.T) {
	b := newBed(t)
	insert := func(o enqueue.Options) error {
		tx := b.begin()
		defer tx.Rollback(context.Background())
		_, err := enqueue.Insert(t.Context(), tx, o, request("x"))
		return err
	}
	var version *enqueue.VersionError
	b.exec("CREATE SCHEMA empty")
	if err := insert(enqueue.Options{Schema: "empty"}); !errors.As(err, &version) || version.Database != 0 || version.Package < 1 {
		t.Errorf("no schema: %v", err)
	}
	b.exec("INSERT INTO carillon_migrations (version, name, sum, oldest) VALUES (9999, 'to come', 'x', 1)")
	if err := insert(enqueue.Options{}); err != nil {
		t.Errorf("a later one: %v", err)
	}
	b.exec("UPDATE carillon_migrations SET oldest = 9999 WHERE version = 9999")
	if err := insert(enqueue.Options{}); !errors.As(err, &version) || version.Database != 9999 || !strings.Contains(err.Error(), "version 9999") {
		t.Errorf("a later one that this package cannot work with: %v", err)
	}
	b.exec("DELETE FROM carillon_migrations WHERE version = 9999")
	b.exec("UPDATE carillon_migrations SET sum = 'edited' WHERE version = 1")
	if err := insert(enqueue.Options{}); !errors.As(err, &version) {
		t.Errorf("an unknown one: %v", err)
	}
	b.exec("DELETE FROM carillon_migrations")
	if err := insert(enqueue.Options{}); !errors.As(err, &version) || version.Database != 0 {
		t.Errorf("one without any step: %v", err)
	}
}

func TestSimpleProtocolIsRefused(t *testing.T) {
	b := newBed(t)
	c, err := pgx.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, request("x")); !errors.Is(err, enqueue.ErrProtocol) {
		t.Errorf("got %v", err)
	}
}

// A commit that notifies, and Wake after one that does not, make servers start the job at once: their workers would look by
// themselves only once a minute.
func TestStartsAtOnce(t *testing.T) {
	b := newBed(t)
	ears := b.connect()
	if _, err := ears.Exec(t.Context(), "LISTEN carillon_ready"); err != nil {
		t.Fatal(err)
	}
	tx := b.begin()
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{NotifyInCommit: true}, request("undone")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx = b.begin()
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{NotifyInCommit: true}, request("heard")); err != nil {
		t.Fatal(err)
	}
	if _, err := ears.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	quiet, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if n, err := ears.WaitForNotification(quiet); err == nil {
		t.Errorf("heard %+v before the commit", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}

	b.serve(time.Minute)
	b.ended(1)
	n := 1
	for how, o := range map[string]enqueue.Options{"the commit": {NotifyInCommit: true}, "Wake": {}} {
		best := time.Hour
		for range 5 {
			b.commits(o)
			if !o.NotifyInCommit {
				if err := enqueue.Wake(t.Context(), b.conn); err != nil {
					t.Fatal(err)
				}
			}
			n++
			best = min(best, b.ended(n))
		}
		if best > 5*time.Second { // a tenth of one, on a machine that is idle; a minute, if nobody had been told
			t.Errorf("told by %s, the fastest of five took %v", how, best)
		}
	}
}

// Where nobody is told, a server with the product's settings finds jobs by itself, within a moment of their commit.
func TestStartsUntold(t *testing.T) {
	b := newBed(t)
	b.serve(config.Default().Workers.Poll)
	b.commits(enqueue.Options{})
	b.ended(1)
	var took []time.Duration
	for i := range 5 {
		b.commits(enqueue.Options{})
		took = append(took, b.ended(i+2))
	}
	if slices.Sort(took); took[2] > 2*time.Second { // a poll and a little, on a machine that is idle
		t.Errorf("from their commits until they ended: %v", took)
	}
}

// serve runs a server whose workers look by themselves now and then.
func (b bed) serve(poll time.Duration) {
	b.Helper()
	cfg := config.Default()
	cfg.Database, cfg.Listen, cfg.BootstrapKey, cfg.Workers.Poll = b.url, "127.0.0.1:0", strings.Repeat("k", 40), poll
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() {
		done <- app.Run(ctx, app.Options{Config: cfg, Out: io.Discard, Logger: slog.New(slog.DiscardHandler)})
	}()
	b.Cleanup(func() { cancel(); <-done })
}

// commits creates a job that is due now.
func (b bed) commits(o enqueue.Options) {
	b.Helper()
	tx := b.begin()
	if _, err := enqueue.Insert(b.Context(), tx, o, request("now")); err != nil {
		b.Fatal(err)
	}
	if err := tx.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// ended waits until so many executions have succeeded, and returns how long that took.
func (b bed) ended(n int) time.Duration {
	b.Helper()
	began := time.Now()
	for {
		var got int
		if err := b.conn.QueryRow(b.Context(), "SELECT count(*) FROM executions WHERE status = 10").Scan(&got); err != nil {
			b.Fatal(err)
		}
		if got >= n {
			return time.Since(began)
		}
		if time.Since(began) > 4*time.Minute {
			b.Fatalf("%d of %d have ended", got, n)
		}
	}
}

// TestLeastPermissions gives a role only the rights listed in docs/guides/enqueue.md.
func TestLeastPermissions(t *testing.T) {
	b := newBed(t)
	role := "carillon_test_" + strings.ToLower(rand.Text()[:16])
	b.exec("CREATE ROLE " + role)
	t.Cleanup(func() {
		if _, err := b.conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	for _, grant := range []string{
		"USAGE ON SCHEMA public", "SELECT ON carillon_migrations, tenants, calendars, secrets", "SELECT, INSERT ON jobs, live", "SELECT, INSERT, UPDATE, DELETE ON idempotency",
	} {
		b.exec("GRANT " + grant + " TO " + role)
	}
	unique := request("unique")
	unique.UniqueKey, unique.Key = new("u"), new("k")
	many := make([]client.JobRequest, 60)
	for i := range many {
		many[i] = request("many")
	}
	tx := b.begin()
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE "+role); err != nil {
		t.Fatal(err)
	}
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{IdempotencyKey: "a"}, unique); err != nil {
		t.Error(err)
	}
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{IdempotencyKey: "b"}, unique); !errors.Is(err, enqueue.ErrKeyTaken) {
		t.Errorf("a key that is taken: %v", err)
	}
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, many...); err != nil {
		t.Error(err)
	}
}

// A commit does not notify unless it is told to: Wake does, after it.
func TestWake(t *testing.T) {
	b := newBed(t)
	ears := b.connect()
	if _, err := ears.Exec(t.Context(), "LISTEN carillon_ready"); err != nil {
		t.Fatal(err)
	}
	heard := func(within time.Duration) bool {
		ctx, stop := context.WithTimeout(t.Context(), within)
		defer stop()
		_, err := ears.WaitForNotification(ctx)
		return err == nil
	}
	tx := b.begin()
	if _, err := enqueue.Insert(t.Context(), tx, enqueue.Options{}, request("quiet")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if heard(50 * time.Millisecond) {
		t.Error("the commit notified")
	}
	if err := enqueue.Wake(t.Context(), b.connect()); err != nil {
		t.Fatal(err)
	}
	if !heard(time.Minute) {
		t.Error("Wake was not heard")
	}
}

// What notifying in the commit costs those who commit at once: CARILLON_MEASURE=1 go test -run TestNotifyCost -v
func TestNotifyCost(t *testing.T) {
	if os.Getenv("CARILLON_MEASURE") == "" {
		t.Skip("a measurement; CARILLON_MEASURE=1 takes it")
	}
	b := newBed(t)
	for range 3 {
		for _, o := range []enqueue.Options{{}, {NotifyInCommit: true}} {
			var n atomic.Int64
			var wg sync.WaitGroup
			end := time.Now().Add(3 * time.Second)
			for range 16 {
				c := b.connect()
				wg.Go(func() {
					for time.Now().Before(end) {
						err := pgx.BeginFunc(t.Context(), c, func(tx pgx.Tx) error {
							_, err := enqueue.Insert(t.Context(), tx, o, request("x"))
							return err
						})
						if err != nil {
							t.Error(err)
							return
						}
						n.Add(1)
					}
				})
			}
			wg.Wait()
			t.Logf("notify in the commit %v: %d commits a second", o.NotifyInCommit, n.Load()/3)
		}
	}
}
