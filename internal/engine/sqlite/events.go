package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	// tellSQL records an event, unless one of its kind and token is recorded already.
	tellSQL = "INSERT OR IGNORE INTO events (execution, kind, token, at, attempt, worker, tenant, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
	// refusedSQL also records one, unless there are too many of its kind.
	refusedSQL = `
		INSERT OR IGNORE INTO events (execution, kind, token, at, attempt, worker, tenant, note) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
		WHERE (SELECT count(*) FROM events WHERE execution = ?1 AND kind = ?2) < ?9`
	eventsSQL = "SELECT kind, token, at, attempt, worker, note FROM events WHERE tenant = ? AND execution = ? ORDER BY at, token, kind"
)

// tell records an event of an execution now.
func tell(c *conn, now int64, t tenant.ID, id job.ExecutionID, e job.Event) error {
	q := c.prepare(tellSQL)
	if e.Kind == job.EventRefused {
		q = c.prepare(refusedSQL)
	}
	q.id(id).text(string(e.Kind)).int(int64(e.Token)).int(now).int(int64(e.Attempt)).idOrNull(e.Worker).text(string(t)).text(e.Note)
	if e.Kind == job.EventRefused {
		q.int(job.MaxRefused)
	}
	_, err := q.exec()
	return err
}

// Events lists the recorded events of an execution, oldest first.
func (s *reads) Events(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.Event, error) {
	var out []job.Event
	err := s.look(ctx, "list events", func(c *conn) error {
		if known, err := knows(c, t, id); err != nil {
			return err
		} else if !known {
			return engine.ErrNotFound
		}
		var err error
		out, err = events(c, t, id)
		return err
	})
	return out, err
}

func events(c *conn, t tenant.ID, id job.ExecutionID) (out []job.Event, err error) {
	err = c.prepare(eventsSQL).text(string(t)).id(id).each(func(r *row) error {
		out = append(out, job.Event{
			Kind: job.EventKind(r.text()), Token: job.Token(r.int64()), At: r.at(), Attempt: r.int(), Worker: r.id(), Note: r.text(),
		})
		return nil
	})
	return out, err
}

// knows reports whether the tenant has an execution, in either table.
func knows(c *conn, t tenant.ID, id job.ExecutionID) (bool, error) {
	known, err := exists(c, "SELECT 1 FROM live WHERE tenant = ? AND id = ?", t, id)
	if err != nil || known {
		return known, err
	}
	return exists(c, "SELECT 1 FROM executions WHERE tenant = ? AND id = ?", t, id)
}
