package sqlite

import (
	"context"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	fileSizeSQL = `
		SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size),
			(SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size)`
	countedInSizes = 100_000 // of each table; takes a few milliseconds
)

// Sizes returns the size of the file, and the number of rows of its tables. The bytes of each table could only be
// determined by reading the whole file.
func (s *reads) Sizes(ctx context.Context) (out engine.Sizes, err error) {
	err = s.look(ctx, "measure the store", func(c *conn) error {
		out = engine.Sizes{}
		if _, err := c.prepare(fileSizeSQL).first(func(r *row) error { out.Bytes, out.Free = r.int64(), r.int64(); return nil }); err != nil {
			return err
		}
		for _, name := range engine.SizedTables {
			t := engine.TableSize{Name: name, Bytes: -1}
			_, err := c.prepare("SELECT count(*) FROM (SELECT 1 FROM " + name + " LIMIT ?)").int(countedInSizes + 1).first(func(r *row) error {
				t.Rows.Count = r.int64()
				return nil
			})
			if err != nil {
				return err
			}
			if t.Rows.Count > countedInSizes {
				t.Rows = engine.Total{Count: countedInSizes, Estimate: true}
			}
			out.Tables = append(out.Tables, t)
		}
		return nil
	})
	return out, err
}
