package postgres

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// due returns how many executions are due and have not finished.
func due(t testing.TB, s *Store) (n int) {
	t.Helper()
	for _, k := range must[map[engine.DueKey]int](t)(s.CountDue(t.Context())) {
		n += k
	}
	return n
}

const waitSQL = `
	INSERT INTO live (lane, group_key, due_at, scheduled_at, nonce, id, job, max_attempts, part, priority, trigger, tally, tenant, class, timeout_ms)
	SELECT (i % 64) << 56 | i % 3, CASE WHEN i % 5 = 0 THEN i % 7 - 3 ELSE 0 END, now() + CASE WHEN i % 10 = 9 THEN interval '1 hour' ELSE interval '0' END, now(), i, gen_random_uuid(), gen_random_uuid(),
		4, i % 64, 1 + i % 4, 1, false, 'default', 'http' || i % 3, 300000 FROM generate_series($1::bigint, $2::bigint) i`

// Pieces end in the middle of lanes, and of executions that are due at one instant; none is missed or counted twice.
func TestDueIsCountedInPieces(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	exec(t, direct(t, s), waitSQL, 0, 999)
	whole := must[map[engine.DueKey]int](t)(s.CountDue(t.Context()))
	for _, size := range []int64{1, 7, 100, 999, 1000} {
		got := map[engine.DueKey]int{}
		var err error
		for at := (&duePlace{lane: -1}); at != nil; {
			if at, err = s.countDuePiece(t.Context(), *at, size, got); err != nil {
				t.Fatal(err)
			}
		}
		sum := 0
		for _, n := range slices.Collect(maps.Values(got)) {
			sum += n
		}
		if sum != 900 || !maps.Equal(got, whole) {
			t.Errorf("in pieces of %d: %d are due, in %d counts; want 900 in %d", size, sum, len(got), len(whole))
		}
	}
}

// All that is due is counted, also above a million. How long that takes: CARILLON_DUE=1000000 go test -run TestDueAtScale -v
func TestDueAtScale(t *testing.T) {
	t.Parallel()
	n, _ := strconv.Atoi(os.Getenv("CARILLON_DUE"))
	many := 1_200_000
	if testing.Short() {
		many = 16_000
	}
	n = cmp.Or(n, many) / 320 * 320 // whole bundles, and of ten in rows one that is not due
	s := fresh(t)
	c := direct(t, s)
	exec(t, c, "SET synchronous_commit = off")
	measure := func(what string, want int) {
		for range 3 {
			begun := time.Now()
			sum := due(t, s)
			if sum != want {
				t.Fatalf("%s: %d of %d are due", what, sum, want)
			}
			t.Logf("%s: %d are due, counted in %v", what, sum, time.Since(begun))
		}
	}
	exec(t, c, `INSERT INTO bundles (lane, due_at, scheduled_at, key, priority, part, max_attempts, timeout_ms, tenant, class, open, ids)
		SELECT (i % 64) << 56, now(), now(), gen_random_uuid(), 5, i % 64, 4, 300000, 'default', 'http', 4294967295, (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, 32) k WHERE i > 0)
		FROM generate_series(1, $1::bigint / 32) i`, n)
	measure("in bundles", n)
	exec(t, c, "TRUNCATE bundles")
	indexed := without(t, c, "live")
	for i := 0; i < n; i += 100_000 {
		exec(t, c, waitSQL, i, min(i+100_000, n)-1)
	}
	indexed()
	measure("in rows, as they were written", n/10*9)
	exec(t, c, "VACUUM live")
	measure("in rows, after a vacuum", n/10*9)
}

// without drops the indexes of a table but for its key, so that very many rows are soon there; what it returns makes them again.
func without(t *testing.T, c *pgx.Conn, table string) (again func()) {
	t.Helper()
	rows, _ := c.Query(t.Context(), "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i WHERE i.indrelid = $1::text::regclass AND NOT i.indisprimary", table)
	type index struct{ Name, SQL string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		exec(t, c, "DROP INDEX "+x.Name)
	}
	return func() {
		for _, x := range all {
			exec(t, c, x.SQL)
		}
	}
}

// holdSomeSQL adds executions of a paused job: every second was triggered by hand, which pauses do not
// hold back, and every tenth is not due.
const holdSomeSQL = `
	INSERT INTO live (lane, due_at, scheduled_at, nonce, id, job, max_attempts, part, priority, trigger, hold, lease, tally, tenant, class)
	SELECT v.lane, CASE WHEN i % 10 = 0 THEN now() + interval '1 h' ELSE v.due_at END, now() - interval '1 s' * (i / 2 * 2), CASE WHEN i % 2 = 1 THEN i ELSE 0 END, gen_random_uuid(), v.job, 4, v.part,
		5 + i % 3, 1, 1, 0, true, v.tenant, v.class
	FROM generate_series(1, $2::bigint) i, (SELECT * FROM live WHERE id = $1) v`

// What pauses hold is counted in pieces that end within a job and between jobs; none is missed or counted twice.
func TestHeldIsCountedInPieces(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	rows := []int{0, 1, 2, 3, 9, 10, 11, 60, 61, 4, 5}
	made := creation(t, s, len(rows)+1)
	store(t, s, made)
	c := direct(t, s)
	if err := s.Unpack(t.Context(), ids(made)); err != nil {
		t.Fatal(err)
	}
	want := 0
	for i, n := range rows {
		id := [16]byte(made.Jobs[i].ID)
		exec(t, c, holdSomeSQL, id, n)
		exec(t, c, "UPDATE live SET hold = 1 WHERE id = $1", id)
		exec(t, c, "UPDATE jobs SET state = 2 WHERE id = $1", id)
		want += 1 + n/2 - n/10 // its own; those of no nonce; but for what is due later
	}
	exec(t, c, "UPDATE live SET hold = 1 WHERE id = $1", [16]byte(made.Jobs[len(rows)].ID)) // as one whose job was resumed just now
	type steps = []struct{ jobs, rows int }
	for _, by := range []steps{heldSteps, {{1, 1}}, {{3, 2}, {2, 5}, {1, 7}}, {{4, 10}}, {{11, 1}, {11, 30}}, {{12, 61}}} {
		got := must[map[engine.DueKey]int](t)(s.countHeld(t.Context(), by))
		sum := 0
		for _, n := range got {
			sum += n
		}
		if whole := must[map[engine.DueKey]int](t)(s.countHeld(t.Context(), steps{{1000, 1000}})); sum != want || !maps.Equal(got, whole) {
			t.Errorf("by %v: %d are held, in %d counts; want %d in %d", by, sum, len(got), want, len(whole))
		}
	}
}

// However many a paused job holds, each statement that counts them keeps to the timeout of servers. A million: CARILLON_DUE=1000000
func TestHeldAtScale(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("CARILLON_DUE"))
	few := 60_000
	if testing.Short() {
		few = 16_000
	}
	n = cmp.Or(n, few)
	s := fresh(t)
	made := creation(t, s, 1)
	store(t, s, made)
	if err := s.Unpack(t.Context(), ids(made)); err != nil {
		t.Fatal(err)
	}
	c := direct(t, s)
	exec(t, c, "SET synchronous_commit = off")
	for i := 0; i < n; i += 50_000 {
		exec(t, c, `
			INSERT INTO live (lane, due_at, scheduled_at, nonce, id, job, max_attempts, part, priority, trigger, hold, tenant, class)
			SELECT v.lane, v.due_at, now() - interval '1 s' * i, 0, gen_random_uuid(), v.job, 4, v.part, 5, 1, 1, v.tenant, v.class
			FROM generate_series($2::bigint, $3::bigint) i, (SELECT * FROM live WHERE id = $1) v`, [16]byte(made.Jobs[0].ID), i+1, min(i+50_000, n))
	}
	exec(t, c, "UPDATE live SET hold = 1 WHERE id = $1", [16]byte(made.Jobs[0].ID))
	exec(t, c, "ANALYZE live")
	exec(t, c, "UPDATE jobs SET state = 2")
	product(t, s)
	begun := time.Now()
	if left := due(t, s); left != 0 {
		t.Errorf("%d of %d held executions count as due", left, n)
	}
	t.Logf("%d are held, counted in %v", n, time.Since(begun))
}
