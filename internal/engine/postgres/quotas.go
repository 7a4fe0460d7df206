package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// hasMost reports whether any of the chosen creations has a maximum number of jobs.
func (b batch) hasMost() bool {
	return slices.ContainsFunc(b.chosen, func(i int) bool { return b.all[i].Most > 0 && len(b.all[i].Jobs) > 0 })
}

// rooms holds the counts of tenants' active jobs, their rows locked, and how many creations add.
type rooms struct {
	active map[tenant.ID]int64
	added  map[tenant.ID]int64
}

// room locks, in one order, the counts of the tenants of creations with a maximum number.
func (b batch) room(ctx context.Context, tx pgx.Tx) (rooms, error) {
	r := rooms{map[tenant.ID]int64{}, map[tenant.ID]int64{}}
	var ts []string
	for _, i := range b.chosen {
		if t := string(b.all[i].Tenant); b.all[i].Most > 0 && len(b.all[i].Jobs) > 0 && !slices.Contains(ts, t) {
			ts = append(ts, t)
		}
	}
	if len(ts) == 0 {
		return r, nil
	}
	slices.Sort(ts)
	rows, err := tx.Query(ctx, `
		SELECT t.tenant, c.active FROM unnest($1::text[]) t(tenant)
		CROSS JOIN LATERAL (SELECT active FROM job_counts WHERE tenant = t.tenant OFFSET 0 FOR UPDATE) c`, ts)
	if err != nil {
		return r, err
	}
	var t tenant.ID
	var n int64
	_, err = pgx.ForEachRow(rows, []any{(*string)(&t), &n}, func() error { r.active[t] = n; return nil })
	return r, err
}

// take reserves room for a creation, if there is any; if nothing was counted there is none.
func (r rooms) take(c *engine.Creation) bool {
	n := int64(len(c.Jobs))
	if c.Most <= 0 || n == 0 {
		return true
	}
	active, counted := r.active[c.Tenant]
	if !counted || active+r.added[c.Tenant]+n > c.Most {
		return false
	}
	r.added[c.Tenant] += n
	return true
}

// keep adds what was reserved to the counts.
func (r rooms) keep(ctx context.Context, tx pgx.Tx) error {
	if len(r.added) == 0 {
		return nil
	}
	var ts []string
	var ns []int64
	for t, n := range r.added {
		ts, ns = append(ts, string(t)), append(ns, n)
	}
	_, err := tx.Exec(ctx, `
		UPDATE job_counts c SET active = c.active + a.n FROM unnest($1::text[], $2::int8[]) a(tenant, n)
		WHERE c.tenant = ANY (ARRAY[a.tenant])`, ts, ns)
	return err
}

const (
	// oldCountSQL returns a tenant's count and its age in one statement, since the tenant may be deleted between two.
	oldCountSQL = `
		INSERT INTO job_counts AS c (tenant, active, counted_at) VALUES ($1, 0, 'epoch') ON CONFLICT (tenant) DO UPDATE SET active = c.active
		RETURNING c.active, (extract(epoch FROM clock_timestamp() - c.counted_at) * 1000000)::int8, c.counted_at`
	// addCountSQL makes room for one finished job that becomes active again.
	addCountSQL = "UPDATE job_counts SET active = active + 1 WHERE tenant = $1 AND active < $2"
)

// chargeSQL locks the rows in order, like drawSQL.
const chargeSQL = `
	WITH old AS MATERIALIZED (
		SELECT u.bucket, greatest(b.full_us, t.now - u.ago) + u.use AS full_us, t.now FROM unnest($1::text[], $2::int8[], $3::int8[]) u(bucket, use, ago)
		CROSS JOIN LATERAL (SELECT full_us FROM buckets WHERE bucket = u.bucket OFFSET 0 FOR UPDATE) b
		CROSS JOIN ` + nowMicros + `
	), kept AS (
		UPDATE buckets b SET full_us = o.full_us FROM old o WHERE b.bucket = ANY (ARRAY[o.bucket])
	)
	SELECT bucket, full_us - now FROM old`

// Charge adds usage to buckets.
func (s *leases) Charge(ctx context.Context, cs []engine.Charge) ([]time.Duration, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	order := make([]int, len(cs)) // rows are locked in one order
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if cs[a].Bucket < cs[b].Bucket {
			return -1
		}
		return 1
	})
	names, uses, agos := texts(len(cs)), bigints(len(cs)), bigints(len(cs))
	for _, i := range order {
		names.text(cs[i].Bucket)
		uses.int8(int64(cs[i].N) * cs[i].Rate.Interval().Microseconds())
		agos.int8(cs[i].Ago.Microseconds())
	}
	left := make(map[string]time.Duration, len(cs))
	err := s.write(ctx, "charge", func(ctx context.Context, c *pgxpool.Conn) error {
		if _, err := c.Exec(ctx, makeBucketSQL, names); err != nil {
			return err
		}
		rows, err := c.Query(ctx, chargeSQL, names, uses, agos)
		if err != nil {
			return err
		}
		var bucket string
		var full int64
		_, err = pgx.ForEachRow(rows, []any{&bucket, &full}, func() error {
			left[bucket] = time.Duration(full) * time.Microsecond
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]time.Duration, len(cs))
	for i := range cs {
		out[i] = max(0, left[cs[i].Bucket])
	}
	return out, nil
}
