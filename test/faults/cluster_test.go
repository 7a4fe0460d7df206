//go:build unix

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/test/harness"
)

// failover limits how long partitions may be without a live owner.
const failover = 10 * time.Second

// atMost returns the limit for a promised time. Where it is the subject (make bench-failover, faults-all, nemesis, soak)
// nothing else runs; among the other tests a machine may be several times slower, and only what is far off is a fault.
func atMost(promised time.Duration) time.Duration {
	if strict || *nemesisMinutes > 0 || *soakMinutes > 0 {
		return promised
	}
	return harness.Slack * promised
}

var strict = all || os.Getenv("CARILLON_FAILOVER_KILLS") != ""

// cluster is several schedulers over one PostgreSQL, and the recurring jobs that they share.
type cluster struct {
	*testing.T
	where   string
	sink    *harness.Sink
	front   *harness.Process // who answers the API; nil: the first member
	members []*member
	jobs    []*recurring

	mu sync.Mutex
	db *pgx.Conn // guarded by mu
}

// member is a server that schedules, with what it is called in the database.
type member struct {
	*harness.Process
	id string
}

func newCluster(t *testing.T) *cluster {
	return &cluster{T: t, where: harness.Postgres(t), sink: harness.NewSink(t)}
}

// connect opens the test's own way into the database, once there is a schema.
func (c *cluster) connect() {
	c.Helper()
	var err error
	if c.db, err = pgx.Connect(c.Context(), c.where); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { c.db.Close(context.Background()) })
}

// join starts a server, whose database may lie behind a link, and waits until the others know of it as a scheduler.
func (c *cluster) join(where string, args ...string) *member {
	c.Helper()
	return c.joinWith(nil, where, args...)
}

// joinWith is join with more in the environment.
func (c *cluster) joinWith(env []string, where string, args ...string) *member {
	c.Helper()
	env = settings("", append([]string{"CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=6"}, env...)...)
	if !strict { // a machine that stands still for a few seconds deposes nobody that the test has not
		env = append(env, "CARILLON_SCHEDULER_OWNERSHIP_TTL_SECONDS=10")
	}
	p := harness.Start(c.T, env, append([]string{"serve", "--database", where}, args...)...)
	if c.db == nil {
		c.connect()
	}
	m := &member{Process: p}
	c.known(m)
	c.members = append(c.members, m)
	return m
}

// known waits until a server that has begun, or begun again, is in the roster, and notes its name there.
func (c *cluster) known(m *member) {
	c.Helper()
	harness.Eventually(c.T, 30*time.Second, "a new scheduler", func() bool {
		for _, id := range c.alive() {
			if !slices.ContainsFunc(c.members, func(o *member) bool { return o.id == id }) {
				m.id = id
				return true
			}
		}
		return false
	})
}

// api is a client of a live server.
func (c *cluster) api() *harness.Client {
	if c.front != nil {
		return c.front.Client
	}
	return c.members[0].Client
}

// leave forgets a server that is no more.
func (c *cluster) leave(m *member) {
	c.members = slices.DeleteFunc(c.members, func(o *member) bool { return o == m })
}

// rows reads what a statement answers with.
func rows[T any](c *cluster, sql string, args ...any) []T {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.Context(), 30*time.Second)
	defer cancel()
	r, err := c.db.Query(ctx, sql, args...)
	if err != nil {
		c.Fatal(err)
	}
	var to pgx.RowToFunc[T] = pgx.RowTo[T]
	if _, plain := any(*new(T)).(interface{ row() }); plain {
		to = pgx.RowToStructByPos[T]
	}
	all, err := pgx.CollectRows(r, to)
	if err != nil {
		c.Fatal(err)
	}
	return all
}

// alive are the schedulers that live, by the database.
func (c *cluster) alive() []string {
	c.Helper()
	return rows[string](c, `SELECT id::text FROM servers WHERE duty = 2 AND NOT deposed AND expires_at > now()`)
}

// owner says who owns a partition.
type owner struct {
	Part  int
	Owner string
}

func (owner) row() {}

// owners are the partitions of schedulers that live, by owner.
func (c *cluster) owners() map[string][]job.Partition {
	c.Helper()
	by := map[string][]job.Partition{}
	for _, o := range rows[owner](c, `SELECT p.part, p.owner::text FROM partitions p JOIN servers s ON s.id = p.owner
		WHERE p.duty = 2 AND NOT s.deposed AND s.expires_at > now() ORDER BY p.part`) {
		by[o.Owner] = append(by[o.Owner], job.Partition(o.Part))
	}
	return by
}

// settled waits until every partition has a live owner that is not the one that is gone, and returns how long that took.
func (c *cluster) settled(gone string, since time.Time) time.Duration {
	c.Helper()
	var by map[string][]job.Partition
	if !harness.Within(3*failover, func() bool { by = c.owners(); return owned(by) == job.Partitions && by[gone] == nil }) {
		c.Fatalf("%v later only %d partitions have an owner: %v", 3*failover, owned(by), by)
	}
	took := time.Since(since)
	if took > atMost(failover) {
		c.Errorf("the partitions moved within %v, want %v at the most", took, atMost(failover))
	}
	return took
}

// balanced waits until all members own about as much.
func (c *cluster) balanced() {
	c.Helper()
	var by map[string][]job.Partition
	if !harness.Within(30*time.Second, func() bool {
		by = c.owners()
		least, most := job.Partitions, 0
		for _, m := range c.members {
			least, most = min(least, len(by[m.id])), max(most, len(by[m.id]))
		}
		return owned(by) == job.Partitions && most-least <= 1
	}) {
		c.Fatalf("the partitions are not spread evenly: %v", by)
	}
}

func owned(by map[string][]job.Partition) (n int) {
	for ps := range maps.Values(by) {
		n += len(ps)
	}
	return n
}

// richest is the member that owns the most.
func (c *cluster) richest() *member {
	by := c.owners()
	return slices.MaxFunc(c.members, func(a, b *member) int { return len(by[a.id]) - len(by[b.id]) })
}

// recurring is a recurring job, and, beside its schedule, which seconds it is owed at: worked out by nothing of the product.
type recurring struct {
	kind
	id      string
	created time.Time
	tenant  int // of a fleet
}

// kind is a schedule in two ways.
type kind struct {
	body string
	owed func(created, t time.Time) bool
}

func cron(expression string, owed func(second int) bool, more string) kind {
	return kind{fmt.Sprintf(`"schedule": {"type": "CRON", "cron_expression": %q}%s`, expression, more), func(created, t time.Time) bool { return t.After(created) && owed(t.UTC().Second()) }}
}

func interval(every int, more string) kind {
	return kind{fmt.Sprintf(`"schedule": {"type": "INTERVAL", "every": "%ds"}%s`, every, more), func(created, t time.Time) bool {
		since := int(t.Sub(created.Truncate(time.Second)) / time.Second)
		return since > 0 && since%every == 0
	}}
}

// kinds are schedules that are owed often.
var kinds = []kind{
	interval(1, `, "catch_up": "all"`),
	interval(2, `, "catch_up": "latest"`),
	interval(2, `, "catch_up": "all", "overlap": "skip"`),
	cron("* * * * * *", func(int) bool { return true }, `, "catch_up": "all"`),
	cron("*/2 * * * * *", func(s int) bool { return s%2 == 0 }, `, "catch_up": "none"`),
	cron("1-59/3 * * * * *", func(s int) bool { return s%3 == 1 }, `, "catch_up": "all"`),
}

// recur creates n jobs, of every kind in turn.
func (c *cluster) recur(n int, kinds []kind) {
	c.Helper()
	var bodies []string
	for i := range n {
		bodies = append(bodies, fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q}, "retry_policy": {"max_retries": 9, "initial_delay_ms": 10, "max_delay_ms": 10}, %s}`,
			c.sink.URL, kinds[i%len(kinds)].body))
	}
	made := harness.Want[client.CreatedJobs](c.api(), 201, "POST", "/api/v1/jobs:batch", "["+strings.Join(bodies, ",")+"]").Jobs
	for i, j := range made {
		kept := harness.Want[client.Job](c.api(), 200, "GET", "/api/v1/jobs/"+j.JobID, "")
		c.jobs = append(c.jobs, &recurring{kind: kinds[i%len(kinds)], id: j.JobID, created: kept.CreatedAt})
	}
}

// instants are those that a job is owed until an instant, the last included: it looks at every second.
func (j *recurring) instants(until time.Time) (all []time.Time) {
	for t := j.created.Truncate(time.Second); !t.After(until); t = t.Add(time.Second) {
		if j.owed(j.created, t) {
			all = append(all, t.UTC())
		}
	}
	return all
}

// arrived waits until a callback has come of each job, of an instant at or after one.
func (c *cluster) arrived(within time.Duration, what string, jobs []*recurring, from time.Time) {
	c.Helper()
	missing := map[string]bool{}
	for _, j := range jobs {
		missing[j.id] = true
	}
	seen := 0
	if !harness.Within(within, func() bool {
		as := c.sink.Since(seen)
		seen += len(as)
		for _, a := range as {
			if !a.Instant.Before(from) {
				delete(missing, a.Job)
			}
		}
		return len(missing) == 0
	}) {
		c.Fatalf("waited %v in vain for %s: %d of %d jobs have not called", within, what, len(missing), len(jobs))
	}
}
