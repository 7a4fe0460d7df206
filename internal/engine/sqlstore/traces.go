package sqlstore

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keepTraceSQL = `
		INSERT INTO traces (of, tenant, at, parent) VALUES ($1, $2, $3, $4)
		ON CONFLICT (of) DO UPDATE SET tenant = excluded.tenant, at = excluded.at, parent = excluded.parent`
	tracesSQL = "SELECT of, tenant, at, parent FROM traces WHERE of /*postgres: = ANY ($1::uuid[])*//*sqlite: IN (SELECT unhex(value) FROM json_each($1))*/"
)

// KeepTraces stores where jobs and executions began.
func (s tallies) KeepTraces(ctx context.Context, ts []engine.Trace) error {
	var rows [][]any
	for _, t := range ts {
		rows = append(rows, []any{t.Of, string(t.Tenant), t.At, t.Parent})
	}
	return s.db.Write(ctx, "keep traces", func(tx Tx) error { return tx.ExecEach(keepTraceSQL, rows) })
}

// Traces finds where jobs and executions began.
func (s tallies) Traces(ctx context.Context, ids [][16]byte) ([]engine.Trace, error) {
	return readAll(ctx, s.db, "find traces", func(r Row) (t engine.Trace, err error) {
		err = r.Scan(&t.Of, (*string)(&t.Tenant), &t.At, &t.Parent)
		return t, err
	}, tracesSQL, ids)
}
