//go:build unix

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/test/harness"
)

// A backup is restored while a worker continues: what it was given since is not known any more, what it was given of what the
// backup has is given again under a token of a new epoch, and none of its results count (row 46).
func TestARestoreUnderAWorker(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		where, saved := "sqlite:"+filepath.Join(dir, "c.db"), filepath.Join(dir, "saved.db")
		carillon := func(args ...string) {
			t.Helper()
			if p := harness.Launch(t, settings(""), args...); p.Exit() != 0 {
				t.Fatalf("%v: %s", args, p.Out.String())
			}
		}
		restoreUnderAWorker(t, where,
			func() { carillon("backup", "create", saved, "--database", where) },
			func() { carillon("backup", "restore", saved, "--database", where, "--yes") })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db := newServer(t, newFolder(t))
		saved := filepath.Join(filepath.Dir(db.data), "saved.dump")
		restoreUnderAWorker(t, db.url(),
			func() { db.run("pg_dump", "--format=custom", "--file="+saved, db.url()) },
			func() { db.run("pg_restore", "--clean", "--if-exists", "--dbname="+db.url(), saved) })
	})
}

func restoreUnderAWorker(t *testing.T, where string, backup, restore func()) {
	in := install(t, where, "api,scheduler")
	s := in.serve("")
	w := in.work("")
	stuck := make(chan struct{})
	in.target.OnArrival(func(a harness.Arrival) error {
		if engine.EpochOf(a.Token) == 1 {
			<-stuck
		}
		return nil
	})
	in.create(in.body(fmt.Sprintf(`, "schedule": {"type": "ONE_TIME", "scheduled_time": %q}`, time.Now().Add(8*time.Second).UTC().Format(time.RFC3339Nano))))
	known := in.told()[0]
	backup()
	in.create(in.body(""))
	unknown := in.told()[1]
	calls := func(job string) (of []harness.Arrival) {
		for _, a := range in.target.Seen() {
			if a.Job == job {
				of = append(of, a)
			}
		}
		return of
	}
	harness.Eventually(t, 30*time.Second, "the calls", func() bool { return len(calls(known.job)) == 1 && len(calls(unknown.job)) == 1 })
	s.Signal(os.Kill)
	s.Exit()
	restore()
	s = in.serve("")
	harness.Eventually(t, 60*time.Second, "the second call", func() bool { return len(calls(known.job)) == 2 })
	close(stuck)
	old, now := calls(known.job)[0], calls(known.job)[1]
	if engine.EpochOf(now.Token) <= engine.EpochOf(old.Token) || now.Key != old.Key {
		t.Errorf("the second call came under token %d, the first under %d", now.Token, old.Token)
	}
	if code, body, err := s.Ask("GET", "/api/v1/jobs/"+unknown.job, ""); err != nil || code != 404 {
		t.Errorf("what came after the backup: %d %s, %v", code, body, err)
	}
	if !strings.HasPrefix(where, "sqlite:") {
		harness.Eventually(t, 20*time.Second, "the alarm", func() bool { return s.Says("the database is not the one it was") })
	}
	harness.Eventually(t, 20*time.Second, "the worker to have learnt of it", func() bool { return w.Says("the session has ended") || w.Says("refused") || w.Says("lost") })
	unknown.job = ""
	in.persist(unknown, in.body("")) // its caller sends it again
	in.settle(history{behind: true})
}
