package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keepRevisionSQL = `
		INSERT INTO job_revisions (tenant, job, revision, replaced_at, updated_at, paused_until, state, kind, priority, same_payload, by_whom, role, action,
			name, pause_note, tags, spec, target, payload)
		SELECT tenant, id, revision, $3, updated_at, paused_until, state, kind, priority, payload IS NOT DISTINCT FROM $4, $5, $6, $7, name, pause_note, tags, spec, target,
			CASE WHEN payload IS DISTINCT FROM $4 THEN payload END
		FROM jobs WHERE tenant = $1 AND id = $2
		ON CONFLICT (tenant, job, revision) DO NOTHING`
	oldRevisionsSQL = "DELETE FROM job_revisions WHERE tenant = $1 AND job = $2 AND revision <= $3"
	// tidyRevisionsSQL lists what it examined.
	tidyRevisionsSQL = `
		WITH seen AS MATERIALIZED (
			SELECT tenant, job, revision FROM job_revisions WHERE (tenant, job, revision) > ($1, $2, $3) ORDER BY tenant, job, revision LIMIT $5
		), stale AS MATERIALIZED (
			SELECT s.* FROM seen s LEFT JOIN LATERAL (SELECT true AS lives FROM jobs WHERE tenant = s.tenant AND id = s.job AND (state <> 4 OR updated_at >= now() - make_interval(secs => $4)) OFFSET 0) j ON true
			WHERE j.lives IS NULL AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.tenant = s.tenant AND h.job = s.job OFFSET 0) AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.tenant = s.tenant AND h.job IS NULL OFFSET 0)
		), gone AS (
			DELETE FROM job_revisions r USING stale s WHERE r.tenant = ANY (ARRAY[s.tenant]) AND r.job BETWEEN s.job AND s.job AND r.revision = s.revision
		)
		SELECT tenant, job, revision FROM seen ORDER BY tenant, job, revision`
)

// keepRevision stores the current state of a job before it is changed.
func keepRevision(b *pgx.Batch, t tenant.ID, u *engine.Update, revision int) {
	by := engine.AuthorOf(u.Entry)
	b.Queue(keepRevisionSQL, string(t), [16]byte(u.Job.ID), u.AsOf, u.Job.Payload, by.By, string(by.Role), by.Action)
	if revision > engine.RevisionsKept {
		b.Queue(oldRevisionsSQL, string(t), [16]byte(u.Job.ID), revision-engine.RevisionsKept)
	}
}

// revisionOf is a revision of a job.
type revisionOf struct {
	tenant   string
	job      [16]byte
	revision int
}

// tidyRevisions examines the next few revisions, and drops those of jobs that were deleted long ago.
func (s *upkeep) tidyRevisions(ctx context.Context, c *pgxpool.Conn) error {
	var from, last revisionOf
	if p := s.revised.Load(); p != nil {
		from = *p
	}
	rows, _ := c.Query(ctx, tidyRevisionsSQL, from.tenant, from.job, from.revision, engine.RevisionsOutlive.Seconds(), tidiedOps)
	seen := 0
	_, err := pgx.ForEachRow(rows, []any{&last.tenant, &last.job, &last.revision}, func() error { seen++; return nil })
	if err != nil {
		return err
	}
	if seen < tidiedOps {
		last = revisionOf{} // from the start, next time
	}
	s.revised.Store(&last)
	return nil
}
