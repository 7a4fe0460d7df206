package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/carillon-jobs/carillon/internal/engine"
)

var _ engine.RowSink = (*Store)(nil)

// seeded lists the rows that migrations and connections create, and that a fill or the next connection creates again.
var seeded = map[string]string{"tenants": "id = 'default'", "audit_sealed": "upto = 0", "installation": "name = 'lineage'", "archive_turn": "one"}

// ours are tables about the servers of the database, and about the storage of what others know as rows of live; a
// fill leaves them alone.
var ours = []string{"bundles", "servers", "partitions", "limit_shares", "carillon_migrations"}

// Fill fills the database in one transaction. Meanwhile no server can begin to use it, because it holds the lock of
// migrations and those of the tables.
func (s *Store) Fill(ctx context.Context, f func(engine.RowTarget) error) error {
	const doing = "fill the database"
	cfg := s.admin.Copy()
	cfg.RuntimeParams["statement_timeout"] = "0"
	cfg.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return translate(doing, err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	if err := setLockTimeout(ctx, c, tableWait); err != nil {
		return translate(doing, err)
	}
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1, hashtext(current_schema()))", migrationLock); err != nil {
		return translate(doing+": wait for another process that migrates it", err)
	}
	return translate(doing, pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		t := &filling{tx: tx}
		if err := t.begin(ctx); err != nil {
			return err
		}
		if err := f(t); err != nil {
			return err
		}
		return t.advance(ctx)
	}))
}

// advance makes identity columns continue after the inserted rows.
func (t *filling) advance(ctx context.Context) error {
	rows, err := t.tx.Query(ctx, `
		SELECT c.relname, a.attname, s.oid::regclass::text FROM pg_depend d
		JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
		JOIN pg_class c ON c.oid = d.refobjid AND c.relnamespace = current_schema()::regnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
		WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')`)
	if err != nil {
		return err
	}
	type numbered struct{ table, column, sequence string }
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (n numbered, err error) {
		err = r.Scan(&n.table, &n.column, &n.sequence)
		return n, err
	})
	if err != nil {
		return err
	}
	for _, n := range all {
		last := fmt.Sprintf("SELECT setval($1::regclass, max(%s)) FROM %s HAVING count(*) > 0", pgx.Identifier{n.column}.Sanitize(), pgx.Identifier{n.table}.Sanitize())
		if _, err := t.tx.Exec(ctx, last, n.sequence); err != nil {
			return err
		}
	}
	return nil
}

// filling is a database that is being filled.
type filling struct {
	tx     pgx.Tx
	tables []engine.RowTable
	types  map[string]map[string]string // by table and column
	days   map[string]bool              // that have a table
}

// begin finds the tables, locks them, and checks that they are empty.
func (t *filling) begin(ctx context.Context) error {
	t.types, t.days = map[string]map[string]string{}, map[string]bool{}
	rows, err := t.tx.Query(ctx, `
		SELECT c.relname, a.attname, format_type(a.atttypid, NULL), a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS needed
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> ALL ($1)
		ORDER BY c.relname, a.attnum`, ours)
	if err != nil {
		return err
	}
	var table, column, kind string
	var needed bool
	_, err = pgx.ForEachRow(rows, []any{&table, &column, &kind, &needed}, func() error {
		if t.types[table] == nil {
			t.types[table] = map[string]string{}
			t.tables = append(t.tables, engine.RowTable{Name: table})
		}
		t.types[table][column] = kind
		last := &t.tables[len(t.tables)-1]
		last.Columns = append(last.Columns, engine.RowColumn{Name: column, Texts: kind == "text[]", Needed: needed})
		return nil
	})
	if err != nil {
		return err
	}
	var live int
	if err := t.tx.QueryRow(ctx, "SELECT count(*) FROM servers WHERE NOT deposed AND expires_at > now()").Scan(&live); err != nil {
		return err
	}
	if live > 0 {
		return fmt.Errorf("%w: servers run on it; stop them first", engine.ErrConflict)
	}
	for _, table := range t.tables {
		if err := t.empty(ctx, table.Name); err != nil {
			return err
		}
	}
	return nil
}

// empty locks a table and checks that it holds nothing but what migrations put there, which it removes.
func (t *filling) empty(ctx context.Context, table string) error {
	name := pgx.Identifier{table}.Sanitize()
	if _, err := t.tx.Exec(ctx, "LOCK TABLE "+name+" IN EXCLUSIVE MODE"); err != nil {
		return err
	}
	if what, ok := seeded[table]; ok {
		if _, err := t.tx.Exec(ctx, "DELETE FROM "+name+" WHERE "+what); err != nil {
			return err
		}
	}
	var some bool
	if err := t.tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+name+")").Scan(&some); err != nil {
		return err
	}
	if some {
		return fmt.Errorf("%w: the table %s has rows; want a database, or a schema of one, in which no server has run", engine.ErrConflict, table)
	}
	return nil
}

// RowTables lists the tables that can be filled.
func (t *filling) RowTables(context.Context) ([]engine.RowTable, error) { return t.tables, nil }

// CountRows counts the rows of a table.
func (t *filling) CountRows(ctx context.Context, table string) (n int64, err error) {
	err = t.tx.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()).Scan(&n)
	return n, err
}

// PutRows adds rows by COPY.
func (t *filling) PutRows(ctx context.Context, table string, columns []string, rows [][]any) error {
	kinds := make([]string, len(columns))
	for i, c := range columns {
		kinds[i] = t.types[table][c]
	}
	if i := slices.Index(columns, "finished_at"); table == "executions" && i >= 0 {
		if err := t.makeDays(ctx, rows, i); err != nil {
			return err
		}
	}
	n := -1
	_, err := t.tx.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		if n++; n == len(rows) {
			return nil, nil
		}
		out := make([]any, len(columns))
		for i, v := range rows[n] {
			var err error
			if out[i], err = converted(v, kinds[i]); err != nil {
				return nil, fmt.Errorf("%s.%s: %w", table, columns[i], err)
			}
		}
		return out, nil
	}))
	return err
}

// makeDays creates the tables of the days on which executions finished.
func (t *filling) makeDays(ctx context.Context, rows [][]any, column int) error {
	for _, r := range rows {
		us, _ := r[column].(int64)
		day := time.UnixMicro(us).UTC().Truncate(24 * time.Hour)
		if t.days[dayTable(day)] {
			continue
		}
		if err := makeDay(ctx, t.tx, day); err != nil {
			return fmt.Errorf("make table %s: %w", dayTable(day), err)
		}
		t.days[dayTable(day)] = true
	}
	return nil
}

// converted returns a value in the driver's form of a type.
func converted(v any, kind string) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch x := v.(type) {
	case int64:
		switch kind {
		case "timestamp with time zone":
			return time.UnixMicro(x).UTC(), nil
		case "boolean":
			return x != 0, nil
		case "smallint", "integer", "bigint":
			return x, nil
		case "numeric":
			return pgtype.Numeric{Int: big.NewInt(x), Valid: true}, nil
		case "double precision":
			return float64(x), nil
		}
	case float64:
		if kind == "double precision" {
			return x, nil
		}
	case string:
		switch kind {
		case "text", "jsonb", "json":
			return x, nil
		case "bytea":
			return []byte(x), nil
		case "text[]":
			var list []string
			err := json.Unmarshal([]byte(x), &list)
			return list, err
		}
	case []byte:
		switch kind {
		case "bytea":
			return x, nil
		case "uuid":
			if len(x) == 16 {
				return [16]byte(x), nil
			}
		case "uuid[]":
			ids := make([]pgtype.UUID, 0, len(x)/16)
			for id := range slices.Chunk(x, 16) {
				if len(id) != 16 {
					break
				}
				ids = append(ids, pgtype.UUID{Bytes: [16]byte(id), Valid: true})
			}
			return ids, nil
		}
	}
	return nil, fmt.Errorf("a value of type %T does not go into a column of type %s", v, kind)
}

// lying returns an expression for a column in the form in which rows travel.
func lying(column, kind string) string {
	c := pgx.Identifier{column}.Sanitize()
	switch kind {
	case "timestamp with time zone":
		return "(extract(epoch FROM " + c + ") * 1000000)::int8"
	case "boolean":
		return c + "::int::int8"
	case "smallint", "integer", "numeric":
		return c + "::int8"
	case "uuid":
		return "uuid_send(" + c + ")"
	case "uuid[]":
		return "decode(replace(array_to_string(" + c + ", ''), '-', ''), 'hex')"
	case "text[]":
		return "array_to_json(" + c + ")::text"
	case "json", "jsonb":
		return c + "::text"
	}
	return c
}

// ReadRows reads back the inserted rows.
func (t *filling) ReadRows(ctx context.Context, table string, columns []string, size int, f func(rows [][]any) error) error {
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = lying(c, t.types[table][c])
	}
	rows, err := t.tx.Query(ctx, fmt.Sprintf("SELECT %s FROM %s", strings.Join(values, ", "), pgx.Identifier{table}.Sanitize()))
	if err != nil {
		return err
	}
	defer rows.Close()
	batch := make([][]any, 0, size)
	for rows.Next() {
		r, err := rows.Values()
		if err != nil {
			return err
		}
		if batch = append(batch, r); len(batch) == size {
			if err := f(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(batch) > 0 {
		return f(batch)
	}
	return nil
}

// BeginEpoch makes tokens be drawn from an epoch on.
func (t *filling) BeginEpoch(ctx context.Context, epoch int64) error {
	_, err := t.tx.Exec(ctx, "SELECT setval('tokens', $1, false)", engine.FirstToken(epoch))
	return err
}
