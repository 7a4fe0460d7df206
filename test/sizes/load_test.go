//go:build unix

package sizes

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	holders = 1000 // sessions that hold the leases, an equal part each
	named   = 900  // secrets that people named
	atOnce  = 1000
)

// What ids of copies begin with.
const (
	waitingIDs = 0x10000000 + iota
	leasedIDs
	sessionIDs
	pausedIDs
	secretIDs
	runIDs
	itemIDs
	markIDs
	eventIDs
	oldEventIDs
)

// bench is a store that holds very much.
type bench struct {
	*testing.T
	engine.Store
	db
	ctx   context.Context
	sizes sizes
	took  []timed

	backlog job.Job   // of which very many executions wait
	held    []job.Job // one in each partition, whose executions are leased
	lease   job.Token // of the first copy of a lease
	behind  []job.Job // whose instants have come
	lanes   []job.Job // each of which has a lane
	worker  job.WorkerID
	spare   []job.Job
	run     engine.WorkflowRun
	member  job.Execution // of its node

	// What calls leave for those behind them.
	lane     *job.Lane
	cursors  []job.Lane
	leased   int
	attempts []job.Attempt
	fired    int
	due      int
}

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

func (b *bench) now() time.Time { return must(b.Now(b.ctx)).UTC().Truncate(time.Microsecond) }

// job is a job that recurs every hour, from an instant on.
func (b *bench) job(name string, next time.Time) job.Job {
	now := b.now()
	return job.Job{
		ID: newID(), Tenant: tenant.Default, State: job.Active, CreatedAt: now, UpdatedAt: now, Revision: 1, NextRunAt: next,
		Definition: job.Definition{
			Name: name, Schedule: job.Schedule{Type: job.Interval, Every: time.Hour}, Priority: 5, Queue: "default", Tags: []string{"nightly"}, Owner: "team",
			Target:  job.Target{Kind: job.HTTP, URL: "https://example.com/hooks/nightly", Method: "POST", Timeout: time.Hour},
			Payload: []byte(`{"customer":4711}`), Retry: job.RetryPolicy{MaxRetries: 3, Backoff: job.Fixed, InitialDelay: time.Second},
		},
	}
}

// create stores jobs, a thousand at a time, each with an execution where that is wanted.
func (b *bench) create(js []job.Job, fire bool) {
	for len(js) > 0 {
		n := min(atOnce, len(js))
		c := engine.Creation{Tenant: tenant.Default, Jobs: js[:n]}
		for _, j := range js[:n] {
			if fire {
				c.Executions = append(c.Executions, j.Fire(job.ExecutionID(j.ID), b.now(), b.now()))
			}
			c.Secrets = append(c.Secrets, engine.Secret{
				Tenant: tenant.Default, Name: "managed-" + hex.EncodeToString(j.ID[:]), Job: j.ID, Version: 1, CreatedAt: j.CreatedAt, UpdatedAt: j.CreatedAt, Key: "k1", Sealed: make([]byte, 60),
			})
		}
		if got := must(b.CreateJobs(b.ctx, []engine.Creation{c})); got[0].Taken != "" || got[0].Reused {
			b.Fatalf("create: %+v", got)
		}
		js = js[n:]
	}
}

// describe stores one of everything, and what there are thousands of.
func (b *bench) describe() {
	now := b.now()
	far := now.Add(1000 * time.Hour)
	b.backlog = b.job("backlog", far)
	b.backlog.Key = "backlog"
	b.create([]job.Job{b.backlog}, false)
	one := b.backlog.Fire(newID(), now.Add(-time.Hour), now)
	one.ID = copyOf(waitingIDs, 0)
	must(b.Backfill(b.ctx, tenant.Default, b.backlog.ID, []job.Execution{one}))

	b.worker = b.register()
	for p := range job.Partition(job.Partitions) {
		j := b.job(fmt.Sprintf("held %d", p), far)
		j.ID = j.ID.In(p)
		b.held = append(b.held, j)
	}
	b.create(b.held, false)
	for i, j := range b.held {
		e := j.Fire(newID(), now.Add(-time.Hour), now)
		e.ID = copyOf(leasedIDs, i)
		must(b.Backfill(b.ctx, tenant.Default, j.ID, []job.Execution{e}))
		as := must(b.Lease(b.ctx, []engine.Grant{{Worker: b.worker, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{}))
		b.lease = as[0].Token + 1
	}

	for i := range b.sizes.behind {
		b.behind = append(b.behind, b.job(fmt.Sprintf("behind %d", i), now.Add(-2*time.Hour).Truncate(time.Hour)))
	}
	b.create(b.behind, false)

	for i := range b.sizes.lanes {
		j := b.job(fmt.Sprintf("lane %d", i), time.Time{})
		j.Schedule = job.Schedule{Type: job.Immediate}
		j.MaxConcurrent, j.ConcurrencyKey = 1, "payload.customer"
		j.Group = j.GroupOf(fmt.Sprint(i))
		b.lanes = append(b.lanes, j)
	}
	b.create(b.lanes, true)
	b.describeRuns()
	for i := range named {
		must(b.PutSecret(b.ctx, b.secret(fmt.Sprintf("NAMED_%d", i)), engineMost, nil))
	}
}

const engineMost = 1000 // secrets that people named, of a tenant

func (b *bench) secret(name string) engine.Secret {
	return engine.Secret{Tenant: tenant.Default, Name: name, CreatedAt: b.now(), UpdatedAt: b.now(), Key: "k1", Sealed: make([]byte, 60)}
}

func (b *bench) register() job.WorkerID {
	w := job.Worker{ID: newID(), Host: "host", Version: "v", Capacity: 10, StartedAt: b.now(), Queues: []string{"default"}, Labels: []string{"eu"}}
	must(0, b.Register(b.ctx, w, 10*time.Hour))
	return w.ID
}

// copyOf is the id of the copy with a number.
func copyOf(prefix, n int) (id [16]byte) {
	must(hex.Decode(id[:], fmt.Appendf(nil, "%08x000070008000%012x", prefix, n)))
	return id
}

// copies stores n copies of the row of a table that a condition chooses, with other values where they are given. In these and in the
// condition t is the row and g.i the number of the copy, from first on.
func (b *bench) copies(table, where string, first, n int, change map[string]string) {
	b.Helper()
	cols := b.columns(table)
	from := make([]string, len(cols))
	for i, c := range cols {
		if from[i] = "t." + c; change[c] != "" {
			from[i] = change[c]
		}
	}
	series := fmt.Sprintf("(WITH RECURSIVE g(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM g WHERE i < %d) SELECT i FROM g) g", first, first+n-1)
	sql := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s t CROSS JOIN %s WHERE %s", table, strings.Join(cols, ", "), strings.Join(from, ", "), table, series, where)
	if err := b.exec(sql); err != nil {
		b.Fatalf("%s: %v\n%s", table, err, sql)
	}
}

// literal is an id in SQL.
func (b *bench) literal(id [16]byte) string {
	if _, ok := b.db.(lite); ok {
		return fmt.Sprintf("x'%x'", id[:])
	}
	return fmt.Sprintf("'%s'::uuid", uuid.UUID(id))
}

// truth is true in SQL.
func (b *bench) truth() string {
	if _, ok := b.db.(lite); ok {
		return "1"
	}
	return "true"
}

// fill stores what there are hundreds of thousands of, by copies of what describe stored.
func (b *bench) fill() {
	if _, ok := b.db.(lite); ok {
		must(0, b.exec("PRAGMA synchronous = OFF"))
	} else {
		must(0, b.exec("SET synchronous_commit = off"))
	}
	b.copies("live", "t.id = "+b.literal(copyOf(waitingIDs, 0)), 1, b.sizes.waiting, map[string]string{
		"id": b.id(waitingIDs, "g.i"), "scheduled_at": b.after("t.scheduled_at", "g.i"),
	})
	b.copies("sessions", "t.id = "+b.literal(b.worker), 1, b.sizes.sessions, map[string]string{"id": b.id(sessionIDs, "g.i")})
	// Copies of leases are numbered from those on that describe leased; the copy i of partition p is number 64 i + p.
	each := b.sizes.leases / job.Partitions
	for p := range b.held {
		n := fmt.Sprintf("g.i * %d + %d", job.Partitions, p)
		holder := b.id(sessionIDs, fmt.Sprintf("1 + (%s) %% %d", n, min(holders, b.sizes.sessions)))
		token := fmt.Sprintf("%d + %s", b.lease, n)
		b.copies("live", "t.id = "+b.literal(copyOf(leasedIDs, p)), 1, each, map[string]string{
			"id": b.id(leasedIDs, n), "scheduled_at": b.after("t.scheduled_at", "g.i"), "lease": token, "worker": holder,
		})
		b.copies("leases", "t.lease = (SELECT max(lease) FROM leases WHERE worker = "+b.literal(b.worker)+")", 1, each, map[string]string{
			"lease": token, "worker": holder, "ids": b.array(b.id(leasedIDs, n)),
		})
	}
	b.tokens(int64(b.lease) + int64(b.sizes.leases) + job.Partitions)
	b.fillRuns()
	per := max(1, b.sizes.secrets/(len(b.lanes)+len(b.behind)+len(b.held)+1))
	b.copies("secrets", "t.job IS NOT NULL", 1, per, map[string]string{"name": "t.name || '-' || g.i"})
	b.settle()
}
