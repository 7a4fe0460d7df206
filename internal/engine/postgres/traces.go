package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// The last of those that name one thing counts.
	keepTracesSQL = `
		INSERT INTO traces (of, tenant, at, parent)
		SELECT DISTINCT ON (t.of) t.of, t.tenant, t.at, t.parent
		FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[]) WITH ORDINALITY t(of, tenant, at, parent, n) ORDER BY t.of, t.n DESC
		ON CONFLICT (of) DO UPDATE SET tenant = EXCLUDED.tenant, at = EXCLUDED.at, parent = EXCLUDED.parent`
	tracesSQL     = "SELECT of, tenant, at, parent FROM traces WHERE of = ANY ($1::uuid[])"
	tidyTracesSQL = `
		DELETE FROM traces WHERE of = ANY (ARRAY(
			SELECT of FROM traces WHERE at < now() - interval '7 days' ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED))`
	tidiedTraces = 5_000
)

// KeepTraces keeps where jobs and executions began.
func (s *Store) KeepTraces(ctx context.Context, ts []engine.Trace) error {
	n := len(ts)
	ofs, tenants, ats, parents := uuids(n), texts(n), instants(n), texts(n)
	for _, t := range ts {
		ofs.uuid(t.Of)
		tenants.text(string(t.Tenant))
		ats.time(t.At)
		parents.text(t.Parent)
	}
	return s.write(ctx, "keep traces", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, keepTracesSQL, ofs, tenants, ats, parents)
		return err
	})
}

// Traces finds where jobs and executions began.
func (s *Store) Traces(ctx context.Context, ids [][16]byte) ([]engine.Trace, error) {
	asked := uuids(len(ids))
	for _, id := range ids {
		asked.uuid(id)
	}
	var out []engine.Trace
	err := s.look(ctx, "find traces", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, tracesSQL, asked)
		var err error
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (t engine.Trace, err error) {
			err = r.Scan(&t.Of, (*string)(&t.Tenant), at(&t.At), &t.Parent)
			return t, err
		})
		return err
	})
	return out, err
}
