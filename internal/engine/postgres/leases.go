package postgres

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// sortedIDs returns a sorted array of ids.
func sortedIDs[T ~[16]byte](list []T) *array {
	a := uuids(len(list))
	for _, u := range sortedBy(list, func(u T) [16]byte { return u }) {
		a.uuid(u)
	}
	return a
}

// sortedBy sorts a copy by id, so that everyone locks rows in one order.
func sortedBy[T any](list []T, id func(T) [16]byte) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int {
		return compareIDs(id(a), id(b))
	})
	return list
}

func compareIDs[T ~[16]byte](a, b T) int { return bytes.Compare(a[:], b[:]) }

// pairs returns the arrays of executions and tokens, sorted.
func pairs(ls []job.Lease) (ids, tokens *array) {
	ids, tokens = uuids(len(ls)), bigints(len(ls))
	for _, l := range sortedBy(ls, func(l job.Lease) [16]byte { return l.Execution }) {
		ids.uuid(l.Execution)
		tokens.int8(int64(l.Token))
	}
	return ids, tokens
}

// A grant whose session has ended gets the token 0, under which nothing is leased. A session bound to a tenant gets
// nothing of another's. Executions of a deleted job are left to whoever deleted it.
//
// A fence locks the partitions it names, in order and before any execution, so that a new owner, which counts running
// executions after taking them, waits for these leases; or this waits for the new owner, and then no longer holds
// them. Without a fence, nothing in a group is leased, and no partition is read.
const (
	leaseSQL       = leaseHead + leaseFrom + ` OFFSET 0) c, jobs j WHERE v.group_key = 0` + leaseTail
	leaseFencedSQL = leaseHead + leaseFence + leaseFenced + ` OFFSET 0) c, jobs j WHERE (v.part = ANY (c.held) OR v.group_key = 0 AND v.part <> ALL ($4::int2[]))` + leaseTail

	leaseFence = `, fence AS MATERIALIZED (
			SELECT coalesce(array_agg(p.part), '{}') AS held FROM unnest($4::int2[], $5::int8[]) f(part, epoch)
			CROSS JOIN LATERAL (SELECT part FROM partitions WHERE duty = 1 AND part = f.part AND owner IS NOT DISTINCT FROM $6::uuid AND epoch = f.epoch OFFSET 0 FOR SHARE) p
		)`

	leaseHead = `
		WITH g AS MATERIALIZED (
			SELECT array_agg(CASE WHEN s.id IS NULL THEN 0 ELSE nextval('tokens') END ORDER BY g.n) AS tokens,
				array_agg(coalesce(s.tenant, '') ORDER BY g.n) AS tenants, count(s.tenant) > 0 AS bound
			FROM unnest($1::uuid[]) WITH ORDINALITY g(worker, n)
			LEFT JOIN LATERAL (SELECT id, tenant FROM sessions WHERE id = g.worker AND NOT deposed AND expires_at > now() OFFSET 0) s ON true
		)`
	// The directory records what was requested: executions that were not leased do not carry the token.
	leaseDirectory = `, directory AS (
			INSERT INTO leases (lease, worker, at, ids)
			SELECT ((SELECT tokens FROM g))[c.g], ($1::uuid[])[c.g], now(), array_agg(c.id) FROM unnest($2::uuid[], $3::int[]) c(id, g)
			WHERE ((SELECT tokens FROM g))[c.g] > 0 GROUP BY c.g
		)`
	leaseSet    = `leased_at = now(), started_at = coalesce(v.started_at, now()), attempt = v.attempt + 1, progress = NULL, progress_at = NULL`
	leaseUpdate = leaseDirectory + `
		UPDATE live v SET lease = c.token, worker = ($1::uuid[])[c.g], ` + leaseSet + `
		FROM (SELECT c.id, c.g, ((SELECT tokens FROM g))[c.g] AS token`
	leaseFrom   = leaseUpdate + ` FROM unnest($2::uuid[], $3::int[]) c(id, g)`
	leaseFenced = leaseUpdate + `, (SELECT held FROM fence) AS held FROM unnest($2::uuid[], $3::int[]) c(id, g)`
	leaseTail   = `
			AND v.id = ANY (ARRAY[c.id]) AND c.token > 0 AND v.lease <= 0 AND v.lease > -c.token AND v.hold = 0 AND v.due_at <= now() AND ` + inTime + `
			AND (NOT (SELECT bound FROM g) OR ((SELECT tenants FROM g))[c.g] IN ('', v.tenant))
			AND j.tenant = ANY (ARRAY[v.tenant]) AND j.id BETWEEN v.job AND v.job AND j.state <> 4 AND NOT (` + unreached + `)
		` + leaseReturning
	leaseReturning = `RETURNING ` + leasedColumns
	leasedColumns  = `v.id, v.lease, v.job, j.name, v.tenant, v.trigger, v.attempt, v.max_attempts, v.scheduled_at, v.due_at, v.leased_at, v.started_at,
			j.target, coalesce(v.payload, j.payload), coalesce(least(nullif(v.timeout_ms, 0), nullif(v.stall_ms, 0)), 0)`
)

// heldColumns are those of live, or of a bundle's member, that leasedColumns reads.
const heldColumns = `v.id, v.lease, v.job, v.tenant, v.trigger, v.attempt, v.max_attempts, v.scheduled_at, v.due_at, v.leased_at, v.started_at, v.payload, v.timeout_ms, v.stall_ms`

// leasedSQL reads what leases gave to workers that still hold them. What is parked or was asked to stop is in no bundle.
const leasedSQL = `
	SELECT ` + leasedColumns + `, c.n
	FROM unnest($1::uuid[], $2::int8[], $3::uuid[]) WITH ORDINALITY c(id, token, worker, n)
	CROSS JOIN LATERAL (SELECT ` + heldColumns + ` FROM live v WHERE v.id = c.id AND v.lease = c.token AND v.lease > 0 AND v.worker = c.worker AND v.parked_until IS NULL AND v.cancel_at IS NULL
		UNION ALL SELECT ` + heldColumns + ` FROM (` + memberOf + `c.id` + inBundle + `) v WHERE v.lease = c.token AND v.lease > 0 AND v.worker = c.worker) v
	CROSS JOIN LATERAL (SELECT name, target, payload FROM jobs WHERE tenant = v.tenant AND id = v.job AND state <> 4 OFFSET 0) j`

// Leased reads again what Lease returned, for workers that still hold it.
func (s *leases) Leased(ctx context.Context, hs []engine.HeldBy) ([]*job.Attempt, error) {
	if len(hs) == 0 {
		return nil, nil
	}
	ids, tokens, workers := uuids(len(hs)), bigints(len(hs)), uuids(len(hs))
	for _, h := range hs {
		ids.uuid(h.Execution)
		tokens.int8(int64(h.Token))
		workers.uuid(h.Worker)
	}
	var got leased
	var places []int64 // in hs, from one
	err := s.ask(ctx, "read what was leased", func(ctx context.Context, c *pgxpool.Conn) error {
		places = places[:0] // a repeated query starts over
		rows, err := c.Query(ctx, leasedSQL, ids, tokens, workers)
		got, err = collectLeased(rows, err, len(hs), func(r *reader) { places = append(places, r.int8()) })
		return err
	})
	if err == nil {
		err = s.memberTargets(ctx, got.attempts, nil)
	}
	if err != nil {
		return nil, err
	}
	out := make([]*job.Attempt, len(hs))
	for i, n := range places {
		out[n-1] = &got.attempts[i]
	}
	return out, nil
}

// If everything is for one session, one scan of live goes through all ids in order, without a join to determine the
// session.
const (
	leaseOneSQL       = leaseHead + leaseOne + `v.group_key = 0` + leaseOneTail
	leaseOneFencedSQL = leaseHead + leaseFence + leaseOne + `(v.part = ANY ((SELECT held FROM fence)::int2[]) OR v.group_key = 0 AND v.part <> ALL ($4::int2[]))` + leaseOneTail

	leaseOne = leaseDirectory + `
		UPDATE live v SET lease = ((SELECT tokens FROM g))[1], worker = ($1::uuid[])[1], ` + leaseSet + `
		FROM jobs j WHERE `
	leaseOneTail = `
			AND v.id = ANY ($2::uuid[]) AND ((SELECT tokens FROM g))[1] > 0 AND v.lease <= 0 AND v.lease > -((SELECT tokens FROM g))[1] AND v.hold = 0 AND v.due_at <= now() AND ` + inTime + `
			AND (NOT (SELECT bound FROM g) OR ((SELECT tenants FROM g))[1] IN ('', v.tenant))
			AND j.tenant = ANY (ARRAY[v.tenant]) AND j.id BETWEEN v.job AND v.job AND j.state <> 4 AND NOT (` + unreached + `)
		` + leaseReturning
)

// fenceArgs returns the arguments of a fence, its partitions sorted, and its server.
func fenceArgs(f engine.Fence) []any {
	parts, epochs := smallints(len(f.Epochs)), bigints(len(f.Epochs))
	for _, p := range slices.Sorted(maps.Keys(f.Epochs)) {
		parts.int2(int(p))
		epochs.int8(f.Epochs[p])
	}
	return []any{parts, epochs, [16]byte(f.Server)}
}

// wish is an execution and its grant, counted from one.
type wish struct {
	id    job.ExecutionID
	grant int
}

// leaseArgs chooses the statement for grants, and builds its parameters.
func leaseArgs(gs []engine.Grant, f engine.Fence) (sql string, args []any) {
	workers := uuids(len(gs))
	var wishes []wish
	for g, grant := range gs {
		workers.uuid(grant.Worker)
		for _, id := range grant.Executions {
			wishes = append(wishes, wish{id, g + 1})
		}
	}
	ids, grants := uuids(len(wishes)), ints(len(wishes))
	for _, w := range sortedBy(wishes, func(w wish) [16]byte { return w.id }) {
		ids.uuid(w.id)
		grants.int4(w.grant)
	}
	sql, fenced := leaseSQL, leaseFencedSQL
	if len(gs) == 1 {
		sql, fenced = leaseOneSQL, leaseOneFencedSQL
	}
	args = []any{workers, ids, grants}
	if len(f.Epochs) > 0 {
		sql, args = fenced, append(args, fenceArgs(f)...)
	}
	return sql, args
}

// Lease gives each session the executions it requests and the fence lets through, in the requested order; usually in
// one commit, with executions taken out of bundles in another.
func (s *leases) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]job.Attempt, error) {
	if len(gs) == 0 {
		return nil, nil
	}
	g := newGiven(gs)
	if ps := s.parcels(gs); len(ps) > 0 {
		if err := s.leaseBundles(ctx, gs, ps, f, g); err != nil {
			return nil, err
		}
	}
	if g.count < len(g.all) || len(g.all) == 0 {
		if err := s.leaseRows(ctx, gs, f, g); err != nil { // even if it may have committed: the caller disowns what it does not know of
			return nil, err
		}
	}
	s.watch.given(g.first)
	as := g.attempts()
	if err := s.memberTargets(ctx, as, g.members); err != nil { // the caller disowns what it was not told of
		return nil, err
	}
	return as, nil
}

// leaseRows leases executions that are not in bundles.
func (s *leases) leaseRows(ctx context.Context, gs []engine.Grant, f engine.Fence, g *given) error {
	rest := g.rest(gs)
	sql, args := leaseArgs(rest, f)
	nodes := nodesIn(rest)
	var got leased
	err := s.write(ctx, "lease", func(ctx context.Context, c *pgxpool.Conn) error {
		err := hitting(ctx, c.Conn(), "claim.beforeCommit", func() error {
			if nodes == nil {
				rows, err := c.Query(ctx, sql, args...)
				got, err = collectLeased(rows, err, len(g.all)-g.count)
				return err
			}
			var b pgx.Batch
			b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
				got, err = collectLeased(rows, nil, len(g.all)-g.count)
				return err
			})
			b.Queue(memberTargetsSQL, nodes).Query(func(rows pgx.Rows) (err error) {
				g.members, err = collectTargets(rows)
				return err
			})
			return c.SendBatch(ctx, &b).Close()
		})
		if err != nil || len(got.attempts)+g.count > 0 {
			return err
		}
		var alive bool
		err = c.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ANY ($1::uuid[]) AND NOT deposed AND expires_at > now())", args[0]).Scan(&alive)
		if err == nil && !alive {
			return engine.ErrSession
		}
		return err
	})
	if err == nil {
		g.take(got)
	}
	return err
}

const releaseSQL = `
	WITH asked AS MATERIALIZED (
		SELECT v.id, v.tenant, v.job, r.token FROM unnest($1::uuid[], $2::int8[]) r(id, token)
		CROSS JOIN LATERAL (SELECT id, tenant, job FROM live WHERE id = r.id AND lease = r.token AND lease > 0 AND ($4::uuid IS NULL OR worker = $4) OFFSET 0) v
	), ` + backSQL

// Release returns executions that the worker holds to the queue, uncharged; it skips other leases.
func (s *leases) Release(ctx context.Context, w job.WorkerID, ls []job.Lease) (engine.Requeued, error) {
	if len(ls) == 0 {
		return engine.Requeued{}, nil
	}
	ids, tokens := pairs(ls)
	by := any([16]byte(w))
	if w == (job.WorkerID{}) {
		by = nil
	}
	var out engine.Requeued
	err := s.write(ctx, "release", func(ctx context.Context, c *pgxpool.Conn) error {
		if err := unpack(ctx, s.database, c, executionsOf(ls)...); err != nil {
			return err
		}
		return withDays(ctx, c, func() (err error) {
			out.Ready, out.Ended, err = collectBack(c.Query(ctx, releaseSQL, ids, tokens, jobDeleted, by))
			return err
		})
	})
	if err != nil {
		return engine.Requeued{}, err
	}
	return out, nil
}
