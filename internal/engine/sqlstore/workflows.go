package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	listedColumns  = "tenant, workflow, version, created_at, by_whom, definition, jobs"
	versionColumns = listedColumns + ", layout"

	addVersionSQL = "INSERT INTO workflow_versions (" + versionColumns + ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING"
	dropUseSQL    = "DELETE FROM workflow_uses WHERE tenant = $1 AND job = $2 AND workflow = $3"
	addUseSQL     = "INSERT INTO workflow_uses (tenant, job, workflow) VALUES ($1, $2, $3)"
	// usableSQL keeps a job from being deleted until the version that uses it is stored.
	usableSQL   = "SELECT id FROM jobs WHERE tenant = $1 AND id = $2 AND state < 4 /*postgres: FOR SHARE*/"
	versionSQL  = "SELECT " + versionColumns + " FROM workflow_versions WHERE tenant = $1 AND workflow = $2 AND version = $3"
	versionsSQL = "SELECT " + listedColumns + inVersions
	// lengthsSQL reads no definition to tell how long it is.
	lengthsSQL = "SELECT length(definition) + length(jobs)" + inVersions
	inVersions = " FROM workflow_versions WHERE tenant = $1 AND workflow = $2 AND version < $3 ORDER BY version DESC LIMIT $4"
	usersSQL   = `
		SELECT w.id, w.key, w.name FROM workflow_uses u CROSS JOIN /*postgres: LATERAL*/ (SELECT id, tenant, key, name, state FROM jobs /*postgres: WHERE tenant = u.tenant AND id = u.workflow OFFSET 0*/) w
		WHERE u.tenant = $1 AND u.job = $2 AND w.tenant = u.tenant AND w.id = u.workflow AND w.state <> 4`
)

func scanVersion(r Row) (engine.WorkflowVersion, error) {
	var layout []byte
	v, err := scanListed(longer{r, []any{&layout}})
	v.Layout = orNil(layout)
	return v, err
}

// scanListed reads a version as lists have it.
func scanListed(r Row) (v engine.WorkflowVersion, err error) {
	var jobs []byte
	if err := r.Scan((*string)(&v.Tenant), (*[16]byte)(&v.Workflow), &v.Version, &v.CreatedAt, &v.By, &v.Definition, &jobs); err != nil {
		return v, err
	}
	if len(jobs)%16 != 0 {
		return v, fmt.Errorf("the jobs of a stored version have %d bytes; want 16 for each", len(jobs))
	}
	for ; len(jobs) > 0; jobs = jobs[16:] {
		v.Jobs = append(v.Jobs, job.ID(jobs[:16]))
	}
	return v, nil
}

// AddWorkflow stores the first version of a workflow.
func (s workflows) AddWorkflow(ctx context.Context, v engine.WorkflowVersion) error {
	return s.db.Write(ctx, "store a workflow", func(tx Tx) error { return AddVersion(tx, &v) })
}

// AddVersion stores a version of a workflow, and replaces the list of jobs it uses.
func AddVersion(tx Tx, v *engine.WorkflowVersion) error {
	for _, id := range v.Uses() {
		if _, err := one(tx, func(r Row) (id [16]byte, err error) { return id, r.Scan(&id) }, usableSQL, string(v.Tenant), [16]byte(id)); err != nil {
			return fmt.Errorf("job %s, which the workflow uses: %w", id, err)
		}
	}
	var jobs []byte
	for _, id := range v.Jobs {
		jobs = append(jobs, id[:]...)
	}
	err := changeOne(tx, engine.ErrConflict, addVersionSQL, string(v.Tenant), [16]byte(v.Workflow), v.Version, v.CreatedAt, v.By, v.Definition, jobs, v.Layout)
	if err != nil {
		return err
	}
	if v.Version > 1 {
		if err := tx.LockTenant(v.Tenant); err != nil {
			return err
		}
		was, err := one(tx, scanVersion, versionSQL, string(v.Tenant), [16]byte(v.Workflow), v.Version-1)
		if err != nil {
			return err
		}
		if err := tx.ExecEach(dropUseSQL, usesOf(&was)); err != nil {
			return err
		}
	}
	if err := tx.ExecEach(addUseSQL, usesOf(v)); err != nil || v.Version == 1 || len(v.Uses()) == 0 {
		return err
	}
	return noCircle(tx, v.Tenant, v.Workflow) // of a new one nothing is above
}

// usesOf returns the rows of the jobs that a version uses.
func usesOf(v *engine.WorkflowVersion) (rows [][]any) {
	for _, id := range v.Uses() {
		rows = append(rows, []any{string(v.Tenant), [16]byte(id), [16]byte(v.Workflow)})
	}
	return rows
}

// WorkflowVersion finds one version.
func (s workflows) WorkflowVersion(ctx context.Context, t tenant.ID, workflow job.ID, version int) (out engine.WorkflowVersion, err error) {
	err = s.db.Ask(ctx, "find a version of a workflow", func(tx Tx) (err error) {
		out, err = one(tx, scanVersion, versionSQL, string(t), [16]byte(workflow), version)
		return err
	})
	return out, err
}

// WorkflowVersions lists versions of a workflow, newest first.
func (s workflows) WorkflowVersions(ctx context.Context, t tenant.ID, workflow job.ID, before, limit int) (out []engine.WorkflowVersion, err error) {
	before = cmp.Or(before, math.MaxInt32)
	err = s.db.Read(ctx, "list versions of a workflow", func(tx Tx) error {
		lengths, err := all(tx, func(r Row) (n int, err error) { return n, r.Scan(&n) }, lengthsSQL, string(t), [16]byte(workflow), before, limit)
		if err != nil {
			return err
		}
		fit, bytes := 0, 0
		for fit < len(lengths) && bytes < engine.PageBytes {
			bytes += lengths[fit]
			fit++
		}
		out, err = all(tx, scanListed, versionsSQL, string(t), [16]byte(workflow), before, fit)
		return err
	})
	return out, err
}

// WorkflowUsers lists the workflows that use a job.
func (s workflows) WorkflowUsers(ctx context.Context, t tenant.ID, of job.ID) (out []engine.WorkflowUser, err error) {
	err = s.db.Read(ctx, "list who uses a job", func(tx Tx) (err error) {
		out, err = workflowUsers(tx, t, of)
		return err
	})
	return out, err
}

func scanUser(r Row) (w engine.WorkflowUser, err error) {
	err = r.Scan((*[16]byte)(&w.ID), &w.Key, &w.Name)
	return w, err
}

func workflowUsers(tx Tx, t tenant.ID, of job.ID) ([]engine.WorkflowUser, error) {
	out, err := all(tx, scanUser, usersSQL, string(t), [16]byte(of))
	slices.SortFunc(out, func(a, b engine.WorkflowUser) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
	})
	return out, err
}

// maxNamed bounds how many dependants of a job are named.
const maxNamed = 100

// Unused returns *engine.Used if workflows use a job, which is about to be deleted, or other jobs depend on it. If not, the job itself
// depends on nothing any more.
func Unused(tx Tx, t tenant.ID, of job.ID) error {
	by, err := workflowUsers(tx, t, of)
	if err != nil {
		return err
	}
	ids, err := all(tx, func(r Row) (id [16]byte, err error) { return id, r.Scan(&id) }, dependantsSQL, string(t), [16]byte(of), maxNamed)
	if err != nil {
		return err
	}
	var children []engine.WorkflowUser
	for _, id := range ids {
		found, err := all(tx, scanUser, dependantSQL, string(t), id)
		if err != nil {
			return err
		}
		children = append(children, found...)
	}
	slices.SortFunc(children, func(a, b engine.WorkflowUser) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ID[:], b.ID[:]))
	})
	if len(by)+len(children) > 0 {
		return &engine.Used{By: by, Dependants: children}
	}
	return dropChild(tx, t, of)
}
