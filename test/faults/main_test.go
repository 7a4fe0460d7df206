//go:build unix

// Package faults proves, with processes of the built binary, what holds when
// they are killed, stopped, cut off or run out of disk: nothing that was
// accepted is lost, nothing runs twice without a recorded reason, and all of it
// ends. docs/operations/faults.md lists what is proven.
//
// A test records what its clients were told and what its target saw, none of
// it inside the processes that fail, and compares it in the end with what
// the API and the tables say. go test runs a slice of the points; with
// CARILLON_FAULTS=all it runs them all.
package faults

import (
	"os"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/test/harness"
)

var all = os.Getenv("CARILLON_FAULTS") == "all"

func TestMain(m *testing.M) {
	harness.AtOnce(8)
	harness.Main(m, "failpoint")
}

// stores runs a test on each store, beside all others.
func stores(t *testing.T, test func(t *testing.T, where string)) {
	t.Parallel()
	harness.Stores(t, test)
}

const lease = 3 * time.Second // the shortest there is

// settings is the environment of servers and workers: what is staged is near, and what dies often is not given up.
func settings(failpoints string, more ...string) []string {
	env := harness.Settings(harness.ShortLease, "CARILLON_SCHEDULER_LOOK_AHEAD_SECONDS=1", "CARILLON_WORKERS_POISON_AFTER=20", "CARILLON_FAILPOINTS="+failpoints)
	return append(env, more...)
}

// launch starts carillon and does not wait for anything. failpoints may be "".
func launch(t *testing.T, failpoints string, args ...string) *harness.Process {
	t.Helper()
	return harness.Launch(t, settings(failpoints), args...)
}
