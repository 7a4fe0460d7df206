//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
	"github.com/carillon-jobs/carillon/test/harness"
)

// longestLock limits how long a step that servers run on through may keep readers or writers out of a table.
const longestLock = time.Second

// upgrading says that make test-upgrade runs the tests.
var upgrading = os.Getenv("CARILLON_UPGRADE") != ""

// git runs git in the repository.
func git(args ...string) (string, error) {
	c := exec.Command("git", args...)
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// built builds the program of a commit, after the source was changed.
func built(t *testing.T, ref string, change func(source string)) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "source"), filepath.Join(dir, "carillon")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "source.tar")
	if out, err := git("-C", filepath.Join("..", ".."), "archive", "--output="+mustAbs(t, archive), ref); err != nil {
		t.Fatalf("git archive %s: %v\n%s", ref, err, out)
	}
	for _, args := range [][]string{{"tar", "-xf", archive, "-C", source}, {"go", "-C", source, "build", "-trimpath", "-buildvcs=false", "-tags", "failpoint", "-o", program, "./cmd/carillon"}} {
		if args[0] == "go" {
			change(source)
		}
		c := exec.Command(args[0], args[1:]...)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s of %s: %v\n%s", args[0], ref, err, out)
		}
	}
	return program
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func asItIs(string) {}

// Servers and workers of the version before and of this one run over one database under load, which is brought up to date under them,
// and go back: everything that was accepted runs once, and no step keeps anybody out of a table for a second (rows 28 and 29).
func TestUpgrade(t *testing.T) {
	if !upgrading {
		t.Skip("make test-upgrade runs it: it builds the program twice")
	}
	from := os.Getenv("CARILLON_UPGRADE_FROM")
	if from == "" {
		tag, err := git("describe", "--tags", "--abbrev=0")
		if err != nil {
			t.Skip("there is nothing to upgrade from: no version has a tag yet. make test-upgrade FROM=COMMIT names one")
		}
		from = tag
	}
	t.Logf("from %s", from)
	old := built(t, from, asItIs)
	t.Run("postgres", func(t *testing.T) { upgrade(t, old, harness.Binary()) })
	t.Run("sqlite", func(t *testing.T) { upgradeFile(t, old, harness.Binary()) })
}

// The test of upgrades is itself tested: from the commit that is checked out to the source as it is, nothing is wrong; to one with a step
// that locks a table for long, that is noticed.
func TestUpgradeOfItself(t *testing.T) {
	if !upgrading {
		t.Skip("make test-upgrade runs it: it builds the program twice")
	}
	old := built(t, "HEAD", asItIs)
	t.Run("postgres", func(t *testing.T) { upgrade(t, old, harness.Binary()) })
	t.Run("sqlite", func(t *testing.T) { upgradeFile(t, old, harness.Binary()) })
	t.Run("a step that locks for long", func(t *testing.T) {
		slow := built(t, "HEAD", func(source string) {
			dir := filepath.Join(source, "internal", "engine", "postgres", "migrations")
			steps, err := filepath.Glob(filepath.Join(dir, "*.sql"))
			if err != nil || len(steps) == 0 {
				t.Fatalf("%d steps, %v", len(steps), err)
			}
			step := fmt.Sprintf("-- works with: %04d\nLOCK TABLE jobs IN ACCESS EXCLUSIVE MODE;\nSELECT pg_sleep(1.5);\n", len(steps))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d_slow.sql", len(steps)+1)), []byte(step), 0o600); err != nil {
				t.Fatal(err)
			}
		})
		where := postgrestest.URL(t)
		migrate(t, old, where)
		locks := migrate(t, slow, where)
		if l := locks["jobs"]; l == nil || l.longest < longestLock {
			t.Errorf("a step held jobs for 1.5 s, and what was seen is %+v", l)
		}
	})
}

// migrate brings a database up to date with a program, and says which tables that were there it kept others out of, and for how long; nil
// where it refuses to, since servers live that cannot work with what comes.
func migrate(t *testing.T, program, where string) map[string]*lock {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", migrator)
	u.RawQuery = q.Encode()
	stop := watchLocks(t, where)
	p := harness.LaunchWith(t, func(c *exec.Cmd) { c.Path = program }, settings(""), "migrate", "up", "--database", u.String())
	code := p.Exit()
	locks := stop()
	if code != 0 && p.Says("requires all servers to be stopped") {
		return nil
	}
	if code != 0 {
		t.Fatalf("migrate up ended with %d:\n%s", code, p.Out.String())
	}
	for table, l := range locks {
		t.Logf("%-24s %-22s %8v  %s", table, l.mode, l.longest.Round(time.Millisecond), l.statement)
	}
	return locks
}

// migrator is the name that the process which migrates gives itself in the database.
const migrator = "carillon-upgrade"

// lock is the longest time that a table was locked against readers or writers at a stretch.
type lock struct {
	longest   time.Duration
	mode      string
	statement string // the beginning of what held it
	since     time.Time
}

// watchLocks looks at the locks of the migrator, on tables that others may use, until it is stopped.
func watchLocks(t *testing.T, where string) (stop func() map[string]*lock) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "CREATE TEMP TABLE there AS SELECT oid FROM pg_class WHERE relkind IN ('r', 'p', 'i', 'S') AND oid >= 16384"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	locks := map[string]*lock{}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer c.Close(context.Background())
		for ctx.Err() == nil {
			held := map[string]bool{}
			rows, _ := c.Query(context.WithoutCancel(ctx), `
				SELECT l.relation::regclass::text, l.mode, left(regexp_replace(a.query, '\s+', ' ', 'g'), 80) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
				WHERE a.application_name = $1 AND l.granted AND l.relation IN (SELECT oid FROM there) AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`, migrator)
			now := time.Now()
			var table, mode, statement string
			_, err := pgx.ForEachRow(rows, []any{&table, &mode, &statement}, func() error {
				l := locks[table]
				if l == nil {
					l = &lock{}
					locks[table] = l
				}
				if held[table] = true; l.since.IsZero() {
					l.since = now
				}
				if took := now.Sub(l.since); took >= l.longest {
					l.longest, l.mode, l.statement = took, mode, statement
				}
				return nil
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
				return
			}
			for name, l := range locks {
				if !held[name] {
					l.since = time.Time{}
				}
			}
			<-time.After(2 * time.Millisecond)
		}
	})
	return func() map[string]*lock { cancel(); wg.Wait(); return locks }
}

// A lock that is held for long is seen, with who holds it; one on what was just made is not.
func TestLocksAreSeen(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	stop := watchLocks(t, where)
	c, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "SET application_name = '"+migrator+"'"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "CREATE TABLE made (x int); LOCK TABLE jobs IN SHARE MODE; SELECT pg_sleep(0.5)"); err != nil {
		t.Fatal(err)
	}
	locks := stop()
	if l := locks["jobs"]; l == nil || l.longest < 300*time.Millisecond || l.mode != "ShareLock" || !strings.Contains(l.statement, "LOCK TABLE jobs") {
		t.Errorf("jobs: %+v", l)
	}
	if l := locks["made"]; l != nil {
		t.Errorf("what was made: %+v", l)
	}
}

// serveAs starts a server of a program, and has clients ask it.
func (in *installation) serveAs(program string) *harness.Process {
	in.Helper()
	p := harness.LaunchWith(in.T, func(c *exec.Cmd) { c.Path = program }, settings("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=15"), "serve", "--database", in.where, "--roles", in.roles, "--listen", "127.0.0.1:0", "--migrate=false").Greeted()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.server = p
	return p
}

// workAs starts a worker of a program at the server that answers now.
func (in *installation) workAs(program string) *harness.Process {
	in.Helper()
	return harness.LaunchWith(in.T, func(c *exec.Cmd) { c.Path = program }, settings(""), "worker", "--server", in.base(), "--capacity", "4", "--listen", "127.0.0.1:0").Greeted()
}

func upgrade(t *testing.T, old, current string) {
	where := postgrestest.URL(t)
	migrate(t, old, where)
	in := install(t, where, "api,scheduler,worker")
	first, second := in.serveAs(old), in.serveAs(old)
	in.workAs(old)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var loading sync.WaitGroup
	loading.Go(func() { // until the end
		for ctx.Err() == nil {
			in.load(2)
			<-time.After(100 * time.Millisecond)
		}
	})
	ran := func(what string) {
		t.Helper()
		seen := len(in.target.Seen())
		harness.Eventually(t, 30*time.Second, "calls "+what, func() bool { return len(in.target.Seen()) >= seen+20 })
	}
	end := func(p *harness.Process) {
		t.Helper()
		if code := p.End(syscall.SIGTERM); code != 0 {
			t.Errorf("a server ended with %d", code)
		}
	}
	ran("by the version before")
	locks := migrate(t, current, where)
	if locks == nil {
		t.Log("a step leaves servers of the version before no room: they are stopped, as the documentation says, and there is no way back")
		end(first)
		end(second)
		migrate(t, current, where)
		in.serveAs(current)
		ran("by this version")
		cancel()
		loading.Wait()
		in.settle(history{drained: true})
		return
	}
	for table, l := range locks {
		if l.longest >= longestLock {
			t.Errorf("%s was locked (%s) for %v by %s", table, l.mode, l.longest, l.statement)
		}
	}
	ran("by the version before, over the new schema")
	third := in.serveAs(current)
	in.workAs(current)
	ran("by both versions")
	end(first)
	fourth := in.serveAs(current)
	end(second)
	ran("by this version")
	back := in.serveAs(old)
	end(third)
	ran("by both versions, on the way back")
	end(fourth)
	ran("by the version before again")
	cancel()
	loading.Wait()
	in.told()
	end(back)
	in.serveAs(current)
	in.settle(history{})
	in.once()
}

func upgradeFile(t *testing.T, old, current string) {
	in := install(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), "api,scheduler,worker")
	serve := func(program string) *harness.Process {
		t.Helper()
		listen := "127.0.0.1:0"
		if s := in.now(); s != nil {
			listen = strings.TrimPrefix(s.Base, "http://")
		}
		p := harness.LaunchWith(t, func(c *exec.Cmd) { c.Path = program }, settings(""), "serve", "--database", in.where, "--roles", in.roles, "--listen", listen).Greeted()
		in.mu.Lock()
		defer in.mu.Unlock()
		in.server = p
		return p
	}
	s := serve(old)
	in.load(20)
	harness.Eventually(t, 30*time.Second, "some arrivals", func() bool { return len(in.target.Seen()) > 0 })
	in.told()
	s.End(syscall.SIGTERM)
	serve(current)
	in.load(10)
	in.settle(history{drained: true})
}
