package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

const (
	deposeSQL = `
		UPDATE sessions SET deposed = true
		WHERE id = ANY (ARRAY(SELECT id FROM sessions WHERE expires_at < now() AND NOT deposed ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))`
	// On every pass, so that a lease committed while its session was deposed is found by the next. The latest leases
	// come first: most executions of older ones have finished. If very many died, only some leases of each are
	// handled, beginning with the sessions that were given something last.
	deadSQL = `
		WITH d AS MATERIALIZED (
			SELECT s.id, s.host FROM sessions s CROSS JOIN LATERAL (SELECT lease FROM leases WHERE worker = s.id ORDER BY - lease LIMIT 1) x
			WHERE s.deposed ORDER BY x.lease DESC LIMIT $1
		)
		SELECT l.lease, l.worker, n.host, l.size FROM (
			SELECT x.lease, d.host FROM d CROSS JOIN LATERAL (
				SELECT lease FROM leases WHERE worker = d.id ORDER BY - lease LIMIT (SELECT least($1, greatest(100, 10 * $1 / greatest(count(*), 1))) FROM d)
			) x ORDER BY x.lease DESC LIMIT $1
		) n CROSS JOIN LATERAL (SELECT lease, worker, cardinality(ids) AS size FROM leases WHERE lease = n.lease OFFSET 0 FOR UPDATE SKIP LOCKED) l`
	// Executions lost too often within the hour, including this time, end; those of a deleted job or asked to stop
	// end anyway. Rows are locked as in backSQL.
	reapSQL = `
		WITH d AS MATERIALIZED (
			SELECT l.lease, l.worker, l.ids, r.ending FROM unnest($1::int8[], $2::bytea[]) r(lease, ending)
			CROSS JOIN LATERAL (SELECT lease, worker, ids FROM leases WHERE lease = r.lease OFFSET 0) l
		), asked AS MATERIALIZED (
			SELECT v.id, v.tenant, v.job, v.lost, d.lease AS token, d.worker, d.ending FROM d CROSS JOIN LATERAL unnest(d.ids) u(id)
			CROSS JOIN LATERAL (SELECT id, tenant, job, lost FROM live WHERE id = u.id AND lease = d.lease OFFSET 0) v
			ORDER BY v.id
		), ` + doomedSQL + `, held AS MATERIALIZED (
			SELECT a.id, a.token, a.worker, a.ending, v.cancel_ending, CASE
				WHEN a.doomed OR v.cancel_at IS NOT NULL THEN 13
				WHEN a.lost + 1 >= $3 AND $3 > 0 AND $3 <=
					(SELECT count(*) + 1 FROM attempts x WHERE x.execution = a.id AND x.lost AND x.ended_at > now() - interval '1 hour') THEN 11
				ELSE 2 END::int2 AS status
			FROM (SELECT id, token, worker, ending, lost, job IN (SELECT job FROM doomed) AS doomed FROM asked OFFSET 0) a
			CROSS JOIN LATERAL (SELECT cancel_at, cancel_ending FROM live WHERE id = a.id AND lease = a.token AND parked_until IS NULL OFFSET 0 FOR UPDATE) v
		), back AS (
			UPDATE live v SET lease = -v.lease, lost = v.lost + 1, hold = ` + heldBack + `
			FROM held h WHERE v.id = ANY (ARRAY[h.id]) AND v.lease = h.token AND h.status < 10
			RETURNING ` + readyColumns + `, v.attempt, v.leased_at, h.token, h.worker, h.ending
		), gone AS (
			DELETE FROM live v USING held h WHERE v.id = ANY (ARRAY[h.id]) AND v.lease = h.token AND h.status >= 10
			RETURNING h.status, ` + goneRow + `, v.attempt, v.tries, v.lost + 1 AS lost, h.token, NULL::bytea AS result,
				CASE WHEN h.status = 11 THEN $4::bytea ELSE coalesce(h.cancel_ending, $6::bytea) END AS ending,
				h.ending AS lost_by, 'POISON' AS dead, $5::text AS message, NULL::timestamptz AS redrive_at
		), ` + endSQL + `, ` + burySQL + `, failed AS (
			INSERT INTO attempts (execution, token, tenant, number, worker, started_at, ended_at, lost, ending)
			SELECT id, token, tenant, attempt, worker, leased_at, now(), true, ending FROM back
			UNION ALL SELECT id, token, tenant, attempt, worker, leased_at, now(), true, lost_by FROM gone
			ON CONFLICT (execution, token) DO NOTHING
		), done AS (
			DELETE FROM leases l USING unnest($1::int8[]) r(lease) WHERE l.lease = ANY (ARRAY[r.lease])
		)
		SELECT ` + readyColumns + ` FROM back v
		UNION ALL ` + goneAsReady
)

// reaped limits how many executions of dead workers are returned in one pass, unless one lease alone has more.
const reaped = 20_000

// Reap ends expired sessions and returns their executions to the queue as lost attempts: of up to limit leases, each
// of many executions, latest first.
func (s *sessions) Reap(ctx context.Context, limit, poison int) (out engine.Reaped, err error) {
	why := &job.Error{Type: job.Poison, Message: fmt.Sprintf("lost %d workers within an hour", poison)}
	err = s.write(ctx, "reap", func(ctx context.Context, c *pgxpool.Conn) error {
		return withDays(ctx, c, func() error {
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				out = engine.Reaped{}
				leases, endings, err := dead(ctx, tx, limit, &out)
				if err != nil || out.Leases == 0 {
					return err
				}
				if err := failpoint.Hit("reap.afterSelectBeforeUpdate"); err != nil {
					return err
				}
				if err := s.unpackLeases(ctx, tx, leases); err != nil {
					return err
				}
				out.Ready, out.Ended, err = collectBack(tx.Query(ctx, reapSQL, leases, endings, poison, engine.EncodeEnd(why, nil), why.Message, jobDeleted))
				if err != nil {
					return err
				}
				for i := range out.Ended {
					if out.Ended[i].Status == job.Cancelled {
						out.Cancelled++
						continue
					}
					out.Ended[i].Error = why
					out.Poisoned++
				}
				return nil
			})
		})
	})
	if err != nil {
		return engine.Reaped{}, err
	}
	return out, nil
}

// dead ends expired sessions, and finds the leases of ended ones with what to record for each.
func dead(ctx context.Context, tx pgx.Tx, limit int, out *engine.Reaped) (leases, endings *array, err error) {
	b := &pgx.Batch{}
	b.Queue(deposeSQL, limit)
	b.Queue(deadSQL, limit)
	r := tx.SendBatch(ctx, b)
	defer r.Close()
	done, err := r.Exec()
	if err != nil {
		return nil, nil, err
	}
	out.Sessions = int(done.RowsAffected())
	leases, endings = bigints(0), byteas(0)
	var lease int64
	var w job.WorkerID
	var host string
	var size, sum int
	rows, err := r.Query()
	if err != nil {
		return nil, nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{&lease, (*[16]byte)(&w), &host, &size}, func() error {
		if sum += size; sum > reaped && sum > size {
			return nil
		}
		out.Leases++
		leases.int8(lease)
		endings.bytes(engine.EncodeEnd(&job.Error{
			Type: job.LeaseLost, Message: fmt.Sprintf("worker %s on %s stopped answering, and its lease ended", w, host),
		}, nil))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return leases, endings, r.Close()
}
