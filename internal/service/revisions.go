package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
)

// Revision is one revision of a job, and its author.
type Revision struct {
	Job     job.Job
	At      time.Time
	Author  *engine.Author // nil: it is not known
	Current bool
	Before  *job.Job // the previous revision; nil: it is not stored
}

// JobRevisions lists the stored revisions of a job, newest first.
func (s *Jobs) JobRevisions(ctx context.Context, p tenant.Principal, ref engine.Ref) ([]Revision, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return nil, err
	}
	past, err := s.store.Revisions(ctx, j, 0, engine.RevisionsKept)
	if err != nil {
		return nil, err
	}
	all := make([]Revision, 0, len(past)+1)
	all = append(all, Revision{Job: j, At: j.UpdatedAt, Current: true})
	for _, r := range past {
		last := &all[len(all)-1]
		if last.Job.Revision == r.Job.Revision+1 { // otherwise a deletion, or a revision that is not stored, lies between
			last.Author, last.Before, last.At = &r.Author, &r.Job, r.ReplacedAt
		}
		all = append(all, Revision{Job: r.Job, At: r.Job.UpdatedAt})
	}
	return all, nil
}

// RestoreJob restores the definition that a job had in an earlier revision. It keeps the current credentials, and
// removes them if the revision had another destination.
func (s *Jobs) RestoreJob(ctx context.Context, p tenant.Principal, ref engine.Ref, to, revision int) (Report, error) {
	if err := allow(p, tenant.Write); err != nil {
		return Report{}, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return Report{}, err
	}
	was := j.Definition
	if to != j.Revision {
		past, err := s.store.Revisions(ctx, j, to+1, 1)
		if err != nil {
			return Report{}, err
		}
		if len(past) == 0 || past[0].Job.Revision != to {
			return Report{}, fmt.Errorf("revision %d: %w", to, engine.ErrNotFound)
		}
		was = past[0].Job.Definition
	}
	return s.UpdateJob(ctx, p, engine.Ref{ID: j.ID}, revision, func(now job.Job) (job.Definition, error) {
		if to == now.Revision {
			return now.Definition, nil
		}
		d := was
		d.Target.Headers, d.Target.Env = maps.Clone(d.Target.Headers), maps.Clone(d.Target.Env)
		lost := append(restored(d.Target.Headers, now.Target.Headers, secret.HidesHeader), restored(d.Target.Env, now.Target.Env, secret.HidesVariable)...)
		if len(lost) > 0 && !departs(d, now.Definition) {
			slices.Sort(lost)
			return d, &NotDone{"restore", fmt.Sprintf("The revision has credentials that are no longer kept: %s. Change the job to have them, then restore.", strings.Join(lost, ", "))}
		}
		return d, nil
	})
}

// departs reports whether a definition has another destination than the current one, so that it gets none of its
// credentials.
func departs(d, now job.Definition) bool {
	kept, _, why := secret.Keep(d, now)
	return why != "" || job.Moved(&now, &kept, secret.Variable) != ""
}

// restored replaces earlier credentials by the current ones. It removes and lists those that do not exist.
func restored(was, now map[string]string, hides func(name, value string) bool) (lost []string) {
	for name, value := range was {
		if !hides(name, value) {
			continue
		}
		if _, ok := now[name]; ok {
			was[name] = secret.Hidden
		} else {
			delete(was, name)
			lost = append(lost, name)
		}
	}
	return lost
}
