package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

// plain removes from a text what the database cannot store.
func plain(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// deadFound returns the part of a filter of dead letters that an index handles, deadChosen the rest.
func deadFound(f engine.DeadLetterFilter, ps *params) string {
	w := "d.tenant = " + ps.add(string(f.Tenant))
	if !f.Job.IsZero() {
		w += " AND d.job = " + ps.add([16]byte(f.Job))
	}
	if !f.Execution.IsZero() {
		w += " AND d.execution = " + ps.add([16]byte(f.Execution))
	}
	if f.Reason != "" && f.Job.IsZero() {
		w += " AND d.reason = " + ps.add(plain(string(f.Reason)))
	}
	if !f.From.IsZero() {
		w += " AND d.at >= " + ps.add(f.From)
	}
	if !f.Until.IsZero() {
		w += " AND d.at < " + ps.add(f.Until)
	}
	if !f.OwnAsOf.IsZero() {
		w += fmt.Sprintf(deadKeptSQL, ps.add(f.OwnAsOf.UTC().Truncate(24*time.Hour)))
	}
	return w
}

func deadChosen(f engine.DeadLetterFilter, ps *params) (w string) {
	if f.Reason != "" && !f.Job.IsZero() {
		w += " AND d.reason = " + ps.add(plain(string(f.Reason)))
	}
	if f.Text != "" {
		w += " AND d.message ILIKE " + ps.add(anywhere(plain(f.Text)))
	}
	return w
}

func deadConditions(f engine.DeadLetterFilter, ps *params) string {
	return deadFound(f, ps) + deadChosen(f, ps)
}

// deadListing is a listing of dead letters.
func deadListing[T any](f engine.DeadLetterFilter) listing[T] {
	l := listing[T]{table: "dead_letters d", key: []string{"d.at", "d.execution"}}
	l.where = deadFound(f, &l.params)
	l.found = len(l.params)
	l.also = deadChosen(f, &l.params)
	l.keys = func(at engine.Place, ps *params) string {
		return "(" + ps.add(at.At) + ", " + ps.add([16]byte(at.ID)) + ")"
	}
	l.place = func(r pgx.Row) (p engine.Place, err error) {
		err = r.Scan(at(&p.At), (*[16]byte)(&p.ID))
		return p, err
	}
	return l
}

// listDeadLetters lists dead letters, and ends early if few of very many match.
func (s *reads) listDeadLetters(ctx context.Context, f engine.DeadLetterFilter, p engine.Page) (engine.DeadLetterPage, error) {
	l := deadListing[job.DeadLetter](f)
	l.scan = scanDeadLetter
	l.read = func(where, limit string) string {
		return fmt.Sprintf(`
			SELECT %s, d.reason, d.at FROM (SELECT * FROM dead_letters d WHERE %s LIMIT %s) d
			CROSS JOIN LATERAL (%s WHERE v.id = d.execution AND v.finished_at = d.at LIMIT 1) v
			LEFT JOIN jobs j ON j.tenant = v.tenant AND j.id = v.job ORDER BY d.at DESC, d.execution DESC`, executionColumns, where, limit, pastRow)
	}
	place := func(d *job.DeadLetter) engine.Place { return engine.Place{At: d.At, ID: d.ID} }
	out, err := listed(ctx, s.database, "list dead letters", p, place, l, func(ctx context.Context, tx pgx.Tx, ds []job.DeadLetter) error {
		return addErrors(ctx, tx, f.Tenant, ds)
	})
	return engine.DeadLetterPage{DeadLetters: out.Rows, Next: out.Next, Partial: out.Partial, Total: out.Total}, err
}

// DeadLetters lists dead letters with their whole error history, newest first.
func (s *reads) DeadLetters(ctx context.Context, f engine.DeadLetterFilter, p engine.Page) (engine.DeadLetterPage, error) {
	if p.Bounded && f.Execution.IsZero() {
		return s.listDeadLetters(ctx, f, p)
	}
	var ps params
	w := deadConditions(f, &ps)
	all, allParams := "FROM dead_letters d WHERE "+w, ps
	if p.Cursor != "" {
		instant, after, err := engine.DecodeCursor(p.Cursor)
		if err != nil {
			return engine.DeadLetterPage{}, err
		}
		w += " AND (d.at, d.execution) < (" + ps.add(instant) + ", " + ps.add(after) + ")"
	}
	limit := max(p.Limit, 1)
	page := fmt.Sprintf(`
		SELECT %s, d.reason, d.at FROM dead_letters d
		CROSS JOIN LATERAL (%s WHERE v.id = d.execution AND v.finished_at = d.at LIMIT 1) v
		LEFT JOIN jobs j ON j.tenant = v.tenant AND j.id = v.job
		WHERE %s ORDER BY d.at DESC, d.execution DESC LIMIT %d`, executionColumns, pastRow, w, limit+1)
	var out engine.DeadLetterPage
	err := s.look(ctx, "list dead letters", func(ctx context.Context, c *pgxpool.Conn) error {
		out = engine.DeadLetterPage{}
		rows, _ := c.Query(ctx, page, ps...)
		var err error
		if out.DeadLetters, err = pgx.CollectRows(rows, scanDeadLetter); err != nil {
			return err
		}
		if len(out.DeadLetters) > limit {
			out.DeadLetters = out.DeadLetters[:limit]
			last := &out.DeadLetters[limit-1]
			out.Next = engine.EncodeCursor(last.At, last.ID)
		}
		if err := addErrors(ctx, c, f.Tenant, out.DeadLetters); err != nil {
			return err
		}
		out.Total, err = total(ctx, c, all, allParams)
		return err
	})
	if err != nil {
		return engine.DeadLetterPage{}, err
	}
	return out, nil
}

func scanDeadLetter(row pgx.CollectableRow) (job.DeadLetter, error) {
	var x stored
	var d job.DeadLetter
	if err := row.Scan(append(x.targets(), (*string)(&d.Reason), at(&d.At))...); err != nil {
		return d, err
	}
	var err error
	d.Execution, err = x.decode()
	return d, err
}

// asker is a connection, or a transaction on one.
type asker interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// addErrors reads the error histories of a page.
func addErrors(ctx context.Context, c asker, t tenant.ID, ds []job.DeadLetter) error {
	if len(ds) == 0 {
		return nil
	}
	places := make(map[job.ExecutionID]int, len(ds))
	ids := uuids(len(ds))
	for i := range ds {
		places[ds[i].ID] = i
		ids.uuid(ds[i].ID)
	}
	rows, _ := c.Query(ctx, "SELECT "+attemptColumns+" FROM attempts WHERE execution = ANY ($1::uuid[]) AND tenant = $2 ORDER BY execution, token", ids, string(t))
	past, err := pgx.CollectRows(rows, scanAttempt)
	if err != nil {
		return err
	}
	for _, a := range past {
		d := &ds[places[a.Execution]]
		d.Errors = append(d.Errors, a)
	}
	return nil
}

// exhumeSQL compares the tenant in a way that no index serves: the ids should drive it.
const (
	exhumeSQL = `
		DELETE FROM dead_letters d USING unnest($2::uuid[]) u(id)
		WHERE d.execution = ANY (ARRAY[u.id]) AND d.tenant IS NOT DISTINCT FROM $1 RETURNING d.execution`
	discardSQL = `
		WITH gone AS (` + exhumeSQL + `
		), told AS (
			INSERT INTO events (execution, kind, token, tenant, at) SELECT execution, 'discarded', 0, $1, now() FROM gone
			ON CONFLICT (execution, kind, token) DO NOTHING
		)
		SELECT count(*) FROM gone`
	redrivableSQL = `
		SELECT ` + executionColumns + `
		FROM (SELECT execution, at FROM dead_letters WHERE redrive_at IS NOT NULL AND redrive_at <= now() ORDER BY redrive_at LIMIT $1) d
		CROSS JOIN LATERAL (` + pastRow + ` WHERE v.id = d.execution AND v.finished_at = d.at LIMIT 1) v
		LEFT JOIN LATERAL (SELECT name FROM jobs WHERE tenant = v.tenant AND id = v.job OFFSET 0) j ON true`
	postponeSQL = `
		UPDATE dead_letters d SET redrive_at = now() + $2 * interval '1 microsecond' FROM unnest($1::uuid[]) u(id)
		WHERE d.execution = ANY (ARRAY[u.id]) AND d.redrive_at <= now()`
)

// Discard discards dead letters, and returns how many there were.
func (s *reads) Discard(ctx context.Context, t tenant.ID, ids []job.ExecutionID, i engine.Idempotency, answer func(n int) []byte, e *audit.Entry) (int, engine.Created, error) {
	var discarded int
	var out engine.Created
	err := s.change(ctx, "discard dead letters", nil, func(ctx context.Context, c writer) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if err := tx.QueryRow(ctx, discardSQL, string(t), sortedIDs(ids)).Scan(&discarded); err != nil {
				return err
			}
			return sqlstore.Answer(transaction{ctx, tx, s.database}, t, i, discarded, answer, e, &out)
		})
	})
	if errors.Is(err, engine.ErrAnswered) {
		return 0, out, nil
	}
	return discarded, out, err
}

// Redrivable lists up to limit dead letters of any tenant that are due for an automatic redrive.
func (s *reads) Redrivable(ctx context.Context, limit int) ([]job.Execution, error) {
	var out []job.Execution
	err := s.ask(ctx, "find what is to be redriven", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, redrivableSQL, max(limit, 0))
		var err error
		out, err = pgx.CollectRows(rows, scanExecution)
		return err
	})
	return out, err
}

// Postpone postpones for a while those that Redrivable lists.
func (s *reads) Postpone(ctx context.Context, ids []job.ExecutionID, by time.Duration) error {
	if len(ids) == 0 {
		return nil
	}
	return s.write(ctx, "put off redriving", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, postponeSQL, sortedIDs(ids), by.Microseconds())
		return err
	})
}
