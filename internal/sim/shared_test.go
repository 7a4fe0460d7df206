package sim

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
)

// What the servers of a simulation share passes the suite where it is about sharing.
func TestSharedStore(t *testing.T) {
	enginetest.Fences(t, enginetest.Harness{
		New: func(t testing.TB) string { return filepath.Join(t.TempDir(), "carillon.db") },
		Open: func(ctx context.Context, where string) (engine.Store, error) {
			s, err := sqlite.Open(ctx, sqlite.Config{Path: where})
			if err != nil {
				return nil, err
			}
			return enginetest.NewShared(s), nil
		},
	})
}
