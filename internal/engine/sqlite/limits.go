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
		n, err := c.prepare("INSERT INTO tenants (id, name, tier, quotas, reach, created_at, history_cut_at, https_only) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING").
			text(string(t.ID)).text(t.Name).text(string(t.Tier)).text(engine.EncodeOverrides(t.Overrides)).text(t.Reach).at(t.CreatedAt).at(t.CutAt).bool(t.HTTPSOnly).exec()
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
		return c.prepare("SELECT id, name, tier, created_at, reach, history_cut_at, https_only, quotas FROM tenants ORDER BY id").each(func(r *row) (err error) {
			t := tenant.Tenant{ID: tenant.ID(r.text()), Name: r.text(), Tier: tenant.Tier(r.text()), CreatedAt: r.at(), Reach: r.text(), CutAt: r.at(), HTTPSOnly: r.bool()}
			t.Overrides, err = engine.DecodeOverrides(r.text())
			out = append(out, t)
			return err
		})
	})
	return out, err
}

// Reaches finds where callbacks of tenants may go that is not the same for all.
func (s *Store) Reaches(ctx context.Context) (map[tenant.ID]engine.Reach, error) {
	out := map[tenant.ID]engine.Reach{}
	err := s.look(ctx, "read what callbacks may reach", func(c *conn) error {
		return c.prepare("SELECT id, reach, https_only FROM tenants WHERE reach <> '' OR https_only").each(func(r *row) error {
			id := tenant.ID(r.text())
			out[id] = engine.Reach{Allow: r.text(), HTTPSOnly: r.bool()}
			return nil
		})
	})
	return out, err
}

// UpdateTenant changes a tenant's name, tier, overrides and reach, whether its callbacks need https, and when its history became shorter, unless that was later.
func (s *Store) UpdateTenant(ctx context.Context, t tenant.Tenant) error {
	return s.write(ctx, "change a tenant", func(c *conn, _ int64) error {
		if _, err := c.prepare("DELETE FROM job_counts WHERE tenant = ?").text(string(t.ID)).exec(); err != nil {
			return err
		}
		n, err := c.prepare("UPDATE tenants SET name = ?, tier = ?, quotas = ?, reach = ?, history_cut_at = nullif(max(coalesce(history_cut_at, 0), coalesce(?, 0)), 0), https_only = ? WHERE id = ?").
			text(t.Name).text(string(t.Tier)).text(engine.EncodeOverrides(t.Overrides)).text(t.Reach).at(t.CutAt).bool(t.HTTPSOnly).text(string(t.ID)).exec()
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

const (
	unlimitSQL = "UPDATE limits SET max_concurrent = 0, rate_count = 0, rate_us = 0, rate_burst = 0 WHERE tenant = ? AND queue = ?"
	pauseSQL   = `
		INSERT INTO limits (tenant, queue, max_concurrent, rate_count, rate_us, rate_burst, paused_at, paused_until, paused_by, pause_reason)
		VALUES (?, ?, 0, 0, 0, 0, ?, ?, ?, ?)
		ON CONFLICT (tenant, queue) DO UPDATE SET paused_at = excluded.paused_at, paused_until = excluded.paused_until,
			paused_by = excluded.paused_by, pause_reason = excluded.pause_reason`
	resumeSQL = "UPDATE limits SET paused_at = NULL, paused_until = NULL, paused_by = '', pause_reason = '' WHERE tenant = ? AND queue = ?"
	noLimit   = "max_concurrent = 0 AND rate_count = 0"
	// oldPausesSQL drops the rows of pauses that have ended and beside which there is no limit.
	oldPausesSQL = "DELETE FROM limits WHERE (tenant, queue) IN (SELECT tenant, queue FROM limits WHERE paused_until <= ? AND " + noLimit + " LIMIT ?)"
)

// dropLimit drops the row of a queue that has neither a limit nor a pause.
func dropLimit(c *conn, t tenant.ID, queue string) error {
	_, err := c.prepare("DELETE FROM limits WHERE tenant = ? AND queue = ? AND paused_at IS NULL AND " + noLimit).text(string(t)).text(queue).exec()
	return err
}

// PauseQueue pauses a queue, in place of any pause before; the zero Pause ends it.
func (s *Store) PauseQueue(ctx context.Context, t tenant.ID, queue string, p job.Pause) error {
	return s.write(ctx, "pause a queue", func(c *conn, _ int64) error {
		if !p.IsZero() {
			_, err := c.prepare(pauseSQL).text(string(t)).text(queue).at(p.At).at(p.Until).text(p.By).text(p.Reason).exec()
			return err
		}
		if _, err := c.prepare(resumeSQL).text(string(t)).text(queue).exec(); err != nil {
			return err
		}
		return dropLimit(c, t, queue)
	})
}

// SetLimit keeps a limit, in place of any before; one that is zero is removed.
func (s *Store) SetLimit(ctx context.Context, l job.Limit) error {
	return s.write(ctx, "set a limit", func(c *conn, _ int64) error {
		if l.IsZero() {
			_, err := c.prepare(unlimitSQL).text(string(l.Tenant)).text(l.Queue).exec()
			if err != nil {
				return err
			}
			return dropLimit(c, l.Tenant, l.Queue)
		}
		_, err := c.prepare(setLimitSQL).text(string(l.Tenant)).text(l.Queue).int(int64(l.Max)).
			int(int64(l.Rate.Count)).int(l.Rate.Per.Microseconds()).int(int64(l.Rate.Burst)).exec()
		return err
	})
}

// Limits lists the limits of a tenant, or of all where it is empty, its own before those of its queues, and what is paused.
func (s *Store) Limits(ctx context.Context, t tenant.ID) ([]job.Limit, error) {
	w := &where{conditions: []string{"1"}}
	if t != "" {
		w.and("tenant = ?", text(string(t)))
	}
	var out []job.Limit
	err := s.look(ctx, "list limits", func(c *conn) error {
		now := time.UnixMicro(s.now())
		q := c.prepare("SELECT tenant, queue, max_concurrent, rate_count, rate_us, rate_burst, paused_at, paused_until, paused_by, pause_reason FROM limits WHERE " +
			w.String() + " ORDER BY tenant, queue")
		return w.bind(q).each(func(r *row) error {
			l := job.Limit{Tenant: tenant.ID(r.text()), Queue: r.text(), Max: r.int()}
			l.Rate = job.Rate{Count: r.int(), Per: time.Duration(r.int64()) * time.Microsecond, Burst: r.int()}
			l.Pause = job.Pause{At: r.at(), Until: r.at(), By: r.text(), Reason: r.text()}
			if !l.Pause.Holds(now) {
				l.Pause = job.Pause{}
			}
			if !l.IsZero() || !l.Pause.IsZero() {
				out = append(out, l)
			}
			return nil
		})
	})
	return out, err
}

const (
	bucketSQL = "SELECT full_us, step_us, burst FROM buckets WHERE bucket = ?"
	fillSQL   = "INSERT INTO buckets (bucket, full_us) VALUES (?, ?) ON CONFLICT (bucket) DO UPDATE SET full_us = excluded.full_us"
	drawSQL   = `INSERT INTO buckets (bucket, full_us, step_us, burst) VALUES (?, ?, ?, ?)
		ON CONFLICT (bucket) DO UPDATE SET full_us = excluded.full_us, step_us = excluded.step_us, burst = excluded.burst`
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

// draw takes up to N tokens out of a bucket, of which the instant is kept at which it is full again, and by which rate: each token
// that is missing is worth the rate's interval.
func draw(c *conn, now int64, d *engine.Draw) (engine.Drawn, error) {
	if d.Rate.IsZero() {
		return engine.Drawn{N: max(d.N, 0)}, nil
	}
	full, is := now, d.Rate.Pace()
	was := is
	_, err := c.prepare(bucketSQL).text(d.Bucket).first(func(r *row) error {
		full = r.int64()
		was = job.Pace{Step: r.int64(), Burst: r.int64()}
		full = is.Rescale(was, full, now)
		return nil
	})
	if err != nil {
		return engine.Drawn{}, err
	}
	missing := func() int64 { return (full - now + is.Step - 1) / is.Step }
	n := max(0, min(int64(d.N), is.Burst-missing()))
	full += n * is.Step
	if n > 0 || d.N > 0 && was != is {
		if _, err := c.prepare(drawSQL).text(d.Bucket).int(full).int(is.Step).int(is.Burst).exec(); err != nil {
			return engine.Drawn{}, err
		}
	}
	out := engine.Drawn{N: int(n)}
	if missing() >= is.Burst {
		out.Wait = time.Duration(full-now-(is.Burst-1)*is.Step) * time.Microsecond
	}
	return out, nil
}
