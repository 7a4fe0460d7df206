package sqlite

import (
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	keepRevisionSQL = `
		INSERT OR REPLACE INTO job_revisions (tenant, job, revision, replaced_at, updated_at, paused_until, state, kind, priority, same_payload, by_whom, role, action,
			name, pause_note, tags, spec, target, payload)
		SELECT tenant, id, revision, ?1, updated_at, paused_until, state, kind, priority, payload IS ?2, ?3, ?4, ?5, name, pause_note, tags, spec, target,
			CASE WHEN payload IS ?2 THEN NULL ELSE payload END
		FROM jobs WHERE tenant = ?6 AND id = ?7`
	oldRevisionsSQL = "DELETE FROM job_revisions WHERE tenant = ? AND job = ? AND revision <= ?"
	// walkRevisionsSQL returns, for each, whether its job was deleted before ?4, or does not exist.
	walkRevisionsSQL = `
		SELECT r.tenant, r.job, r.revision, NOT EXISTS (SELECT 1 FROM jobs j WHERE j.tenant = r.tenant AND j.id = r.job AND (j.state <> 4 OR j.updated_at >= ?4))
			AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.tenant = r.tenant AND h.job = r.job) AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.tenant = r.tenant AND h.job IS NULL)
		FROM job_revisions r WHERE (r.tenant, r.job, r.revision) > (?1, ?2, ?3) ORDER BY r.tenant, r.job, r.revision LIMIT ?5`
	dropRevisionSQL = "DELETE FROM job_revisions WHERE tenant = ? AND job = ? AND revision = ?"
)

// keepRevision stores the current state of a job before it is changed.
func keepRevision(c *conn, t tenant.ID, u *engine.Update, revision int) error {
	by := engine.AuthorOf(u.Entry)
	_, err := c.prepare(keepRevisionSQL).at(u.AsOf).bytes(u.Job.Payload).text(by.By).text(string(by.Role)).text(by.Action).text(string(t)).id(u.Job.ID).exec()
	if err != nil || revision <= engine.RevisionsKept {
		return err
	}
	_, err = c.prepare(oldRevisionsSQL).text(string(t)).id(u.Job.ID).int(int64(revision - engine.RevisionsKept)).exec()
	return err
}

// revisionOf is a revision of a job.
type revisionOf struct {
	tenant   tenant.ID
	job      job.ID
	revision int64
}

// tidyRevisions examines the next few revisions, and drops those of jobs that were deleted long ago.
func (s *upkeep) tidyRevisions(c *conn, now int64) error {
	var from revisionOf
	if p := s.revised.Load(); p != nil {
		from = *p
	}
	var seen []revisionOf
	var gone []bool
	err := c.prepare(walkRevisionsSQL).text(string(from.tenant)).id(from.job).int(from.revision).int(now - engine.RevisionsOutlive.Microseconds()).int(tidyRows).each(func(r *row) error {
		seen = append(seen, revisionOf{tenant.ID(r.text()), r.id(), r.int64()})
		gone = append(gone, r.bool())
		return nil
	})
	if err != nil {
		return err
	}
	for i, x := range seen {
		if !gone[i] {
			continue
		}
		if _, err := c.prepare(dropRevisionSQL).text(string(x.tenant)).id(x.job).int(x.revision).exec(); err != nil {
			return err
		}
	}
	var last revisionOf // from the start, next time
	if len(seen) == tidyRows {
		last = seen[len(seen)-1]
	}
	s.revised.Store(&last)
	return nil
}
