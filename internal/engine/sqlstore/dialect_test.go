package sqlstore

import "testing"

func TestDialects(t *testing.T) {
	const sql = "SELECT a /*sqlite: INDEXED BY i*/FROM t WHERE b = $1/*postgres: ::text*/ AND c = $12 /*both leave this out*/LIMIT 1/*postgres:  FOR UPDATE*/"
	for d, want := range map[*Dialect]string{
		PostgreSQL: "SELECT a FROM t WHERE b = $1::text AND c = $12 LIMIT 1 FOR UPDATE",
		SQLite:     "SELECT a INDEXED BY iFROM t WHERE b = ?1 AND c = ?12 LIMIT 1",
	} {
		if got := d.Text(sql); got != want {
			t.Errorf("%s: %q, want %q", d.name, got, want)
		}
		if again := d.Text(sql); again != want {
			t.Errorf("%s: %q the second time", d.name, again)
		}
	}
}
