package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (

	// Rows are locked in the order of their ids, as everywhere.
	parkSQL = `
		WITH parked AS (
			UPDATE live v SET parked_until = f.until FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[], $4::uuid[]) f(id, token, until, worker)
			WHERE v.id = ANY (ARRAY[f.id]) AND v.lease = f.token AND v.lease > 0 AND (f.worker IS NULL OR v.worker = f.worker)
			RETURNING v.id, v.lease, v.tenant, v.attempt, v.worker, CASE WHEN v.class <> 'workflow' THEN v.cancel_at END AS cancel_at
		), told AS (
			INSERT INTO events (execution, kind, token, tenant, attempt, worker, at) SELECT id, 'parked', lease, tenant, attempt, worker, now() FROM parked
			ON CONFLICT (execution, kind, token) DO NOTHING
		)
		SELECT id, lease, worker, cancel_at IS NOT NULL FROM parked`
)

// Park leaves executions to their targets, under their leases.
func (s *leases) Park(ctx context.Context, ps []engine.Parking) ([]job.Verdict, error) {
	if len(ps) == 0 {
		return nil, nil
	}
	ids, tokens, untils, workers := uuids(len(ps)), bigints(len(ps)), instants(len(ps)), uuids(len(ps))
	parking := make([]job.ExecutionID, 0, len(ps))
	for _, p := range sortedBy(ps, func(p engine.Parking) [16]byte { return p.Execution }) {
		parking = append(parking, p.Execution)
		ids.uuid(p.Execution)
		tokens.int8(int64(p.Token))
		untils.time(p.Until)
		workers.uuidOrNull(p.Worker)
	}
	out := make([]job.Verdict, len(ps))
	fs := make([]job.Finish, len(ps)) // as judge takes them
	err := s.write(ctx, "park", func(ctx context.Context, c *pgxpool.Conn) error {
		if err := unpack(ctx, s.database, c, parking...); err != nil {
			return err
		}
		rows, _ := c.Query(ctx, parkSQL, ids, tokens, untils, workers)
		parked := map[job.Lease]job.WorkerID{}
		var l job.Lease
		var w job.WorkerID
		var asked bool
		var over []job.ExecutionID // asked to stop before, and now nobody is left to ask
		if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&l.Execution), (*int64)(&l.Token), (*id)(&w), &asked}, func() error {
			if parked[l] = w; asked {
				over = append(over, l.Execution)
			}
			return nil
		}); err != nil {
			return err
		}
		for _, x := range over {
			if err := withDays(ctx, c, func() error { _, err := c.Exec(ctx, cancelOneSQL, [16]byte(x), nil); return err }); err != nil {
				return err
			}
		}
		for i, p := range ps {
			fs[i] = job.Finish{Outcome: p.Outcome, Worker: p.Worker}
			w, ok := parked[p.Lease]
			out[i] = job.Verdict{Execution: p.Execution, Accepted: ok && (p.Worker == w || p.Worker == job.WorkerID{})}
		}
		return judge(ctx, c, fs, out)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
