package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	secretColumns = "tenant, name, job, version, created_at, updated_at, key_id"

	putSecretSQL = `
		INSERT INTO secrets (tenant, name, job, version, created_at, updated_at, key_id, sealed) VALUES (?, ?, ?, 1, ?, ?, ?, ?)
		ON CONFLICT (tenant, name) DO UPDATE SET version = version + 1, updated_at = excluded.updated_at, key_id = excluded.key_id, sealed = excluded.sealed,
			expires_at = NULL`
	secretsOfSQL = "SELECT tenant, job FROM live WHERE id = ?"
	managedSQL   = "SELECT " + secretColumns + ", sealed FROM secrets INDEXED BY secrets_job WHERE tenant = ?1 AND job = ?2 AND job IS NOT NULL" +
		" UNION ALL SELECT * FROM (SELECT " + pastSecretColumns + " FROM past_secrets WHERE tenant = ?1 AND job = ?2 AND job IS NOT NULL" +
		" ORDER BY dropped_at DESC, rowid DESC LIMIT 20) ORDER BY 2, 4 DESC"
	pastSecretColumns = "tenant, name, job, 0, dropped_at, dropped_at, key_id, sealed"
	oldPastSecretsSQL = "DELETE FROM past_secrets WHERE rowid IN (SELECT rowid FROM past_secrets INDEXED BY past_secrets_age WHERE dropped_at <= ? LIMIT ?)"
	outliveJobSQL     = "UPDATE secrets SET expires_at = ? WHERE tenant = ? AND job = ? AND job IS NOT NULL AND expires_at IS NULL"
	oldSecretsSQL     = "DELETE FROM secrets WHERE rowid IN (SELECT rowid FROM secrets INDEXED BY secrets_expired WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?)"
	dropManagedSQL    = "DELETE FROM secrets WHERE tenant = ? AND job = ? AND name = ? AND job IS NOT NULL"
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

// SecretsOf returns the tenants and jobs of executions, and the managed secrets of their jobs.
func (s *reads) SecretsOf(ctx context.Context, ids []job.ExecutionID) ([]engine.SecretUse, error) {
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
