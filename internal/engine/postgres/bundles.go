package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// A bundle is a row for executions that were created together: the own fires of one-off jobs that differ only in
// their jobs and groups. It is listed in the lane of executions without a group, until a group's limit holds one of
// them back. A bundle is leased, and ends, as one row; the first of its executions that is treated differently causes
// all of them to be unpacked into rows of live, which changes only how they are stored. So rows in live are never
// packed again, a free bundle is as it was created, and a leased one never becomes free.
//
// Bundles are locked before jobs and rows of live, in the order of their keys.

var bundlesTable = newTable("bundles",
	field{"lane", pgtype.Int8OID}, field{"due_at", pgtype.TimestamptzOID}, field{"scheduled_at", pgtype.TimestamptzOID}, field{"key", pgtype.UUIDOID},
	field{"priority", pgtype.Int2OID}, field{"part", pgtype.Int2OID}, field{"max_attempts", pgtype.Int4OID}, field{"timeout_ms", pgtype.Int8OID},
	field{"tenant", pgtype.TextOID}, field{"class", pgtype.TextOID}, field{"open", pgtype.Int8OID}, field{"ids", pgtype.UUIDArrayOID},
	field{"groups", pgtype.Int8ArrayOID}, field{"group_max", pgtype.Int4OID}, field{"rate_count", pgtype.Int4OID}, field{"rate_us", pgtype.Int8OID}, field{"rate_burst", pgtype.Int4OID})

// packing is the choice of executions to put into bundles.
type packing int

const (
	packMany packing = iota // sufficiently long runs of executions whose ids were made for a bundle
	packAll                 // every execution without a group that a bundle can hold, even alone; for tests
)

// packing returns which executions are put into bundles.
func (s *database) packing() packing {
	if s.packsAll {
		return packAll
	}
	return packMany
}

// bundle adds a row for executions.
func (s *sheet) bundle(t tenant.ID, es []*job.Execution) {
	first, open := es[0], int64(0)
	for _, e := range es {
		open |= 1 << job.Member(e.ID)
	}
	s.row()
	s.next().int8(s.lane(t, first))
	s.next().time(first.DueAt)
	s.next().time(first.ScheduledAt)
	s.next().uuid(first.ID)
	s.next().int2(first.Priority)
	s.next().int2(int(first.Partition))
	s.next().int4(first.MaxAttempts)
	s.next().int8(first.Timeout.Milliseconds())
	s.next().text(string(t))
	s.next().text(string(first.Class))
	s.next().int8(open)
	c := s.next()
	at := c.open()
	*c = appendArrayHeader(*c, pgtype.UUIDOID, len(es))
	for _, e := range es {
		c.uuid(e.ID)
	}
	c.shut(at)
	if c = s.next(); first.Group.Key == 0 {
		c.null()
	} else {
		at := c.open()
		*c = appendArrayHeader(*c, pgtype.Int8OID, len(es))
		for _, e := range es {
			c.int8(int64(e.Group.Key))
		}
		c.shut(at)
	}
	s.next().int4OrNull(first.Group.Max)
	s.next().int4OrNull(first.Group.Rate.Count)
	s.next().int8OrNull(first.Group.Rate.Per.Microseconds())
	s.next().int4OrNull(first.Group.Rate.Burst)
}

// packer puts executions of creations into bundles, and those that cannot be in one into rows.
type packer struct {
	pages *pages
	how   packing
	runs  []run
	last  int              // the run of the last execution
	of    map[[16]byte]int // the runs, by the common part of their ids
}

// run holds executions of a creation that may share a bundle.
type run struct {
	owner    tenant.ID
	creation int
	es       []*job.Execution
}

// add adds the executions of creations in their order.
func (p *packer) add(t tenant.ID, creation int, f fired) {
	if p.how == packMany && !job.Bundled(f.ID) || p.how == packAll && f.Group.Key != 0 || !packs(f) {
		p.row(t, creation, f)
		return
	}
	bundle := job.BundleOf(f.ID)
	if len(p.runs) == 0 || job.BundleOf(p.runs[p.last].es[0].ID) != bundle {
		at, ok := p.of[bundle]
		if !ok {
			if p.of == nil {
				p.of = map[[16]byte]int{}
			}
			at = len(p.runs)
			p.of[bundle] = at
			p.runs = append(p.runs, run{t, creation, append(make([]*job.Execution, 0, job.Bundle), f.Execution)})
			p.last = at
			return
		}
		p.last = at
	}
	r := &p.runs[p.last]
	if r.creation != creation || !together(r.es[0], f.Execution) || job.Member(r.es[len(r.es)-1].ID) >= job.Member(f.ID) {
		p.row(t, creation, f)
		return
	}
	r.es = append(r.es, f.Execution)
}

func (p *packer) row(t tenant.ID, creation int, f fired) {
	p.pages.executions.execution(t, f.Execution, f.tally)
	p.pages.executions.mark(creation)
}

// flush stores the executions that may share bundles.
func (p *packer) flush() {
	for _, r := range p.runs {
		if len(r.es) >= job.BundleLeast || p.how == packAll {
			p.pages.bundles.bundle(r.owner, r.es)
			p.pages.bundles.mark(r.creation)
			continue
		}
		for _, e := range r.es {
			p.row(r.owner, r.creation, fired{Execution: e})
		}
	}
}

// packs reports whether a bundle can represent everything about an execution, except for its job.
func packs(f fired) bool {
	e := f.Execution
	return !f.tally && e.Trigger == job.ByAPI && e.UniqueKey == "" && e.Payload == nil && e.Stall == 0 && e.ExpiresAt.IsZero() && hold(e) == 0
}

// together reports whether two executions may share a bundle.
func together(a, b *job.Execution) bool {
	return job.BundleOf(a.ID) == job.BundleOf(b.ID) && a.Partition == b.Partition && a.Class == b.Class && a.Priority == b.Priority && a.MaxAttempts == b.MaxAttempts &&
		a.Timeout == b.Timeout && (a.Group.Key == 0) == (b.Group.Key == 0) && a.Group.Max == b.Group.Max && a.Group.Rate == b.Group.Rate && a.DueAt.Equal(b.DueAt) && a.ScheduledAt.Equal(b.ScheduledAt)
}

const (
	// isOpen is the condition that the member u.id of the bundle b has not finished.
	isOpen = `b.open >> (get_byte(uuid_send(u.id), 12) >> 3) & 1 = 1`

	// memberColumns are those of live, with the values of the member u.id of the bundle b.
	memberColumns = `u.id, u.id AS job, b.tenant, b.lane, b.class, b.part, b.priority, b.due_at, b.scheduled_at, b.max_attempts, b.timeout_ms, b.lease, b.worker, b.leased_at,
		b.leased_at AS started_at, (b.lease > 0)::int AS attempt, 0 AS tries, 0 AS lost, 8::int2 AS trigger, 0::int8 AS nonce, 0::int2 AS hold, false AS tally,
		NULL::uuid AS retry_of, NULL::bytea AS payload, NULL::timestamptz AS cancel_at, NULL::text AS unique_key, NULL::timestamptz AS expires_at, NULL::int8 AS stall_ms,
		NULL::bytea AS progress, NULL::timestamptz AS progress_at, NULL::timestamptz AS parked_until,
		coalesce(b.groups[array_position(b.ids, u.id)], 0) AS group_key, b.group_max, b.rate_count, b.rate_us, b.rate_burst`

	// memberOf and inBundle, with an expression for an id between them, give the row of live that the member would
	// be.
	memberOf = `SELECT ` + memberColumns + ` FROM (SELECT `
	inBundle = ` AS id) u CROSS JOIN LATERAL (
			SELECT * FROM bundles WHERE key BETWEEN (left(u.id::text, 28) || '00000000')::uuid AND u.id AND ids @> ARRAY[u.id] OFFSET 0
		) b WHERE ` + isOpen
)

var (
	unpackSQL     = unpacking("")
	unpackFreeSQL = unpacking(" AND lease = 0") // leaves what runs as it is
)

func unpacking(also string) string {
	return `
		WITH seen AS MATERIALIZED (
			SELECT b.key, a.id FROM unnest($1::uuid[], $2::uuid[]) a(low, id)
			CROSS JOIN LATERAL (SELECT key FROM bundles WHERE key BETWEEN a.low AND a.id AND ids @> ARRAY[a.id]` + also + ` OFFSET 0) b
		), held AS MATERIALIZED (
			SELECT b.key FROM seen s
			CROSS JOIN LATERAL (SELECT key FROM bundles WHERE key = s.key AND ids @> ARRAY[s.id]` + also + ` OFFSET 0 FOR UPDATE) b
		), gone AS (
			DELETE FROM bundles b USING (SELECT DISTINCT key FROM held) h WHERE b.key = ANY (ARRAY[h.key]) RETURNING b.*
		), back AS (
			INSERT INTO live (id, job, tenant, lane, class, part, priority, due_at, scheduled_at, max_attempts, timeout_ms, lease, worker, leased_at, started_at, attempt, trigger, nonce, tally,
				group_key, group_max, rate_count, rate_us, rate_burst)
			SELECT id, job, tenant, lane, class, part, priority, due_at, scheduled_at, max_attempts, timeout_ms, lease, worker, leased_at, started_at, attempt, trigger, nonce, tally,
				group_key, group_max, rate_count, rate_us, rate_burst
			FROM (SELECT ` + memberColumns + ` FROM gone b CROSS JOIN LATERAL unnest(b.ids) u(id) WHERE ` + isOpen + `) v
		)
		SELECT (SELECT count(*) FROM seen), (SELECT count(*) FROM held)`
}

// rower queries one row: a connection, or a transaction.
type rower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// marked reports whether an execution, or the job with the same id, may be in a bundle.
func (s *database) marked(id [16]byte) bool { return s.packsAll || job.Bundled(id) }

// unpack turns bundles that contain the executions, or the jobs with their ids, into rows of live.
func unpack[T ~[16]byte](ctx context.Context, s *database, c rower, ids ...T) error {
	return s.unpackBy(ctx, c, unpackSQL, marked(s, ids))
}

// marked returns the ids that may be in bundles.
func marked[T ~[16]byte](s *database, ids []T) (out [][16]byte) {
	for _, id := range ids {
		if s.marked(id) {
			out = append(out, id)
		}
	}
	return out
}

// unpackBy unpacks with one of the two statements. If a bundle was split meanwhile, the next call handles the rest.
func (s *database) unpackBy(ctx context.Context, c rower, sql string, ids [][16]byte) error {
	if len(ids) == 0 {
		return nil
	}
	ids = slices.Compact(sortedBy(ids, func(id [16]byte) [16]byte { return id }))
	lows, all := uuids(len(ids)), uuids(len(ids))
	for _, id := range ids {
		lows.uuid(job.BundleOf(id))
		all.uuid(id)
	}
	for {
		var seen, unpacked int
		if err := c.QueryRow(ctx, sql, lows, all).Scan(&seen, &unpacked); err != nil || seen == unpacked {
			return err
		}
	}
}

// Unpack makes free executions be listed in the lanes of their groups.
func (s *leases) Unpack(ctx context.Context, ids []job.ExecutionID) error {
	list := marked(s.database, ids)
	if len(list) == 0 {
		return nil
	}
	return s.write(ctx, "unpack bundles", func(ctx context.Context, c *pgxpool.Conn) error { return s.unpackBy(ctx, c, unpackFreeSQL, list) })
}

// givenBundlesSQL lists the bundles that leases gave.
const givenBundlesSQL = "SELECT k.key FROM leases l CROSS JOIN LATERAL unnest(l.keys) k(key) WHERE l.lease = ANY ($1::int8[])"

// unpackLeases turns the bundles given by leases into rows of live.
func (s *database) unpackLeases(ctx context.Context, c interface {
	rower
	querier
}, leases *array) error {
	rows, _ := c.Query(ctx, givenBundlesSQL, leases)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return err
	}
	return s.unpackBy(ctx, c, unpackSQL, keys)
}

// unpackMost limits how many bundles are unpacked at once if that can wait, well within a statement's time limit.
const unpackMost = 1000

// unpackOverdue turns bundles under overdue leases into rows of live.
func (s *leases) unpackOverdue(ctx context.Context, c *pgxpool.Conn, slack time.Duration, leases *array) error {
	rows, _ := c.Query(ctx, overdueBundlesSQL, slack, leases, unpackMost)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return err
	}
	return s.unpackBy(ctx, c, unpackSQL, keys)
}

// executionsOf returns the executions of leases.
func executionsOf(ls []job.Lease) []job.ExecutionID {
	out := make([]job.ExecutionID, len(ls))
	for i := range ls {
		out[i] = ls[i].Execution
	}
	return out
}
