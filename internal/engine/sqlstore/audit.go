package sqlstore

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	entryColumns = "seq, at, count, tenant, by_whom, role, key_id, origin, request, action, object, detail"
	auditTable   = "audit /*sqlite: INDEXED BY audit_tenant*/"

	unsealedSQL   = "SELECT " + entryColumns + " FROM audit WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3"
	lastSealSQL   = "SELECT number, hash FROM audit_seals WHERE tenant = $1 ORDER BY number DESC LIMIT 1"
	insertSealSQL = "INSERT INTO audit_seals (tenant, number, sealed_at, first, last, prev, hash, marks) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
	// sealsSQL finds, with each seal, where the one before it ends: an entry that lies between them was added later.
	sealsSQL = `
		SELECT number, sealed_at, prev, hash, marks, coalesce((SELECT p.last FROM audit_seals p WHERE p.tenant = s.tenant AND p.number = s.number - 1), 0) + 1, last
		FROM audit_seals s WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3`
	// sealedAtOnce is how many entries one call seals.
	sealedAtOnce = 2000
)

func scanEntry(r Row) (e audit.Entry, err error) {
	err = r.Scan(&e.Seq, &e.At, &e.Count, (*string)(&e.Tenant), &e.By, (*string)(&e.Role), &e.Key, &e.From, &e.Request, &e.Action, &e.Object, &e.Detail)
	return e, err
}

// Record stores an entry about something outside the store.
func (s auditLog) Record(ctx context.Context, e audit.Entry) error {
	return s.db.Write(ctx, "record a change", func(tx Tx) error { return tx.Record(&e) })
}

// AuditEntries lists entries of a tenant, newest first. It ends early if few of very many match.
func (s auditLog) AuditEntries(ctx context.Context, f engine.AuditFilter, p engine.Page) (engine.AuditPage, error) {
	l := listing[audit.Entry]{
		table: auditTable, columns: entryColumns, key: []string{"seq"}, at: "at", scan: scanEntry,
		keys: func(p engine.Place) []any { return []any{p.Number()} },
		place: func(r Row) (engine.Place, error) {
			var seq int64
			err := r.Scan(&seq)
			return engine.NumberPlace(seq), err
		},
	}
	l.where = "tenant = " + l.params.add(string(f.Tenant))
	l.indexed = len(l.params)
	l.also = auditConditions(f, &l.params)
	var out engine.Listed[audit.Entry]
	err := s.db.List(ctx, "list changes", func(tx Tx) (err error) {
		l.tx = tx
		out, err = engine.List(p, l, func(e *audit.Entry) engine.Place { return engine.NumberPlace(e.Seq) })
		return err
	})
	return engine.AuditPage{Entries: out.Rows, Next: out.Next, Partial: out.Partial, Total: out.Total}, err
}

// auditConditions returns a filter's conditions on entries besides the tenant.
func auditConditions(f engine.AuditFilter, ps *params) (w string) {
	for _, c := range []struct{ column, value string }{{"by_whom", f.By}, {"key_id", f.Key}} {
		if c.value != "" {
			w += " AND " + c.column + " = " + ps.add(c.value)
		}
	}
	if _, err := job.ParseID(f.Object); err == nil { // the detail may list further ids
		mark := ps.add([]byte(" " + f.Object + " "))
		w += " AND (object = " + ps.add(f.Object) + " OR /*postgres: position(" + mark + "::bytea IN detail)*//*sqlite: instr(detail, " + mark + ")*/ > 0)"
	} else if f.Object != "" {
		w += " AND object = " + ps.add(f.Object)
	}
	if n := len(f.Action); n > 0 && f.Action[n-1] == '.' {
		w += " AND substr(action, 1, " + ps.add(n) + ") = " + ps.add(f.Action)
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

// SealAudit seals unsealed entries before which none can appear any more.
func (s auditLog) SealAudit(ctx context.Context) (more bool, err error) {
	waiting := false
	err = s.db.Read(ctx, "look for changes to seal", func(tx Tx) (err error) {
		waiting, err = value[bool](tx, "SELECT true FROM audit WHERE seq > (SELECT upto FROM audit_sealed) LIMIT 1")
		return err
	})
	if err != nil || !waiting {
		return false, err
	}
	err = s.db.Write(ctx, "seal changes", func(tx Tx) (err error) {
		more, err = seal(tx)
		return err
	})
	return more, err
}

func seal(tx Tx) (more bool, err error) {
	settled, err := tx.Settled() // first: whatever this transaction writes would count as undecided
	if err != nil {
		return false, err
	}
	now, err := tx.Now()
	if err != nil {
		return false, err
	}
	upto, err := value[int64](tx, "SELECT upto FROM audit_sealed /*postgres: FOR UPDATE*/")
	if err != nil || settled <= upto {
		return false, err
	}
	entries, err := all(tx, scanEntry, unsealedSQL, upto, settled, sealedAtOnce)
	if err != nil {
		return false, err
	}
	var order []tenant.ID
	of := map[tenant.ID][]audit.Entry{}
	for _, e := range entries {
		if of[e.Tenant] == nil {
			order = append(order, e.Tenant)
		}
		of[e.Tenant] = append(of[e.Tenant], e)
	}
	var seals [][]any
	for _, t := range order {
		prev := audit.Seal{}
		err := tx.Query(func(r Row) error { return r.Scan(&prev.Number, (*[32]byte)(&prev.Hash)) }, lastSealSQL, string(t))
		if err != nil {
			return false, err
		}
		x := audit.Close(prev, of[t], now)
		seals = append(seals, []any{string(t), x.Number, x.At, x.First(), x.Last(), x.Prev[:], x.Hash[:], audit.EncodeMarks(x.Marks)})
	}
	if err := tx.ExecEach(insertSealSQL, seals); err != nil {
		return false, err
	}
	if more = len(entries) == sealedAtOnce; more {
		settled = entries[len(entries)-1].Seq
	}
	_, err = tx.Exec("UPDATE audit_sealed SET upto = $1", settled)
	return more, err
}

// AuditSeals lists seals of a tenant after a number, with their stored entries.
func (s auditLog) AuditSeals(ctx context.Context, t tenant.ID, after int64, limit int) (out []engine.Sealed, err error) {
	err = s.db.Read(ctx, "list seals", func(tx Tx) error {
		var spans [][2]int64
		out, err = all(tx, func(r Row) (x engine.Sealed, err error) {
			var marks []byte
			var span [2]int64
			x.Tenant = t
			err = r.Scan(&x.Number, &x.At, (*[32]byte)(&x.Prev), (*[32]byte)(&x.Hash), &marks, &span[0], &span[1])
			x.Marks = audit.DecodeMarks(marks)
			spans = append(spans, span)
			return x, err
		}, sealsSQL, string(t), after, limit)
		if err != nil {
			return err
		}
		for i := range out {
			out[i].Entries, err = all(tx, scanEntry, "SELECT "+entryColumns+" FROM "+auditTable+" WHERE tenant = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq", string(t), spans[i][0], spans[i][1])
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// StrayEntry returns the first entry after a position that should be in a seal by now, or 0.
func (s auditLog) StrayEntry(ctx context.Context, t tenant.ID, after int64) (seq int64, err error) {
	err = s.db.Read(ctx, "look for changes in no seal", func(tx Tx) (err error) {
		seq, err = value[int64](tx, "SELECT seq FROM "+auditTable+" WHERE tenant = $1 AND seq > $2 AND seq <= (SELECT upto FROM audit_sealed) ORDER BY seq LIMIT 1", string(t), after)
		return err
	})
	return seq, err
}

// Unsealed counts the entries of a tenant that are not sealed yet.
func (s auditLog) Unsealed(ctx context.Context, t tenant.ID) (n int64, err error) {
	err = s.db.Read(ctx, "count changes", func(tx Tx) (err error) {
		n, err = value[int64](tx, "SELECT count(*) FROM "+auditTable+" WHERE tenant = $1 AND seq > (SELECT upto FROM audit_sealed)", string(t))
		return err
	})
	return n, err
}
