package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// lanesSQL skips from lane to lane, with one index lookup each, after the one given; bundledLanesSQL does the same
// for bundles, which are in no group.
const (
	lanesSQL = `
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
	SELECT lane, part, tenant, class, group_key, priority FROM l LIMIT $4`

	bundledLanesSQL = `
	WITH RECURSIVE l(lane, priority, part, tenant, class) AS (
		(SELECT lane, priority, part, tenant, class FROM bundles
		WHERE lane >= 0 AND (lane, priority) > ($1::int8, $2::int2)
		ORDER BY lane, priority LIMIT 1)
		UNION ALL
		SELECT n.lane, n.priority, n.part, n.tenant, n.class FROM l CROSS JOIN LATERAL (
			SELECT lane, priority, part, tenant, class FROM bundles b
			WHERE lane >= 0 AND (b.lane, b.priority) > (l.lane, l.priority)
			ORDER BY lane, priority LIMIT 1
		) n
	)
	SELECT lane, part, tenant, class, 0::int8, priority FROM l LIMIT $3`
)

// Lanes lists up to limit lanes that hold any execution, after one.
func (s *leases) Lanes(ctx context.Context, after *job.Lane, limit int) ([]job.Lane, error) {
	number := int64(-1)
	if after == nil {
		after = &job.Lane{}
	} else {
		number = engine.LaneNumber(after.Partition, after.Tenant, after.Class)
	}
	var out []job.Lane
	err := s.ask(ctx, "list lanes", func(ctx context.Context, c *pgxpool.Conn) error {
		b := &pgx.Batch{}
		behind := int16(after.Priority)
		switch { // bundles are in no group, which sorts between negative keys and the others
		case after.Group > 0:
			behind = math.MaxInt16
		case after.Group < 0:
			behind = math.MinInt16
		}
		b.Queue(bundledLanesSQL, number, behind, max(limit, 0)) // first: executions unpacked meanwhile are found twice, rather than missed
		b.Queue(lanesSQL, number, int64(after.Group), int16(after.Priority), max(limit, 0))
		r := c.SendBatch(ctx, b)
		defer r.Close()
		known := texter{} // a sweep lists very many, of few tenants and classes
		bundled, err := known.lanes(r.Query())
		if err != nil {
			return err
		}
		rows, err := known.lanes(r.Query())
		if err != nil {
			return err
		}
		out = mergeLanes(bundled, rows, limit)
		return r.Close()
	})
	return out, err
}

// numbered is a lane with its number.
type numbered struct {
	number int64
	job.Lane
}

// lanes reads the result of lanesSQL and bundledLanesSQL.
func (t texter) lanes(rows pgx.Rows, err error) (out []numbered, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r := reader{values: rows.RawValues()}
		out = append(out, numbered{r.int8(), job.Lane{
			Partition: job.Partition(r.int2()), Tenant: tenant.ID(t.text(r.bytes())), Class: job.Class(t.text(r.bytes())), Group: job.GroupKey(r.int8()), Priority: r.int2(),
		}})
		if r.bad {
			return nil, errUnexpected
		}
	}
	return out, rows.Err()
}

// mergeLanes merges two lists in the order of the index.
func mergeLanes(a, b []numbered, limit int) (out []job.Lane) {
	for len(a)+len(b) > 0 && len(out) < limit {
		order := -1
		switch {
		case len(a) == 0:
			order = 1
		case len(b) > 0:
			order = cmp.Or(cmp.Compare(a[0].number, b[0].number), cmp.Compare(a[0].Group, b[0].Group), cmp.Compare(a[0].Priority, b[0].Priority))
		}
		if order <= 0 {
			out, a = append(out, a[0].Lane), a[1:]
		} else {
			out = append(out, b[0].Lane)
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return out
}

const (
	// ofLane is the condition that an execution is in the lane c: two classes may share a number.
	ofLane = `v.lane >= 0 AND v.lane = c.lane AND v.group_key = c.group_key AND v.priority = c.priority AND v.tenant = c.tenant AND v.class = c.class`

	// inTime leaves out executions that expired before they started.
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

	// readyBundlesSQL lists bundles that begin at or after the cursor's; those before it are skipped later.
	readyBundlesSQL = `
	SELECT c.n, b.tenant, b.part, b.class, b.priority, b.due_at, b.ids, b.groups, b.group_max, b.rate_count, b.rate_us, b.rate_burst
	FROM unnest($1::int8[], $2::text[], $3::text[], $4::int8[], $5::int2[], $6::timestamptz[], $7::uuid[]) WITH ORDINALITY c(lane, tenant, class, group_key, priority, due_at, low, n)
	CROSS JOIN LATERAL (
		SELECT tenant, part, class, priority, due_at, key, ids, groups, group_max, rate_count, rate_us, rate_burst FROM bundles b
		WHERE ` + bundleOfLane + ` AND (b.due_at, b.key) >= (coalesce(c.due_at, '-infinity'), c.low) AND b.due_at <= now() AND b.lease = 0
		ORDER BY b.due_at, b.key LIMIT $8
	) b
	ORDER BY c.n, b.due_at, b.key`
	bundleOfLane = `b.lane >= 0 AND b.lane = c.lane AND c.group_key = 0 AND b.priority = c.priority AND b.tenant = c.tenant AND b.class = c.class`
)

// laneArgs returns lanes in the form of the statements.
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

// Ready lists, for each cursor, up to perLane free and due executions after it, in due order, and, if perLane is
// large, the whole last bundle. It reads as many bundles as should suffice, and more if they did not.
func (s *leases) Ready(ctx context.Context, cs []engine.LaneCursor, perLane int) ([]job.Ready, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	out, short, err := s.readyOf(ctx, cs, perLane, perLane/max(1, int(s.perBundle.Load()))+2)
	if err != nil || len(short) == 0 {
		return out, err
	}
	again := make([]engine.LaneCursor, 0, len(short))
	for _, c := range cs {
		if short[c.Lane] {
			again = append(again, c)
		}
	}
	rest, _, err := s.readyOf(ctx, again, perLane, perLane+job.Bundle) // that many suffice, however small they are
	return append(slices.DeleteFunc(out, func(r job.Ready) bool { return short[r.Lane()] }), rest...), err
}

// readyOf reads up to most bundles of each lane, and all requested rows. A lane is short if it has that many bundles
// with fewer than perLane executions.
func (s *leases) readyOf(ctx context.Context, cs []engine.LaneCursor, perLane, most int) (out []job.Ready, short map[job.Lane]bool, err error) {
	a, dues, ids, lows := newLaneArgs(len(cs)), instants(len(cs)), uuids(len(cs)), uuids(len(cs))
	for i := range cs {
		a.add(&cs[i].Lane)
		dues.time(cs[i].DueAt)
		ids.uuid(cs[i].After)
		lows.uuid(job.BundleOf(cs[i].After))
	}
	err = s.ask(ctx, "find what is ready", func(ctx context.Context, c *pgxpool.Conn) error {
		b := &pgx.Batch{}
		b.Queue(readyBundlesSQL, a.numbers, a.tenants, a.classes, a.groups, a.priorities, dues, lows, most) // first, as in Lanes
		b.Queue(readySQL, a.numbers, a.tenants, a.classes, a.groups, a.priorities, dues, ids, perLane)
		r := c.SendBatch(ctx, b)
		bundled, err := collectBundles(r.Query())
		if err == nil {
			out, err = collectReady(r.Query())
		}
		if closed := r.Close(); err == nil {
			err = closed
		}
		if err != nil || len(bundled) == 0 {
			return err
		}
		s.learn(bundled)
		out, short = mergeReady(cs, bundled, out, perLane, most)
		return nil
	})
	return out, short, err
}

// learn records the average number of executions in recent bundles.
func (s *leases) learn(bundled []free) {
	n := 0
	for i := range bundled {
		n += len(bundled[i].ids)
	}
	s.perBundle.Store((3*s.perBundle.Load() + int64(n/len(bundled))) / 4) // rather too few: then a few more are read
}

// free is a free bundle, and the index of the cursor that found it.
type free struct {
	place int
	job.Ready
	ids    []job.ExecutionID
	groups []job.GroupKey // nil: all are in none
}

// collectBundles reads the result of readyBundlesSQL.
func collectBundles(rows pgx.Rows, err error) (out []free, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	known := texter{}
	for rows.Next() {
		r := reader{values: rows.RawValues()}
		f := free{place: int(r.int8()) - 1}
		f.Tenant, f.Partition, f.Class, f.Priority, f.DueAt = tenant.ID(known.text(r.bytes())), job.Partition(r.int2()), job.Class(known.text(r.bytes())), r.int2(), r.time()
		f.ids, f.groups = r.uuids(), r.groups()
		f.Group.Max, f.Group.Rate = r.int4OrZero(), job.Rate{Count: r.int4OrZero(), Per: time.Duration(r.int8OrZero()) * time.Microsecond, Burst: r.int4OrZero()}
		f.Packed = f.groups != nil
		if r.bad || f.Packed && len(f.groups) != len(f.ids) {
			return nil, errUnexpected
		}
		out = append(out, f)
	}
	return out, rows.Err()
}

// mergeReady splits bundles into executions and merges them with rows, in due order, up to perLane for each cursor.
// If that is at least the size of a bundle, none is listed in part: it would be leased in parts. A lane is short if
// it has as many bundles as requested with fewer than perLane executions.
func mergeReady(cs []engine.LaneCursor, bundled []free, rows []job.Ready, perLane, most int) (out []job.Ready, short map[job.Lane]bool) {
	out = make([]job.Ready, 0, min(len(cs)*perLane, len(rows)+len(bundled)*job.Bundle))
	for place := range cs {
		c, begin, seen := &cs[place], len(out), 0
		for ; len(bundled) > 0 && bundled[0].place == place; bundled = bundled[1:] {
			seen++
			if len(out)-begin >= perLane {
				continue
			}
			for i, id := range bundled[0].ids {
				r := bundled[0].Ready
				if r.Packed {
					r.Group.Key = bundled[0].groups[i]
				}
				if r.ID = id; (len(out)-begin < perLane || perLane >= job.Bundle) && behindCursor(&r, c) {
					out = append(out, r)
				}
			}
		}
		if seen == most && len(out)-begin < perLane {
			if short == nil {
				short = map[job.Lane]bool{}
			}
			short[c.Lane] = true
		}
		packed := len(out)
		for ; len(rows) > 0 && rows[0].Lane() == c.Lane; rows = rows[1:] {
			out = append(out, rows[0])
		}
		if lane := out[begin:]; packed > begin && packed < len(out) {
			last, all := out[len(out)-1], len(out)-packed < perLane // otherwise there may be rows after the last that were not read
			slices.SortFunc(lane, byReady)
			lane = slices.CompactFunc(lane, func(a, b job.Ready) bool { return a.ID == b.ID }) // it was unpacked meanwhile
			end := min(len(lane), perLane)
			for perLane >= job.Bundle && end < len(lane) && sameBundle(&lane[end-1], &lane[end]) && (all || byReady(lane[end], last) <= 0) {
				end++
			}
			out = out[:begin+end]
		}
	}
	return out, short
}

// sameBundle reports whether two executions may be of one bundle.
func sameBundle(a, b *job.Ready) bool {
	return job.Bundled(a.ID) && job.BundleOf(a.ID) == job.BundleOf(b.ID)
}

// behindCursor reports whether an execution is after a cursor.
func behindCursor(r *job.Ready, c *engine.LaneCursor) bool {
	return c.DueAt.IsZero() || byReady(job.Ready{ID: c.After, DueAt: c.DueAt}, *r) < 0
}

// byReady compares executions in the order of a lane.
func byReady(a, b job.Ready) int { return cmp.Or(a.DueAt.Compare(b.DueAt), compareIDs(a.ID, b.ID)) }
