package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
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
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// change is write for what someone asked for: the entry that the context brings is written in the same transaction. It
// makes the tables of days that are missing.
func (s *Store) change(ctx context.Context, doing string, f func(context.Context, writer) error) error {
	err := s.write(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error { return changing(ctx, c, f) })
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
	return s.write(ctx, doing, func(ctx context.Context, c *pgxpool.Conn) error { return changing(ctx, c, f) })
}

func changing(ctx context.Context, c *pgxpool.Conn, f func(context.Context, writer) error) error {
	p := engine.PendingEntry(ctx)
	if p == nil {
		return f(ctx, c)
	}
	err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if err := f(ctx, tx); err != nil {
			return err
		}
		e, ok := p.Entry()
		if !ok {
			return nil
		}
		return record(ctx, tx, &e)
	})
	if err == nil {
		p.Written()
	}
	return err
}

func record(ctx context.Context, c writer, e *audit.Entry) error {
	row := auditTable.arrays()
	row.entry(e)
	_, err := c.Exec(ctx, recordSQL, row.args()...)
	return err
}

// recordSQL draws a transaction id before the entry draws its number, which horizon counts on: by itself an insert does so
// the other way round. Where other rows are written first they have drawn one.
var recordSQL = auditTable.insert + " WHERE pg_current_xact_id() IS NOT NULL"

// Record writes an entry about something that is not in the store.
func (s *Store) Record(ctx context.Context, e audit.Entry) error {
	return s.write(ctx, "record a change", func(ctx context.Context, c *pgxpool.Conn) error { return record(ctx, c, &e) })
}

const entryColumns = "seq, at, count, tenant, by_whom, role, key_id, origin, request, action, object, detail"

func scanEntry(r pgx.CollectableRow) (e audit.Entry, err error) {
	err = r.Scan(&e.Seq, at(&e.At), &e.Count, (*string)(&e.Tenant), &e.By, (*string)(&e.Role), &e.Key, &e.From, &e.Request, &e.Action, &e.Object, &e.Detail)
	return e, err
}

// auditChosen is all that is to hold for a filter of entries beside the tenant.
func auditChosen(f engine.AuditFilter, ps *params) (w string) {
	for _, c := range []struct{ column, value string }{{"by_whom", f.By}, {"key_id", f.Key}} {
		if c.value != "" {
			w += " AND " + c.column + " = " + ps.add(c.value)
		}
	}
	if _, err := job.ParseID(f.Object); err == nil { // which may be listed among others
		w += " AND (object = " + ps.add(f.Object) + " OR position(" + ps.add([]byte(" "+f.Object+" ")) + "::bytea IN detail) > 0)"
	} else if f.Object != "" {
		w += " AND object = " + ps.add(f.Object)
	}
	if n := len(f.Action); n > 0 && f.Action[n-1] == '.' {
		w += " AND starts_with(action, " + ps.add(f.Action) + ")"
	} else if n > 0 {
		w += " AND action = " + ps.add(f.Action)
	}
	if !f.From.IsZero() {
		w += " AND at >= " + ps.add(f.From)
	}
	if !f.Until.IsZero() {
		w += " AND at < " + ps.add(f.Until)
	}
	return w
}

// AuditEntries lists entries of a tenant, the latest first, and ends early where few of very many are chosen.
func (s *Store) AuditEntries(ctx context.Context, f engine.AuditFilter, p engine.Page) (engine.AuditPage, error) {
	l := listing[audit.Entry]{table: "audit", key: []string{"seq"}, scan: scanEntry}
	l.where = "tenant = " + l.params.add(string(f.Tenant))
	l.found = len(l.params)
	l.also = auditChosen(f, &l.params)
	l.read = func(where, limit string) string {
		return "SELECT " + entryColumns + " FROM audit WHERE " + where + " LIMIT " + limit
	}
	l.keys = func(at engine.Place, ps *params) string { return ps.add(at.Number()) }
	l.place = func(r pgx.Row) (engine.Place, error) {
		var seq int64
		err := r.Scan(&seq)
		return engine.NumberPlace(seq), err
	}
	out, err := listed(ctx, s, "list changes", p, func(e *audit.Entry) engine.Place { return engine.NumberPlace(e.Seq) }, l, nil)
	return engine.AuditPage{Entries: out.Rows, Next: out.Next, Partial: out.Partial, Total: out.Total}, err
}

// horizon is up to where all entries are decided, in three steps. Entries get their numbers in the order in which they are
// inserted, which is not the one in which they are committed. So a number is noted; after that, since whoever drew a smaller
// one had a transaction id before, the next transaction id; when all before that have ended, nothing can appear any more at
// or before the number.
type horizon struct {
	mu   sync.Mutex
	seq  int64 // guarded by mu: the number; 0: none is noted
	xid  int64 // guarded by mu: 0: not noted yet
	past int64 // guarded by mu: all at or before it are decided
}

func (h *horizon) look(ctx context.Context, c *pgxpool.Conn) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var last, oldest, next int64 // a sequence that gave out nothing yet has the first number as its last
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

// sealedAtOnce bounds how many entries one call seals.
const sealedAtOnce = 2000

// SealAudit seals entries that are not sealed yet and before which none can appear any more.
func (s *Store) SealAudit(ctx context.Context) (more bool, err error) {
	err = s.write(ctx, "seal changes", func(ctx context.Context, c *pgxpool.Conn) error {
		past, err := s.decided.look(ctx, c)
		if err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			more, err = seal(ctx, tx, past)
			return err
		})
	})
	return more, err
}

func seal(ctx context.Context, tx pgx.Tx, past int64) (more bool, err error) {
	var upto int64
	var now time.Time
	if err := tx.QueryRow(ctx, "SELECT upto, clock_timestamp() FROM audit_sealed FOR UPDATE").Scan(&upto, at(&now)); err != nil || past <= upto {
		return false, err
	}
	rows, _ := tx.Query(ctx, "SELECT "+entryColumns+" FROM audit WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3", upto, past, sealedAtOnce)
	es, err := pgx.CollectRows(rows, scanEntry)
	if err != nil {
		return false, err
	}
	of := map[tenant.ID][]audit.Entry{}
	for _, e := range es {
		of[e.Tenant] = append(of[e.Tenant], e)
	}
	q := &pgx.Batch{}
	for t, mine := range of {
		prev := audit.Seal{}
		var hash []byte
		err := tx.QueryRow(ctx, "SELECT number, hash FROM audit_seals WHERE tenant = $1 ORDER BY number DESC LIMIT 1", string(t)).Scan(&prev.Number, &hash)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return false, err
		}
		copy(prev.Hash[:], hash)
		x := audit.Close(prev, mine, now.UTC())
		q.Queue("INSERT INTO audit_seals (tenant, number, sealed_at, first, last, prev, hash, marks) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
			string(t), x.Number, x.At, x.First(), x.Last(), x.Prev[:], x.Hash[:], audit.EncodeMarks(x.Marks))
	}
	if more = len(es) == sealedAtOnce; more {
		past = es[len(es)-1].Seq
	}
	q.Queue("UPDATE audit_sealed SET upto = $1", past)
	return more, tx.SendBatch(ctx, q).Close()
}

// sealsSQL finds, with each seal, where the one before it ends: what lies between was put in later.
const sealsSQL = `
	SELECT number, sealed_at, prev, hash, marks, coalesce((SELECT p.last FROM audit_seals p WHERE p.tenant = s.tenant AND p.number = s.number - 1), 0) + 1, last
	FROM audit_seals s WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3`

// AuditSeals lists seals of a tenant from behind a number, with what is stored of their entries.
func (s *Store) AuditSeals(ctx context.Context, t tenant.ID, after int64, limit int) (out []engine.Sealed, err error) {
	err = s.look(ctx, "list seals", func(ctx context.Context, c *pgxpool.Conn) error {
		rows, _ := c.Query(ctx, sealsSQL, string(t), after, limit)
		var spans [][2]int64
		out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (x engine.Sealed, err error) {
			var prev, hash, marks []byte
			var span [2]int64
			x.Tenant = t
			err = r.Scan(&x.Number, at(&x.At), &prev, &hash, &marks, &span[0], &span[1])
			copy(x.Prev[:], prev)
			copy(x.Hash[:], hash)
			x.Marks = audit.DecodeMarks(marks)
			spans = append(spans, span)
			return x, err
		})
		if err != nil {
			return err
		}
		for i := range out {
			rows, _ := c.Query(ctx, "SELECT "+entryColumns+" FROM audit WHERE tenant = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq", string(t), spans[i][0], spans[i][1])
			if out[i].Entries, err = pgx.CollectRows(rows, scanEntry); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// StrayEntry is the first entry behind a place that would be in a seal by now.
func (s *Store) StrayEntry(ctx context.Context, t tenant.ID, after int64) (seq int64, err error) {
	err = s.look(ctx, "look for changes in no seal", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT coalesce((SELECT seq FROM audit WHERE tenant = $1 AND seq > $2 AND seq <= (SELECT upto FROM audit_sealed) ORDER BY seq LIMIT 1), 0)", string(t), after).Scan(&seq)
	})
	return seq, err
}

// Unsealed is how many entries of a tenant are not sealed yet.
func (s *Store) Unsealed(ctx context.Context, t tenant.ID) (n int64, err error) {
	err = s.look(ctx, "count changes", func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM audit WHERE tenant = $1 AND seq > (SELECT upto FROM audit_sealed)", string(t)).Scan(&n)
	})
	return n, err
}

// tidyAuditSQL drops the seals that are old enough, with their entries. The last one of a tenant stays: the next one follows it.
const tidyAuditSQL = `
	WITH old AS MATERIALIZED (
		SELECT tenant, number, first, last FROM audit_seals s WHERE sealed_at < now() - make_interval(secs => $1)
			AND EXISTS (SELECT 1 FROM audit_seals n WHERE n.tenant = s.tenant AND n.number = s.number + 1) ORDER BY sealed_at LIMIT $2
	), gone AS (
		DELETE FROM audit a USING old o WHERE a.tenant = o.tenant AND a.seq BETWEEN o.first AND o.last
	)
	DELETE FROM audit_seals s USING old o WHERE s.tenant = o.tenant AND s.number = o.number`
