package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// CreateTenant stores a tenant.
func (s *Store) CreateTenant(ctx context.Context, t tenant.Tenant) error {
	return s.write(ctx, "create a tenant", func(c *conn, _ int64) error {
		n, err := c.prepare("INSERT INTO tenants (id, name, tier, quotas, reach, created_at, history_cut_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING").
			text(string(t.ID)).text(t.Name).text(string(t.Tier)).text(engine.EncodeOverrides(t.Overrides)).text(t.Reach).at(t.CreatedAt).at(t.CutAt).exec()
		if err == nil && n == 0 {
			return engine.ErrConflict
		}
		return err
	})
}

// Tenants lists all tenants in order of their ids.
func (s *Store) Tenants(ctx context.Context) ([]tenant.Tenant, error) {
	var out []tenant.Tenant
	err := s.look(ctx, "list tenants", func(c *conn) error {
		return c.prepare("SELECT id, name, tier, created_at, reach, history_cut_at, quotas FROM tenants ORDER BY id").each(func(r *row) (err error) {
			t := tenant.Tenant{ID: tenant.ID(r.text()), Name: r.text(), Tier: tenant.Tier(r.text()), CreatedAt: r.at(), Reach: r.text(), CutAt: r.at()}
			t.Overrides, err = engine.DecodeOverrides(r.text())
			out = append(out, t)
			return err
		})
	})
	return out, err
}

// UpdateTenant changes a tenant's name, tier, overrides and reach, and when its history became shorter, unless that was later.
func (s *Store) UpdateTenant(ctx context.Context, t tenant.Tenant) error {
	return s.write(ctx, "change a tenant", func(c *conn, _ int64) error {
		if _, err := c.prepare("DELETE FROM job_counts WHERE tenant = ?").text(string(t.ID)).exec(); err != nil {
			return err
		}
		n, err := c.prepare("UPDATE tenants SET name = ?, tier = ?, quotas = ?, reach = ?, history_cut_at = nullif(max(coalesce(history_cut_at, 0), coalesce(?, 0)), 0) WHERE id = ?").
			text(t.Name).text(string(t.Tier)).text(engine.EncodeOverrides(t.Overrides)).text(t.Reach).at(t.CutAt).text(string(t.ID)).exec()
		if err == nil && n == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

const setLimitSQL = `
	INSERT INTO limits (tenant, queue, max_concurrent, rate_count, rate_us, rate_burst) VALUES (?, ?, ?, ?, ?, ?)
	ON CONFLICT (tenant, queue) DO UPDATE SET max_concurrent = excluded.max_concurrent,
		rate_count = excluded.rate_count, rate_us = excluded.rate_us, rate_burst = excluded.rate_burst`

// SetLimit keeps a limit, in place of any before; one that is zero is removed.
func (s *Store) SetLimit(ctx context.Context, l job.Limit) error {
	return s.write(ctx, "set a limit", func(c *conn, _ int64) error {
		if l.IsZero() {
			_, err := c.prepare("DELETE FROM limits WHERE tenant = ? AND queue = ?").text(string(l.Tenant)).text(l.Queue).exec()
			return err
		}
		_, err := c.prepare(setLimitSQL).text(string(l.Tenant)).text(l.Queue).int(int64(l.Max)).
			int(int64(l.Rate.Count)).int(l.Rate.Per.Microseconds()).int(int64(l.Rate.Burst)).exec()
		return err
	})
}

// Limits lists the limits of a tenant, or of all where it is empty, its own before those of its queues.
func (s *Store) Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error) {
	w := &where{conditions: []string{"1"}}
	if t != "" {
		w.and("tenant = ?", text(string(t)))
	}
	var out []job.Limit
	err := s.look(ctx, "list limits", func(c *conn) error {
		q := c.prepare("SELECT tenant, queue, max_concurrent, rate_count, rate_us, rate_burst FROM limits WHERE " + w.String() + " ORDER BY tenant, queue")
		return w.bind(q).each(func(r *row) error {
			l := job.Limit{Tenant: tenant.ID(r.text()), Queue: r.text(), Max: r.int()}
			l.Rate = job.Rate{Count: r.int(), Per: time.Duration(r.int64()) * time.Microsecond, Burst: r.int()}
			out = append(out, l)
			return nil
		})
	})
	return out, err
}

const (
	bucketSQL = "SELECT full_us FROM buckets WHERE bucket = ?"
	fillSQL   = "INSERT INTO buckets (bucket, full_us) VALUES (?, ?) ON CONFLICT (bucket) DO UPDATE SET full_us = excluded.full_us"
)

// Draw takes tokens out of buckets that fill at their rate, up to their burst, and answers in order.
func (s *Store) Draw(ctx context.Context, ds []engine.Draw) ([]engine.Drawn, error) {
	if len(ds) == 0 {
		return nil, nil
	}
	asks := 0
	for i := range ds {
		asks += max(ds[i].N, 0)
	}
	out := make([]engine.Drawn, len(ds))
	all := func(c *conn, now int64) (err error) {
		for i := range ds {
			if out[i], err = draw(c, now, &ds[i]); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if asks == 0 { // a look stands in nobody's way
		err = s.look(ctx, "look into buckets", func(c *conn) error { return all(c, s.now()) })
	} else {
		err = s.write(ctx, "draw from buckets", all)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// draw takes up to N tokens out of a bucket, of which only the instant is kept at which it is full again: each token that
// is missing is worth the rate's interval.
func draw(c *conn, now int64, d *engine.Draw) (engine.Drawn, error) {
	if d.Rate.IsZero() {
		return engine.Drawn{N: max(d.N, 0)}, nil
	}
	full := now
	_, err := c.prepare(bucketSQL).text(d.Bucket).first(func(r *row) error {
		full = max(now, r.int64())
		return nil
	})
	if err != nil {
		return engine.Drawn{}, err
	}
	interval, burst := d.Rate.Interval().Microseconds(), int64(max(d.Rate.Burst, 1))
	missing := func() int64 { return (full - now + interval - 1) / interval }
	n := max(0, min(int64(d.N), burst-missing()))
	if n > 0 {
		full += n * interval
		if _, err := c.prepare(fillSQL).text(d.Bucket).int(full).exec(); err != nil {
			return engine.Drawn{}, err
		}
	}
	out := engine.Drawn{N: int(n)}
	if missing() >= burst {
		out.Wait = time.Duration(full-now-(burst-1)*interval) * time.Microsecond
	}
	return out, nil
}
