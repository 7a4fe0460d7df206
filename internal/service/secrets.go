package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
)

// Limits of secrets.
const (
	MaxSecret  = 64 << 10 // bytes of a value
	MaxSecrets = 1000     // of a tenant
)

// references returns what is wrong with the secrets that a definition names, including missing ones. was is the
// definition before, if any.
func (p *plans) references(ctx context.Context, d, was *job.Definition) (job.Invalids, error) {
	refs, v := secret.Find(d, was)
	wrong, err := p.unknown(ctx, refs)
	return append(v, wrong...), err
}

// overriding returns what is wrong with the secrets that an overriding payload names.
func (p *plans) overriding(ctx context.Context, payload []byte) error {
	refs, v := secret.FindIn("payload_override", payload)
	wrong, err := p.unknown(ctx, refs)
	if err != nil {
		return err
	}
	return append(v, wrong...).Err()
}

// overridable returns an error if an execution cannot have its own payload: its program might read it as code and
// reveal the job's hidden variables.
func overridable(j job.Job, e *job.Execution) error {
	if !j.Target.PayloadIsProgram() || string(e.Payload) == string(j.Payload) {
		return nil
	}
	hidden := secret.HiddenVariables(&j.Target)
	if len(hidden) == 0 {
		return nil
	}
	return job.Invalids{{Field: "payload_override", Value: job.Show(string(e.Payload)), Want: fmt.Sprintf("none: the command may run its input as code, which could read the hidden variables %s. Have it run a script file such as report.sh, or use ${secret:name} in place of the hidden values", strings.Join(hidden, ", "))}}
}

// RefusePayload returns why an execution of a job cannot have its own payload, like overridable.
func RefusePayload(j job.Job, payload []byte) error {
	return overridable(j, &job.Execution{Payload: payload})
}

// unknown returns the references that name nothing. Each name is looked up once per request.
func (p *plans) unknown(ctx context.Context, refs []secret.Reference) (job.Invalids, error) {
	var ask []string
	var v job.Invalids
	for _, r := range refs {
		if r.External() {
			if wrong, lacks := p.s.cfg.Secrets.Lacks(ctx, p.tenant, r); lacks {
				v = append(v, wrong)
			}
			continue
		}
		if _, ok := p.secrets[r.Name]; !ok {
			if p.secrets == nil {
				p.secrets = map[string]bool{}
			}
			p.secrets[r.Name] = true
			ask = append(ask, r.Name)
		}
	}
	if len(ask) > 0 {
		lack, err := p.s.store.LackSecrets(ctx, p.tenant, ask)
		if err != nil {
			return nil, err
		}
		for _, name := range lack {
			p.secrets[name] = false
		}
	}
	for _, r := range refs {
		if !r.External() && !p.secrets[r.Name] {
			v = append(v, secret.Unknown(r))
		}
	}
	return v, nil
}

// nested adds the position in a list to what is wrong with one of its items.
func nested(err error, i, of int) error {
	var v job.Invalids
	if of > 1 && errors.As(err, &v) {
		return v.Under(fmt.Sprintf("[%d].", i))
	}
	return err
}

// Secrets lists the tenant's secrets in order of their names, never their values.
func (s *Access) Secrets(ctx context.Context, p tenant.Principal) ([]engine.Secret, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	return s.store.Secrets(ctx, p.Tenant)
}

// Secret finds one secret, never its value.
func (s *Access) Secret(ctx context.Context, p tenant.Principal, name string) (engine.Secret, error) {
	if err := allow(p, tenant.Read); err != nil {
		return engine.Secret{}, err
	}
	x, err := s.store.Secret(ctx, p.Tenant, name)
	x.Sealed = nil
	return x, err
}

// PutSecret stores a secret, as its next version if there is one. Storing the same value again changes nothing.
func (s *Access) PutSecret(ctx context.Context, p tenant.Principal, name, value string) (x engine.Secret, err error) {
	if err := allow(p, tenant.Manage); err != nil {
		return x, err
	}
	var v job.Invalids
	if !job.ValidKey(name) {
		v.Add("name", name, "1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
	}
	if n := len(value); n == 0 || n > MaxSecret || strings.ContainsRune(value, 0) {
		v.Add("value", fmt.Sprintf("%d bytes", n), fmt.Sprintf("1 to %d bytes of text, without the character NUL", MaxSecret))
	}
	if !s.cfg.Secrets.CanSeal() {
		v.Add("value", "(not shown)", secret.WantKey)
	}
	if len(v) > 0 {
		return x, v
	}
	if was, err := s.store.Secret(ctx, p.Tenant, name); err == nil && s.cfg.Secrets.Holds(was, value) {
		was.Sealed = nil
		return was, nil
	}
	if x, err = s.cfg.Secrets.Seal(p.Tenant, name, value, s.now()); err != nil {
		return x, err
	}
	x, err = s.store.PutSecret(ctx, x, MaxSecrets, s.audited(p, "secret.put", name, detail{}))
	if errors.Is(err, engine.ErrFull) {
		return x, &NotDone{"add", fmt.Sprintf("The tenant has %d secrets, which is as many as it may have; delete one first.", MaxSecrets)}
	}
	return x, err
}

// DeleteSecret deletes a secret; *NotDone while jobs that may still run name it, unless forced. Executions that still
// name it fail when they start.
func (s *Access) DeleteSecret(ctx context.Context, p tenant.Principal, name string, force bool) (engine.Secret, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return engine.Secret{}, err
	}
	x, err := s.Secret(ctx, p, name)
	if err != nil {
		return x, err
	}
	if !force {
		if err := s.unused(ctx, p, name); err != nil {
			return x, err
		}
	}
	told := detail{Before: fields{"version": fmt.Sprint(x.Version)}}
	return x, s.store.DeleteSecret(ctx, p.Tenant, name, s.audited(p, "secret.delete", name, told))
}

// named lists the references of a job, and of a workflow those of its nodes.
func (s *Access) named(ctx context.Context, j *job.Job) ([]secret.Reference, error) {
	refs, _ := secret.Find(&j.Definition, nil)
	if j.Target.Kind != job.Workflow {
		return refs, nil
	}
	v, err := s.store.WorkflowVersion(ctx, j.Tenant, j.ID, j.Target.Version)
	if err != nil {
		return nil, err
	}
	more, _ := secret.FindIn("nodes", canonical(v.Definition))
	return append(refs, more...), nil
}

// shownUsers limits how many users of a secret are listed.
const shownUsers = 3

// unused returns *NotDone if jobs that may still run name a secret. A job created at the same moment fails when it
// runs, and says why.
func (s *Access) unused(ctx context.Context, p tenant.Principal, name string) error {
	var users []string
	for _, state := range []job.State{job.Active, job.Paused} {
		_, err := s.jobs.each(ctx, engine.JobFilter{Tenant: p.Tenant, State: state}, func(j job.Job) (bool, error) {
			refs, err := s.named(ctx, &j)
			if err != nil {
				return false, err
			}
			for _, r := range refs {
				if r.Name == name {
					users = append(users, fmt.Sprintf("%s (%s)", j.ID, job.Show(j.Name)))
					break
				}
			}
			return len(users) < shownUsers, nil
		})
		if err != nil {
			return err
		}
	}
	if len(users) == 0 {
		return nil
	}
	return &NotDone{"delete", fmt.Sprintf("Jobs and workflows name this secret, among them %s. Change or delete them, or send force=true: what names it then fails.", strings.Join(users, ", "))}
}
