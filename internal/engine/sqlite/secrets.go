package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	secretColumns = "tenant, name, job, version, created_at, updated_at, key_id"
	ofPeople      = " FROM secrets WHERE tenant = ?1 AND job IS NULL"

	putSecretSQL = `
		INSERT INTO secrets (tenant, name, job, version, created_at, updated_at, key_id, sealed) VALUES (?, ?, ?, 1, ?, ?, ?, ?)
		ON CONFLICT (tenant, name) DO UPDATE SET version = version + 1, updated_at = excluded.updated_at, key_id = excluded.key_id, sealed = excluded.sealed,
			expires_at = NULL`
	oneSecretSQL = "SELECT " + secretColumns + ", sealed FROM secrets WHERE tenant = ?1 AND name = ?2"
	// What came and went is known by what it left behind.
	secretStampSQL = "SELECT count(*), coalesce(sum(version), 0), coalesce(max(updated_at), 0)," +
		" (SELECT coalesce(max(rowid), 0) FROM past_secrets INDEXED BY past_secrets_whose WHERE tenant = ?1 AND job IS NULL)" + ofPeople
	secretsOfSQL = "SELECT tenant, job FROM live WHERE id = ?"
	managedSQL   = "SELECT " + secretColumns + ", sealed FROM secrets WHERE tenant = ?1 AND job = ?2 AND job IS NOT NULL" +
		" UNION ALL SELECT * FROM (SELECT " + pastSecretColumns + " FROM past_secrets WHERE tenant = ?1 AND job = ?2 AND job IS NOT NULL" +
		" ORDER BY dropped_at DESC, rowid DESC LIMIT 20) ORDER BY 2, 4 DESC"
	pastSecretColumns = "tenant, name, job, 0, dropped_at, dropped_at, key_id, sealed"
	pastSecretsSQL    = "SELECT " + pastSecretColumns + " FROM past_secrets WHERE tenant = ? AND job IS NULL ORDER BY dropped_at DESC, rowid DESC LIMIT ?"
	oldPastSecretsSQL = "DELETE FROM past_secrets WHERE rowid IN (SELECT rowid FROM past_secrets INDEXED BY past_secrets_age WHERE dropped_at <= ? LIMIT ?)"
	secretKeysSQL     = "SELECT " + secretColumns + ", sealed FROM secrets WHERE rowid IN (SELECT min(rowid) FROM secrets GROUP BY key_id) ORDER BY key_id"
	notUnderSQL       = "SELECT " + secretColumns + ", sealed FROM secrets WHERE (tenant, name) > (?, ?) AND key_id <> ? ORDER BY tenant, name"
	resealSQL         = "UPDATE secrets SET key_id = ?, sealed = ? WHERE tenant = ? AND name = ? AND sealed = ?"
	outliveJobSQL     = "UPDATE secrets SET expires_at = ? WHERE tenant = ? AND job = ? AND job IS NOT NULL AND expires_at IS NULL"
	oldSecretsSQL     = "DELETE FROM secrets WHERE rowid IN (SELECT rowid FROM secrets INDEXED BY secrets_expired WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?)"
	dropManagedSQL    = "DELETE FROM secrets WHERE tenant = ? AND job = ? AND name = ? AND job IS NOT NULL"
	deleteSecretSQL   = "DELETE" + ofPeople + " AND name = ?2"
)

func putSecret(c *conn, s *engine.Secret) error {
	_, err := c.prepare(putSecretSQL).text(string(s.Tenant)).text(s.Name).idOrNull(s.Job).at(s.CreatedAt).at(s.UpdatedAt).text(s.Key).bytes(s.Sealed).exec()
	return err
}

func readSecret(r *row) engine.Secret {
	return engine.Secret{Tenant: tenant.ID(r.text()), Name: r.text(), Job: r.id(), Version: r.int(), CreatedAt: r.at(), UpdatedAt: r.at(), Key: r.text()}
}

func readSealed(r *row) engine.Secret {
	s := readSecret(r)
	s.Sealed = r.bytes()
	return s
}

// PutSecret stores a secret that a person named, as version 1 or the next one.
func (s *Store) PutSecret(ctx context.Context, x engine.Secret, most int) (engine.Secret, error) {
	x.Job = job.ID{}
	err := s.write(ctx, "store a secret", func(c *conn, _ int64) error {
		known, err := c.prepare("SELECT 1" + ofPeople + " AND name = ?2").text(string(x.Tenant)).text(x.Name).first(nothing)
		if err != nil {
			return err
		}
		n := 0
		if _, err := c.prepare("SELECT count(*)" + ofPeople).text(string(x.Tenant)).first(func(r *row) error { n = r.int(); return nil }); err != nil {
			return err
		}
		if !known && n >= most {
			return engine.ErrFull
		}
		if err := putSecret(c, &x); err != nil {
			return err
		}
		_, err = c.prepare("SELECT " + secretColumns + ofPeople + " AND name = ?2").text(string(x.Tenant)).text(x.Name).first(func(r *row) error {
			x = readSecret(r)
			return nil
		})
		return err
	})
	if err != nil {
		return engine.Secret{}, err
	}
	return x, nil
}

// Secret finds one, also a managed one.
func (s *Store) Secret(ctx context.Context, t tenant.ID, name string) (engine.Secret, error) {
	var out engine.Secret
	err := s.look(ctx, "find a secret", func(c *conn) error {
		found, err := c.prepare(oneSecretSQL).text(string(t)).text(name).first(func(r *row) error {
			out = readSealed(r)
			return nil
		})
		if err == nil && !found {
			return engine.ErrNotFound
		}
		return err
	})
	return out, err
}

// Secrets lists those of a tenant that a person named, without their values.
func (s *Store) Secrets(ctx context.Context, t tenant.ID) ([]engine.Secret, error) {
	var out []engine.Secret
	err := s.look(ctx, "list secrets", func(c *conn) error {
		return c.prepare("SELECT " + secretColumns + ofPeople + " ORDER BY name").text(string(t)).each(func(r *row) error {
			out = append(out, readSecret(r))
			return nil
		})
	})
	return out, err
}

// SealedSecrets lists the same with their values, and the stamp that they have.
func (s *Store) SealedSecrets(ctx context.Context, t tenant.ID) (out []engine.Secret, stamp string, err error) {
	err = s.look(ctx, "read secrets", func(c *conn) (err error) {
		if stamp, err = secretStamp(c, t); err != nil { // before the values: one that is too old is read again
			return err
		}
		return c.prepare("SELECT " + secretColumns + ", sealed" + ofPeople + " ORDER BY name").text(string(t)).each(func(r *row) error {
			out = append(out, readSealed(r))
			return nil
		})
	})
	return out, stamp, err
}

// SecretStamp changes with every change of what SealedSecrets lists.
func (s *Store) SecretStamp(ctx context.Context, t tenant.ID) (stamp string, err error) {
	err = s.look(ctx, "look whether secrets have changed", func(c *conn) (err error) {
		stamp, err = secretStamp(c, t)
		return err
	})
	return stamp, err
}

func secretStamp(c *conn, t tenant.ID) (stamp string, err error) {
	_, err = c.prepare(secretStampSQL).text(string(t)).first(func(r *row) error {
		stamp = fmt.Sprintf("%d.%d.%d.%d", r.int64(), r.int64(), r.int64(), r.int64())
		return nil
	})
	return stamp, err
}

// PastSecrets lists values that secrets had before they were changed or deleted.
func (s *Store) PastSecrets(ctx context.Context, t tenant.ID, limit int) ([]engine.Secret, error) {
	var out []engine.Secret
	err := s.look(ctx, "read what secrets were", func(c *conn) error {
		return c.prepare(pastSecretsSQL).text(string(t)).int(int64(limit)).each(func(r *row) error {
			out = append(out, readSealed(r))
			return nil
		})
	})
	return out, err
}

// LackSecrets says which of the names are none that a person gave.
func (s *Store) LackSecrets(ctx context.Context, t tenant.ID, names []string) ([]string, error) {
	var out []string
	err := s.look(ctx, "find secrets", func(c *conn) error {
		q := c.prepare("SELECT 1" + ofPeople + " AND name = ?2")
		for _, name := range names {
			found, err := q.text(string(t)).text(name).first(nothing)
			if err != nil {
				return err
			}
			if !found {
				out = append(out, name)
			}
		}
		return nil
	})
	return out, err
}

// DeleteSecret forgets one that a person named.
func (s *Store) DeleteSecret(ctx context.Context, t tenant.ID, name string) error {
	return s.write(ctx, "delete a secret", func(c *conn, _ int64) error {
		n, err := c.prepare(deleteSecretSQL).text(string(t)).text(name).exec()
		if err == nil && n == 0 {
			return engine.ErrNotFound
		}
		return err
	})
}

// SecretsOf says whose executions are, and which managed secrets their jobs have.
func (s *Store) SecretsOf(ctx context.Context, ids []job.ExecutionID) ([]engine.SecretUse, error) {
	var out []engine.SecretUse
	err := s.look(ctx, "find the secrets of executions", func(c *conn) error {
		out = nil
		for _, id := range ids {
			u := engine.SecretUse{Execution: id}
			var of job.ID
			found, err := c.prepare(secretsOfSQL).id(id).first(func(r *row) error {
				u.Tenant, of = tenant.ID(r.text()), r.id()
				return nil
			})
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			err = c.prepare(managedSQL).text(string(u.Tenant)).id(of).each(func(r *row) error {
				u.Managed = append(u.Managed, readSealed(r))
				return nil
			})
			if err != nil {
				return err
			}
			out = append(out, u)
		}
		return nil
	})
	return out, err
}

// SecretKeys lists one secret of each key that any is sealed under.
func (s *Store) SecretKeys(ctx context.Context) ([]engine.Secret, error) {
	var out []engine.Secret
	err := s.look(ctx, "find the keys of secrets", func(c *conn) error {
		return c.prepare(secretKeysSQL).each(func(r *row) error {
			out = append(out, readSealed(r))
			return nil
		})
	})
	return out, err
}

// SecretsNotUnder lists up to limit secrets that are sealed under another key.
func (s *Store) SecretsNotUnder(ctx context.Context, key string, after engine.Secret, limit int) ([]engine.Secret, error) {
	var out []engine.Secret
	err := s.look(ctx, "find secrets under other keys", func(c *conn) error {
		_, err := c.prepare(notUnderSQL).text(string(after.Tenant)).text(after.Name).text(key).until(func(r *row) (bool, error) {
			out = append(out, readSealed(r))
			return len(out) >= limit, nil
		})
		return err
	})
	return out, err
}

// ResealSecret replaces what a secret is sealed as, unless it is no longer as it was.
func (s *Store) ResealSecret(ctx context.Context, x engine.Secret, was []byte) error {
	return s.write(ctx, "seal a secret again", func(c *conn, _ int64) error {
		_, err := c.prepare(resealSQL).text(x.Key).bytes(x.Sealed).text(string(x.Tenant)).text(x.Name).bytes(was).exec()
		return err
	})
}

// keepManaged stores managed secrets with their job, and drops those that it no longer has.
func keepManaged(c *conn, t tenant.ID, of job.ID, put []engine.Secret, unused []string) error {
	for i := range put {
		if err := putSecret(c, &put[i]); err != nil {
			return err
		}
	}
	for _, name := range unused {
		if _, err := c.prepare(dropManagedSQL).text(string(t)).id(of).text(name).exec(); err != nil {
			return err
		}
	}
	return nil
}
