package sqlite

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	insertEntrySQL = `
		INSERT INTO audit (at, count, tenant, by_whom, role, key_id, origin, request, action, object, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	entryColumns  = "seq, at, count, tenant, by_whom, role, key_id, origin, request, action, object, detail"
	lastSealSQL   = "SELECT number, hash FROM audit_seals WHERE tenant = ? ORDER BY number DESC LIMIT 1"
	insertSealSQL = "INSERT INTO audit_seals (tenant, number, sealed_at, first, last, prev, hash, marks) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
	oldSealsSQL   = `
		SELECT tenant, number, first, last FROM audit_seals s INDEXED BY audit_seals_age
		WHERE sealed_at < ? AND EXISTS (SELECT 1 FROM audit_seals n WHERE n.tenant = s.tenant AND n.number = s.number + 1) ORDER BY sealed_at LIMIT ?`
)

// record writes an entry.
func record(c *conn, e *audit.Entry) error {
	_, err := c.prepare(insertEntrySQL).at(e.At).int(int64(e.Count)).text(string(e.Tenant)).text(e.By).text(string(e.Role)).text(e.Key).text(e.From).
		text(e.Request).text(e.Action).text(e.Object).bytes(e.Detail).exec()
	return err
}

// recordPending writes the entry that the context brings, unless nothing was changed.
func recordPending(c *conn, p *engine.Pending) error {
	if p == nil {
		return nil
	}
	e, ok := p.Entry()
	if !ok {
		return nil
	}
	return record(c, &e)
}

// Record writes an entry about something that is not in the store.
func (s *Store) Record(ctx context.Context, e audit.Entry) error {
	return s.write(ctx, "record a change", func(c *conn, _ int64) error { return record(c, &e) })
}

func readEntry(r *row) audit.Entry {
	return audit.Entry{
		Seq: r.int64(), At: r.at(), Count: r.int(), Tenant: tenant.ID(r.text()), By: r.text(), Role: tenant.Role(r.text()), Key: r.text(), From: r.text(),
		Request: r.text(), Action: r.text(), Object: r.text(), Detail: r.bytes(),
	}
}

func auditWhere(f engine.AuditFilter) *where {
	w := &where{}
	w.and("tenant = ?", text(string(f.Tenant)))
	for _, c := range []struct{ column, value string }{{"by_whom", f.By}, {"key_id", f.Key}} {
		if c.value != "" {
			w.and(c.column+" = ?", text(c.value))
		}
	}
	if _, err := job.ParseID(f.Object); err == nil { // which may be listed among others
		w.and("(object = ? OR instr(detail, CAST(? AS BLOB)) > 0)", text(f.Object), text(" "+f.Object+" "))
	} else if f.Object != "" {
		w.and("object = ?", text(f.Object))
	}
	if n := len(f.Action); n > 0 && f.Action[n-1] == '.' {
		w.and("substr(action, 1, ?) = ?", number(int64(n)), text(f.Action))
	} else if n > 0 {
		w.and("action = ?", text(f.Action))
	}
	if !f.From.IsZero() {
		w.and("at >= ?", number(f.From.UnixMicro()))
	}
	if !f.Until.IsZero() {
		w.and("at < ?", number(f.Until.UnixMicro()))
	}
	return w
}

// AuditEntries lists entries of a tenant, the latest first, and ends early where few of very many are chosen.
func (s *Store) AuditEntries(ctx context.Context, f engine.AuditFilter, p engine.Page) (engine.AuditPage, error) {
	index := &where{}
	index.and("tenant = ?", text(string(f.Tenant)))
	var out engine.Listed[audit.Entry]
	err := s.look(ctx, "list changes", func(c *conn) (err error) {
		out, err = engine.List(p, listing[audit.Entry]{
			c: c, table: "audit INDEXED BY audit_tenant", index: index, all: auditWhere(f), columns: entryColumns, key: []string{"seq"}, at: "at",
			read: func(r *row) (audit.Entry, error) { return readEntry(r), nil }, keys: func(p engine.Place) []func(*stmt) { return []func(*stmt){number(p.Number())} },
			place: func(r *row) engine.Place { return engine.NumberPlace(r.int64()) },
		}, func(e *audit.Entry) engine.Place { return engine.NumberPlace(e.Seq) })
		return err
	})
	return engine.AuditPage{Entries: out.Rows, Next: out.Next, Partial: out.Partial, Total: out.Total}, err
}

// sealedAtOnce bounds how many entries one call seals.
const sealedAtOnce = 2000

// SealAudit seals entries that are not sealed yet. There is one writer, so that none can appear before another.
func (s *Store) SealAudit(ctx context.Context) (more bool, err error) {
	var upto, last int64
	err = s.look(ctx, "look for changes to seal", func(c *conn) error {
		if _, err := c.prepare("SELECT upto FROM audit_sealed").first(func(r *row) error { upto = r.int64(); return nil }); err != nil {
			return err
		}
		_, err := c.prepare("SELECT coalesce(max(seq), 0) FROM audit").first(func(r *row) error { last = r.int64(); return nil })
		return err
	})
	if err != nil || last <= upto {
		return false, err
	}
	err = s.write(ctx, "seal changes", func(c *conn, now int64) error {
		more, err = seal(c, time.UnixMicro(now).UTC())
		return err
	})
	return more, err
}

func seal(c *conn, now time.Time) (more bool, err error) {
	var order []tenant.ID
	of := map[tenant.ID][]audit.Entry{}
	n, last := 0, int64(0)
	err = c.prepare("SELECT " + entryColumns + " FROM audit WHERE seq > (SELECT upto FROM audit_sealed) ORDER BY seq LIMIT ?").int(sealedAtOnce).each(func(r *row) error {
		e := readEntry(r)
		if of[e.Tenant] == nil {
			order = append(order, e.Tenant)
		}
		of[e.Tenant] = append(of[e.Tenant], e)
		n, last = n+1, e.Seq
		return nil
	})
	if err != nil || n == 0 {
		return false, err
	}
	for _, t := range order {
		prev := audit.Seal{}
		_, err := c.prepare(lastSealSQL).text(string(t)).first(func(r *row) error {
			prev.Number = r.int64()
			copy(prev.Hash[:], r.bytes())
			return nil
		})
		if err != nil {
			return false, err
		}
		x := audit.Close(prev, of[t], now)
		_, err = c.prepare(insertSealSQL).text(string(t)).int(x.Number).at(x.At).int(x.First()).int(x.Last()).bytes(x.Prev[:]).bytes(x.Hash[:]).bytes(audit.EncodeMarks(x.Marks)).exec()
		if err != nil {
			return false, err
		}
	}
	_, err = c.prepare("UPDATE audit_sealed SET upto = ?").int(last).exec()
	return n == sealedAtOnce, err
}

// sealsSQL finds, with each seal, where the one before it ends: what lies between was put in later.
const sealsSQL = `
	SELECT number, sealed_at, prev, hash, marks, coalesce((SELECT p.last FROM audit_seals p WHERE p.tenant = s.tenant AND p.number = s.number - 1), 0) + 1, last
	FROM audit_seals s WHERE tenant = ? AND number > ? ORDER BY number LIMIT ?`

// AuditSeals lists seals of a tenant from behind a number, with what is stored of their entries.
func (s *Store) AuditSeals(ctx context.Context, t tenant.ID, after int64, limit int) (out []engine.Sealed, err error) {
	err = s.look(ctx, "list seals", func(c *conn) error {
		var spans [][2]int64
		err := c.prepare(sealsSQL).
			text(string(t)).int(after).int(int64(limit)).each(func(r *row) error {
			x := engine.Sealed{Seal: audit.Seal{Tenant: t, Number: r.int64(), At: r.at()}}
			copy(x.Prev[:], r.bytes())
			copy(x.Hash[:], r.bytes())
			x.Marks = audit.DecodeMarks(r.bytes())
			out, spans = append(out, x), append(spans, [2]int64{r.int64(), r.int64()})
			return nil
		})
		if err != nil {
			return err
		}
		for i := range out {
			err := c.prepare("SELECT " + entryColumns + " FROM audit INDEXED BY audit_tenant WHERE tenant = ? AND seq BETWEEN ? AND ? ORDER BY seq").
				text(string(t)).int(spans[i][0]).int(spans[i][1]).each(func(r *row) error {
				out[i].Entries = append(out[i].Entries, readEntry(r))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// StrayEntry is the first entry behind a place that would be in a seal by now.
func (s *Store) StrayEntry(ctx context.Context, t tenant.ID, after int64) (seq int64, err error) {
	err = s.look(ctx, "look for changes in no seal", func(c *conn) error {
		_, err := c.prepare("SELECT seq FROM audit INDEXED BY audit_tenant WHERE tenant = ? AND seq > ? AND seq <= (SELECT upto FROM audit_sealed) ORDER BY seq LIMIT 1").text(string(t)).int(after).
			first(func(r *row) error { seq = r.int64(); return nil })
		return err
	})
	return seq, err
}

// Unsealed is how many entries of a tenant are not sealed yet.
func (s *Store) Unsealed(ctx context.Context, t tenant.ID) (n int64, err error) {
	err = s.look(ctx, "count changes", func(c *conn) error {
		_, err := c.prepare("SELECT count(*) FROM audit INDEXED BY audit_tenant WHERE tenant = ? AND seq > (SELECT upto FROM audit_sealed)").text(string(t)).
			first(func(r *row) error { n = r.int64(); return nil })
		return err
	})
	return n, err
}

// tidyAudit drops seals that are old enough, with their entries; the last one of a tenant stays: the next one follows it.
func tidyAudit(c *conn, now int64) (more bool, err error) {
	type old struct {
		tenant              string
		number, first, last int64
	}
	var all []old
	err = c.prepare(oldSealsSQL).int(now - engine.AuditLife.Microseconds()).int(engine.TidiedSeals).each(func(r *row) error {
		all = append(all, old{r.text(), r.int64(), r.int64(), r.int64()})
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, o := range all {
		if _, err := c.prepare("DELETE FROM audit WHERE tenant = ? AND seq BETWEEN ? AND ?").text(o.tenant).int(o.first).int(o.last).exec(); err != nil {
			return false, err
		}
		if _, err := c.prepare("DELETE FROM audit_seals WHERE tenant = ? AND number = ?").text(o.tenant).int(o.number).exec(); err != nil {
			return false, err
		}
	}
	return len(all) == engine.TidiedSeals, nil
}
