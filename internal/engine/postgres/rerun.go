package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The first lock makes calls that run the same execution again wait for each
// other, so that one sent twice at once sees what the first came to; the lock on
// the jobs is as in Trigger. Both are taken in order.
const (
	finishedSQL = `
		SELECT x.id, x.job FROM unnest($2::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id, job FROM executions WHERE id = c.id AND tenant = $1 OFFSET 0 FOR UPDATE) x`
	runnableSQL = `
		SELECT j.id FROM unnest($2::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id FROM jobs WHERE tenant = $1 AND id = c.id AND state <> 4 OFFSET 0 FOR SHARE) j`
	knownSQL = `
		SELECT v.id FROM unnest($2::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id FROM live WHERE id = c.id AND tenant = $1 OFFSET 0) v
		UNION ALL
		SELECT x.id FROM unnest($2::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id FROM executions WHERE id = c.id AND tenant = $1 OFFSET 0) x`
	exhumeSQL = discardSQL + " RETURNING d.execution"
)

// errNothing ends a transaction that has nothing to keep.
var errNothing = errors.New("nothing to run again")

// Rerun adds new executions of finished ones, each named by RetryOf, which thereby leaves the dead letters.
func (s *Store) Rerun(ctx context.Context, t tenant.ID, r engine.Rerun) (engine.Rerunning, error) {
	if len(r.Executions) == 0 && r.Idempotency.Key == "" {
		return engine.Rerunning{}, nil
	}
	var out engine.Rerunning
	err := s.write(ctx, "run executions again", func(ctx context.Context, c *pgxpool.Conn) error {
		out = engine.Rerunning{}
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			keys := batch{all: []engine.Creation{{Tenant: t, Idempotency: r.Idempotency}}, chosen: []int{0}}
			known, err := keys.claimKeys(ctx, tx)
			if err != nil {
				return err
			}
			if prior, ok := known[scoped{t, r.Idempotency.Key}]; ok {
				if out.Reused = prior.hash != r.Idempotency.Hash; !out.Reused {
					out.Replay = prior.answer
				}
				return nil
			}
			if out.Added, err = rerun(ctx, tx, t, r); err == nil && len(out.Added) == 0 {
				return errNothing
			}
			return err
		})
		switch {
		case errors.Is(err, errNothing):
			return nil
		case isCode(err, uniqueViolation): // an id that something else has
			return fmt.Errorf("%w: %w", engine.ErrConflict, err)
		}
		return err
	})
	if err != nil {
		return engine.Rerunning{}, err
	}
	return out, nil
}

// rerun adds the executions that may be, and names them; those that have been here before stay as they are.
func rerun(ctx context.Context, tx pgx.Tx, t tenant.ID, r engine.Rerun) ([]job.ExecutionID, error) {
	known, may, err := rerunnable(ctx, tx, t, r.Executions)
	if err != nil {
		return nil, err
	}
	var olds []job.ExecutionID
	for i := range r.Executions {
		if e := &r.Executions[i]; !known[e.ID] && may(e) {
			olds = append(olds, e.RetryOf)
		}
	}
	rows, _ := tx.Query(ctx, exhumeSQL, string(t), sortedIDs(olds))
	dead, err := collectSet(rows)
	if err != nil {
		return nil, err
	}
	var added []job.ExecutionID
	fresh := liveTable.arrays()
	for i := range r.Executions {
		e := &r.Executions[i]
		if !known[e.ID] {
			if !may(e) || r.DeadOnly && !dead[e.RetryOf] {
				continue
			}
			delete(dead, e.RetryOf)
			known[e.ID] = true
			fresh.execution(t, e, true)
		}
		added = append(added, e.ID)
	}
	if fresh.rows == 0 {
		return added, nil
	}
	_, err = tx.Exec(ctx, liveTable.insert, fresh.args()...)
	return added, err
}

// rerunnable finds those that have been here before, and what may be run again: what has finished, of a job that is not deleted.
func rerunnable(ctx context.Context, tx pgx.Tx, t tenant.ID, es []job.Execution) (known map[[16]byte]bool, may func(*job.Execution) bool, err error) {
	var ids, olds []job.ExecutionID
	var jobs []job.ID
	for i := range es {
		ids, olds, jobs = append(ids, es[i].ID), append(olds, es[i].RetryOf), append(jobs, es[i].Job)
	}
	b := &pgx.Batch{}
	b.Queue(finishedSQL, string(t), sortedIDs(olds))
	b.Queue(runnableSQL, string(t), sortedIDs(jobs))
	b.Queue(knownSQL, string(t), sortedIDs(ids))
	r := tx.SendBatch(ctx, b)
	defer r.Close()
	jobOf := map[job.ExecutionID]job.ID{}
	var x job.ExecutionID
	var j job.ID
	rows, _ := r.Query()
	if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&x), (*[16]byte)(&j)}, func() error { jobOf[x] = j; return nil }); err != nil {
		return nil, nil, err
	}
	rows, _ = r.Query()
	runnable, err := collectSet(rows)
	if err != nil {
		return nil, nil, err
	}
	rows, _ = r.Query()
	if known, err = collectSet(rows); err != nil {
		return nil, nil, err
	}
	may = func(e *job.Execution) bool {
		of, ok := jobOf[e.RetryOf]
		return ok && of == e.Job && runnable[e.Job]
	}
	return known, may, r.Close()
}

// collectSet reads ids.
func collectSet(rows pgx.Rows) (map[[16]byte]bool, error) {
	set := map[[16]byte]bool{}
	var u [16]byte
	_, err := pgx.ForEachRow(rows, []any{&u}, func() error { set[u] = true; return nil })
	return set, err
}
