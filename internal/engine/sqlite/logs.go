package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	logHeadSQL = "SELECT upto, bytes, cut FROM logs WHERE execution = ? AND token = ? ORDER BY first DESC LIMIT 1"
	logHeldSQL = "SELECT 1 FROM live WHERE id = ? AND lease = ? AND worker = ?"
	// appendLogSQL stores a chunk while its lease is held and the log ends where it begins.
	appendLogSQL = `
		INSERT INTO logs (execution, token, first, upto, bytes, cut, attempt, tenant, data)
		SELECT v.id, v.lease, ?4, ?5, ?6, ?7, v.attempt, v.tenant, ?8 FROM live v
		WHERE v.id = ?1 AND v.lease = ?2 AND v.worker = ?3
			AND ?4 = coalesce((SELECT upto FROM logs WHERE execution = ?1 AND token = ?2 ORDER BY first DESC LIMIT 1), 0)
		ON CONFLICT (execution, token, first) DO NOTHING`
	readLogsSQL = `
		SELECT token, attempt, first, upto, data FROM logs
		WHERE execution = ?1 AND (token, first) >=
			(?3, coalesce((SELECT first FROM logs WHERE execution = ?1 AND token = ?3 AND first <= ?4 ORDER BY first DESC LIMIT 1), 0))
			AND tenant = ?2 AND NOT (token = ?3 AND upto <= ?4) AND (?5 = 0 OR attempt = ?5)
		ORDER BY token, first LIMIT ?6`
	lastLogSQL    = "SELECT token, upto, attempt FROM logs WHERE execution = ? AND token < ? AND tenant = ? ORDER BY token DESC, first DESC LIMIT 1"
	nextLoggedSQL = "SELECT execution FROM logs WHERE execution > ? ORDER BY execution LIMIT 1"
	dropLogSQL    = "DELETE FROM logs WHERE rowid IN (SELECT rowid FROM logs WHERE execution = ? LIMIT ?)"
)

// AppendLogs stores chunks of logs under the leases that wrote them.
func (s *reads) AppendLogs(ctx context.Context, as []engine.LogAppend) ([]engine.LogAppended, error) {
	var out []engine.LogAppended
	err := s.write(ctx, "append logs", func(c *conn, _ int64) error {
		out = make([]engine.LogAppended, len(as))
		for i, a := range as {
			n, err := c.prepare(appendLogSQL).id(a.Execution).int(int64(a.Token)).id(a.Worker).int(int64(a.From)).int(int64(a.To.Lines)).
				int(a.To.Bytes).bool(a.To.Cut).bytes(a.Data).exec()
			if err != nil {
				return err
			}
			if n > 0 {
				out[i] = engine.LogAppended{Stored: true, Held: true, Head: a.To}
				continue
			}
			if out[i].Held, err = c.prepare(logHeldSQL).id(a.Execution).int(int64(a.Token)).id(a.Worker).first(nothing); err != nil {
				return err
			}
			_, err = c.prepare(logHeadSQL).id(a.Execution).int(int64(a.Token)).first(func(r *row) error {
				out[i].Head = job.LogHead{Lines: r.int(), Bytes: r.int64(), Cut: r.bool()}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Logs reads the log of an execution from a position on.
func (s *reads) Logs(ctx context.Context, t tenant.ID, id job.ExecutionID, q engine.LogQuery) ([]engine.LogChunk, error) {
	var out []engine.LogChunk
	err := s.look(ctx, "read logs", func(c *conn) error {
		err := c.prepare(readLogsSQL).id(id).text(string(t)).int(int64(q.From.Token)).int(int64(q.From.Line)).int(int64(q.Attempt)).int(int64(q.Chunks)).
			each(func(r *row) error {
				out = append(out, engine.LogChunk{Token: job.Token(r.int64()), Attempt: r.int(), From: r.int(), To: r.int(), Data: r.bytes()})
				return nil
			})
		if err != nil || len(out) > 0 {
			return err
		}
		known, err := knows(c, t, id)
		if err == nil && !known {
			return engine.ErrNotFound
		}
		return err
	})
	return out, err
}

// LogLines counts the lines of an execution's log: the end of each attempt's, added up.
func (s *reads) LogLines(ctx context.Context, t tenant.ID, id job.ExecutionID, attempt int) (int64, error) {
	var total int64
	err := s.look(ctx, "count log lines", func(c *conn) error {
		for before := int64(1<<63 - 1); ; {
			found, err := c.prepare(lastLogSQL).id(id).int(before).text(string(t)).first(func(r *row) error {
				before = r.int64()
				upto := r.int64()
				if n := r.int(); attempt == 0 || n == attempt {
					total += upto
				}
				return nil
			})
			if err != nil || !found {
				return err
			}
		}
	})
	return total, err
}

const (
	walkedLogs = 100 // executions whose logs one Tidy looks at
)

// tidyLogs drops logs of unknown executions; each call examines the next few.
func (s *upkeep) tidyLogs(c *conn) (more bool, err error) {
	var at job.ExecutionID
	if p := s.logged.Load(); p != nil {
		at = *p
	}
	for range walkedLogs {
		found, err := c.prepare(nextLoggedSQL).id(at).first(func(r *row) error { at = r.id(); return nil })
		if err != nil {
			return false, err
		}
		if !found {
			s.logged.Store(&job.ExecutionID{}) // from the start, next time
			return more, nil
		}
		known := false
		for _, sql := range []string{"SELECT 1 FROM live WHERE id = ?", "SELECT 1 FROM executions WHERE id = ?"} {
			one, err := c.prepare(sql).id(at).first(nothing)
			if err != nil {
				return false, err
			}
			known = known || one
		}
		if known {
			continue
		}
		n, err := c.prepare(dropLogSQL).id(at).int(tidyRows).exec()
		if err != nil {
			return false, err
		}
		more = more || n == tidyRows
	}
	s.logged.Store(&at)
	return more, nil
}
