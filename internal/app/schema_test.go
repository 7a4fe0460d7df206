package app_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// A step that servers which do not know it cannot work with is not made under their feet.
func TestAStepThatStopsServersIsRefusedWhileTheyLive(t *testing.T) {
	if os.Getenv("CARILLON_TEST_POSTGRES") == "" {
		t.Skip("SQLite has one server, which has the file")
	}
	c := config.Default()
	c.Database = postgrestest.URL(t)
	if did, err := app.MigrateUp(t.Context(), c, false); err != nil || len(did) == 0 {
		t.Fatalf("of an empty database: %d, %v", len(did), err)
	}
	store, err := app.OpenStore(t.Context(), c.Database, app.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
	me := engine.Server{ID: engine.ServerID{7}, Duty: engine.Scheduling, Host: "box-7", StartedAt: time.Now()}
	servers := store.(engine.Owners)
	if _, err := servers.Attend(t.Context(), me, time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := app.MigrateUp(t.Context(), c, false); err != nil {
		t.Errorf("nothing is missing: %v", err)
	}

	postgrestest.Exec(t, c.Database, "DELETE FROM carillon_migrations") // so that the first step is missing, which does not say that servers may run on
	_, err = app.MigrateUp(t.Context(), c, false)
	if !errors.Is(err, engine.ErrConflict) || !strings.Contains(err.Error(), "box-7") || !strings.Contains(err.Error(), "step 0001") {
		t.Errorf("with a server: %v", err)
	}
	// The tables are there, so that making them fails, and not that someone lives.
	if _, err = app.MigrateUp(t.Context(), c, true); err == nil || strings.Contains(err.Error(), "box-7") {
		t.Errorf("by force: %v", err)
	}
	if err := servers.Retire(t.Context(), me.ID); err != nil {
		t.Fatal(err)
	}
	if _, err = app.MigrateUp(t.Context(), c, false); err == nil || strings.Contains(err.Error(), "box-7") {
		t.Errorf("without servers: %v", err)
	}
}
