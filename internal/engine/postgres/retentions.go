package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

const (
	// keptSQL leaves out finished executions that their job no longer keeps, by a retention of its own. Those of nodes
	// (7) are kept as long as their run. Days are hours, because a day of a time zone may have 23.
	keptSQL = ` AND (v.trigger = 7 OR NOT EXISTS (SELECT 1 FROM job_retentions k WHERE k.tenant = v.tenant AND k.job = v.job
		AND v.finished_at < %s::timestamptz - make_interval(hours => 24 * CASE WHEN v.status IN (11, 12, 15) THEN k.failed_days ELSE k.days END) OFFSET 0))`
	deadKeptSQL = ` AND (NOT EXISTS (SELECT 1 FROM job_retentions k WHERE k.tenant = d.tenant AND k.job = d.job
		AND d.at < %s::timestamptz - make_interval(hours => 24 * k.failed_days) OFFSET 0) OR EXISTS (SELECT 1 FROM run_members m WHERE m.execution = d.execution OFFSET 0))`
)

// retentions stores those of the jobs of the chosen creations.
func (b batch) retentions(q *pgx.Batch) {
	for _, i := range b.chosen {
		for _, args := range sqlstore.RetentionRows(b.all[i].Tenant, b.all[i].Jobs) {
			q.Queue(addRetentionSQL, args...)
		}
	}
}

var addRetentionSQL = sqlstore.PostgreSQL.Text(sqlstore.AddRetention)

// hasRetentions reports whether any of the jobs has a retention of its own.
func (b batch) hasRetentions() bool {
	return slices.ContainsFunc(b.chosen, func(i int) bool { return len(sqlstore.RetentionRows(b.all[i].Tenant, b.all[i].Jobs)) > 0 })
}
