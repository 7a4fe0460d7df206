package sqlite

import (
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	insertEntrySQL = `
		INSERT INTO audit (at, count, tenant, by_whom, role, key_id, origin, request, action, object, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	oldSealsSQL = `
		SELECT tenant, number, first, last FROM audit_seals s INDEXED BY audit_seals_age
		WHERE sealed_at < ? AND EXISTS (SELECT 1 FROM audit_seals n WHERE n.tenant = s.tenant AND n.number = s.number + 1) ORDER BY sealed_at LIMIT ?`
)

// record writes an entry, if there is one.
func record(c *conn, e *audit.Entry) error {
	if e == nil {
		return nil
	}
	_, err := c.prepare(insertEntrySQL).at(e.At).int(int64(e.Count)).text(string(e.Tenant)).text(e.By).text(string(e.Role)).text(e.Key).text(e.From).
		text(e.Request).text(e.Action).text(e.Object).bytes(e.Detail).exec()
	return err
}

// tidyAudit drops seals that are old enough, with their entries; a tenant's last one stays: the next one follows it.
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
