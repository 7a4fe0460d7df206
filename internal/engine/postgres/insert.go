package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// insert stores the chosen creations and fails if anything of them exists.
// Within tx their idempotency keys are stored already; without, it is one
// transaction of its own, and a small one is one round trip.
func (b batch) insert(ctx context.Context, c *pgx.Conn, tx pgx.Tx) error {
	jobs := 0
	for _, i := range b.chosen {
		jobs += len(b.all[i].Jobs)
	}
	q := &pgx.Batch{}
	if tx == nil {
		b.keys().queue(q)
	}
	switch {
	case jobs < copyFrom:
		js, es := jobsTable.arrays(), liveTable.arrays()
		for t, j := range b.jobs {
			js.job(t, j)
		}
		for t, f := range b.executions {
			es.execution(t, f.Execution, f.tally)
		}
		js.queue(q)
		es.queue(q)
		if tx != nil {
			return send(ctx, c, q)
		}
		return hitting(ctx, c, "api.beforeCommit", func() error { return send(ctx, c, q) })
	case tx == nil:
		return pgx.BeginFunc(ctx, c, func(pgx.Tx) error {
			if err := send(ctx, c, q); err != nil {
				return err
			}
			if err := b.copy(ctx, c); err != nil {
				return err
			}
			return failpoint.Hit("api.beforeCommit")
		})
	}
	return b.copy(ctx, c)
}

func send(ctx context.Context, c *pgx.Conn, q *pgx.Batch) error {
	if q.Len() == 0 {
		return nil
	}
	return c.SendBatch(ctx, q).Close()
}

func (b batch) copy(ctx context.Context, c *pgx.Conn) error {
	jobs, executions := 0, 0
	for _, i := range b.chosen {
		jobs += len(b.all[i].Jobs)
		executions += len(b.all[i].Executions)
	}
	js, es := jobsTable.copies(jobs*800), liveTable.copies(executions*200)
	for t, j := range b.jobs {
		js.job(t, j)
		if len(js.body) >= copyBytes {
			if err := js.flush(ctx, c); err != nil {
				return err
			}
		}
	}
	if err := js.flush(ctx, c); err != nil {
		return err
	}
	for t, f := range b.executions {
		es.execution(t, f.Execution, f.tally)
		if len(es.body) >= copyBytes {
			if err := es.flush(ctx, c); err != nil {
				return err
			}
		}
	}
	return es.flush(ctx, c)
}

// keys are the idempotency keys, sorted: two calls that share some wait for each other in order.
func (b batch) keys() *sheet {
	var with []*engine.Creation
	for _, i := range b.chosen {
		if b.all[i].Idempotency.Key != "" {
			with = append(with, &b.all[i])
		}
	}
	slices.SortFunc(with, func(a, b *engine.Creation) int {
		return compareScoped(scoped{a.Tenant, a.Idempotency.Key}, scoped{b.Tenant, b.Idempotency.Key})
	})
	s := idempotencyTable.arrays()
	for _, c := range with {
		s.idempotency(c.Tenant, &c.Idempotency)
	}
	return s
}

func (s *sheet) idempotency(t tenant.ID, i *engine.Idempotency) {
	s.row()
	s.next().text(string(t))
	s.next().text(i.Key)
	s.next().bytes(i.Hash[:])
	s.next().bytes(notNil(i.Answer))
	s.next().time(i.Until)
}

// jobs lists the jobs; those with keys sorted, for the same reason.
func (b batch) jobs(yield func(tenant.ID, *job.Job) bool) {
	type keyed struct {
		t tenant.ID
		j *job.Job
	}
	var later []keyed
	for _, i := range b.chosen {
		c := &b.all[i]
		for n := range c.Jobs {
			if j := &c.Jobs[n]; j.Key != "" {
				later = append(later, keyed{c.Tenant, j})
			} else if !yield(c.Tenant, j) {
				return
			}
		}
	}
	slices.SortFunc(later, func(a, b keyed) int { return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.j.Key, b.j.Key)) })
	for _, k := range later {
		if !yield(k.t, k.j) {
			return
		}
	}
}

// fired is an execution, and whether it is tallied at its end: all are, but the
// own fire of a one-off job that came with the job and has its id.
type fired struct {
	*job.Execution
	tally bool
}

// executions lists the executions; those with unique keys sorted, for the same reason.
func (b batch) executions(yield func(tenant.ID, fired) bool) {
	type unique struct {
		t tenant.ID
		f fired
	}
	var later []unique
	for _, i := range b.chosen {
		c := &b.all[i]
		recurs := map[job.ID]bool{} // most often empty, and then nothing is looked up
		for n := range c.Jobs {
			if j := &c.Jobs[n]; !j.Schedule.Type.OneOff() {
				recurs[j.ID] = true
			}
		}
		for n := range c.Executions {
			e := &c.Executions[n]
			f := fired{e, e.ID != job.ExecutionID(e.Job) || e.Trigger != job.BySchedule || len(recurs) > 0 && recurs[e.Job]}
			if e.UniqueKey != "" {
				later = append(later, unique{c.Tenant, f})
			} else if !yield(c.Tenant, f) {
				return
			}
		}
	}
	slices.SortFunc(later, func(a, b unique) int { return byUnique(a.t, a.f.Execution, b.t, b.f.Execution) })
	for _, u := range later {
		if !yield(u.t, u.f) {
			return
		}
	}
}
