package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/engine"
)

var auditTable = newTable("audit",
	field{"at", pgtype.TimestamptzOID}, field{"count", pgtype.Int4OID}, field{"tenant", pgtype.TextOID}, field{"by_whom", pgtype.TextOID}, field{"role", pgtype.TextOID},
	field{"key_id", pgtype.TextOID}, field{"origin", pgtype.TextOID}, field{"request", pgtype.TextOID}, field{"action", pgtype.TextOID}, field{"object", pgtype.TextOID},
	field{"detail", pgtype.ByteaOID})

func (s *sheet) entry(e *audit.Entry) {
	s.row()
	s.next().time(e.At)
	s.next().int4(e.Count)
	s.next().text(string(e.Tenant))
	for _, text := range []string{e.By, string(e.Role), e.Key, e.From, e.Request, e.Action, e.Object} {
		s.next().text(plain(text))
	}
	s.next().bytes(e.Detail)
}

// entries writes the audit entries of the chosen creations.
func (b batch) entries(s *sheet) *sheet {
	var all []*audit.Entry
	for _, i := range b.chosen {
		if e := b.all[i].Entry; e != nil {
			all = append(all, e)
		}
	}
	for _, e := range audit.Merge(all) {
		s.entry(e)
	}
	return s
}

// writer is a connection, or a transaction, within which others are savepoints.
type writer interface {
	speaker
	Begin(ctx context.Context) (pgx.Tx, error)
}

// speaker runs statements.
type speaker interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// change is write for a user's request: its audit entry, if it has one, is written in the same transaction. It
// creates missing tables of days.
func (s *database) change(ctx context.Context, doing string, e *audit.Entry, f func(context.Context, writer) error) error {
	return s.writeDays(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error { return changing(ctx, c, e, f) })
}

// writeDays is write that creates missing tables of days.
func (s *database) writeDays(ctx context.Context, doing string, f func(context.Context, *pgxpool.Conn) error) error {
	err := s.write(ctx, doing, f)
	if !isCode(err, checkViolation) {
		return err
	}
	days := func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := prepareDays(ctx, c.Conn())
		return err
	}
	if err := s.write(engine.Unconfined(ctx), "make the tables of days", days); err != nil {
		return err
	}
	return s.write(ctx, doing, f)
}

func changing(ctx context.Context, c *pgxpool.Conn, e *audit.Entry, f func(context.Context, writer) error) error {
	if e == nil {
		return f(ctx, c)
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if err := f(ctx, tx); err != nil {
			return err
		}
		return record(ctx, tx, e)
	})
}

func record(ctx context.Context, c speaker, e *audit.Entry) error {
	row := auditTable.arrays()
	row.entry(e)
	_, err := c.Exec(ctx, recordSQL, row.args()...)
	return err
}

// recordSQL draws a transaction id before the entry draws its number, which horizon relies on: an insert alone does
// it the other way around. If other rows are written first they have drawn one.
var recordSQL = auditTable.insert + " WHERE pg_current_xact_id() IS NOT NULL"

// horizon returns the number up to which all entries are decided, in three steps. Entries get their numbers in the
// order in which they are inserted, not that in which they are committed. So it notes a number; then, since whoever
// drew a smaller one had a transaction id before, the next transaction id; when all transactions before that have
// ended, nothing can appear any more at or before the number.
type horizon struct {
	mu   sync.Mutex
	seq  int64 // guarded by mu: the number; 0: none is noted
	xid  int64 // guarded by mu: 0: not noted yet
	past int64 // guarded by mu: all at or before it are decided
}

func (h *horizon) look(ctx context.Context, c speaker) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var last, oldest, next int64 // a sequence that has issued nothing yet has the first number as its last
	err := c.QueryRow(ctx, `
		SELECT s.last_value - (NOT s.is_called)::int, pg_snapshot_xmin(x)::text::int8, pg_snapshot_xmax(x)::text::int8 FROM audit_seq_seq s, pg_current_snapshot() x`).Scan(&last, &oldest, &next)
	if err != nil {
		return 0, err
	}
	switch {
	case h.seq == 0:
		h.seq = last
	case h.xid == 0:
		h.xid = next
	}
	if h.xid > 0 && oldest >= h.xid {
		h.past, h.seq, h.xid = max(h.past, h.seq), last, 0
	}
	return h.past, nil
}

// tidyAuditSQL drops the seals that are old enough, with their entries. The last one of a tenant stays: the next one
// follows it.
const tidyAuditSQL = `
	WITH old AS MATERIALIZED (
		SELECT tenant, number, first, last FROM audit_seals s WHERE sealed_at < now() - make_interval(secs => $1)
			AND EXISTS (SELECT 1 FROM audit_seals n WHERE n.tenant = s.tenant AND n.number = s.number + 1) ORDER BY sealed_at LIMIT $2
	), gone AS (
		DELETE FROM audit a USING old o WHERE a.tenant = o.tenant AND a.seq BETWEEN o.first AND o.last
	)
	DELETE FROM audit_seals s USING old o WHERE s.tenant = o.tenant AND s.number = o.number`
