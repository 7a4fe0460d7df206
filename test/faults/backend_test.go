//go:build unix

package faults

import (
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// Some of the processes of PostgreSQL that a server uses stand still for more than two leases, one after the other and with what they
// were about to do: requests on them end in time, all others continue, and no lease is lost (row 16).
func TestAProcessOfTheDatabaseStandsStill(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures by the clock what a busy machine cannot keep; make faults-all runs it")
	}
	t.Parallel()
	const lease = 8 * time.Second
	db := newServer(t, newFolder(t))
	in := install(t, db.url(), "api,scheduler")
	s := in.serve("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=8")
	in.work("")
	release := make(chan struct{})
	in.target.OnArrival(func(harness.Arrival) error { <-release; return nil })
	in.load(4)
	harness.Eventually(t, 30*time.Second, "the calls", func() bool { return len(in.target.Seen()) == 4 })
	busy := ask[map[string]int](db, `SELECT jsonb_object_agg(pid, pid) FROM (
		SELECT pid FROM pg_stat_activity WHERE application_name = 'carillon' AND query NOT LIKE 'LISTEN%' ORDER BY state_change DESC LIMIT 2) x`)
	for _, pid := range slices.Collect(maps.Values(busy)) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(pid, syscall.SIGCONT)
	}
	t.Logf("%d processes stand still", len(busy))
	slowest := time.Duration(0)
	for until := time.Now().Add(2*lease + time.Second); time.Now().Before(until); {
		for _, path := range []string{"/api/v1/jobs?limit=5", "/api/v1/executions?limit=5"} {
			began := time.Now()
			code, body, err := s.Ask("GET", path, "")
			if err != nil || code != 200 && code != 503 {
				t.Errorf("%s: %d %s, %v", path, code, body, err)
			}
			slowest = max(slowest, time.Since(began))
		}
		in.create(in.body(""))
		<-time.After(200 * time.Millisecond)
	}
	t.Logf("the slowest answer came after %v", slowest)
	if slowest > atMost(6*time.Second) {
		t.Errorf("an answer came after %v", slowest)
	}
	if es := harness.Read[client.Executions](s, "/api/v1/executions?status=RUNNING&limit=100").Executions; len(es) < 4 {
		t.Errorf("%d run, want the 4 that did", len(es))
	}
	for _, pid := range slices.Collect(maps.Values(busy)) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	close(release)
	in.told()
	in.settle(history{})
	in.once()
}
