package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
	"github.com/carillon-jobs/carillon/internal/failpoint"
)

// CreateJobs stores each creation completely or not at all, and answers in their order.
func (s *jobs) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	forms := make([]prepared, len(cs))
	for i := range cs {
		forms[i] = prepare(&cs[i])
	}
	out := make([]engine.Created, len(cs))
	err := s.write(ctx, "create jobs", func(c *conn, now int64) (err error) {
		var entries []*audit.Entry
		for i := range cs {
			var stored bool
			if out[i], stored, err = create(c, &forms[i], now); err != nil {
				return err
			}
			if stored && cs[i].Entry != nil {
				entries = append(entries, cs[i].Entry)
			}
		}
		for _, e := range audit.Merge(entries) {
			if err := record(c, e); err != nil {
				return err
			}
		}
		return failpoint.Hit("api.beforeCommit")
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// prepared is a creation with the stored forms of its jobs, made before the writing connection is taken.
type prepared struct {
	*engine.Creation
	jobs  []encoded
	nodes []encoded
}

func prepare(c *engine.Creation) prepared {
	return prepared{Creation: c, jobs: encodeAll(c.Jobs), nodes: encodeAll(c.Nodes)}
}

func encodeAll(js []job.Job) []encoded {
	out := make([]encoded, len(js))
	for n := range js {
		out[n] = encode(&js[n])
	}
	return out
}

// create stores a creation unless something conflicts with it, and reports whether it did. It checks before it writes
// anything: nobody else writes meanwhile.
func create(c *conn, x *prepared, now int64) (out engine.Created, stored bool, err error) {
	out, known, err := recall(c, x.Tenant, &x.Idempotency, now)
	if err != nil || known {
		return out, false, err
	}
	if taken, err := obstacle(c, x.Tenant, x.jobs); err != nil || taken != "" {
		return engine.Created{Taken: taken}, false, err
	}
	if out.Unique, err = holders(c, x); err != nil || out.Unique != nil {
		return out, false, err
	}
	if room, err := takeRoom(c, x); err != nil || !room {
		return engine.Created{Over: err == nil}, false, err
	}
	if len(x.jobs) > 0 {
		stored, err := insertJob(c, x.Tenant, &x.jobs[0])
		if err != nil || !stored {
			return out, false, err // not stored: this very call was made before, and its answer was lost
		}
		if stored, err = insertJobs(c, x.Tenant, x.jobs[1:]); err != nil {
			return out, false, err
		}
		if !stored {
			return out, false, engine.ErrConflict
		}
		if err := insertSchedules(c, x.Tenant, x.jobs); err != nil {
			return out, false, err
		}
		if err := sqlstore.AddRetentions(transaction{c, now}, x.Tenant, x.Jobs); err != nil {
			return out, false, err
		}
	}
	if x.Workflow != nil {
		if err := addVersion(c, now, x.Tenant, x.Workflow, x.nodes); err != nil {
			return out, false, err
		}
	}
	if err := insertExecutions(c, x.Tenant, x.Executions); err != nil {
		return out, false, err
	}
	if err := keepManaged(c, x.Tenant, job.ID{}, x.Secrets, nil); err != nil {
		return out, false, err
	}
	return out, true, remember(c, x.Tenant, &x.Idempotency)
}

// addVersion stores a version of a workflow with the jobs of its inline nodes.
func addVersion(c *conn, now int64, t tenant.ID, v *engine.WorkflowVersion, nodes []encoded) error {
	stored, err := insertJobs(c, t, nodes)
	if err != nil {
		return err
	}
	if !stored {
		return engine.ErrConflict
	}
	return sqlstore.AddVersion(transaction{c, now}, v)
}

// obstacle names a job key of a creation that is taken, or used twice in it. A creation that is stored already has
// none: it is stored completely or not at all, so its first job tells.
func obstacle(c *conn, t tenant.ID, jobs []encoded) (taken string, err error) {
	var mine map[string]bool
	for _, j := range jobs {
		if j.Key == "" {
			continue
		}
		if mine == nil {
			stored, err := exists(c, "SELECT 1 FROM jobs WHERE tenant = ? AND id = ?", t, jobs[0].ID)
			if err != nil || stored {
				return "", err
			}
			mine = map[string]bool{}
		}
		if mine[j.Key] {
			return j.Key, nil
		}
		mine[j.Key] = true
		used, err := c.prepare("SELECT 1 FROM jobs WHERE tenant = ? AND key = ? AND key IS NOT NULL AND state <> 4").text(string(t)).text(j.Key).first(nothing)
		if err != nil {
			return "", err
		}
		if used {
			return j.Key, nil
		}
	}
	return "", nil
}

// exists reports whether a statement of a tenant and an id finds anything.
func exists[T ~[16]byte](c *conn, sql string, t tenant.ID, id T) (bool, error) {
	return c.prepare(sql).text(string(t)).id(id).first(nothing)
}
