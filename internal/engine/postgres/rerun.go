package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The first lock makes calls that run the same execution again wait for each other, so that of two identical
// concurrent calls one sees the other's result; the lock on the jobs is as in Trigger. Both are taken in order.
const (
	finishedSQL = `
		SELECT x.id, x.job, coalesce(d.dead, false) FROM unnest($2::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id, job FROM executions WHERE id = c.id AND tenant = $1 OFFSET 0 FOR UPDATE) x
		LEFT JOIN LATERAL (SELECT true AS dead FROM dead_letters WHERE execution = c.id OFFSET 0) d ON true`
	runnableSQL = `
		SELECT j.id FROM unnest($2::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id FROM jobs WHERE tenant = $1 AND id = c.id AND state <> 4 OFFSET 0 FOR SHARE) j`
	knownSQL = `
		SELECT v.id FROM unnest($2::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id FROM live WHERE id = c.id AND tenant = $1 OFFSET 0) v
		UNION ALL
		SELECT x.id FROM unnest($2::uuid[]) c(id)
		CROSS JOIN LATERAL (SELECT id FROM executions WHERE id = c.id AND tenant = $1 OFFSET 0) x`
	rerunSQL = `
		INSERT INTO events (execution, kind, token, tenant, at, note) SELECT u.id, 'rerun', u.nonce, $1, now(), u.note FROM unnest($2::uuid[], $3::int8[], $4::text[]) u(id, nonce, note)
		ON CONFLICT (execution, kind, token) DO NOTHING`
)

// errNothing ends a transaction that has nothing to store.
var errNothing = errors.New("nothing to run again")

// Rerun adds new executions of finished ones, each named by RetryOf, which stop being dead letters.
func (s *jobs) Rerun(ctx context.Context, t tenant.ID, r engine.Rerun) (engine.Rerunning, error) {
	if len(r.Executions) == 0 && r.Idempotency.Key == "" {
		return engine.Rerunning{}, nil
	}
	var out engine.Rerunning
	err := s.change(ctx, "run executions again", nil, func(ctx context.Context, c writer) (err error) {
		for range races {
			out = engine.Rerunning{}
			err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
				out, err = rerunOnce(ctx, tx, t, r)
				return err
			})
			if !isHeld(err) { // otherwise another took a unique key, and is seen the next time
				break
			}
		}
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

// rerunOnce returns errNothing if there is nothing to run again.
func rerunOnce(ctx context.Context, tx pgx.Tx, t tenant.ID, r engine.Rerun) (out engine.Rerunning, err error) {
	keys := batch{all: []engine.Creation{{Tenant: t, Idempotency: r.Idempotency}}, chosen: []int{0}}
	known, err := keys.claimKeys(ctx, tx)
	if err != nil {
		return out, err
	}
	if prior, ok := known[scoped{t, r.Idempotency.Key}]; ok {
		if out.Reused = prior.hash != r.Idempotency.Hash; !out.Reused {
			out.Replay = prior.answer
		}
		return out, nil
	}
	if out.Added, err = rerun(ctx, tx, t, r); err == nil && len(out.Added) == 0 {
		err = errNothing
	}
	if err != nil || r.Entry == nil {
		return out, err
	}
	return out, record(ctx, tx, r.Entry)
}

// rerun adds the allowed executions, and returns them; those added by an earlier call stay as they are.
func rerun(ctx context.Context, tx pgx.Tx, t tenant.ID, r engine.Rerun) ([]job.ExecutionID, error) {
	known, may, err := rerunnable(ctx, tx, t, r)
	if err != nil {
		return nil, err
	}
	var olds []job.ExecutionID
	for i := range r.Executions {
		if e := &r.Executions[i]; !known[e.ID] && may[e.ID] {
			olds = append(olds, e.RetryOf)
		}
	}
	rows, _ := tx.Query(ctx, exhumeSQL, string(t), sortedIDs(olds))
	dead, err := collectSet(rows)
	if err != nil {
		return nil, err
	}
	var added []job.ExecutionID
	var fresh []*job.Execution
	for i := range r.Executions {
		e := &r.Executions[i]
		if !known[e.ID] {
			if !may[e.ID] || r.DeadOnly && !dead[e.RetryOf] {
				continue
			}
			delete(dead, e.RetryOf)
			known[e.ID] = true
			fresh = append(fresh, e)
		}
		added = append(added, e.ID)
	}
	return added, addReruns(ctx, tx, t, fresh)
}

// addReruns stores the executions, and records the rerun on each original.
func addReruns(ctx context.Context, tx pgx.Tx, t tenant.ID, fresh []*job.Execution) error {
	if len(fresh) == 0 {
		return nil
	}
	slices.SortStableFunc(fresh, func(a, b *job.Execution) int { return byUnique(t, a, t, b) })
	rows := liveTable.arrays()
	olds, nonces, notes := uuids(len(fresh)), bigints(len(fresh)), texts(len(fresh))
	for _, e := range fresh {
		rows.execution(t, e, true)
		olds.uuid(e.RetryOf)
		nonces.int8(e.Nonce())
		notes.text(e.ID.String())
	}
	b := &pgx.Batch{}
	rows.queue(b)
	b.Queue(rerunSQL, string(t), olds, nonces, notes)
	return tx.SendBatch(ctx, b).Close()
}

// rerunnable finds those added by an earlier call, and those that may be run again: of a finished execution, dead if
// requested, of a job that is not deleted, with a unique key that nobody holds.
func rerunnable(ctx context.Context, tx pgx.Tx, t tenant.ID, r engine.Rerun) (known map[[16]byte]bool, may map[job.ExecutionID]bool, err error) {
	was, runnable, known, err := rerunFacts(ctx, tx, t, r.Executions)
	if err != nil {
		return nil, nil, err
	}
	for id, of := range r.Archived {
		if _, ok := was[id]; !ok {
			was[id] = past{job: of}
		}
	}
	may = map[job.ExecutionID]bool{}
	var keys []scoped
	for i := range r.Executions {
		e := &r.Executions[i]
		old, ok := was[e.RetryOf]
		may[e.ID] = ok && old.job == e.Job && runnable[e.Job] && (old.dead || !r.DeadOnly)
		if may[e.ID] && e.UniqueKey != "" && !known[e.ID] {
			keys = append(keys, scoped{t, e.UniqueKey})
		}
	}
	held := map[scoped]engine.Incumbent{}
	if err := incumbents(ctx, tx, keys, held); err != nil || len(keys) == 0 {
		return known, may, err
	}
	for i := range r.Executions {
		if e := &r.Executions[i]; may[e.ID] && e.UniqueKey != "" && !known[e.ID] {
			k := scoped{t, e.UniqueKey}
			if _, ok := held[k]; ok {
				may[e.ID] = false
			}
			held[k] = engine.Incumbent{}
		}
	}
	return known, may, nil
}

// past holds what running a finished execution again needs of it.
type past struct {
	job  job.ID
	dead bool
}

func rerunFacts(ctx context.Context, tx pgx.Tx, t tenant.ID, es []job.Execution) (was map[job.ExecutionID]past, runnable, known map[[16]byte]bool, err error) {
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
	was = map[job.ExecutionID]past{}
	var x job.ExecutionID
	var p past
	rows, _ := r.Query()
	if _, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&x), (*[16]byte)(&p.job), &p.dead}, func() error { was[x] = p; return nil }); err != nil {
		return nil, nil, nil, err
	}
	rows, _ = r.Query()
	if runnable, err = collectSet(rows); err != nil {
		return nil, nil, nil, err
	}
	rows, _ = r.Query()
	if known, err = collectSet(rows); err != nil {
		return nil, nil, nil, err
	}
	return was, runnable, known, r.Close()
}

// collectSet reads ids.
func collectSet(rows pgx.Rows) (map[[16]byte]bool, error) {
	set := map[[16]byte]bool{}
	var u [16]byte
	_, err := pgx.ForEachRow(rows, []any{&u}, func() error { set[u] = true; return nil })
	return set, err
}
