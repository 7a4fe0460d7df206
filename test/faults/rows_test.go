//go:build unix

package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// A worker stands still for three leases: another runs what it held, and what it says when it wakes is refused or never
// said (row 8).
func TestAWorkerStandsStill(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		in := install(t, where, "api,scheduler")
		in.serve("")
		w := in.work("")
		woken := make(chan struct{})
		in.target.OnArrival(func(a harness.Arrival) error {
			if a.Attempt == 1 {
				<-woken
			}
			return nil
		})
		in.create(in.body(""))
		in.create(in.body(""))
		harness.Eventually(t, 20*time.Second, "the arrivals", func() bool { return len(in.target.Seen()) >= 2 })
		w.Freeze()
		in.struck = time.Now()
		in.work("")
		harness.Eventually(t, 30*time.Second, "the second attempts", func() bool { return len(in.target.Seen()) >= 4 })
		<-time.After(lease) // so that it stood still for about three
		close(woken)        // the answers wait for it in its socket
		w.Thaw()
		harness.Eventually(t, 20*time.Second, "it to notice", func() bool { return w.Says("the session has ended") || w.Says("refused") })
		in.settle(history{})
	})
}

// Bursts of standing still that are shorter than the lease cost nothing (row 9).
func TestShortPausesCostNothing(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		in := install(t, where, "api,scheduler")
		in.serve("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=15") // long enough for a busy machine, too
		w := in.work("")
		in.target.OnArrival(func(harness.Arrival) error { <-time.After(6 * time.Second); return nil })
		in.load(4)
		harness.Eventually(t, 20*time.Second, "an arrival", func() bool { return len(in.target.Seen()) > 0 })
		for range 8 {
			w.Freeze()
			<-time.After(200 * time.Millisecond)
			w.Thaw()
			<-time.After(300 * time.Millisecond)
		}
		in.settle(history{})
		if n := len(in.target.Seen()); n != 4 {
			t.Errorf("%d arrivals of 4 executions", n)
		}
	})
}

// The answer to a claim is lost on its way, and the worker lives on: what it was given goes to another (row 41).
func TestTheAnswerToAClaimIsLost(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		in := install(t, where, "api,scheduler")
		s := in.serve("")
		l := harness.NewLink(t, strings.TrimPrefix(in.front, "http://"))
		w := launch(t, "", "worker", "--server", "http://"+l.Addr().String(), "--capacity", "4", "--listen", "127.0.0.1:0").Greeted()
		harness.Eventually(t, 20*time.Second, "the worker", func() bool { return w.Says("registered") }) // it has the answer to that, and claims
		l.Hold(harness.Back)
		in.create(in.body(""))
		job := in.told()[0].job
		harness.Eventually(t, 20*time.Second, "it to be leased", func() bool {
			es := harness.Read[client.Executions](s, "/api/v1/jobs/"+job+"/executions").Executions
			return len(es) == 1 && es[0].Status == "RUNNING"
		})
		l.Reset()
		in.settle(history{})
		if got := in.target.Seen(); len(got) != 1 {
			t.Errorf("%d arrivals", len(got))
		}
	})
}

// A worker is cut off from the server while it runs something: it stops by itself before its lease may be another's, and
// another runs it (row 10).
func TestAWorkerIsCutOff(t *testing.T) {
	t.Parallel()
	for name, ways := range map[string][]int{"both ways": {harness.There, harness.Back}, "answers only": {harness.Back}} {
		t.Run(name, func(t *testing.T) {
			stores(t, func(t *testing.T, where string) {
				in := install(t, where, "api,scheduler")
				in.serve("")
				l := harness.NewLink(t, strings.TrimPrefix(in.front, "http://"))
				w := launch(t, "", "worker", "--server", "http://"+l.Addr().String(), "--capacity", "4", "--listen", "127.0.0.1:0").Greeted()
				stuck := make(chan struct{})
				in.target.OnArrival(func(a harness.Arrival) error {
					if a.Attempt == 1 {
						<-stuck
					}
					return nil
				})
				in.create(in.body(""))
				harness.Eventually(t, 20*time.Second, "the arrival", func() bool { return len(in.target.Seen()) == 1 })
				l.Hold(ways...)
				in.struck = time.Now()
				in.work("")
				harness.Eventually(t, 30*time.Second, "it to stop by itself", func() bool { return w.Says("the session has ended") })
				harness.Eventually(t, 30*time.Second, "the second attempt", func() bool { return len(in.target.Seen()) == 2 })
				l.Open(harness.There, harness.Back)
				close(stuck)
				in.settle(history{})
			})
		})
	}
}

// What kills its worker three times ends as POISON, and what comes behind it runs (row 25).
func TestPoison(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		in := install(t, where, "api,scheduler")
		s := in.serve("", "CARILLON_WORKERS_POISON_AFTER=3")
		in.create(in.body(""))
		job := in.told()[0].job
		for range 3 {
			w := in.work("worker.duringEffect=kill")
			w.Exit()
		}
		in.work("")
		behind := harness.Want[client.Job](s, 201, "POST", "/api/v1/jobs", in.body("")).JobID
		for _, c := range []struct{ job, status string }{{behind, "SUCCEEDED"}, {job, "FAILED"}} {
			harness.Eventually(t, 30*time.Second, c.status, func() bool {
				es := harness.Read[client.Executions](s, "/api/v1/jobs/"+c.job+"/executions").Executions
				return len(es) == 1 && es[0].Status == c.status
			})
		}
		dead := harness.Read[client.DeadLetters](s, "/api/v1/dead-letters").DeadLetters
		if len(dead) != 1 || dead[0].Reason != "POISON" || len(dead[0].Errors) != 3 {
			t.Errorf("dead letters: %+v", dead)
		}
		calls := map[string]int{}
		for _, a := range in.target.Seen() {
			calls[a.Job]++
		}
		if calls[job] != 3 || calls[behind] < 1 { // a slow machine may lose the lease of the other, too
			t.Errorf("arrivals: %v", calls)
		}
	})
}

// A server is cut off from its database: it refuses in time, says that it is not ready, keeps nothing half, and continues by
// itself (rows 11 and 16).
func TestTheDatabaseIsCutOff(t *testing.T) {
	t.Parallel()
	l, through := harness.LinkTo(t, harness.Postgres(t))
	in := install(t, through, "api,scheduler")
	s := in.serve("")
	in.work("")
	in.load(10)
	in.told()
	l.Hold(harness.There, harness.Back) // it hangs
	began := time.Now()
	in.load(4)
	harness.Eventually(t, 20*time.Second, "a refusal", func() bool { return in.refused() > 0 })
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("with a database that hangs the first 503 came after %v", took)
	if took > harness.Slack*6*time.Second {
		t.Errorf("a refusal took %v", took)
	}
	if code, _, err := s.Ask("GET", "/readyz", ""); code != 503 {
		t.Errorf("/readyz answers %d, %v", code, err)
	}
	l.Reset()
	harness.Eventually(t, 30*time.Second, "it to be ready again", s.Ready)
	in.settle(history{})
}

// A worker is told to stop while it runs something: it finishes that and ends with 0, and what it has not begun goes to
// another; told twice, it ends at once, and all that it held goes to another (row 43).
func TestAWorkerIsToldToStop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		times int
		code  int
		lease string // where nothing is to be lost, one long enough for a busy machine
	}{{"once", 1, 0, "20"}, {"twice", 2, -1, "3"}} {
		t.Run(c.name, func(t *testing.T) {
			stores(t, func(t *testing.T, where string) {
				in := install(t, where, "api,scheduler")
				in.serve("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS="+c.lease)
				w := in.work("")
				finish := make(chan struct{})
				in.target.OnArrival(func(harness.Arrival) error { <-finish; return nil })
				in.load(10)
				harness.Eventually(t, 20*time.Second, "the arrivals", func() bool { return len(in.target.Seen()) >= 4 })
				w.Signal(syscall.SIGTERM)
				harness.Eventually(t, 20*time.Second, "it to stop", func() bool { return w.Says("stopping: ") })
				if c.times == 2 {
					w.Signal(syscall.SIGTERM)
				} else {
					close(finish)
				}
				if code := w.Exit(); code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
				if c.times == 2 {
					close(finish)
				}
				in.work("")
				in.settle(history{})
				if n := len(in.target.Seen()); c.times == 1 && n != 10 || c.times == 2 && n < 14 {
					t.Errorf("%d arrivals", n)
				}
			})
		})
	}
}
