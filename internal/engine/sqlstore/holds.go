package sqlstore

import (
	"context"
	"errors"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	holdColumns = "id, tenant, job, reason, by_whom, at"
	addHoldSQL  = "INSERT INTO holds (" + holdColumns + ") SELECT $1, $2, $3, $4, $5, $6 WHERE /*postgres: $3::uuid*//*sqlite: $3*/ IS NULL OR (SELECT count(*) FROM holds WHERE tenant = $2 AND job IS NOT NULL) < $7"
	// sameHoldSQL finds the hold of the same tenant or job for the same reason.
	sameHoldSQL   = "SELECT " + holdColumns + " FROM holds WHERE tenant = $1 AND job /*postgres: IS NOT DISTINCT FROM $2::uuid*//*sqlite: IS $2*/ AND reason = $3"
	findHoldsSQL  = "SELECT " + holdColumns + " FROM holds WHERE tenant = $1 ORDER BY id"
	allHoldsSQL   = "SELECT " + holdColumns + " FROM holds ORDER BY id"
	tenantHeldSQL = "SELECT " + holdColumns + " FROM holds WHERE tenant = $1 AND job IS NULL ORDER BY id LIMIT 1"
	jobHeldSQL    = "SELECT " + holdColumns + " FROM holds WHERE tenant = $1 AND job = $2 ORDER BY id LIMIT 1"
	dropHoldSQL   = "DELETE FROM holds WHERE tenant = $1 AND id = $2 RETURNING " + holdColumns
	holdableSQL   = "SELECT true FROM jobs WHERE tenant = $1 AND id = $2 /*postgres: FOR SHARE*/"
)

func scanHold(r Row) (h tenant.Hold, err error) {
	return h, r.Scan(&h.ID, (*string)(&h.Tenant), &h.Job, &h.Reason, &h.By, &h.At)
}

// AddHold adds a hold. It waits for whatever purges something of the tenant just now.
func (s holds) AddHold(ctx context.Context, h tenant.Hold, most int, e *audit.Entry) (out tenant.Hold, err error) {
	err = s.db.Write(ctx, "add a hold", func(tx Tx) error {
		if err := tx.LockTenant(h.Tenant); err != nil {
			return err
		}
		out, err = one(tx, scanHold, sameHoldSQL, string(h.Tenant), OptionalID(h.Job), h.Reason)
		if !errors.Is(err, engine.ErrNotFound) {
			return err
		}
		exists := holdableSQL
		args := []any{string(h.Tenant), h.Job}
		if h.OfTenant() {
			exists, args = "SELECT true FROM tenants WHERE id = $1", args[:1]
		}
		known, err := value[bool](tx, exists, args...)
		if err == nil && !known {
			err = engine.ErrNotFound
		}
		if err != nil {
			return err
		}
		out = h
		if err := changeOne(tx, engine.ErrConflict, addHoldSQL, h.ID, string(h.Tenant), OptionalID(h.Job), h.Reason, h.By, h.At, most); err != nil {
			return err
		}
		return record(tx, e)
	})
	return out, err
}

// Holds lists holds, oldest first.
func (s holds) Holds(ctx context.Context, t tenant.ID) ([]tenant.Hold, error) {
	if t == "" {
		return readAll(ctx, s.db, "list holds", scanHold, allHoldsSQL)
	}
	return readAll(ctx, s.db, "list holds", scanHold, findHoldsSQL, string(t))
}

// DeleteHold ends a hold.
func (s holds) DeleteHold(ctx context.Context, t tenant.ID, id string, e *audit.Entry) (out tenant.Hold, err error) {
	err = write(ctx, s.db, "end a hold", e, func(tx Tx) (err error) {
		out, err = one(tx, scanHold, dropHoldSQL, string(t), id)
		return err
	})
	return out, err
}

// Unheld returns *engine.Held if a job is on hold itself.
func Unheld(tx Tx, t tenant.ID, of job.ID) error {
	return unheld(one(tx, scanHold, jobHeldSQL, string(t), [16]byte(of)))
}

func unheld(h tenant.Hold, err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = &engine.Held{Hold: h}
	}
	return err
}

// purging locks a tenant against new holds, and reports whether it is on hold as a whole. Statements that follow see
// every hold that was answered before.
func purging(tx Tx, t tenant.ID) (held bool, err error) {
	if err := tx.LockTenant(t); err != nil {
		return false, err
	}
	_, err = one(tx, scanHold, tenantHeldSQL, string(t))
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
