package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// finishBundlesSQL turns succeeded members of bundles into history. It uses the state of the bundles after locking
// them: others may finish other members at the same time.
const finishBundlesSQL = `
	WITH held AS MATERIALIZED (
		SELECT p.since, p.upto, b.*, b.open & p.mask AS took, b.open & ~p.mask AS still
		FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::uuid[], $6::int4[], $7::int4[]) p(low, id, token, mask, worker, since, upto)
		CROSS JOIN LATERAL (SELECT key, lease, worker, tenant, scheduled_at, due_at, leased_at, max_attempts, priority, part, open FROM bundles
			WHERE key BETWEEN p.low AND p.id AND lease = p.token AND lease > 0 AND ids @> ($8::uuid[])[p.since:p.upto] AND (p.worker IS NULL OR worker = p.worker) OFFSET 0 FOR UPDATE) b
	), over AS (
		DELETE FROM bundles b USING held h WHERE b.key = ANY (ARRAY[h.key]) AND h.still = 0
	), less AS (
		UPDATE bundles b SET open = h.still FROM held h WHERE b.key = ANY (ARRAY[h.key]) AND h.still <> 0 AND h.took <> 0
	), past AS (
		INSERT INTO executions (id, tenant, job, status, trigger, scheduled_at, due_at, started_at, finished_at, attempt, tries, lost,
			max_attempts, priority, part, worker, token, result, ending, tally)
		SELECT f.id, h.tenant, f.id, 10, 8, h.scheduled_at, h.due_at, h.leased_at, now(), 1, 0, 0,
			h.max_attempts, h.priority, h.part, h.worker, h.lease, f.result, f.ending, false
		FROM held h CROSS JOIN LATERAL unnest(($8::uuid[])[h.since:h.upto], ($9::int8[])[h.since:h.upto], ($10::bytea[])[h.since:h.upto], ($11::bytea[])[h.since:h.upto]) f(id, bit, result, ending)
		WHERE h.took & f.bit <> 0
	)
	SELECT c.n, CASE WHEN c.n < $12 THEN (SELECT array_agg(f.id)` + tookThem + `) END, CASE WHEN c.n < $12 THEN (SELECT array_agg(h.lease)` + tookThem + `) END
	FROM (SELECT coalesce(sum(bit_count(took::bit(64))), 0)::int8 AS n FROM held) c`

// tookThem lists the finished members, which is needed only if some were not.
const tookThem = ` FROM held h CROSS JOIN LATERAL unnest(($8::uuid[])[h.since:h.upto], ($9::int8[])[h.since:h.upto]) f(id, bit) WHERE h.took & f.bit <> 0`

// succeeds reports whether a transition is the only kind that a bundle can record: a success of the first attempt.
func succeeds(f *job.Finish) bool {
	return f.Then.Status == job.Succeeded && f.Then.Tries == 0 && markOf(f) == 0
}

// concludeBundles applies the finishes of a batch that end members of bundles, records which it applied, and returns
// the others.
func (s *leases) concludeBundles(ctx context.Context, c *pgxpool.Conn, fs []job.Finish, which []int, out []job.Verdict) (others []int, err error) {
	args, asked, others := s.bundleArgs(fs, which)
	if len(asked) == 0 {
		return which, nil
	}
	var count int
	var ids [][16]byte
	var tokens []int64
	err = withDays(ctx, c, func() error { return c.QueryRow(ctx, finishBundlesSQL, args...).Scan(&count, &ids, &tokens) })
	if err != nil {
		return nil, err
	}
	took := make(map[job.Lease]bool, len(ids))
	for i := range ids {
		took[job.Lease{Execution: ids[i], Token: job.Token(tokens[i])}] = true
	}
	for _, i := range asked {
		if out[i].Accepted = count == len(asked) || took[fs[i].Outcome.Lease]; !out[i].Accepted {
			others = append(others, i)
		}
	}
	return others, nil
}

// bundleArgs builds the parameters of finishBundlesSQL for finishes that may end members of bundles.
func (s *leases) bundleArgs(fs []job.Finish, which []int) (args []any, asked, others []int) {
	for _, i := range which {
		if s.marked(fs[i].Outcome.Execution) && succeeds(&fs[i]) {
			asked = append(asked, i)
		} else {
			others = append(others, i)
		}
	}
	slices.SortFunc(asked, func(a, b int) int {
		x, y := &fs[a].Outcome, &fs[b].Outcome
		return cmp.Or(compareIDs(job.BundleOf(x.Execution), job.BundleOf(y.Execution)), cmp.Compare(x.Token, y.Token), compareIDs(x.Execution, y.Execution))
	})
	// A bundle must not be named twice, or one finish would undo what the other leaves of it: of two workers that
	// report under one lease, only one is heard here.
	for k := 1; k < len(asked); k++ {
		if a, b := &fs[asked[k-1]], &fs[asked[k]]; a.Worker != b.Worker && sameParcel(a, b) {
			others = append(others, asked[k])
			asked = slices.Delete(asked, k, k+1)
			k--
		}
	}
	if len(asked) == 0 {
		return nil, nil, others
	}
	var parcels [][]int
	for begin, k := 0, 1; k <= len(asked); k++ {
		if k == len(asked) || !sameParcel(&fs[asked[begin]], &fs[asked[k]]) {
			parcels = append(parcels, asked[begin:k])
			begin = k
		}
	}
	slices.SortFunc(parcels, func(a, b []int) int { return compareIDs(fs[a[0]].Outcome.Execution, fs[b[0]].Outcome.Execution) })
	return parcelArgs(fs, parcels, len(asked)), asked, others
}

// parcelArgs builds the parameters for n members in parcels.
func parcelArgs(fs []job.Finish, parcels [][]int, n int) []any {
	p := len(parcels)
	lows, firsts, tokens, masks, workers, sinces, uptos := uuids(p), uuids(p), bigints(p), bigints(p), uuids(p), ints(p), ints(p)
	ids, bits := uuids(n), bigints(n)
	var results, endings *array // usually there are none, and NULL stands for the whole array
	k := 0
	for _, parcel := range parcels {
		f := &fs[parcel[0]]
		lows.uuid(job.BundleOf(f.Outcome.Execution))
		firsts.uuid(f.Outcome.Execution)
		tokens.int8(int64(f.Outcome.Token))
		workers.uuidOrNull(f.Worker)
		sinces.int4(k + 1)
		mask := int64(0)
		for _, i := range parcel {
			f := &fs[i]
			bit := int64(1) << job.Member(f.Outcome.Execution)
			mask |= bit
			ids.uuid(f.Outcome.Execution)
			bits.int8(bit)
			if results = sparse(results, byteas, k, f.Outcome.Result != nil); results != nil {
				results.bytes(f.Outcome.Result)
			}
			ending := engine.EncodeEnd(f.Outcome.Error, f.Outcome.Response)
			if endings = sparse(endings, byteas, k, ending != nil); endings != nil {
				endings.bytes(ending)
			}
			k++
		}
		masks.int8(mask)
		uptos.int4(k)
	}
	return []any{lows, firsts, tokens, masks, workers, sinces, uptos, ids, bits, results, endings, n}
}

// sameParcel reports whether two finishes are under one lease of one bundle.
func sameParcel(a, b *job.Finish) bool {
	return a.Outcome.Token == b.Outcome.Token && job.BundleOf(a.Outcome.Execution) == job.BundleOf(b.Outcome.Execution)
}

// unpackFinished unpacks the bundles of executions that remain to be finished.
func unpackFinished(ctx context.Context, s *database, c *pgxpool.Conn, fs []job.Finish, which ...[]int) error {
	var ids []job.ExecutionID
	for _, list := range which {
		for _, i := range list {
			ids = append(ids, fs[i].Outcome.Execution)
		}
	}
	return unpack(ctx, s, c, ids...)
}
