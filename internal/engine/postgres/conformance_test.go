package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func TestStore(t *testing.T) {
	enginetest.Store(t, enginetest.Harness{
		New: postgrestest.URL,
		Open: func(ctx context.Context, where string) (engine.Store, error) {
			return postgres.Open(ctx, postgres.Config{URL: where})
		},
		Shared: true,
		AgeSeals: func(t testing.TB, where string, by time.Duration) {
			postgrestest.Exec(t, where, fmt.Sprintf("UPDATE audit_seals SET sealed_at = sealed_at - interval '%d seconds'", int(by.Seconds())))
		},
	})
}
