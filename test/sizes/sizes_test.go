//go:build unix

// Package sizes runs every call of a store that grows with data at ten times the documented limits, and holds each to the time that
// PostgreSQL gives a statement of the hot path.
package sizes

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	driver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// A call must stay below the shortest time that its store gives to one: on PostgreSQL to a statement of the hot path (hotStatement in
// internal/engine/postgres), on SQLite to a look (readPatience in internal/engine/sqlite). A call may consist of several statements; all
// of them together must stay below it, unless each has the time of a call. The stores run with their own timeouts, so that a
// statement that is slower than its own fails by itself.
//
// SQLite is part of this process: of it the processor time counts, which a machine that is busy with other things does not lengthen.
const (
	serverTimeout = 3 * time.Second
	liteTimeout   = 15 * time.Second
)

var (
	share = flag.Float64("sizes.share", 0.01, "part of the sizes that is loaded; 1 is what make sizes loads")
	only  = flag.String("sizes.only", "", "methods that are called, as a regular expression; empty: all")
)

// sizes is how much of everything is loaded: ten times the limits of docs/operations/sizes.md.
type sizes struct {
	waiting, leases, behind, sessions, secrets, lanes, held int
	runs, items, marks, waits, events                       int
}

func wanted() sizes {
	n := func(full int) int { return max(64, int(float64(full)**share)) }
	return sizes{
		waiting: n(300_000), leases: n(600_000), behind: n(10_000), sessions: n(100_000), secrets: n(1_000_000), lanes: n(50_000), held: n(1_000_000),
		runs: n(500_000), items: n(1_000_000), marks: n(300_000), waits: n(300_000), events: n(1_000_000),
	}
}

func TestSizes(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		at := filepath.Join(t.TempDir(), "c.db")
		open := func() engine.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: at})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s
		}
		measure(t, open, func() db {
			c, err := driver.OpenConn(at, driver.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			return lite{c}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		url := storetest.PostgresURL(t)
		open := func() engine.Store {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			return s
		}
		measure(t, open, func() db {
			c, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			return server{c, t.Context()}
		})
	})
}

// measure loads a store and makes every call.
func measure(t *testing.T, open func() engine.Store, direct func() db) {
	b := &bench{T: t, ctx: t.Context(), sizes: wanted(), Store: open()}
	begun, timeout := time.Now(), serverTimeout
	b.describe()
	if err := b.Store.Close(); err != nil { // it may remember what was there
		t.Fatal(err)
	}
	b.db = direct()
	t.Cleanup(b.db.close)
	if _, ok := b.db.(lite); ok {
		timeout = liteTimeout
	}
	b.fill()
	t.Logf("%+v loaded in %v", b.sizes, time.Since(begun).Round(time.Millisecond))
	b.Store = open()
	t.Cleanup(func() { _ = b.Store.Close() })
	b.revive()
	chosen := regexp.MustCompile("^(" + *only + ")$")
	for _, c := range slices.Concat(runCalls, calls) {
		if *only == "" || chosen.MatchString(c.method) {
			b.call(c, timeout)
		}
	}
	slices.SortStableFunc(b.took, func(x, y timed) int { return int(y.most - x.most) })
	var out strings.Builder
	for _, x := range b.took {
		fmt.Fprintf(&out, "%-10s %5.1f %% of %v  %3d x  %s\n", x.most.Round(100*time.Microsecond), 100*x.most.Seconds()/timeout.Seconds(), timeout, x.n, x.name)
	}
	t.Logf("the longest of each call:\n%s", out.String())
}

// timed is how long calls took.
type timed struct {
	name string
	n    int
	most time.Duration
}

// call makes a call as often as it says, and fails the test where one fails or takes too long.
func (b *bench) call(c call, timeout time.Duration) {
	b.Helper()
	if c.before != nil {
		c.before(b)
	}
	x := timed{name: c.method + ": " + c.what}
	if c.what == "" {
		x.name = c.method
	}
	for more := true; more && x.n < max(c.times, 1); x.n++ {
		var err error
		begun := b.clock()
		more, err = c.do(b)
		took := b.clock() - begun
		x.most = max(x.most, took)
		if err != nil {
			b.Errorf("%s: after %v: %v", x.name, took.Round(time.Millisecond), err)
			break
		}
	}
	if c.pieces {
		x.name += ", in pieces"
	} else if x.most > timeout {
		b.Errorf("%s took %v, longer than %v", x.name, x.most.Round(time.Millisecond), timeout)
	}
	b.took = append(b.took, x)
}

// db runs statements beside the store.
type db interface {
	exec(sql string) error
	columns(table string) []string
	id(prefix int, n string) string // an id out of two numbers
	after(column, us string) string // an instant so many microseconds later
	array(id string) string         // a list of one id, as leases have it
	tokens(last int64)              // no lease is given a token up to this one
	settle()                        // what a server does by itself after so much was written
	revive()                        // the sessions live, of whatever process they were
	clock() time.Duration           // by which calls are measured
	close()
}

type server struct {
	c   *pgx.Conn
	ctx context.Context
}

func (s server) exec(sql string) error { _, err := s.c.Exec(s.ctx, sql); return err }
func (s server) close()                { _ = s.c.Close(context.Background()) }
func (s server) columns(table string) []string {
	rows, _ := s.c.Query(s.ctx, "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position", table)
	out, _ := pgx.CollectRows(rows, pgx.RowTo[string])
	return out
}

func (s server) id(prefix int, n string) string {
	return fmt.Sprintf("('%08x-0000-7000-8000-' || lpad(to_hex(%s), 12, '0'))::uuid", prefix, n)
}
func (s server) after(column, us string) string {
	return fmt.Sprintf("%s + (%s) * interval '1 microsecond'", column, us)
}
func (s server) array(id string) string { return "ARRAY[" + id + "]" }
func (s server) tokens(last int64)      { must(0, s.exec(fmt.Sprintf("SELECT setval('tokens', %d)", last))) }
func (s server) settle()                { must(0, s.exec("ANALYZE")) }

func (s server) revive() {}

var started = time.Now()

func (s server) clock() time.Duration { return time.Since(started) }

type lite struct{ c *driver.Conn }

func (l lite) exec(sql string) error { return sqlitex.ExecuteTransient(l.c, sql, nil) }
func (l lite) close()                { _ = l.c.Close() }
func (l lite) columns(table string) (out []string) {
	must(0, sqlitex.Execute(l.c, "SELECT name FROM pragma_table_info(?)", &sqlitex.ExecOptions{Args: []any{table}, ResultFunc: func(r *driver.Stmt) error {
		out = append(out, r.ColumnText(0))
		return nil
	}}))
	return out
}

func (l lite) id(prefix int, n string) string {
	return fmt.Sprintf("unhex(printf('%08x000070008000%%012x', %s))", prefix, n)
}
func (l lite) after(column, us string) string { return column + " + (" + us + ")" }
func (l lite) array(id string) string         { return id }
func (l lite) tokens(last int64)              { must(0, l.exec(fmt.Sprintf("UPDATE tokens SET next = %d", last+1))) }
func (l lite) settle()                        { must(0, l.exec("PRAGMA wal_checkpoint(TRUNCATE)")) }
func (l lite) revive() {
	l.c.SetBusyTimeout(time.Minute)
	must(0, l.exec("UPDATE sessions SET deposed = 0, expires_at = started_at + 36000000000"))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (l lite) clock() time.Duration {
	var r syscall.Rusage
	must(0, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
