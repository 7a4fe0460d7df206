package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func TestStore(t *testing.T) {
	conform(t, func(*postgres.Store) {})
}

// Whatever may be in a bundle is in one, most often alone: nobody is to notice.
func TestStorePacked(t *testing.T) {
	t.Parallel()
	h := harness((*postgres.Store).PackAll)
	if testing.Short() { // what has nothing to do with executions is the same as in TestStore
		h.Only = []string{
			"create", "idempotency", "delete", "stats", "stats of many", "trigger", "fire", "overlap", "runs", "overlapping", "backfill", "lease", "leased", "finish",
			"every attempt", "hand back", "reap", "cancel", "dead letters", "groups", "unique keys", "expiry", "overrun", "snooze", "drain", "events",
			"automatic redrive", "pauses of jobs", "executions", "search", "counts", "tallies", "glances", "forgetting", "logs", "park",
		}
	}
	enginetest.Store(t, h)
}

func conform(t *testing.T, with func(*postgres.Store)) { enginetest.Store(t, harness(with)) }

func harness(with func(*postgres.Store)) enginetest.Harness {
	return enginetest.Harness{
		New: postgrestest.URL,
		Migrated: func(t testing.TB) string {
			return postgrestest.Migrated(t, func(ctx context.Context, url string) error {
				s, err := postgres.Open(ctx, postgres.Config{URL: url})
				if err != nil {
					return err
				}
				return errors.Join(s.Migrate(ctx), s.Close())
			})
		},
		Open: func(ctx context.Context, where string) (engine.Store, error) {
			s, err := postgres.Open(ctx, postgres.Config{URL: where})
			if err != nil {
				return nil, err
			}
			with(s)
			return s, nil
		},
		Shared: true,
		Behind: postgres.RunsBehind,
		AgeSeals: func(t testing.TB, where string, by time.Duration) {
			postgrestest.Exec(t, where, fmt.Sprintf("UPDATE audit_seals SET sealed_at = sealed_at - interval '%d seconds'", int(by.Seconds())))
		},
		Rows: countRows,
	}
}

func today() string { return time.Now().UTC().Format("20060102") }

// countRows counts the rows of every table beside the store; those of the days of history together.
func countRows(t testing.TB, where string) map[string]int64 {
	t.Helper()
	c, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	rows, _ := c.Query(t.Context(), "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition")
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	out := map[string]int64{}
	for _, name := range names {
		var n int64
		err = errors.Join(err, c.QueryRow(t.Context(), "SELECT count(*) FROM "+name).Scan(&n))
		out[name] = n
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
