package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// restoration is what carillon restore -o json says.
type restoration struct {
	Path       string    `json:"path"`
	Source     string    `json:"source"`
	CompleteTo time.Time `json:"complete_to"`
	Segments   int       `json:"segments"`
}

func restore(t *testing.T, args ...string) (r restoration) {
	t.Helper()
	out := carillon(t, 0, append([]string{"restore", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// TestReplicaSurvivesKill9 kills a server under load and restores its replica into another folder. Positions decide what must be there: each
// answer has the time at which it came, and the restore says up to which instant it has everything.
func TestReplicaSurvivesKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place, data, other := "file:"+filepath.Join(dir, "place"), filepath.Join(dir, "data"), filepath.Join(dir, "other")
	p := harness.Start(t, harness.Settings(harness.ShortLease), "dev", "--data", data, "--replicate", place)
	type answer struct {
		job string
		at  time.Time
	}
	var mu sync.Mutex
	var acked []answer
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				code, body, err := p.Ask("POST", "/api/v1/jobs", `{"name": "survivor", "execution": {"target": "simulate", "work_kind": "noop"}}`)
				at := time.Now()
				if err != nil {
					return // it was killed
				}
				if code != 201 {
					continue
				}
				var j client.Job
				if err := json.Unmarshal([]byte(body), &j); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acked = append(acked, answer{j.JobID, at})
				mu.Unlock()
			}
		})
	}
	harness.Eventually(t, 30*time.Second, "500 jobs, and a replica that has begun", func() bool {
		_, metrics, err := p.Ask("GET", "/metrics", "")
		mu.Lock()
		defer mu.Unlock()
		return err == nil && len(acked) >= 500 && strings.Contains(metrics, "carillon_replication_snapshots_total 1") && !strings.Contains(metrics, "carillon_replication_segments_total 0")
	})
	killed := time.Now()
	p.End(syscall.SIGKILL)
	wg.Wait()

	file := filepath.Join(other, "carillon.db")
	r := restore(t, "--from", place, "--to", file)
	if lost := killed.Sub(r.CompleteTo); lost > harness.Slack*time.Second {
		t.Errorf("the replica was %v behind when the server was killed; want at most a second, and %d on a slow machine", lost, harness.Slack)
	} else {
		t.Logf("%d jobs were acknowledged; everything acknowledged more than %v before the kill is there, from %d segments", len(acked), lost, r.Segments)
	}
	if out := carillon(t, 2, "restore", "--from", place, "--to", file); !strings.Contains(out, "exists") {
		t.Errorf("over the restored store:\n%s", out)
	}
	key, err := os.ReadFile(filepath.Join(data, "secrets.key")) // which nobody should keep beside the backup
	if err == nil {
		err = os.WriteFile(filepath.Join(other, "secrets.key"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	again := harness.Start(t, harness.Settings(harness.ShortLease), "dev", "--data", other)
	kept := 0
	for _, a := range acked {
		code, _, err := again.Ask("GET", "/api/v1/jobs/"+a.job, "")
		if err != nil {
			t.Fatal(err)
		}
		if code == 200 {
			kept++
		} else if a.at.Before(r.CompleteTo) {
			t.Errorf("the job %s, acknowledged %v before the instant that is complete, is missing: %d", a.job, r.CompleteTo.Sub(a.at), code)
		}
	}
	if kept == 0 {
		t.Error("no job is there")
	}
	j := again.Create(`{"name": "after", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	again.Ends(j.ExecutionID, "SUCCEEDED")
	if end := again.End(syscall.SIGTERM); end != 0 {
		t.Errorf("exit code %d", end)
	}
	carillon(t, 0, "backup", "verify", file)
}

// TestRestoreToAnInstant restores between two jobs, from the replica of a server that runs on, and from a backup.
func TestRestoreToAnInstant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place, where := "file:"+filepath.Join(dir, "place"), "sqlite:"+filepath.Join(dir, "c.db")
	p := harness.Serve(t, where, "--replicate", place)
	create := func(key string) {
		p.Create(`{"name": "n", "key": "` + key + `", "schedule": {"type": "ONE_TIME", "scheduled_time": "2099-01-01T00:00:00Z"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
	}
	complete := func() (at time.Time) {
		now := time.Now()
		harness.Eventually(t, 20*time.Second, "a replica of what was acknowledged", func() bool {
			r := harness.Launch(t, harness.Settings(), "restore", "--from", place, "--to", filepath.Join(t.TempDir(), "r.db"), "-o", "json")
			var got restoration
			return r.Exit() == 0 && json.Unmarshal([]byte(r.Out.String()), &got) == nil && got.CompleteTo.After(now)
		})
		return time.Now()
	}
	create("first")
	complete()
	between := time.Now()
	create("second")
	if out := carillon(t, 0, "backup", "--to", place, "--keep", "2", "--database", where); !strings.Contains(out, "Stored the backup") {
		t.Errorf("backup:\n%s", out)
	}
	create("third")
	complete()
	for at, want := range map[string][]int{between.Format(time.RFC3339Nano): {200, 404, 404}, "": {200, 200, 200}} {
		file := filepath.Join(t.TempDir(), "r.db")
		args := []string{"--from", place, "--to", file}
		if at != "" {
			args = append(args, "--at", at)
		}
		restore(t, args...)
		s := harness.Serve(t, "sqlite:"+file)
		for i, key := range []string{"first", "second", "third"} {
			if code, _, _ := s.Ask("GET", "/api/v1/jobs/key:"+key, ""); code != want[i] {
				t.Errorf("at %q: %s: %d, want %d", at, key, code, want[i])
			}
		}
		s.Kill()
	}
	if out := carillon(t, 3, "restore", "--from", place, "--to", filepath.Join(dir, "r.db"), "--at", "2020-01-01T00:00:00Z"); !strings.Contains(out, "goes back to") {
		t.Errorf("too early:\n%s", out)
	}
	if out := carillon(t, 0, "restore", "--from", place, "--dry-run"); !strings.Contains(out, "It would restore from") {
		t.Errorf("rehearsal:\n%s", out)
	}
	second := "sqlite:" + filepath.Join(dir, "second.db")
	if out := carillon(t, 2, "serve", "--database", second, "--listen", "127.0.0.1:0", "--replicate", place); !strings.Contains(out, "a folder or prefix for each store") {
		t.Errorf("another store:\n%s", out)
	}
	if out := carillon(t, 2, "serve", "--database", second, "--listen", "127.0.0.1:0", "--replicate", "store:"); !strings.Contains(out, "file:PATH") {
		t.Errorf("a wrong place:\n%s", out)
	}
}

// TestReplicaOfAMountThatLeaves takes the file system of the folder away from a server, which leaves the empty folder under it.
func TestReplicaOfAMountThatLeaves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := filepath.Join(dir, "place")
	p := harness.Serve(t, "sqlite:"+filepath.Join(dir, "c.db"), "--replicate", "file:"+place)
	metric := func(line string) func() bool {
		return func() bool {
			_, metrics, err := p.Ask("GET", "/metrics", "")
			return err == nil && strings.Contains(metrics, line)
		}
	}
	harness.Eventually(t, 30*time.Second, "a first snapshot", metric("carillon_replication_snapshots_total 1"))
	if err := os.Rename(place, place+"-mounted"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	p.Create(`{"name": "n", "key": "meanwhile", "schedule": {"type": "ONE_TIME", "scheduled_time": "2099-01-01T00:00:00Z"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
	harness.Eventually(t, 30*time.Second, "a warning", func() bool {
		_, ready, err := p.Ask("GET", "/readyz", "")
		return err == nil && strings.Contains(ready, "continuous backup is") && strings.Contains(p.Out.String(), "is its file system mounted?")
	})
	if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
		t.Errorf("it wrote under the mount: %v, %v", left, err)
	}
	if err := os.Remove(place); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(place+"-mounted", place); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 30*time.Second, "no warning", func() bool {
		_, ready, err := p.Ask("GET", "/readyz", "")
		return err == nil && !strings.Contains(ready, "continuous backup is")
	})
	if !metric("carillon_replication_generations_total 1")() {
		t.Error("another generation has begun")
	}
	file := filepath.Join(dir, "r.db")
	restore(t, "--from", "file:"+place, "--to", file)
	if code, _, _ := harness.Serve(t, "sqlite:"+file).Ask("GET", "/api/v1/jobs/key:meanwhile", ""); code != 200 {
		t.Errorf("the job is not in the restored store: %d", code)
	}
}

// A server backs its store up by itself, and says so in its metrics and when it cannot.
func TestScheduledBackupsAreRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place, data := filepath.Join(dir, "place"), filepath.Join(dir, "data")
	p := harness.Start(t, harness.Settings(harness.ShortLease), "dev", "--data", data, "--backup-url", "file:"+place)
	stored := func() []string {
		found, err := filepath.Glob(filepath.Join(place, "backups", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	harness.Eventually(t, 30*time.Second, "a backup", func() bool { return p.Says("the store was backed up") })
	if _, metrics, err := p.Ask("GET", "/metrics", ""); err != nil || !strings.Contains(metrics, "carillon_backup_overdue_seconds 0") {
		t.Errorf("the metrics do not say that none is overdue: %v", err)
	}
	before := stored()
	p.End(syscall.SIGTERM)
	file := filepath.Join(dir, "restored.db")
	restore(t, "--from", "file:"+place, "--to", file)
	carillon(t, 0, "backup", "verify", file)

	again := harness.Start(t, harness.Settings(harness.ShortLease), "dev", "--data", data, "--backup-url", "file:"+filepath.Join(data, "carillon.db"))
	harness.Eventually(t, 30*time.Second, "a warning", func() bool {
		_, body, err := again.Ask("GET", "/readyz", "")
		return err == nil && strings.Contains(body, "Scheduled backups to ")
	})
	if after := stored(); len(after) != len(before) {
		t.Errorf("the place has %d objects, and had %d", len(after), len(before))
	}
}
