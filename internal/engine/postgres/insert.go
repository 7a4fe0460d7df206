package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// insertAll stores the chosen creations and fails if anything of them exists.
// Within tx their idempotency keys are stored already; without, it is one
// transaction of its own, and a small one is one round trip.
func insertAll(ctx context.Context, c *pgx.Conn, cs []engine.Creation, chosen []int, tx pgx.Tx) error {
	jobs := 0
	for _, i := range chosen {
		jobs += len(cs[i].Jobs)
	}
	if jobs < copyFrom {
		b := &pgx.Batch{}
		if tx == nil {
			idempotencyRows(cs, chosen).queue(b)
		}
		js, es := jobsTable.arrays(), liveTable.arrays()
		for t, j := range jobsOf(cs, chosen) {
			js.job(t, j)
		}
		for t, e := range executionsOf(cs, chosen) {
			es.execution(t, e)
		}
		js.queue(b)
		es.queue(b)
		return c.SendBatch(ctx, b).Close()
	}
	if tx == nil {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			idempotencyRows(cs, chosen).queue(b)
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
			return copyAll(ctx, c, cs, chosen)
		})
	}
	return copyAll(ctx, c, cs, chosen)
}

func copyAll(ctx context.Context, c *pgx.Conn, cs []engine.Creation, chosen []int) error {
	jobs, executions := 0, 0
	for _, i := range chosen {
		jobs += len(cs[i].Jobs)
		executions += len(cs[i].Executions)
	}
	js, es := jobsTable.copies(jobs*800), liveTable.copies(executions*200)
	for t, j := range jobsOf(cs, chosen) {
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
	for t, e := range executionsOf(cs, chosen) {
		es.execution(t, e)
		if len(es.body) >= copyBytes {
			if err := es.flush(ctx, c); err != nil {
				return err
			}
		}
	}
	return es.flush(ctx, c)
}

// idempotencyRows are the creations' idempotency keys, sorted: two calls that share some wait for each other in order.
func idempotencyRows(cs []engine.Creation, chosen []int) *sheet {
	s := idempotencyTable.arrays()
	var with []*engine.Creation
	for _, i := range chosen {
		if cs[i].Idempotency.Key != "" {
			with = append(with, &cs[i])
		}
	}
	slices.SortFunc(with, func(a, b *engine.Creation) int {
		return compareScoped(scoped{a.Tenant, a.Idempotency.Key}, scoped{b.Tenant, b.Idempotency.Key})
	})
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

// jobsOf lists the jobs of the chosen creations; those with keys sorted, for the same reason.
func jobsOf(cs []engine.Creation, chosen []int) func(func(tenant.ID, *job.Job) bool) {
	return func(yield func(tenant.ID, *job.Job) bool) {
		type keyed struct {
			t tenant.ID
			j *job.Job
		}
		var later []keyed
		for _, i := range chosen {
			for n := range cs[i].Jobs {
				j := &cs[i].Jobs[n]
				if j.Key != "" {
					later = append(later, keyed{cs[i].Tenant, j})
				} else if !yield(cs[i].Tenant, j) {
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
}

func executionsOf(cs []engine.Creation, chosen []int) func(func(tenant.ID, *job.Execution) bool) {
	return func(yield func(tenant.ID, *job.Execution) bool) {
		for _, i := range chosen {
			for n := range cs[i].Executions {
				if !yield(cs[i].Tenant, &cs[i].Executions[n]) {
					return
				}
			}
		}
	}
}
