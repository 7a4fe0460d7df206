package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// lanesSQL skips from lane to lane, one probe of the index each, behind the one given.
const lanesSQL = `
	WITH RECURSIVE l(lane, group_key, priority, part, tenant, class) AS (
		(SELECT lane, group_key, priority, part, tenant, class FROM live
		WHERE lane >= 0 AND (lane, group_key, priority) > ($1::int8, $2::int8, $3::int2)
		ORDER BY lane, group_key, priority LIMIT 1)
		UNION ALL
		SELECT n.lane, n.group_key, n.priority, n.part, n.tenant, n.class FROM l CROSS JOIN LATERAL (
			SELECT lane, group_key, priority, part, tenant, class FROM live v
			WHERE lane >= 0 AND (v.lane, v.group_key, v.priority) > (l.lane, l.group_key, l.priority)
			ORDER BY lane, group_key, priority LIMIT 1
		) n
	)
	SELECT part, tenant, class, group_key, priority FROM l LIMIT $4`

// Lanes lists up to limit lanes that hold any execution, behind one.
func (s *Store) Lanes(ctx context.Context, after *job.Lane, limit int) ([]job.Lane, error) {
	number := int64(-1)
	if after == nil {
		after = &job.Lane{}
	} else {
		number = engine.LaneNumber(after.Partition, after.Tenant, after.Class)
	}
	var out []job.Lane
	err := s.ask(ctx, "list lanes", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, lanesSQL, number, int64(after.Group), int16(after.Priority), max(limit, 0))
		if err != nil {
			return err
		}
		defer rows.Close()
		known := texter{} // a sweep lists very many, of few tenants and classes
		for out = nil; rows.Next(); {
			r := reader{values: rows.RawValues()}
			out = append(out, job.Lane{Partition: job.Partition(r.int2()), Tenant: tenant.ID(known.text(r.bytes())), Class: job.Class(known.text(r.bytes())), Group: job.GroupKey(r.int8()), Priority: r.int2()})
			if r.bad {
				return errUnexpected
			}
		}
		return rows.Err()
	})
	return out, err
}

const (
	// ofLane is that an execution is in the lane c: two classes may share a number.
	ofLane = `v.lane >= 0 AND v.lane = c.lane AND v.group_key = c.group_key AND v.priority = c.priority AND v.tenant = c.tenant AND v.class = c.class`

	// inTime leaves out what has expired before it started.
	inTime = `(v.expires_at IS NULL OR v.expires_at > now() OR v.started_at IS NOT NULL)`

	readySQL = `
	SELECT ` + readyColumns + `
	FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[], $5::int2[], $6::timestamptz[], $7::uuid[]) WITH ORDINALITY c(lane, tenant, class, group_key, priority, due_at, id, n)
	CROSS JOIN LATERAL (
		SELECT ` + readyColumns + ` FROM live v
		WHERE ` + ofLane + `
			AND (v.due_at, v.id) > (coalesce(c.due_at, '-infinity'), c.id) AND v.due_at <= now() AND v.lease <= 0 AND v.hold = 0 AND ` + inTime + `
		ORDER BY v.due_at, v.id LIMIT $8
	) v
	ORDER BY c.n, v.due_at, v.id`

	countReadySQL = `
	SELECT k.count
	FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[], $5::int2[]) WITH ORDINALITY c(lane, tenant, class, group_key, priority, n)
	CROSS JOIN LATERAL (
		SELECT count(*) FROM (
			SELECT FROM live v
			WHERE ` + ofLane + ` AND v.due_at <= now() AND v.lease <= 0 AND v.hold = 0 AND ` + inTime + `
			ORDER BY v.due_at, v.id LIMIT $6
		) v
	) k
	ORDER BY c.n`
)

// laneArgs are lanes as the statements take them.
type laneArgs struct{ numbers, tenants, classes, groups, priorities *array }

func newLaneArgs(n int) laneArgs {
	return laneArgs{bigints(n), texts(n), texts(n), bigints(n), smallints(n)}
}

func (a laneArgs) add(l *job.Lane) {
	a.numbers.int8(engine.LaneNumber(l.Partition, l.Tenant, l.Class))
	a.tenants.text(string(l.Tenant))
	a.classes.text(string(l.Class))
	a.groups.int8(int64(l.Group))
	a.priorities.int2(l.Priority)
}

// CountReady counts, for each lane, free and due executions, up to most.
func (s *Store) CountReady(ctx context.Context, ls []job.Lane, most int) ([]int, error) {
	if len(ls) == 0 {
		return nil, nil
	}
	a := newLaneArgs(len(ls))
	for i := range ls {
		a.add(&ls[i])
	}
	var out []int
	err := s.ask(ctx, "count what is ready", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		rows, _ := c.Query(ctx, countReadySQL, a.numbers, a.tenants, a.classes, a.groups, a.priorities, max(most, 0)) // CollectRows says what was wrong
		out, err = pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	})
	return out, err
}

// Ready lists, for each cursor, up to perLane free and due executions behind it, in due order.
func (s *Store) Ready(ctx context.Context, cs []engine.LaneCursor, perLane int) ([]job.Ready, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	a, dues, ids := newLaneArgs(len(cs)), instants(len(cs)), uuids(len(cs))
	for i := range cs {
		a.add(&cs[i].Lane)
		dues.time(cs[i].DueAt)
		ids.uuid(cs[i].After)
	}
	var out []job.Ready
	err := s.ask(ctx, "find what is ready", func(ctx context.Context, c *pgxpool.Conn) (err error) {
		out, err = collectReady(c.Query(ctx, readySQL, a.numbers, a.tenants, a.classes, a.groups, a.priorities, dues, ids, perLane))
		return err
	})
	return out, err
}
