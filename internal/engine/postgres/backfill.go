package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The lock on the job is as in Trigger. Executions that the indexes of live refuse, for a taken instant or unique
// key, are left out.
var backfillSQL = func() string {
	sql := `
		WITH j AS MATERIALIZED (
			SELECT true AS found FROM jobs WHERE tenant = $tenant AND id = $job AND state <> 4 FOR SHARE
		), known AS MATERIALIZED (
			SELECT k.id FROM unnest($ids::uuid[]) k(id) WHERE EXISTS (SELECT 1 FROM executions x WHERE x.id = k.id) OR EXISTS (SELECT 1 FROM live l WHERE l.id = k.id)
		), v AS (
			INSERT INTO live (` + liveTable.columns + `) SELECT ` + liveTable.values + ` FROM j CROSS JOIN ` + liveTable.rows + `
			WHERE t.id NOT IN (SELECT k.id FROM known k)
			ON CONFLICT DO NOTHING
			RETURNING id
		)
		SELECT (SELECT count(*) FROM j) > 0, ARRAY(SELECT id FROM v UNION ALL SELECT id FROM known)`
	var names []string
	for i, p := range []string{"$tenant", "$job", "$ids"} {
		names = append(names, p, fmt.Sprintf("$%d", len(liveTable.fields)+i+1))
	}
	return strings.NewReplacer(names...).Replace(sql)
}()

// Backfill adds executions of one existing job for instants of its schedule, and returns those that exist.
func (s *jobs) Backfill(ctx context.Context, t tenant.ID, of job.ID, es []job.Execution) ([]job.ExecutionID, error) {
	rows, ids := liveTable.arrays(), uuids(len(es))
	for i := range es {
		rows.execution(t, &es[i], true)
		ids.uuid(es[i].ID)
	}
	var there [][16]byte
	err := s.write(ctx, "backfill", func(ctx context.Context, c *pgxpool.Conn) error {
		var found bool
		if err := c.QueryRow(ctx, backfillSQL, append(rows.args(), string(t), [16]byte(of), ids)...).Scan(&found, &there); err != nil {
			return err
		}
		if !found {
			return engine.ErrNotFound
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	is := make(map[job.ExecutionID]bool, len(there))
	for _, id := range there {
		is[id] = true
	}
	var out []job.ExecutionID
	for i := range es {
		if is[es[i].ID] {
			out = append(out, es[i].ID)
		}
	}
	return out, nil
}
