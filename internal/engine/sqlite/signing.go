package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	addSecretSQL = "INSERT INTO signing_secrets (tenant, id, created_at, expires_at, prefix, sealed) VALUES (?, ?, ?, ?, ?, ?)"
	endOthersSQL = `
		UPDATE signing_secrets SET expires_at = ?1 WHERE tenant = ?2 AND id <> ?3 AND (expires_at IS NULL OR expires_at > ?1)`
	seedSecretSQL = `
		INSERT INTO signing_secrets (tenant, id, created_at, expires_at, prefix, sealed)
		SELECT ?1, ?2, ?3, NULL, '', ?4 WHERE NOT EXISTS (SELECT 1 FROM signing_secrets WHERE tenant = ?1 AND (expires_at IS NULL OR expires_at > ?5))`
	showSecretSQL = `
		UPDATE signing_secrets SET prefix = ?3 WHERE tenant = ?1 AND id = ?2 AND prefix = '' AND (expires_at IS NULL OR expires_at > ?4)`
	goneSecretsSQL  = "DELETE FROM signing_secrets WHERE tenant = ? AND expires_at <= ?"
	countSecretsSQL = "SELECT count(*), coalesce(max(id = ?2), 0) FROM signing_secrets WHERE tenant = ?1"
	secretsSQL      = `
		SELECT tenant, id, created_at, expires_at, prefix, sealed FROM signing_secrets
		WHERE ?1 IN ('', tenant) AND (expires_at IS NULL OR expires_at > ?2) ORDER BY created_at DESC, id DESC`

	parkSQL = "UPDATE live SET parked_until = ?4" + heldBy + " RETURNING tenant, attempt, worker, cancel_at IS NOT NULL"
)

// AddSigningSecret stores a secret, and has the tenant's others end at an instant.
func (s *Store) AddSigningSecret(ctx context.Context, x engine.SigningSecret, othersUntil time.Time) error {
	return s.write(ctx, "store a signing secret", func(c *conn, now int64) error {
		if _, err := c.prepare(goneSecretsSQL).text(string(x.Tenant)).int(now).exec(); err != nil {
			return err
		}
		var n int
		var known bool
		_, err := c.prepare(countSecretsSQL).text(string(x.Tenant)).text(x.ID).first(func(r *row) error {
			n, known = r.int(), r.bool()
			return nil
		})
		switch {
		case err != nil || known:
			engine.Unchanged(ctx)
			return err
		case n >= engine.MaxSigningSecrets:
			return engine.ErrConflict
		}
		if _, err := c.prepare(addSecretSQL).text(string(x.Tenant)).text(x.ID).int(x.CreatedAt.UnixMicro()).at(x.ExpiresAt).text(x.Prefix).bytes(x.Sealed).exec(); err != nil {
			return err
		}
		if _, err := c.prepare("DELETE FROM signing_secrets WHERE tenant = ? AND id <> ? AND prefix = ''").text(string(x.Tenant)).text(x.ID).exec(); err != nil {
			return err
		}
		_, err = c.prepare(endOthersSQL).int(othersUntil.UnixMicro()).text(string(x.Tenant)).text(x.ID).exec()
		return err
	})
}

// SeedSigningSecret stores a secret that nobody has been shown, if the tenant has none in use.
func (s *Store) SeedSigningSecret(ctx context.Context, x engine.SigningSecret) (made bool, err error) {
	err = s.write(ctx, "seed a signing secret", func(c *conn, now int64) error {
		n, err := c.prepare(seedSecretSQL).text(string(x.Tenant)).text(x.ID).int(x.CreatedAt.UnixMicro()).bytes(x.Sealed).int(now).exec()
		if made = n > 0; !made {
			engine.Unchanged(ctx)
		}
		return err
	})
	return made, err
}

// ShowSigningSecret notes that a secret is shown to its tenant.
func (s *Store) ShowSigningSecret(ctx context.Context, t tenant.ID, id, prefix string) error {
	return s.write(ctx, "show a signing secret", func(c *conn, now int64) error {
		n, err := c.prepare(showSecretSQL).text(string(t)).text(id).text(prefix).int(now).exec()
		if err != nil || n > 0 {
			return err
		}
		there, err := c.prepare("SELECT 1 FROM signing_secrets WHERE tenant = ?1 AND id = ?2 AND (expires_at IS NULL OR expires_at > ?3)").text(string(t)).text(id).int(now).first(func(*row) error { return nil })
		if err == nil && !there {
			return engine.ErrNotFound
		}
		if err == nil {
			err = engine.ErrConflict
		}
		return err
	})
}

// SigningSecrets lists a tenant's that have not ended, the newest first.
func (s *Store) SigningSecrets(ctx context.Context, t tenant.ID) ([]engine.SigningSecret, error) {
	var out []engine.SigningSecret
	err := s.look(ctx, "list signing secrets", func(c *conn) error {
		return c.prepare(secretsSQL).text(string(t)).int(s.now()).each(func(r *row) error {
			out = append(out, engine.SigningSecret{Tenant: tenant.ID(r.text()), ID: r.text(), CreatedAt: r.at(), ExpiresAt: r.at(), Prefix: r.text(), Sealed: r.bytes()})
			return nil
		})
	})
	return out, err
}

// DeleteSigningSecret forgets one; ErrNotFound if there is none.
func (s *Store) DeleteSigningSecret(ctx context.Context, t tenant.ID, id string) error {
	return s.write(ctx, "delete a signing secret", func(c *conn, _ int64) error {
		n, err := c.prepare("DELETE FROM signing_secrets WHERE tenant = ? AND id = ?").text(string(t)).text(id).exec()
		if err == nil && n == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// Share keeps a value under a name, unless there is one, and answers with the one that is kept.
func (s *Store) Share(ctx context.Context, name string, value []byte) (kept []byte, err error) {
	err = s.write(ctx, "share a value", func(c *conn, _ int64) error {
		if _, err := c.prepare("INSERT OR IGNORE INTO installation (name, value) VALUES (?, ?)").text(name).bytes(value).exec(); err != nil {
			return err
		}
		_, err := c.prepare("SELECT value FROM installation WHERE name = ?").text(name).first(func(r *row) error {
			kept = r.bytes()
			return nil
		})
		return err
	})
	return kept, err
}

// ResealSigningSecret replaces what one is sealed as, unless it is no longer as it was.
func (s *Store) ResealSigningSecret(ctx context.Context, x engine.SigningSecret, was []byte) error {
	return s.write(ctx, "seal a signing secret anew", func(c *conn, _ int64) error {
		_, err := c.prepare("UPDATE signing_secrets SET sealed = ? WHERE tenant = ? AND id = ? AND sealed = ?").bytes(x.Sealed).text(string(x.Tenant)).text(x.ID).bytes(was).exec()
		return err
	})
}

// Reshare replaces a shared value, unless it is no longer as it was.
func (s *Store) Reshare(ctx context.Context, name string, was, value []byte) error {
	return s.write(ctx, "share another value", func(c *conn, _ int64) error {
		_, err := c.prepare("UPDATE installation SET value = ? WHERE name = ? AND value = ?").bytes(value).text(name).bytes(was).exec()
		return err
	})
}

// Park leaves executions to their targets, under their leases.
func (s *Store) Park(ctx context.Context, ps []engine.Parking) ([]job.Verdict, error) {
	out := make([]job.Verdict, len(ps))
	err := s.write(ctx, "park", func(c *conn, now int64) error {
		h := newHistory(c, now)
		for i := range ps {
			p := &ps[i]
			var t tenant.ID
			asked := false
			e := job.Event{Kind: job.EventParked, Token: p.Token}
			parked, err := c.prepare(parkSQL).id(p.Execution).int(int64(p.Token)).idOrNull(p.Worker).int(p.Until.UnixMicro()).first(func(r *row) error {
				t, e.Attempt, e.Worker, asked = tenant.ID(r.text()), r.int(), r.id(), r.bool()
				return nil
			})
			if err != nil {
				return err
			}
			if out[i] = (job.Verdict{Execution: p.Execution, Accepted: true}); parked {
				err = tell(c, now, t, p.Execution, e)
				if err == nil && asked {
					_, err = cancelled(h, p.Lease, 0, nil)
				}
			} else {
				out[i], err = judge(h, &job.Finish{Outcome: p.Outcome, Worker: p.Worker})
			}
			if err != nil {
				return err
			}
		}
		return h.tally()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
