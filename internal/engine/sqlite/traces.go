package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keepTraceSQL = "INSERT OR REPLACE INTO traces (of, tenant, at, parent) VALUES (?, ?, ?, ?)"
	traceSQL     = "SELECT tenant, at, parent FROM traces WHERE of = ?"
	oldTracesSQL = "DELETE FROM traces WHERE of IN (SELECT of FROM traces INDEXED BY traces_at WHERE at < ? LIMIT ?)"
)

// KeepTraces keeps where jobs and executions began.
func (s *Store) KeepTraces(ctx context.Context, ts []engine.Trace) error {
	return s.write(ctx, "keep traces", func(c *conn, _ int64) error {
		for _, t := range ts {
			if _, err := c.prepare(keepTraceSQL).id(t.Of).text(string(t.Tenant)).int(t.At.UnixMicro()).text(t.Parent).exec(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Traces finds where jobs and executions began.
func (s *Store) Traces(ctx context.Context, ids [][16]byte) ([]engine.Trace, error) {
	var out []engine.Trace
	err := s.look(ctx, "find traces", func(c *conn) error {
		seen := make(map[[16]byte]bool, len(ids))
		for _, id := range ids {
			if seen[id] {
				continue
			}
			seen[id] = true
			_, err := c.prepare(traceSQL).id(id).first(func(r *row) error {
				out = append(out, engine.Trace{Of: id, Tenant: tenant.ID(r.text()), At: r.at(), Parent: r.text()})
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
