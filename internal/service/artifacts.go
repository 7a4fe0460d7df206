package service

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/carillon-jobs/carillon/internal/artifact"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// PutArtifact stores an artifact for the tenant. The size is -1 if it is unknown.
func (s *Settings) PutArtifact(ctx context.Context, p tenant.Principal, r io.Reader, size int64) (artifact.Kept, error) {
	if err := allow(p, tenant.Write); err != nil {
		return artifact.Kept{}, err
	}
	if s.cfg.Artifacts == nil {
		return artifact.Kept{}, engine.ErrNotFound
	}
	k, err := s.cfg.Artifacts.Put(ctx, p.Tenant, r, size)
	var over *artifact.OverQuota
	switch {
	case errors.As(err, &over):
		return k, &OverQuota{What: fmt.Sprintf("The artifacts of this tenant may have %d bytes together (artifacts.tenant_mb sets it); they have %d with those on their way, and this one would add at least %d. Delete some.", over.Limit, over.Used, over.Adds)}
	case errors.Is(err, artifact.ErrEmpty):
		return k, job.Invalids{{Value: "0 bytes", Want: "the artifact as the body: a program, or an archive (tar, tar.gz or zip)"}}
	case err != nil:
		return k, fmt.Errorf("keep an artifact: %w", err)
	}
	return k, s.store.Record(ctx, s.entry(p, "artifact.put", k.ID, detail{After: fields{"size": fmt.Sprint(k.Size)}}))
}

// Artifact opens an artifact of the tenant.
func (s *Settings) Artifact(ctx context.Context, p tenant.Principal, id string) (artifact.Blob, error) {
	if err := allow(p, tenant.Fetch); err != nil {
		return nil, err
	}
	if s.cfg.Artifacts == nil {
		return nil, engine.ErrNotFound
	}
	b, err := s.cfg.Artifacts.Open(ctx, p.Tenant, id)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, engine.ErrNotFound
	}
	return b, err
}

// DeleteArtifact deletes an artifact of the tenant that no job which may still run names. A job created at the same
// moment fails when it runs, and says why.
func (s *Settings) DeleteArtifact(ctx context.Context, p tenant.Principal, id string) (artifact.Kept, error) {
	b, err := s.Artifact(ctx, p, id) // unknown ones are reported at once
	if err != nil {
		return artifact.Kept{}, err
	}
	b.Close()
	if err := allow(p, tenant.Write); err != nil {
		return artifact.Kept{}, err
	}
	for _, state := range []job.State{job.Active, job.Paused} {
		_, err := s.jobs.each(ctx, engine.JobFilter{Tenant: p.Tenant, State: state}, func(j job.Job) (bool, error) {
			if j.Target.Artifact == id {
				return false, &NotDone{What: "delete", Why: fmt.Sprintf("The job %s (%s) runs this artifact, and perhaps others do. Delete them, or give them another.", j.ID, j.Name)}
			}
			return true, nil
		})
		if err != nil {
			return artifact.Kept{}, err
		}
	}
	// Written first, since a deleted artifact cannot be restored if the entry cannot be written.
	if err := s.store.Record(ctx, s.entry(p, "artifact.delete", id, detail{})); err != nil {
		return artifact.Kept{}, err
	}
	size, err := s.cfg.Artifacts.Delete(ctx, p.Tenant, id)
	if errors.Is(err, artifact.ErrNotFound) {
		err = engine.ErrNotFound
	}
	return artifact.Kept{ID: id, Size: size}, err
}

// off refuses commands if no operator has allowed them.
func (s *shared) off(t *job.Target) (v job.Invalids) {
	if t.Kind == job.Command && !s.cfg.Commands {
		v.Add("execution.target", string(t.Kind), "http, worker or simulate: commands are off on this server; an operator turns them on with --allow-commands (CARILLON_COMMANDS_ALLOW=true)")
	}
	return v
}

// runnable returns what is wrong with the artifact of a command: the tenant has none with this id, it would not be
// unpacked, or it does not contain the program.
func (s *shared) runnable(ctx context.Context, t tenant.ID, x *job.Target) (v job.Invalids, err error) {
	if x.Kind != job.Command || x.Artifact == "" {
		return nil, nil
	}
	if s.cfg.Artifacts == nil {
		v.Add("execution.artifact_id", x.Artifact, "no artifact_id: this server keeps no artifacts")
		return v, nil
	}
	l, err := s.holds.Inspect(ctx, t, x.Artifact)
	var no *artifact.Unsafe
	var large *artifact.TooLarge
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		v.Add("execution.artifact_id", x.Artifact, "the id of an artifact that exists; PUT /artifacts makes one")
	case errors.As(err, &no), errors.As(err, &large):
		v.Add("execution.artifact_id", x.Artifact, "an artifact that can be unpacked: "+err.Error())
	case err != nil:
		return nil, err
	case l.Kind == artifact.File && x.Entrypoint != "" && len(x.Entrypoint) > 255:
		v.Add("execution.entrypoint", x.Entrypoint, "a name of at most 255 bytes")
	case l.Kind == artifact.File:
	case x.Entrypoint == "" && len(x.Command) == 0:
		v.Add("execution.entrypoint", "", fmt.Sprintf("the program in the artifact, which is a %s", l.Kind))
	case x.Entrypoint != "" && !l.Has(x.Entrypoint):
		v.Add("execution.entrypoint", x.Entrypoint, fmt.Sprintf("the path of a file in the artifact, which is a %s", l.Kind))
	}
	return v, nil
}
