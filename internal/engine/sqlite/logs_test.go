package sqlite

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// A log goes with the execution, whichever way that goes.
func TestTidyDropsLogsOfWhatIsGone(t *testing.T) {
	s := fresh(t)
	count := func() (n int) {
		t.Helper()
		if err := s.look(t.Context(), "count", func(c *conn) error {
			_, err := c.prepare("SELECT count(*) FROM logs").first(func(r *row) error { n = r.int(); return nil })
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := s.write(t.Context(), "log", func(c *conn, _ int64) error {
		for i := range 3 * walkedLogs {
			_, err := c.prepare("INSERT INTO logs (execution, token, first, upto, bytes, cut, attempt, tenant, data) VALUES (?, 1, 0, 1, 1, 0, 1, 'default', ?)").
				id([16]byte{byte(i >> 8), byte(i), 1}).bytes(engine.EncodeLog(nil)).exec()
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if want := max(0, 3-i) * walkedLogs; count() != want {
			t.Fatalf("%d chunks after %d passes, want %d", count(), i, want)
		}
		if _, err := s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
