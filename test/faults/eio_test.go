//go:build linux

package faults

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/test/harness"
)

// spoil has some of the calls with which processes make what they wrote durable fail with EIO, until it is stopped. A process that has
// been told so does not know what is on the disk.
func spoil(t *testing.T, when string, pids ...int) (stop func()) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is missing: it has system calls fail")
	}
	ctx, cancel := context.WithCancel(context.Background())
	args := []string{"-f", "-q", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO:when=" + when, "-o", filepath.Join(t.TempDir(), "trace")}
	for _, pid := range pids {
		args = append(args, "-p", fmt.Sprint(pid))
	}
	c := exec.CommandContext(ctx, strace, args...)
	said := &harness.Output{}
	c.Stderr = said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = c.Wait() })
	attached := func() bool { return !slices.ContainsFunc(pids, func(pid int) bool { return !traced(pid) }) }
	if !harness.Within(5*time.Second, attached) {
		t.Skipf("strace may not watch other processes here: %s", said.String())
	}
	return func() { cancel(); _ = c.Wait() }
}

// traced reports whether another process watches a process.
func traced(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(b), "TracerPid:") && !strings.Contains(string(b), "TracerPid:\t0\n")
}

// The disk reports that it could not keep what was written. Whoever was told so ends, and finds out at its next start what is there:
// nothing that was acknowledged is lost, and what was not is resolved by its key (row 18).
func TestTheDiskReportsAnError(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		in := install(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), "api,scheduler")
		s := in.serve("")
		in.work("")
		in.load(10)
		in.told()
		stop := spoil(t, "2+", s.PID())
		in.load(20)
		if code := s.Exit(); code != 1 || !s.Says("the disk could not keep what was written") {
			t.Errorf("it ended with %d", code)
		}
		stop()
		in.serve("")
		in.settle(history{})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := newServer(t, newFolder(t))
		in := install(t, db.url(), "api,scheduler")
		in.serve("")
		in.work("")
		in.load(10)
		in.told()
		stop := spoil(t, "2", slices.Collect(maps.Values(ask[map[string]int](db, "SELECT jsonb_object_agg(pid, pid) FROM pg_stat_activity WHERE application_name = 'carillon'")))...)
		in.load(20)
		said := func() bool { return strings.Contains(db.read("../server.log"), "PANIC:  could not") }
		harness.Eventually(t, 30*time.Second, "PostgreSQL to give up", said)
		stop()
		in.load(5)
		in.settle(history{})
	})
}

// read reads a file of a server.
func (s *privateServer) read(name string) string {
	b, err := os.ReadFile(filepath.Join(s.data, name))
	if err != nil {
		s.Fatal(err)
	}
	return string(b)
}
