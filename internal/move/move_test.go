package move

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	sqlitedriver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

type silent struct{}

func (silent) Begin(string, int, func() int) {}
func (silent) End()                          {}

var now = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// stores are a new embedded store, the path of its file, and a new database with its schema.
func stores(t *testing.T) (from *sqlite.Store, path string, to *postgres.Store, url string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "c.db")
	from, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err == nil {
		err = from.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close() })
	url = postgrestest.URL(t)
	to, err = postgres.Open(t.Context(), postgres.Config{URL: url})
	if err == nil {
		err = to.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	return from, path, to, url
}

// sample is a value for a column that fits where it goes. A new column that needs another one says so by failing here.
func sample(table, column, kind string, n int) any {
	switch table + "." + column {
	case "jobs.spec":
		j := job.Job{}
		j.Retry.MaxRetries = 4
		return engine.EncodeSpec(&j)
	case "live.group_limits":
		return []byte("\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x0f\x42\x40\x00\x00\x00\x00\x00\x00\x00\x00")
	case "leases.ids":
		return []byte(strings.Repeat("i", 32))
	case "secrets.job":
		return []byte(fmt.Sprintf("id-%-13d", n)) // of a job that is there
	case "executions.finished_at":
		return now.AddDate(0, 0, -40*n).UnixMicro()
	}
	switch {
	case slices.Contains([]string{"tags", "labels", "queues", "targets", "kinds"}, column) && kind != "BLOB":
		return `["a b", "ü\"<", "c"]`
	case strings.HasSuffix(column, "_at") || column == "at" || column == "since" || strings.HasSuffix(column, "_until"):
		return now.Add(time.Duration(n) * 1234567 * time.Microsecond).UnixMicro()
	case kind == "BLOB":
		return []byte(fmt.Sprintf("id-%-13d", n))
	case kind == "TEXT":
		return fmt.Sprintf("text %d \U0001F600", n)
	case kind == "REAL":
		return float64(n) + 0.25
	}
	return n % 2 // also for what is true or false there
}

// few are the tables that hold few rows, and how many more there may be than are there from the beginning.
var few = map[string]int{"watched": 1, "audit_sealed": 0, "archive_turn": 0}

// fillRows puts rows with a value in every column, and rows with as many NULLs as there may be, into every table.
func fillRows(t *testing.T, path string) {
	t.Helper()
	c, err := sqlitedriver.OpenConn(path, sqlitedriver.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	type column struct {
		name, kind string
		must, pk   bool
	}
	tables := map[string][]column{}
	err = sqlitex.Execute(c, "SELECT t.name, i.name, i.type, i.\"notnull\" OR i.pk > 0, i.pk > 0 FROM sqlite_schema t, pragma_table_info(t.name) i WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlitedriver.Stmt) error {
			tables[s.ColumnText(0)] = append(tables[s.ColumnText(0)], column{s.ColumnText(1), s.ColumnText(2), s.ColumnBool(3), s.ColumnBool(4)})
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for table, columns := range tables {
		if _, stays := left[table]; stays {
			continue
		}
		rows := 3
		if n, ok := few[table]; ok {
			rows = n
		}
		keys := 0
		for _, x := range columns {
			if x.pk {
				keys++
			}
		}
		for n := 1; n <= rows; n++ {
			var names, marks []string
			var args []any
			for _, x := range columns {
				if n == 2 && !x.must {
					continue
				}
				names, marks = append(names, x.name), append(marks, "?")
				if x.pk && keys == 1 && x.kind == "INTEGER" {
					args = append(args, n)
					continue
				}
				args = append(args, sample(table, x.name, x.kind, n))
			}
			sql := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(names, ", "), strings.Join(marks, ", "))
			if err := sqlitex.Execute(c, sql, &sqlitex.ExecOptions{Args: args}); err != nil {
				t.Fatalf("%s: %v; give it a value in sample", sql, err)
			}
		}
	}
}

// addNumbered adds a table that numbers its rows.
func addNumbered(t *testing.T, path string, c *pgx.Conn) {
	t.Helper()
	from, err := sqlitedriver.OpenConn(path, sqlitedriver.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := sqlitex.ExecuteScript(from, "CREATE TABLE numbered (seq INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT) STRICT", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "CREATE TABLE numbered (seq bigint GENERATED BY DEFAULT AS IDENTITY, v text)"); err != nil {
		t.Fatal(err)
	}
}

// Every table and column of the embedded store has a place in PostgreSQL, and every value arrives there.
func TestEverythingMoves(t *testing.T) {
	from, path, to, url := stores(t)
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	addNumbered(t, path, c)
	fillRows(t, path)
	rehearsed, err := Rehearse(t.Context(), from, to, now, silent{})
	if err != nil {
		t.Fatal(err)
	}
	moved, err := Run(t.Context(), from, to, now, silent{}) // into what is empty still
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(moved, rehearsed) {
		t.Errorf("rehearsed %+v\nmoved %+v", rehearsed, moved)
	}
	for _, m := range moved {
		want := int64(3)
		switch m.Table {
		case "watched", "audit_sealed", "archive_turn":
			want = 1
		case "tenants":
			want = 4 // with the one that is always there
		}
		if m.Rows != want || len(m.Checksum) != 32 {
			t.Errorf("%s: %+v, want %d rows", m.Table, m, want)
		}
	}
	for sql, want := range map[string]string{
		"SELECT string_agg(max_attempts::text, ',' ORDER BY max_attempts) FROM jobs":                                          "5,5,5",
		"SELECT tags::text FROM jobs WHERE id::text LIKE '69642d31%'":                                                         `{"a b","ü\"<",c}`,
		"SELECT count(*)::text FROM live WHERE group_max = 2 AND rate_count = 3 AND rate_us = 1000000 AND rate_burst IS NULL": "2",
		"SELECT string_agg(deposed::text, ',') FROM sessions":                                                                 "true,true,true",
		"SELECT count(DISTINCT tableoid)::text FROM executions":                                                               "3",
		"SELECT (last_value >> 40)::text FROM tokens":                                                                         "319",
		"INSERT INTO numbered (v) VALUES ('next') RETURNING seq::text":                                                        "4",
		"SELECT array_length(ids, 1)::text FROM leases LIMIT 1":                                                               "2",
	} {
		var got string
		if err := c.QueryRow(t.Context(), sql).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", sql, got, err, want)
		}
	}
	if _, err := Run(t.Context(), from, to, now, silent{}); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("into what is not empty: %v", err)
	}
}

// broken is a source that breaks off.
type broken struct {
	engine.RowSource
	table string
}

var errBroken = errors.New("the disk is gone")

func (b broken) ReadRows(ctx context.Context, table string, columns []string, size int, f func([][]any) error) error {
	if table == b.table {
		return errBroken
	}
	return b.RowSource.ReadRows(ctx, table, columns, size, f)
}

// short is a source that says that it has more than it gives.
type short struct{ engine.RowSource }

func (s short) CountRows(ctx context.Context, table string) (int64, error) {
	n, err := s.RowSource.CountRows(ctx, table)
	return n + 1, err
}

// What breaks off has not been, and is begun again.
func TestAMoveIsWholeOrHasNotBeen(t *testing.T) {
	from, path, to, _ := stores(t)
	fillRows(t, path)
	if _, err := Run(t.Context(), broken{from, "schedules"}, to, now, silent{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if _, err := Run(t.Context(), short{from}, to, now, silent{}); err == nil || !strings.Contains(err.Error(), "nothing was moved") {
		t.Errorf("rows that are missing: %v", err)
	}
	if _, err := Run(t.Context(), from, to, now, silent{}); err != nil {
		t.Errorf("begun anew: %v", err)
	}
}

func TestSchemasThatDoNotFit(t *testing.T) {
	col := func(names ...string) (out []engine.RowColumn) {
		for _, n := range names {
			name, needed := strings.CutSuffix(n, "!")
			out = append(out, engine.RowColumn{Name: name, Needed: needed})
		}
		return out
	}
	_, err := plan([]engine.RowTable{{Name: "a", Columns: col("x", "y")}, {Name: "b"}, {Name: "orders"}}, []engine.RowTable{{Name: "a", Columns: col("x", "z!", "w")}})
	for _, say := range []string{"no column a.y", "what a.z is to be", "no table b"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("it does not say %q: %v", say, err)
		}
	}
	if err != nil && (strings.Contains(err.Error(), "orders") || strings.Contains(err.Error(), "a.w")) {
		t.Errorf("it says too much: %v", err)
	}
}
