package postgres

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

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

// All that is due is counted, however much it is. How long that takes: CARILLON_DUE=1000000 go test -run TestDueAtScale -v
func TestDueAtScale(t *testing.T) {
	t.Parallel()
	n, _ := strconv.Atoi(os.Getenv("CARILLON_DUE"))
	few := 60_000
	if testing.Short() {
		few = 16_000
	}
	n = cmp.Or(n, few) / 320 * 320 // whole bundles, and of ten in rows one that is not due
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
	for i := 0; i < n; i += 100_000 {
		exec(t, c, waitSQL, i, min(i+100_000, n)-1)
	}
	measure("in rows, as they were written", n/10*9)
	exec(t, c, "VACUUM live")
	measure("in rows, after a vacuum", n/10*9)
}
