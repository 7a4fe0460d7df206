//go:build unix

package faults

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	judge "github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/test/harness"
)

// standbyOf makes a server that follows another, by way of a link.
func standbyOf(s *privateServer, by *harness.Link) *privateServer {
	s.Helper()
	folder := newFolder(s.T)
	if s.user != nil {
		if err := os.Chown(folder, int(s.user.Uid), int(s.user.Gid)); err != nil {
			s.Fatal(err)
		}
	}
	o := &privateServer{T: s.T, bin: s.bin, user: s.user, data: filepath.Join(folder, "data")}
	_, port, _ := net.SplitHostPort(by.Addr().String())
	o.run("pg_basebackup", "--host=127.0.0.1", "--port="+port, "--username=postgres", "--pgdata="+o.data, "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf")
	o.settle()
	return o
}

// promote makes a standby the server that takes writes.
func (s *privateServer) promote() {
	s.Helper()
	s.run("pg_ctl", "promote", "-D", s.data, "-s", "-w")
}

// ask reads one value of a server.
func ask[T any](s *privateServer, sql string) (v T) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.url())
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, sql).Scan(&v); err != nil {
		s.Fatal(err)
	}
	return v
}

// followed waits until a standby has all that a server has written.
func followed(s *privateServer) {
	s.Helper()
	harness.Eventually(s.T, 30*time.Second, "the standby to have everything", func() bool {
		return ask[int](s, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND flush_lsn >= pg_current_wal_flush_lsn()") == 1
	})
}

// The database fails over to a standby that has everything: nothing that was acknowledged is lost, and all continues by itself
// (row 14).
func TestFailoverToAStandbyThatHasEverything(t *testing.T) {
	t.Parallel()
	first := newServer(t, newFolder(t), "-c synchronous_standby_names=*")
	replication := harness.NewLink(t, first.address())
	second := standbyOf(first, replication)
	front := harness.NewLink(t, first.address())
	in := install(t, fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", front.Addr()), "api,scheduler,worker")
	in.serve("")
	in.work("")
	in.load(20)
	harness.Eventually(t, 30*time.Second, "some arrivals", func() bool { return len(in.target.Seen()) > 0 })
	in.load(20)
	first.crash()
	in.load(5)
	second.promote()
	front.Lead(second.address())
	front.Reset()
	in.settle(history{})
}

// The database fails over to a standby that is behind. What it had not received is lost, as documented; whoever sends it again
// under its key creates it. Tokens begin a new epoch by themselves, so that what was leased in the lost time never wins (row 14).
func TestFailoverToAStandbyThatIsBehind(t *testing.T) {
	t.Parallel()
	first := newServer(t, newFolder(t))
	replication := harness.NewLink(t, first.address())
	second := standbyOf(first, replication)
	front := harness.NewLink(t, first.address())
	in := install(t, fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", front.Addr()), "api,scheduler")
	s := in.serve("")
	in.work("")
	in.load(10)
	for _, c := range in.told() {
		harness.Eventually(t, 30*time.Second, "job "+c.job, func() bool { return harness.Read[client.Job](s, "/api/v1/jobs/"+c.job).Status == "COMPLETED" })
	}
	// One is created while the standby still follows, and is due when it no longer does.
	stuck := make(chan struct{})
	release := sync.OnceFunc(func() { close(stuck) })
	t.Cleanup(release) // or the target could not stop
	in.target.OnArrival(func(a harness.Arrival) error {
		if engine.EpochOf(a.Token) == 1 {
			<-stuck
		}
		return nil
	})
	due := time.Now().Add(6 * time.Second)
	in.create(in.body(fmt.Sprintf(`, "schedule": {"type": "ONE_TIME", "scheduled_time": %q}`, due.UTC().Format(time.RFC3339Nano))))
	held := in.told()[10]
	followed(first)
	replication.Hold(harness.There, harness.Back)
	if time.Now().After(due.Add(-2 * time.Second)) { // it is staged a second before
		t.Skip("the machine is too slow to cut the standby off in time")
	}
	arrivals := func() (of []harness.Arrival) {
		for _, a := range in.target.Seen() {
			if a.Job == held.job {
				of = append(of, a)
			}
		}
		return of
	}
	harness.Eventually(t, 30*time.Second, "the call under a token that will be lost", func() bool { return len(arrivals()) == 1 })
	before := len(in.told())
	for range 6 {
		in.create(in.body(""))
	}
	lost := in.told()[before:]
	first.crash()
	replication.Reset()
	second.promote()
	front.Lead(second.address())
	front.Reset()
	began := time.Now()
	harness.Eventually(t, 60*time.Second, "the server to be ready", s.Ready)
	t.Logf("ready %v after the failover", time.Since(began).Round(10*time.Millisecond))
	harness.Eventually(t, 20*time.Second, "the second call", func() bool { return len(arrivals()) >= 2 })
	harness.Eventually(t, 20*time.Second, "the worker to hear that its leases of before are lost", func() bool { return !in.holdsOf(1) })
	release() // the answer to the first call comes now, and its result is of a token of before
	if old, now := arrivals()[0], arrivals()[1]; engine.EpochOf(now.Token) <= engine.EpochOf(old.Token) || now.Key != old.Key {
		t.Errorf("the second call came under token %d, the first under %d", now.Token, old.Token)
	}
	harness.Eventually(t, 20*time.Second, "the alarm", func() bool { return s.Says("the database is not the one it was") })
	gone := 0
	for _, c := range lost {
		if code, _, err := s.Ask("GET", "/api/v1/jobs/"+c.job, ""); err == nil && code == 404 {
			gone++
		}
	}
	if gone == 0 {
		t.Error("nothing was lost: the standby was not behind, and the test shows nothing")
	}
	t.Logf("%d of %d jobs that were acknowledged while the standby did not follow are lost", gone, len(lost))
	// Their callers send them again.
	for _, c := range lost {
		c.job = ""
		in.persist(c, in.body(""))
	}
	in.settle(history{behind: true})
}

// holdsOf reports whether the worker may believe that it holds leases of an epoch. It does not where it has reported or handed back what it
// ran, has heard that the lease or its session is lost, or has given up a session without answers and begun another.
func (in *installation) holdsOf(epoch int64) bool {
	held := map[int64]string{}
	for _, e := range in.rec.History.Events() {
		switch {
		case e.Kind == judge.Fail:
			maps.DeleteFunc(held, func(_ int64, by string) bool { return by == e.Proc })
		case e.Kind == judge.Invoke && e.Op == judge.Claim:
			maps.DeleteFunc(held, func(_ int64, by string) bool { return by != e.Proc })
		case e.Kind != judge.OK || engine.EpochOf(e.Token) != epoch:
		case e.Op == judge.Claim:
			held[e.Token] = e.Proc
		case e.Op == judge.Complete, e.Op == judge.Release, e.Op == judge.Beat && e.Result == "lost":
			delete(held, e.Token)
		}
	}
	return len(held) > 0
}
