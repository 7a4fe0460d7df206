package sqlstore

import (
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// jobsAtOnce bounds the jobs whose history one call of ForgetJobs looks for: on PostgreSQL in the table of each day.
const jobsAtOnce = 50

var (
	agedJobsSQL = "SELECT id, state, kind, updated_at, key IS NOT NULL FROM jobs WHERE tenant = $1 AND id > $2 AND id < $3 ORDER BY id LIMIT $4"
	// lockJobsSQL keeps others from running the jobs, from changing them, and from using them. Jobs that somebody
	// does that to now are left for later.
	lockJobsSQL = `SELECT j.id, j.state, j.kind, j.updated_at, j.key IS NOT NULL FROM ` + givenJobs("id, state, kind, updated_at, key", "FOR UPDATE SKIP LOCKED")
	// spentJobsSQL finds the jobs that nothing runs, plans, holds or uses, and that have no history. The execution
	// that a job of the list $3 was created with is known to be gone; any other leaves statistics. (One that was
	// skipped does not, and goes when its own time comes.) What finished at $4 or later and is not in the store is in
	// files: the statistics say so, also of the execution that a job was created with, if it finished on a later day.
	spentJobsSQL = `
		SELECT j.id FROM ` + givenJobs("tenant, id, part", "") + `
			AND NOT EXISTS (SELECT 1 FROM live v WHERE v.id = j.id /*postgres: OFFSET 0*/)
			AND NOT EXISTS (SELECT 1 FROM live v WHERE v.job = j.id AND /*postgres: v.tally OFFSET 0*//*sqlite: v.id <> v.job*/)
			AND NOT EXISTS (SELECT 1 FROM schedules s WHERE /*postgres: s.part = j.part AND*/ s.job = j.id AND s.next_run_at IS NOT NULL /*postgres: OFFSET 0*/)
			AND NOT EXISTS (SELECT 1 FROM workflow_uses u WHERE u.tenant = j.tenant AND u.job = j.id /*postgres: OFFSET 0*/)
			AND NOT EXISTS (SELECT 1 FROM job_edges e WHERE e.tenant = j.tenant AND e.parent = j.id /*postgres: OFFSET 0*/)
			AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.tenant = j.tenant AND h.job = j.id /*postgres: OFFSET 0*/)
			AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.tenant = j.tenant AND r.workflow = j.id /*postgres: OFFSET 0*/)
			AND NOT EXISTS (SELECT 1 FROM job_stats s WHERE s.tenant = j.tenant AND s.job = j.id AND s.last_finished_at >= $4 /*postgres: OFFSET 0*/)
			AND CASE WHEN j.id /*postgres: = ANY ($3::uuid[])*//*sqlite: IN (SELECT unhex(value) FROM json_each($3))*/
				THEN NOT EXISTS (SELECT 1 FROM job_stats s WHERE s.tenant = j.tenant AND s.job = j.id /*postgres: OFFSET 0*/) OR ` + noOthers + `
				ELSE ` + noOthers + ` AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.id = j.id /*postgres: OFFSET 0*/)
					/*postgres: AND NOT EXISTS (SELECT 1 FROM bundles b WHERE b.key BETWEEN (left(j.id::text, 28) || '00000000')::uuid AND j.id AND b.ids @> ARRAY[j.id] OFFSET 0)*/
				END`
	noOthers = "NOT EXISTS (SELECT 1 FROM executions e WHERE e.job = j.id AND /*postgres: e.tally OFFSET 0*//*sqlite: e.id <> e.job*/)"

	// definedSQL lists the versions of workflows.
	definedSQL = `SELECT ` + versionColumns + ` FROM
		/*postgres: unnest($2::uuid[]) u(id) CROSS JOIN LATERAL (SELECT ` + versionColumns + ` FROM workflow_versions WHERE tenant = $1 AND workflow = u.id OFFSET 0) v*/
		/*sqlite: workflow_versions WHERE tenant = $1 AND workflow IN (SELECT unhex(value) FROM json_each($2))*/`
	dropScheduleSQL = "DELETE FROM schedules WHERE /*postgres: part = $1 AND*/ job = $2 AND tenant = $3"
)

// givenJobs selects columns of the jobs in the list $2; PostgreSQL looks up each of them.
func givenJobs(columns, lock string) string {
	return `/*postgres: unnest($2::uuid[]) u(id) CROSS JOIN LATERAL (SELECT ` + columns + ` FROM jobs WHERE tenant = $1 AND id = u.id OFFSET 0 ` + lock + `) j WHERE true*/
		/*sqlite: jobs j WHERE j.tenant = $1 AND j.id IN (SELECT unhex(value) FROM json_each($2))*/`
}

// dropJobs lists what is dropped with jobs, and the jobs last. Their secrets go by themselves.
var dropJobs = []string{
	dropOf("job_revisions", "job"), dropOf("settling", "job"), dropOf("job_stats", "job"), dropOf("job_durations", "job"), dropOf("job_months", "job"), dropOf("job_edges", "child"), dropOf("job_retentions", "job"),
	"DELETE FROM edge_marks WHERE child " + anyOf + " AND tenant = $1", "DELETE FROM traces WHERE of " + anyOf + " AND tenant = $1",
	"DELETE FROM alarms WHERE tenant = $1 AND job " + anyOf, "DELETE FROM badges WHERE tenant = $1 AND job " + anyOf, // of which a tenant has few
	dropOf("workflow_versions", "workflow"), dropOf("jobs", "id"),
}

// dropOf drops rows of a table whose key begins with the tenant and a column.
func dropOf(table, column string) string {
	return `DELETE FROM ` + table + `
		/*postgres: AS x USING (SELECT $1::text AS tenant, u.of FROM unnest($2::uuid[]) u(of) OFFSET 0) g WHERE x.tenant = ANY (ARRAY[g.tenant]) AND x.` + column + ` BETWEEN g.of AND g.of*/
		/*sqlite: WHERE tenant = $1 AND ` + column + ` IN (SELECT unhex(value) FROM json_each($2))*/`
}

// forgetJobs drops those jobs that end with their history, were last changed before an instant, and have nothing left,
// and returns how many. Of the sure ones the caller knows that the execution they were created with is gone.
func forgetJobs(tx Tx, t tenant.ID, ids, sure [][16]byte, before time.Time) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	found, err := all(tx, scanAged, lockJobsSQL, string(t), ids)
	if err != nil {
		return 0, err
	}
	ids = nil
	for _, j := range found {
		if j.ends() && j.updated.Before(before) {
			ids = append(ids, j.id)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	if sure == nil {
		sure = [][16]byte{}
	}
	// A statement of its own: it sees what was committed before the jobs were locked.
	if ids, err = all(tx, scanBytes, spentJobsSQL, string(t), ids, sure, before); err != nil || len(ids) == 0 {
		return 0, err
	}
	n := len(ids)
	nodes, err := forgetWorkflows(tx, t, ids)
	if err != nil {
		return 0, err
	}
	var plans [][]any
	for _, j := range found {
		if job.ScheduleType(j.kind) != job.Immediate && slices.Contains(ids, j.id) {
			plans = append(plans, []any{int(job.PartitionOf(j.id)), j.id, string(t)})
		}
	}
	if err := tx.ExecEach(dropScheduleSQL, plans); err != nil {
		return 0, err
	}
	ids = append(ids, nodes...)
	for _, sql := range dropJobs {
		if _, err := tx.Exec(sql, string(t), ids); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// forgetWorkflows has workflows use no jobs any more, and returns the jobs of their inline nodes.
func forgetWorkflows(tx Tx, t tenant.ID, ids [][16]byte) (nodes [][16]byte, err error) {
	versions, err := all(tx, scanVersion, definedSQL, string(t), ids)
	if err != nil || len(versions) == 0 {
		return nil, err
	}
	for i := range versions {
		if err := tx.ExecEach(dropUseSQL, usesOf(&versions[i])); err != nil {
			return nil, err
		}
		for _, id := range versions[i].Jobs {
			if id.OfNode() {
				nodes = append(nodes, id)
			}
		}
	}
	slices.SortFunc(nodes, func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(nodes), nil
}
