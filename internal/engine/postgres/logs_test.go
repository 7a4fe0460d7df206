package postgres

import "testing"

// A log goes with the execution, whichever way that goes.
func TestTidyDropsLogsOfWhatIsGone(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	exec(t, c, `INSERT INTO logs (execution, token, first, upto, bytes, cut, attempt, tenant, data)
		SELECT gen_random_uuid(), 1, 0, 1, 1, false, 1, 'default', '' FROM generate_series(1, $1)`, 2*tidiedLogs)
	for i := range 3 {
		if got, want := one[int](t, c, "SELECT count(*) FROM logs"), max(0, 2-i)*tidiedLogs; got != want {
			t.Fatalf("%d chunks after %d passes, want %d", got, i, want)
		}
		if _, err := s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
