package sqlite

import (
	"context"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/carillon-jobs/carillon/internal/engine"
)

var _ engine.RowSource = (*Store)(nil)

// RowTables lists the tables.
func (s *Store) RowTables(ctx context.Context) (out []engine.RowTable, err error) {
	err = peek(ctx, s.path, "list the tables", func(c *conn) error {
		names, err := tableNames(c)
		if err != nil {
			return err
		}
		for _, name := range names {
			t := engine.RowTable{Name: name}
			err := c.prepare("SELECT name, \"notnull\", dflt_value IS NOT NULL FROM pragma_table_info(?)").text(name).each(func(r *row) error {
				t.Columns = append(t.Columns, engine.RowColumn{Name: r.text(), Needed: r.bool() && !r.bool()})
				return nil
			})
			if err != nil {
				return err
			}
			out = append(out, t)
		}
		return nil
	})
	return out, err
}

// CountRows counts the rows of a table.
func (s *Store) CountRows(ctx context.Context, table string) (n int64, err error) {
	err = peek(ctx, s.path, "count "+table, func(c *conn) error {
		_, err := c.prepare("SELECT count(*) FROM " + quoted(table)).first(func(r *row) error { n = r.int64(); return nil })
		return err
	})
	return n, err
}

// ReadRows reads a table in one snapshot, on a separate connection: it may take long.
func (s *Store) ReadRows(ctx context.Context, table string, columns []string, size int, f func(rows [][]any) error) error {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = quoted(c)
	}
	return peek(ctx, s.path, "read "+table, func(c *conn) error {
		batch := make([][]any, 0, size)
		err := c.prepare(fmt.Sprintf("SELECT %s FROM %s", strings.Join(names, ", "), quoted(table))).each(func(r *row) error {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = r.any()
			}
			if batch = append(batch, values); len(batch) < size {
				return nil
			}
			err := f(batch)
			batch = make([][]any, 0, size)
			return err
		})
		if err == nil && len(batch) > 0 {
			err = f(batch)
		}
		return err
	})
}

// any reads a column in its stored type.
func (r *row) any() any {
	i := r.next()
	switch r.on.ColumnType(i) {
	case sqlite.TypeInteger:
		return r.on.ColumnInt64(i)
	case sqlite.TypeFloat:
		return r.on.ColumnFloat(i)
	case sqlite.TypeText:
		return r.on.ColumnText(i)
	case sqlite.TypeBlob:
		b := make([]byte, r.on.ColumnLen(i))
		r.on.ColumnBytes(i, b)
		return b
	default:
		return nil
	}
}

// Retire closes the store and renames its file, so that no server fires what is now fired elsewhere. It returns the
// new name.
func (s *Store) Retire(to string) (string, error) {
	to = s.path + to
	if err := s.Close(); err != nil {
		return "", err
	}
	lock, err := acquire(s.path + ".lock") // which closing gave back
	if err != nil {
		return "", err
	}
	defer lock.Close()
	return to, setAside(s.path, to)
}
