package sqlstore

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const revisionsSQL = `
	SELECT revision, replaced_at, updated_at, paused_until, state, kind, priority, same_payload, by_whom, role, action, name, pause_note, tags, spec, target, payload
	FROM job_revisions WHERE tenant = $1 AND job = $2 AND revision < $3 ORDER BY revision DESC LIMIT $4`

// Revisions lists the revisions of a job that were replaced, latest first.
func (s tallies) Revisions(ctx context.Context, now job.Job, before, limit int) (out []engine.Revision, err error) {
	err = s.db.Read(ctx, "list revisions", func(tx Tx) error {
		out = nil
		payload := now.Payload
		// All are read, newest first: a revision with the same payload as the next one is stored without it.
		return tx.Query(func(r Row) error {
			x := engine.Revision{Job: job.Job{ID: now.ID, Tenant: now.Tenant, CreatedAt: now.CreatedAt}}
			j := &x.Job
			j.Key = now.Key
			var state, kind int
			var same bool
			var spec, target, own []byte
			err := r.Scan(&j.Revision, &x.ReplacedAt, &j.UpdatedAt, &j.PausedTill, &state, &kind, &j.Priority, &same,
				&x.By, (*string)(&x.Role), &x.Action, &j.Name, &j.PauseNote, &j.Tags, &spec, &target, &own)
			if err != nil {
				return err
			}
			j.State, j.Schedule.Type = job.State(state), job.ScheduleType(kind)
			if err := engine.DecodeSpec(spec, j); err != nil {
				return err
			}
			if j.Target, err = engine.DecodeTarget(target); err != nil {
				return err
			}
			if !same {
				payload = own
			}
			j.Payload = payload
			if (before == 0 || j.Revision < before) && len(out) < limit {
				out = append(out, x)
			}
			return nil
		}, revisionsSQL, string(now.Tenant), [16]byte(now.ID), now.Revision, engine.RevisionsKept)
	})
	return out, err
}
