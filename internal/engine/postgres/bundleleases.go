package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// As with rows, executions in a group are leased only under a fence. A bundle is leased if its grant requests its
// first executions; the others become a new bundle. A free bundle does not change, so the statement read all of a
// bundle that it then leased. The jobs of a bundle are read as one range of their index.
const (
	leaseBundlesSQL       = leaseHead + bundlesWanted + `FROM wanted w WHERE b.groups IS NULL AND ` + bundlesLeased
	leaseBundlesFencedSQL = leaseHead + leaseFenceAt9 + bundlesWanted + `FROM wanted w WHERE (b.part = ANY ((SELECT held FROM fence)::int2[]) OR b.groups IS NULL AND b.part <> ALL ($9::int2[])) AND ` + bundlesLeased

	leaseFenceAt9 = `, fence AS MATERIALIZED (
			SELECT coalesce(array_agg(p.part), '{}') AS held FROM unnest($9::int2[], $10::int8[]) f(part, epoch)
			CROSS JOIN LATERAL (SELECT part FROM partitions WHERE duty = 1 AND part = f.part AND owner IS NOT DISTINCT FROM $11::uuid AND epoch = f.epoch OFFSET 0 FOR SHARE) p
		)`
	bundlesWanted = `, wanted AS MATERIALIZED (
			SELECT w.first, w.n, w.g, w.at, w.mask, ((SELECT tokens FROM g))[w.g] AS token, o.ids, o.open, o.groups
			FROM unnest($3::uuid[], $4::int4[], $5::int4[], $6::int4[], $7::int8[]) w(first, n, g, at, mask)
			CROSS JOIN LATERAL (SELECT ids, open, groups FROM bundles WHERE key = w.first AND lease = 0 OFFSET 0) o
			WHERE o.ids[1:w.n] = ($2::uuid[])[w.at:w.at + w.n - 1] AND (w.n >= $8 OR w.n = cardinality(o.ids))
		), took AS (
			UPDATE bundles b SET lease = w.token, worker = ($1::uuid[])[w.g], leased_at = now(), ids = ($2::uuid[])[w.at:w.at + w.n - 1], open = w.mask, groups = w.groups[1:w.n]
			`
	bundlesLeased = `b.key = ANY (ARRAY[w.first]) AND w.token > 0 AND b.lease = 0 AND b.due_at <= now()
				AND (NOT (SELECT bound FROM g) OR ((SELECT tenants FROM g))[w.g] IN ('', b.tenant))
			RETURNING b.*, w.n, w.ids AS whole, w.open AS opened, w.groups AS grouped
		), rest AS (
			INSERT INTO bundles (lane, due_at, scheduled_at, key, priority, part, max_attempts, timeout_ms, tenant, class, open, ids, groups, group_max, rate_count, rate_us, rate_burst)
			SELECT lane, due_at, scheduled_at, whole[n + 1], priority, part, max_attempts, timeout_ms, tenant, class, opened & ~open, whole[n + 1:], grouped[n + 1:], group_max, rate_count, rate_us, rate_burst
			FROM took WHERE n < cardinality(whole)
		), directory AS (
			INSERT INTO leases (lease, worker, at, ids, keys)
			SELECT lease, worker, now(), (SELECT array_agg(u.id) FROM took m CROSS JOIN LATERAL unnest(m.ids) u(id) WHERE m.lease = t.lease), array_agg(key)
			FROM took t GROUP BY lease, worker
		)
		SELECT j.id, t.lease, j.id, j.name, t.tenant, 8::int2, 1, t.max_attempts, t.scheduled_at, t.due_at, t.leased_at, t.leased_at, j.target, j.payload, t.timeout_ms
		FROM took t CROSS JOIN LATERAL (SELECT id, name, target, payload FROM jobs WHERE tenant = t.tenant AND id BETWEEN t.key AND t.ids[t.n] OFFSET 0) j
		WHERE t.open >> (get_byte(uuid_send(j.id), 12) >> 3) & 1 = 1`
)

// bundleApart is the number of executions below which a claim does not split a bundle: what is wanted one by one is
// better stored in rows.
const bundleApart = 3

// parcel is a grant's part of a bundle.
type parcel struct {
	grant int // counted from one
	ids   []job.ExecutionID
}

// parcels returns the executions that may be in bundles, by grant and bundle, in the order of their ids.
func (s *leases) parcels(gs []engine.Grant) (out []parcel) {
	type of struct {
		grant  int
		bundle [16]byte
	}
	places := map[of]int{}
	for g, grant := range gs {
		for _, id := range grant.Executions {
			if !s.marked(id) {
				continue
			}
			k := of{g + 1, job.BundleOf(id)}
			p, ok := places[k]
			if !ok {
				p = len(out)
				places[k] = p
				out = append(out, parcel{grant: g + 1})
			}
			out[p].ids = append(out[p].ids, id)
		}
	}
	for i := range out {
		slices.SortFunc(out[i].ids, compareIDs)
		out[i].ids = slices.Compact(out[i].ids)
	}
	slices.SortFunc(out, func(a, b parcel) int { return compareIDs(a.ids[0], b.ids[0]) })
	return out
}

// leaseBundles leases the bundles of the parcels, the rest of a bundle for other grants of the same call and, in the
// same commit, executions that cannot be in one. It unpacks what is then still free and in a bundle.
func (s *leases) leaseBundles(ctx context.Context, gs []engine.Grant, ps []parcel, f engine.Fence, out *given) error {
	loose := only(gs, func(id job.ExecutionID) bool { return !s.marked(id) })
	for again := true; again; loose = nil {
		if err := s.leaseParcels(ctx, gs, ps, loose, f, out); err != nil {
			return err
		}
		parted := map[[16]byte]bool{}
		left := ps[:0]
		for _, p := range ps {
			if out.has(p.ids[0]) {
				parted[job.BundleOf(p.ids[0])] = true
			} else {
				left = append(left, p)
			}
		}
		again = slices.ContainsFunc(left, func(p parcel) bool { return parted[job.BundleOf(p.ids[0])] })
		ps = left
	}
	var rest [][16]byte
	for _, p := range ps {
		for _, id := range p.ids {
			rest = append(rest, id)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return s.write(ctx, "unpack bundles", func(ctx context.Context, c *pgxpool.Conn) error { return s.unpackBy(ctx, c, unpackFreeSQL, rest) })
}

func (s *leases) leaseParcels(ctx context.Context, gs []engine.Grant, ps []parcel, loose []engine.Grant, f engine.Fence, out *given) error {
	b := &pgx.Batch{}
	sql, args := parcelsWanted(gs, ps, f)
	b.Queue(sql, args...)
	if len(loose) > 0 {
		sql, args := leaseArgs(loose, f)
		b.Queue(sql, args...)
	}
	var got [2]leased
	err := s.write(ctx, "lease bundles", func(ctx context.Context, c *pgxpool.Conn) error {
		return hitting(ctx, c.Conn(), "claim.beforeCommit", func() error {
			r := c.SendBatch(ctx, b)
			defer r.Close()
			for i := range b.Len() {
				rows, err := r.Query()
				if got[i], err = collectLeased(rows, err, len(out.all)); err != nil {
					return err
				}
			}
			return r.Close()
		})
	})
	if err != nil {
		return err
	}
	for i := range b.Len() {
		out.take(got[i])
	}
	return nil
}

// parcelsWanted chooses the statement for parcels, and builds its parameters.
func parcelsWanted(gs []engine.Grant, ps []parcel, f engine.Fence) (sql string, args []any) {
	workers, ids := uuids(len(gs)), uuids(len(ps)*job.Bundle)
	firsts, ns, grants, ats, masks := uuids(len(ps)), ints(len(ps)), ints(len(ps)), ints(len(ps)), bigints(len(ps))
	for _, grant := range gs {
		workers.uuid(grant.Worker)
	}
	at := 1
	for _, p := range ps {
		mask := int64(0)
		for _, id := range p.ids {
			ids.uuid(id)
			mask |= 1 << job.Member(id)
		}
		firsts.uuid(p.ids[0])
		ns.int4(len(p.ids))
		grants.int4(p.grant)
		ats.int4(at)
		masks.int8(mask)
		at += len(p.ids)
	}
	args = []any{workers, ids, firsts, ns, grants, ats, masks, bundleApart}
	if len(f.Epochs) == 0 {
		return leaseBundlesSQL, args
	}
	return leaseBundlesFencedSQL, append(args, fenceArgs(f)...)
}
