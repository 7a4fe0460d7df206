//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// The database has 14 connections, half of what a server would take, and then none but those that it has: what finds none is refused in
// time, reading and writing do not take them from each other for good, and no lease is lost (row 19).
func TestTheDatabaseHasNoConnectionLeft(t *testing.T) {
	t.Parallel()
	db := newServer(t, newFolder(t), "-c max_connections=14 -c superuser_reserved_connections=0")
	in := install(t, db.url(), "api,scheduler")
	s := in.serve("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=15")
	in.work("")
	release := make(chan struct{})
	in.target.OnArrival(func(harness.Arrival) error { <-release; return nil })
	in.load(4)
	harness.Eventually(t, 30*time.Second, "the calls", func() bool { return len(in.target.Seen()) == 4 })
	in.target.OnArrival(func(harness.Arrival) error { return nil })
	// Everybody asks at once, for what is written and what is read.
	in.load(40)
	for range 40 {
		in.wg.Go(func() {
			began := time.Now()
			code, _, err := s.Ask("GET", "/api/v1/jobs?limit=5", "")
			if took := time.Since(began); err != nil || code != 200 && code != 503 || took > harness.Slack*6*time.Second {
				t.Errorf("reading: %d, %v after %v", code, err, took)
			}
		})
	}
	in.told()
	// Now somebody else takes what is left.
	var others []*pgx.Conn
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		c, err := pgx.Connect(ctx, db.url())
		cancel()
		if err != nil {
			break
		}
		others = append(others, c)
	}
	t.Logf("%d of 14 connections were left", len(others))
	for range 20 {
		for _, path := range []string{"/api/v1/jobs?limit=5", "/api/v1/executions?limit=5", "/api/v1/dead-letters"} {
			began := time.Now()
			if code, body, err := s.Ask("GET", path, ""); err != nil || code != 200 && code != 503 || time.Since(began) > harness.Slack*6*time.Second {
				t.Errorf("%s: %d, %v after %v: %s", path, code, err, time.Since(began), body)
			}
		}
	}
	in.load(10)
	in.told() // so that each was accepted while there was no other connection
	for _, path := range []string{"/api/v1/jobs?limit=5", "/readyz"} {
		harness.Eventually(t, 15*time.Second, path+" with the connections that it has", func() bool { code, _, err := s.Ask("GET", path, ""); return err == nil && code == 200 })
	}
	for _, c := range others {
		c.Close(context.Background())
	}
	close(release)
	in.settle(history{})
	in.once()
}

// A server has no file descriptor left: it takes no new connections, keeps those of its workers, so that no lease is lost, and continues
// by itself when there are some again (row 44).
func TestNoFileDescriptorIsLeft(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		in := install(t, where, "api,scheduler")
		s := in.serve("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=6")
		in.work("")
		release := make(chan struct{})
		in.target.OnArrival(func(harness.Arrival) error { <-release; return nil })
		in.load(4)
		harness.Eventually(t, 30*time.Second, "the calls", func() bool { return len(in.target.Seen()) == 4 })
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
		if err != nil {
			t.Fatal(err)
		}
		var was unix.Rlimit
		few := unix.Rlimit{Cur: uint64(len(open) + 4)}
		if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, nil, &was); err != nil {
			t.Fatal(err)
		}
		few.Max = was.Max
		if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &few, nil); err != nil {
			t.Fatal(err)
		}
		var idle []net.Conn
		for range 40 { // they connect, since the kernel takes them, and say nothing
			c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.Base, "http://"), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, c)
		}
		harness.Eventually(t, 20*time.Second, "it to be out of descriptors", func() bool { return s.Says("too many open files") })
		<-time.After(12 * time.Second) // two leases
		if err := unix.Prlimit(s.PID(), unix.RLIMIT_NOFILE, &was, nil); err != nil {
			t.Fatal(err)
		}
		for _, c := range idle {
			c.Close()
		}
		harness.Eventually(t, 20*time.Second, "it to be ready again", s.Ready)
		if es := harness.Read[client.Executions](s, "/api/v1/executions?status=RUNNING").Executions; len(es) != 4 {
			t.Errorf("%d run, want the 4 that did", len(es))
		}
		close(release)
		in.load(4)
		in.settle(history{})
		in.once()
	})
}

// The machine of a worker is busy with others, who leave it a fifth of one processor: its beats are not late enough for a lease to be lost
// (row 9).
func TestABusyMachineCostsNothing(t *testing.T) {
	if !all {
		t.Skip("it takes a processor from all other tests: make faults-all runs it")
	}
	stores(t, func(t *testing.T, where string) {
		const lease = 6 * time.Second
		in := install(t, where, "api,scheduler")
		in.serve("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=6")
		w := in.work("")
		release := make(chan struct{})
		in.target.OnArrival(func(harness.Arrival) error { <-release; return nil })
		in.load(4)
		harness.Eventually(t, 30*time.Second, "the calls", func() bool { return len(in.target.Seen()) == 4 })
		var first unix.CPUSet
		first.Set(0)
		pin := func(pid int) {
			t.Helper()
			threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, thread := range threads {
				id, err := strconv.Atoi(thread.Name())
				if err == nil {
					err = unix.SchedSetaffinity(id, &first)
				}
				if err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended
					t.Skipf("a process cannot be bound to a processor here: %v", err)
				}
			}
		}
		pin(w.PID())
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		for range 4 {
			c := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			go func() { _ = c.Wait() }()
			pin(c.Process.Pid)
		}
		<-time.After(2 * lease)
		stop()
		close(release)
		in.settle(history{})
		in.once()
	})
}
