package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The index live_unique guards unique keys. Inserts into live look for the incumbents before, in the same
// transaction, and look again if the index reports that another came in between.

const incumbentsSQL = `
	SELECT k.tenant, k.key, v.job, v.id FROM unnest($1::text[], $2::text[]) k(tenant, key)
	CROSS JOIN LATERAL (SELECT id, job FROM live WHERE tenant = k.tenant AND unique_key = k.key AND unique_key IS NOT NULL OFFSET 0) v`

// isHeld reports whether the error means that another holds a unique key.
func isHeld(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && p.Code == uniqueViolation && p.ConstraintName == "live_unique"
}

// incumbents finds the holders of the keys.
func incumbents(ctx context.Context, tx pgx.Tx, keys []scoped, into map[scoped]engine.Incumbent) error {
	if len(keys) == 0 {
		return nil
	}
	tenants, names := scopedArrays(keys)
	rows, err := tx.Query(ctx, incumbentsSQL, tenants, names)
	if err != nil {
		return err
	}
	var k scoped
	var i engine.Incumbent
	_, err = pgx.ForEachRow(rows, []any{(*string)(&k.tenant), &k.key, (*[16]byte)(&i.Job), (*[16]byte)(&i.Execution)}, func() error {
		i.Key = k.key
		into[k] = i
		return nil
	})
	return err
}

// hasUnique reports whether any of the chosen creations names a unique key.
func (b batch) hasUnique() bool {
	for _, i := range b.chosen {
		for n := range b.all[i].Executions {
			if b.all[i].Executions[n].UniqueKey != "" {
				return true
			}
		}
	}
	return false
}

// incumbents finds the holders of the unique keys of the chosen creations.
func (b batch) incumbents(ctx context.Context, tx pgx.Tx, into map[scoped]engine.Incumbent) error {
	var keys []scoped
	for _, i := range b.chosen {
		for n := range b.all[i].Executions {
			if key := b.all[i].Executions[n].UniqueKey; key != "" {
				keys = append(keys, scoped{b.all[i].Tenant, key})
			}
		}
	}
	return incumbents(ctx, tx, keys, into)
}

// claimUnique claims the creation's unique keys, or none of them, and returns their holders.
func (h claims) claimUnique(c *engine.Creation) (held []engine.Incumbent) {
	var mine []scoped
	for n := range c.Executions {
		e := &c.Executions[n]
		if e.UniqueKey == "" {
			continue
		}
		k := scoped{c.Tenant, e.UniqueKey}
		if i, ok := h.unique[k]; !ok {
			h.unique[k] = engine.Incumbent{Key: e.UniqueKey, Job: e.Job, Execution: e.ID}
			mine = append(mine, k)
		} else if !slices.Contains(held, i) {
			held = append(held, i)
		}
	}
	if held != nil {
		for _, k := range mine {
			delete(h.unique, k)
		}
	}
	return held
}

// byUnique sorts those with unique keys after all others, by their keys: two calls that share some wait for each
// other in order.
func byUnique(at tenant.ID, a *job.Execution, bt tenant.ID, b *job.Execution) int {
	if a.UniqueKey == "" || b.UniqueKey == "" {
		return cmp.Compare(a.UniqueKey, b.UniqueKey)
	}
	return compareScoped(scoped{at, a.UniqueKey}, scoped{bt, b.UniqueKey})
}
