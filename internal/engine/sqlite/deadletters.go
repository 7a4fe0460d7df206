package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

const (
	endedSQL = "SELECT tenant, job, tries, max_attempts FROM executions WHERE id = ?"
	// burySQL makes a dead letter; one of a deleted job is not redriven automatically.
	burySQL = `
		INSERT INTO dead_letters (execution, tenant, job, at, reason, message, redrive_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6,
			CASE WHEN EXISTS (SELECT 1 FROM jobs WHERE tenant = ?2 AND id = ?3 AND state = 4) THEN NULL ELSE ?7 END)`
	stayDeadSQL = "UPDATE dead_letters SET redrive_at = NULL WHERE tenant = ? AND job = ? AND redrive_at IS NOT NULL"
	exhume      = "DELETE FROM dead_letters WHERE tenant = ? AND execution = ?"

	deadLettersSQL = "SELECT " + pastColumns + ", d.reason, d.at FROM " // and where they are
	withExecution  = " CROSS JOIN executions v INDEXED BY executions_id WHERE v.id = d.execution AND "
	latestFirst    = " ORDER BY d.at DESC, d.execution DESC"
)

// bury makes an execution that has just moved into history a dead letter, if it qualifies, to be redriven
// automatically at an instant unless that is zero.
func (h *history) bury(id job.ExecutionID, status job.Status, why *job.Error, redrive time.Time) error {
	if _, dead := job.Dead(status, why, 0, 0); !dead { // for most, without reading it
		return nil
	}
	var t string
	var of job.ID
	var reason job.DeadReason
	_, err := h.prepare(endedSQL).id(id).first(func(r *row) error {
		t, of = r.text(), r.id()
		reason, _ = job.Dead(status, why, r.int(), r.int())
		return nil
	})
	if err != nil {
		return err
	}
	message := ""
	if why != nil {
		message = why.Message
	}
	_, err = h.prepare(burySQL).id(id).text(t).id(of).int(h.now).text(string(reason)).textOrNull(message).at(redrive).exec()
	return err
}

// deadWhere returns where dead letters are found in order, the conditions that the index there handles, and all
// conditions.
func deadWhere(f engine.DeadLetterFilter) (from string, index, all *where) {
	index = &where{}
	index.and("d.tenant = ?", text(string(f.Tenant)))
	one := !f.Execution.IsZero()
	switch {
	case one:
		index.and("d.execution = ?", id(f.Execution))
		from = "dead_letters d" // by its key
	case !f.Job.IsZero():
		index.and("d.job = ?", id(f.Job))
		from = "dead_letters d INDEXED BY dead_letters_job"
	case f.Reason != "":
		index.and("d.reason = ?", text(string(f.Reason)))
		from = "dead_letters d INDEXED BY dead_letters_reason"
	default:
		from = "dead_letters d INDEXED BY dead_letters_at"
	}
	if !f.From.IsZero() {
		index.and("d.at >= ?", number(f.From.UnixMicro()))
	}
	if !f.Until.IsZero() {
		index.and("d.at < ?", number(f.Until.UnixMicro()))
	}
	if !f.OwnAsOf.IsZero() {
		index.and(deadKeptSQL, number(f.OwnAsOf.UTC().Truncate(24*time.Hour).UnixMicro()))
	}
	all = index.copy()
	if one && !f.Job.IsZero() {
		all.and("d.job = ?", id(f.Job))
	}
	if f.Reason != "" && (one || !f.Job.IsZero()) {
		all.and("d.reason = ?", text(string(f.Reason)))
	}
	if f.Text != "" {
		all.and("mentions(?, d.message)", text(fold(f.Text)))
	}
	return from, index, all
}

// deadListing is a listing of dead letters and what is read of their executions.
func deadListing[T any](c *conn, f engine.DeadLetterFilter, columns string, read func(*row) (T, error)) listing[T] {
	from, index, all := deadWhere(f)
	return listing[T]{
		c: c, table: from, index: index, all: all, from: from + " CROSS JOIN executions v INDEXED BY executions_id ON v.id = d.execution", columns: columns, key: []string{"d.at", "d.execution"}, at: "d.at", read: read,
		keys:  func(p engine.Place) []func(*stmt) { return []func(*stmt){number(p.At.UnixMicro()), id(p.ID)} },
		place: func(r *row) engine.Place { return engine.Place{At: r.at(), ID: r.id()} },
	}
}

func readDeadLetter(r *row) (job.DeadLetter, error) {
	e, err := readExecution(r)
	return job.DeadLetter{Execution: e, Reason: job.DeadReason(r.text()), At: r.at()}, err
}

// complete reads the other parts of dead letters.
func complete(c *conn, ds []job.DeadLetter) (err error) {
	for i := range ds {
		d := &ds[i]
		if d.JobName, err = jobName(c, d.Tenant, d.Job); err != nil {
			return err
		}
		if d.Errors, err = attempts(c, d.Tenant, d.ID); err != nil {
			return err
		}
	}
	return nil
}

// listDeadLetters lists dead letters, and ends early if few of very many match.
func (s *reads) listDeadLetters(ctx context.Context, f engine.DeadLetterFilter, p engine.Page) (engine.DeadLetterPage, error) {
	var out engine.Listed[job.DeadLetter]
	err := s.look(ctx, "list dead letters", func(c *conn) (err error) {
		out, err = engine.List(p, deadListing(c, f, pastColumns+", d.reason, d.at", readDeadLetter), func(d *job.DeadLetter) engine.Place { return engine.Place{At: d.At, ID: d.ID} })
		if err != nil {
			return err
		}
		return complete(c, out.Rows)
	})
	return engine.DeadLetterPage{DeadLetters: out.Rows, Next: out.Next, Partial: out.Partial, Total: out.Total}, err
}

// DeadLetters lists dead letters with their whole error history, newest first.
func (s *reads) DeadLetters(ctx context.Context, f engine.DeadLetterFilter, p engine.Page) (engine.DeadLetterPage, error) {
	if p.Bounded && f.Execution.IsZero() {
		return s.listDeadLetters(ctx, f, p)
	}
	from, _, all := deadWhere(f)
	w := all.copy()
	if p.Cursor != "" {
		at, after, err := engine.DecodeCursor(p.Cursor)
		if err != nil {
			return engine.DeadLetterPage{}, err
		}
		w.and("(d.at, d.execution) < (?, ?)", number(at.UnixMicro()), id(after))
	}
	limit := max(p.Limit, 1)
	var out engine.DeadLetterPage
	err := s.look(ctx, "list dead letters", func(c *conn) error {
		q := c.prepare(deadLettersSQL + from + withExecution + w.String() + latestFirst + " LIMIT ?")
		err := w.bind(q).int(int64(limit) + 1).each(func(r *row) error {
			d, err := readDeadLetter(r)
			out.DeadLetters = append(out.DeadLetters, d)
			return err
		})
		if err != nil {
			return err
		}
		if len(out.DeadLetters) > limit {
			out.DeadLetters = out.DeadLetters[:limit]
			last := &out.DeadLetters[limit-1]
			out.Next = engine.EncodeCursor(last.At, last.ID)
		}
		if err := complete(c, out.DeadLetters); err != nil {
			return err
		}
		list := "SELECT d.at FROM " + from + " WHERE " + all.String()
		out.Total, err = tally(all.bind(c.prepare(list+latestFirst)), all.bind(c.prepare(list+" ORDER BY d.at LIMIT 1")))
		return err
	})
	if err != nil {
		return engine.DeadLetterPage{}, err
	}
	return out, nil
}

// Discard discards dead letters, and returns how many there were.
func (s *reads) Discard(ctx context.Context, t tenant.ID, ids []job.ExecutionID, i engine.Idempotency, answer func(n int) []byte, e *audit.Entry) (int, engine.Created, error) {
	discarded := 0
	var out engine.Created
	err := s.write(ctx, "discard dead letters", func(c *conn, now int64) error {
		for _, id := range ids {
			n, err := c.prepare(exhume).text(string(t)).id(id).exec()
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			discarded++
			if err := tell(c, now, t, id, job.Event{Kind: job.EventDiscarded}); err != nil {
				return err
			}
		}
		return sqlstore.Answer(transaction{c, now}, t, i, discarded, answer, e, &out)
	})
	if errors.Is(err, engine.ErrAnswered) {
		return 0, out, nil
	}
	if err != nil {
		return 0, engine.Created{}, err
	}
	return discarded, out, nil
}

const redrivableSQL = "SELECT " + pastColumns + ` FROM dead_letters d INDEXED BY dead_letters_redrive CROSS JOIN executions v INDEXED BY executions_id
	WHERE d.redrive_at IS NOT NULL AND d.redrive_at <= ? AND v.id = d.execution ORDER BY d.redrive_at`

// Redrivable lists dead letters of any tenant that are due for an automatic redrive.
func (s *reads) Redrivable(ctx context.Context, limit int) ([]job.Execution, error) {
	if limit <= 0 {
		return nil, nil
	}
	var out []job.Execution
	err := s.look(ctx, "find what is to be run again", func(c *conn) error {
		_, err := c.prepare(redrivableSQL).int(s.now()).until(func(r *row) (bool, error) {
			e, err := readExecution(r)
			out = append(out, e)
			return len(out) >= limit, err
		})
		if err != nil {
			return err
		}
		for i := range out {
			if out[i].JobName, err = jobName(c, out[i].Tenant, out[i].Job); err != nil {
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

const postponeSQL = "UPDATE dead_letters SET redrive_at = ?1 + ?2 WHERE execution = ?3 AND redrive_at <= ?1"

// Postpone postpones for a while those that Redrivable lists.
func (s *reads) Postpone(ctx context.Context, ids []job.ExecutionID, by time.Duration) error {
	return s.write(ctx, "put off redriving", func(c *conn, now int64) error {
		for _, id := range ids {
			if _, err := c.prepare(postponeSQL).int(now).int(by.Microseconds()).id(id).exec(); err != nil {
				return err
			}
		}
		return nil
	})
}
