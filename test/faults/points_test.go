//go:build unix

package faults

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/failpoint"
	"github.com/carillon-jobs/carillon/test/harness"
)

// actions lists what happens at a point, and at which hits of it.
var actions = []struct {
	name, spec string
}{
	{"kill", "kill@1"},
	{"stop", "stop(5s)@1"}, // past the lease
	{"sleep", "sleep(400ms)@1-5"},
	{"error", "error@1-4"},
	{"commitThenError", "commitThenError@1-4"},
}

// slice lists what an ordinary run does, beside every kill: the actions that have found bugs, or may.
var slice = []string{
	"api.beforeCommit/commitThenError", "sched.afterInsertBeforeCommit/commitThenError", "claim.beforeCommit/commitThenError",
	"worker.afterClaim/error", "worker.afterCompleteBeforeAck/error", "worker.beforeHeartbeat/error",
	"worker.duringEffect/stop", "worker.beforeHeartbeat/stop",
}

// TestPoints goes through every point and action on both stores: something fails there, whoever was killed comes
// back, and the history is sound.
func TestPoints(t *testing.T) {
	t.Parallel()
	for _, point := range failpoint.Points {
		for _, a := range actions {
			if a.name == "commitThenError" && !failpoint.BeforeCommit(point) {
				continue
			}
			if !all && a.name != "kill" && !slices.Contains(slice, point+"/"+a.name) {
				continue
			}
			t.Run(point+"/"+a.name, func(t *testing.T) {
				each := stores
				if strings.HasPrefix(point, "migrate") {
					each = harness.EmptyStores
				}
				each(t, func(t *testing.T, where string) { failAt(t, where, point, a.name, point+"="+a.spec) })
			})
		}
	}
}

// bulk lists what an ordinary run does with jobs that are created, leased and finished together.
var bulk = []string{
	"api.beforeCommit/commitThenError", "claim.beforeCommit/kill", "claim.beforeCommit/commitThenError", "worker.afterClaim/kill", "worker.duringEffect/kill",
	"worker.afterCompleteBeforeAck/error", "reap.afterSelectBeforeUpdate/kill", "shutdown.midDrain/kill",
}

// TestPointsInBulk does the same with jobs that one call creates and that PostgreSQL keeps in bundles.
func TestPointsInBulk(t *testing.T) {
	t.Parallel()
	for _, point := range failpoint.Points {
		for _, a := range actions {
			if strings.HasPrefix(point, "migrate") || strings.HasPrefix(point, "sched") || strings.HasPrefix(point, "workflow") || a.name == "commitThenError" && !failpoint.BeforeCommit(point) {
				continue
			}
			if !all && !slices.Contains(bulk, point+"/"+a.name) {
				continue
			}
			t.Run(point+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				failAt(t, harness.Postgres(t), point, a.name, point+"="+a.spec, inBulk)
			})
		}
	}
}

func inBulk(in *installation) { in.bulk = true }

func failAt(t *testing.T, where, point, action, spec string, with ...func(*installation)) {
	install := func(t *testing.T, where, roles string) *installation {
		in := install(t, where, roles)
		for _, w := range with {
			w(in)
		}
		return in
	}
	part, _, _ := strings.Cut(point, ".")
	switch part {
	case "migrate":
		failMigration(t, where, action, spec)
	case "api", "sched":
		in := install(t, where, "api,scheduler,worker")
		failServer(in, point, action, spec)
	case "claim":
		in := install(t, where, "api,scheduler")
		p := in.serve(spec)
		in.work("")
		in.load(10)
		comeBack(in, p, point, action)
		in.settle(history{})
	case "workflow":
		failWorkflow(install(t, where, "api,scheduler"), point, action, spec)
	case "reap":
		failReaper(install(t, where, "api,scheduler"), point, action, spec)
	case "worker", "shutdown":
		failWorker(install(t, where, "api,scheduler"), point, action, spec)
	default:
		t.Fatalf("no test knows what to do with %s", point)
	}
}

// failMigration begins with an empty database.
func failMigration(t *testing.T, where, action, spec string) {
	in := install(t, where, "api,scheduler,worker")
	if action == "kill" || action == "error" {
		p := launch(t, spec, "serve", "--database", where, "--listen", "127.0.0.1:0")
		if code := p.Exit(); code == 0 || !p.Says("failpoint migrate.midStep") {
			t.Errorf("exit code %d", code)
		}
		spec = ""
	}
	in.serve(spec)
	in.load(4)
	in.settle(history{})
}

func failServer(in *installation, point, action, spec string) {
	p := in.serve(spec)
	in.load(10)
	comeBack(in, p, point, action)
	in.settle(history{})
}

// comeBack waits until the point was hit, and starts what was killed there again.
func comeBack(in *installation, p *harness.Process, point, action string) {
	in.Helper()
	harness.Eventually(in.T, 30*time.Second, point+" to be hit", func() bool { return p.Says("failpoint " + point + ": ") })
	if action == "kill" {
		p.Exit()
		in.serve("")
	}
}

// failReaper kills a worker in the middle of what it does, so that there is something to reap.
func failReaper(in *installation, point, action, spec string) {
	p := in.serve(spec)
	w := in.work("")
	gone := make(chan struct{})
	in.target.OnArrival(func(harness.Arrival) error { <-gone; return nil })
	in.load(10)
	harness.Eventually(in.T, 20*time.Second, "an arrival", func() bool { return len(in.target.Seen()) > 0 })
	w.Signal(syscall.SIGKILL)
	w.Exit()
	close(gone)
	in.work("")
	comeBack(in, p, point, action)
	in.settle(history{})
}

// failWorker lets one worker meet the point; then another comes.
func failWorker(in *installation, point, action, spec string) {
	in.serve("")
	slow := 300 * time.Millisecond
	if point == "worker.beforeHeartbeat" || point == "shutdown.midDrain" {
		slow = 1500 * time.Millisecond // so that it holds something then
	}
	in.target.OnArrival(func(harness.Arrival) error { <-time.After(slow); return nil })
	w := in.work(spec)
	in.load(10)
	hit := func() bool { return w.Says("failpoint " + point + ": ") }
	if point == "shutdown.midDrain" {
		harness.Eventually(in.T, 20*time.Second, "an arrival", func() bool { return len(in.target.Seen()) > 0 || hit() }) // on a busy machine a session may end, too
		_ = w.Send(syscall.SIGTERM)
	}
	harness.Eventually(in.T, 30*time.Second, point+" to be hit", hit)
	if action == "kill" {
		w.Exit()
	}
	in.work("")
	in.settle(history{stale: action == "stop" && point == "worker.beforeEffect"})
	if action != "kill" {
		_ = w.Send(syscall.SIGTERM) // it may have ended
		w.Exit()
	}
}
