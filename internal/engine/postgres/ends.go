package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// jobDeleted is the end of executions that are CANCELLED because their job was deleted.
var jobDeleted = engine.EncodeEnd(job.JobDeleted, nil)

// Common parts of the statements that end executions.
const (
	// doomedSQL finds the deleted and the paused jobs of the given executions. The lock makes a deletion or a pause
	// wait, and then it sees what this returned to the queue; or this waits for the deletion, and then sees that. It
	// is taken in the order in which jobs fire.
	doomedSQL = `inactive AS MATERIALIZED (
			SELECT a.job, j.state FROM (SELECT DISTINCT tenant, job FROM asked ORDER BY tenant, job) a
			CROSS JOIN LATERAL (SELECT state FROM jobs WHERE tenant = a.tenant AND id = a.job OFFSET 0 FOR SHARE) j
			WHERE j.state IN (2, 4)
		), doomed AS MATERIALIZED (
			SELECT job FROM inactive WHERE state = 4
		)`

	// heldBack is hold for executions that return to the queue: the pause of their job holds those that its schedule
	// fired.
	heldBack = `CASE WHEN v.nonce = 0 AND v.job IN (SELECT job FROM inactive WHERE state = 2) THEN 1::int2 ELSE v.hold END`

	// backSQL returns executions to the queue, uncharged, or ends them as CANCELLED: those of a deleted job ($3 is
	// jobDeleted), and those asked to stop. Either is recorded as an event. An execution leased only this once has
	// then never started. The lock on each row, taken after those on the jobs, makes a cancel wait, or be seen.
	// Parked executions are left to their targets.
	backSQL = doomedSQL + `, held AS MATERIALIZED (
			SELECT a.id, a.token, a.doomed OR v.cancel_at IS NOT NULL AS ends, v.cancel_ending, v.tenant, v.attempt, v.worker
			FROM (SELECT id, token, job IN (SELECT job FROM doomed) AS doomed FROM asked OFFSET 0) a
			CROSS JOIN LATERAL (SELECT cancel_at, cancel_ending, tenant, attempt, worker FROM live WHERE id = a.id AND lease = a.token AND parked_until IS NULL OFFSET 0 FOR UPDATE) v
		), told AS (
			INSERT INTO events (execution, kind, token, tenant, attempt, worker, at) SELECT id, 'released', token, tenant, attempt, worker, now() FROM held
			ON CONFLICT (execution, kind, token) DO NOTHING
		), back AS (
			UPDATE live v SET lease = -v.lease, attempt = v.attempt - 1, started_at = ` + startedBefore + `, hold = ` + heldBack + `
			FROM held h WHERE v.id = ANY (ARRAY[h.id]) AND v.lease = h.token AND NOT h.ends
			RETURNING ` + readyColumns + `
		), gone AS (
			DELETE FROM live v USING held h WHERE v.id = ANY (ARRAY[h.id]) AND v.lease = h.token AND h.ends
			RETURNING 13::int2 AS status, ` + goneRest + `, ` + startedBefore + ` AS started_at, v.attempt - 1 AS attempt, v.tries, v.lost, h.token,
				NULL::bytea AS result, coalesce(h.cancel_ending, $3::bytea) AS ending
		), ` + endSQL + `
		SELECT ` + readyColumns + ` FROM back v
		UNION ALL ` + goneAsReady

	// startedBefore is started_at without the attempt that is released.
	startedBefore = `CASE WHEN v.attempt = 1 AND v.started_at = v.leased_at THEN NULL ELSE v.started_at END`

	// goneRow lists what endSQL needs, unchanged, of a row that leaves live; status, attempt, tries, lost, token,
	// result and ending are added to it.
	goneRow  = goneRest + `, v.started_at`
	goneRest = goneUnheld + `, v.worker, v.leased_at`
	// goneUnheld holds the columns of a row that was never leased.
	goneUnheld = `v.tally, v.id, v.tenant, v.job, v.trigger, v.scheduled_at, v.due_at, v.max_attempts, v.priority, v.part, v.retry_of, v.payload`

	// endSQL makes history of those of gone that have ended, and tallies them, in
	// an order that all have in common. Most have one attempt, which began when
	// they did, and keep no second instant.
	// Those that belong to runs of workflows, whose trigger is 7, leave a mark for the run. Those of jobs on which others depend leave a
	// mark for each of these; where no job depends on any, gone is not read for that: the condition on
	// parent is true for every row, and keeps to the index.
	endSQL = `past AS (
			INSERT INTO executions (id, tenant, job, status, trigger, scheduled_at, due_at, started_at, leased_at, finished_at, attempt, tries, lost,
				max_attempts, priority, part, worker, token, retry_of, payload, result, ending, tally)
			SELECT id, tenant, job, status, trigger, scheduled_at, due_at, started_at, CASE WHEN leased_at <> started_at THEN leased_at END, now(), attempt, tries, lost,
				max_attempts, priority, part, worker, token, retry_of, payload, result, ending, tally
			FROM gone WHERE status >= 10
		), x AS MATERIALIZED (
			SELECT tenant, job, id, status, started_at, now() AS finished_at FROM gone WHERE tally AND status >= 10 AND status <> 14
		), tallied AS (
			INSERT INTO job_stats AS s (tenant, job, total, succeeded, timed, sum_us, last_status, last_finished_at, last_run_at)
			SELECT tenant, job, count(*), count(*) FILTER (WHERE status = 10), count(started_at), coalesce(sum(` + micros + `), 0),
				(array_agg(status ORDER BY id DESC))[1], now(), max(started_at)
			FROM x GROUP BY tenant, job ORDER BY tenant, job
			` + mergeStats + `
		), timed AS (
			INSERT INTO job_durations AS d (tenant, job, bucket, n)
			SELECT tenant, job, ` + bucket + `, count(*)
			FROM x WHERE started_at IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
			ON CONFLICT (tenant, job, bucket) DO UPDATE SET n = d.n + EXCLUDED.n
		), marked AS (
			INSERT INTO run_marks (execution, run, place, tenant, status, started_at, finished_at, result, ending)
			SELECT g.id, m.run, m.place, g.tenant, g.status, g.started_at, now(), g.result, g.ending
			FROM (SELECT * FROM gone WHERE trigger = 7 AND status >= 10 OFFSET 0) g
			CROSS JOIN LATERAL (SELECT run, place FROM run_members WHERE execution = g.id OFFSET 0) m
			ON CONFLICT (execution, place) DO NOTHING
			RETURNING execution, run
		), tokens AS (
			INSERT INTO edge_marks (child, execution, tenant, parent, status, at)
			SELECT e.child, g.id, g.tenant, g.job, g.status, now()
			FROM (SELECT id, tenant, job, status FROM gone WHERE (SELECT EXISTS (SELECT 1 FROM job_edges WHERE parent > '00000000-0000-0000-0000-000000000000')) AND status >= 10 AND status <> 14 OFFSET 0) g
			CROSS JOIN LATERAL (SELECT child FROM job_edges WHERE tenant = g.tenant AND parent = g.job OFFSET 0) e
			ON CONFLICT (child, execution) DO NOTHING
			RETURNING execution
		)`

	// mergeStats adds to the tallies of a job.
	mergeStats = `ON CONFLICT (tenant, job) DO UPDATE SET total = s.total + EXCLUDED.total, succeeded = s.succeeded + EXCLUDED.succeeded,
				timed = s.timed + EXCLUDED.timed, sum_us = s.sum_us + EXCLUDED.sum_us,
				last_status = CASE WHEN EXCLUDED.last_finished_at >= s.last_finished_at THEN EXCLUDED.last_status ELSE s.last_status END,
				last_finished_at = greatest(s.last_finished_at, EXCLUDED.last_finished_at), last_run_at = greatest(s.last_run_at, EXCLUDED.last_run_at)`

	// burySQL makes dead letters of failed executions in gone, following job.Dead: dead is the reason if the error
	// alone determines it, else NULL.
	burySQL = `buried AS (
			INSERT INTO dead_letters (execution, tenant, job, at, reason, message, redrive_at)
			SELECT id, tenant, job, now(), coalesce(dead, CASE WHEN tries >= max_attempts THEN 'ATTEMPTS_EXHAUSTED' ELSE 'NOT_RETRYABLE' END), message, redrive_at
			FROM gone WHERE status IN (11, 12)
		)`

	// ofGone selects the ended executions in gone; collectEnded reads it.
	ofGone = `SELECT id, tenant, job, trigger, scheduled_at, status FROM gone`

	// goneAsReady is ofGone in the columns of readyColumns, for a statement that also returns ready executions: the
	// negative status as the priority, the job as the class, the scheduled time as the due time, and the trigger as
	// the group. partEnded separates them.
	goneAsReady = `SELECT id, tenant, part, job::text, -status, scheduled_at, trigger::int8, NULL, NULL, NULL, NULL FROM gone`

	// micros computes how long an execution x took, like job.Execution; bucket is job.Bucket of that.
	micros = `greatest(0, extract(epoch FROM x.finished_at - x.started_at) * 1000000)`
	bucket = `floor(ln(greatest(1, ` + micros + `)::float8) / ln(1.1::float8))::int2`
)

// collectEnded reads ofGone.
func collectEnded(rows pgx.Rows, err error) ([]engine.Ended, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (e engine.Ended, err error) {
		err = r.Scan((*[16]byte)(&e.Execution), (*string)(&e.Tenant), (*[16]byte)(&e.Job), num(&e.Trigger), at(&e.ScheduledAt), num(&e.Status))
		return e, err
	})
}

// collectBack reads the result of backSQL: ready executions, and ended ones.
func collectBack(rows pgx.Rows, err error) ([]job.Ready, []engine.Ended, error) {
	all, err := collectReady(rows, err)
	if err != nil {
		return nil, nil, err
	}
	return partEnded(all)
}

// partEnded separates ready executions from ended ones.
func partEnded(all []job.Ready) (ready []job.Ready, ended []engine.Ended, err error) {
	ready = all[:0]
	for _, r := range all {
		if r.Priority >= 0 {
			ready = append(ready, r)
			continue
		}
		of, err := job.ParseID(string(r.Class))
		if err != nil {
			return nil, nil, err
		}
		ended = append(ended, engine.Ended{
			Owned:  engine.Owned{Execution: r.ID, Tenant: r.Tenant, Job: of, Trigger: job.Trigger(r.Group.Key), ScheduledAt: r.DueAt},
			Status: job.Status(-r.Priority),
		})
	}
	return ready, ended, nil
}
