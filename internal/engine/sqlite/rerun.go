package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// finishedSQL finds a finished execution of a job that is not deleted.
	finishedSQL = `
		SELECT 1 FROM executions x CROSS JOIN jobs j
		WHERE x.tenant = ? AND x.id = ? AND x.job = ? AND j.tenant = x.tenant AND j.id = x.job AND j.state <> 4`
	isDeadLetter = " AND EXISTS (SELECT 1 FROM dead_letters d WHERE d.execution = x.id AND d.tenant = x.tenant)"
)

// Rerun adds new executions of finished ones, each named by RetryOf, which stop being dead letters.
func (s *jobs) Rerun(ctx context.Context, t tenant.ID, r engine.Rerun) (engine.Rerunning, error) {
	if len(r.Executions) == 0 && r.Idempotency.Key == "" {
		return engine.Rerunning{}, nil
	}
	var out engine.Rerunning
	err := s.write(ctx, "run executions again", func(c *conn, now int64) error {
		var known bool
		var err error
		if out.Created, known, err = recall(c, t, &r.Idempotency, now); err != nil || known {
			return err
		}
		for i := range r.Executions {
			e := &r.Executions[i]
			added, err := rerun(c, now, t, e, r)
			if err != nil {
				return err
			}
			if added {
				out.Added = append(out.Added, e.ID)
			}
		}
		if len(out.Added) == 0 {
			return nil
		}
		if err := remember(c, t, &r.Idempotency); err != nil {
			return err
		}
		return record(c, r.Entry)
	})
	if err != nil {
		return engine.Rerunning{}, err
	}
	return out, nil
}

// rerun adds an execution, unless its original forbids it or another holds its unique key, and reports whether it
// exists. One added by an earlier call stays as it is.
func rerun(c *conn, now int64, t tenant.ID, e *job.Execution, r engine.Rerun) (added bool, err error) {
	if before, err := knows(c, t, e.ID); err != nil || before {
		return before, err
	}
	sql := finishedSQL
	if r.DeadOnly {
		sql += isDeadLetter
	}
	ok, err := c.prepare(sql).text(string(t)).id(e.RetryOf).id(e.Job).first(nothing)
	if !ok && err == nil && !r.DeadOnly && r.Archived[e.RetryOf] == e.Job {
		ok, err = c.prepare("SELECT 1 FROM jobs WHERE tenant = ? AND id = ? AND state <> 4").text(string(t)).id(e.Job).first(nothing)
	}
	if err != nil || !ok {
		return false, err
	}
	if e.UniqueKey != "" {
		if _, taken, err := holder(c, t, e.UniqueKey); err != nil || taken {
			return false, err
		}
	}
	added, err = inserting(c, "").insert(t, e)
	if err != nil {
		return false, err
	}
	if _, err := c.prepare(exhume).text(string(t)).id(e.RetryOf).exec(); err != nil {
		return false, err
	}
	// The new one's nonce distinguishes two reruns, where other events have their lease's token.
	return added, tell(c, now, t, e.RetryOf, job.Event{Kind: job.EventRerun, Token: job.Token(e.Nonce()), Note: e.ID.String()})
}
