package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
	"github.com/carillon-jobs/carillon/test/harness"
)

// carillon runs a command to its end, and checks its exit code.
func carillon(t *testing.T, code int, args ...string) string {
	t.Helper()
	return carillonWith(t, harness.Settings(), code, args...)
}

func carillonWith(t *testing.T, env []string, code int, args ...string) string {
	t.Helper()
	p := harness.Launch(t, env, args...)
	if got := p.Exit(); got != code {
		t.Fatalf("carillon %s: exit code %d, want %d:\n%s", strings.Join(args, " "), got, code, p.Out.String())
	}
	return p.Out.String()
}

func TestMigrateByCommand(t *testing.T) {
	t.Parallel()
	harness.EmptyStores(t, func(t *testing.T, where string) {
		if strings.HasPrefix(where, "sqlite:") {
			carillon(t, 1, "migrate", "status", "--database", where) // it makes no file
		}
		if out := carillon(t, 1, "serve", "--database", where, "--listen", "127.0.0.1:0", "--migrate=false"); !strings.Contains(out, "carillon migrate up") {
			t.Errorf("a server on no schema says:\n%s", out)
		}
		if out := carillon(t, 0, "migrate", "plan", "--database", where, "--sql"); !strings.Contains(out, "CREATE TABLE tenants") {
			t.Errorf("the plan:\n%s", out)
		}
		if out := carillon(t, 0, "migrate", "up", "--database", where); !strings.Contains(out, "0001 schema: applied") {
			t.Errorf("up:\n%s", out)
		}
		if out := carillon(t, 0, "migrate", "up", "--database", where); !strings.Contains(out, "; 0 steps were missing") {
			t.Errorf("up again:\n%s", out)
		}
		p := harness.Serve(t, where, "--migrate=false")
		j := p.Create(`{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		p.Ends(j.ExecutionID, "SUCCEEDED")
		if out := carillon(t, 0, "migrate", "status", "--database", where); !strings.Contains(out, "0001   schema") || strings.Contains(out, "no  ") {
			t.Errorf("status beside a server:\n%s", out)
		}
	})
}

func TestBackupOfARunningServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	where, saved := "sqlite:"+filepath.Join(data, "c.db"), filepath.Join(data, "saved.db")
	p, s := harness.Serve(t, where), harness.NewSink(t)
	p.Create(recurs(s, eachSecond, `, "catch_up": "all", "key": "tick"`))
	harness.Eventually(t, 20*time.Second, "two calls", func() bool { return len(s.Seen()) >= 2 })
	if out := carillon(t, 0, "backup", "create", saved, "--database", where); !strings.Contains(out, "1 jobs") {
		t.Errorf("create:\n%s", out)
	}
	p.Create(`{"name": "later", "key": "later", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	if out := carillon(t, 0, "backup", "verify", saved); !strings.Contains(out, "is valid") {
		t.Errorf("verify:\n%s", out)
	}
	if out := carillon(t, 1, "backup", "restore", saved, "--database", where, "--yes"); !strings.Contains(out, "has this database open") {
		t.Errorf("restore under a server:\n%s", out)
	}
	if code := p.End(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if out := carillon(t, 2, "backup", "restore", saved, "--database", where); !strings.Contains(out, "--yes") {
		t.Errorf("restore over a store:\n%s", out)
	}
	carillon(t, 0, "backup", "restore", saved, "--database", where, "--yes")
	if kept, _ := filepath.Glob(filepath.Join(data, "c.db.replaced-*")); len(kept) == 0 {
		t.Error("the store that was there is gone")
	}
	before := len(s.Seen())
	p = harness.Serve(t, where)
	if code, _, _ := p.Ask("GET", "/api/v1/jobs/key:later", ""); code != 404 {
		t.Errorf("what came after the backup: %d", code)
	}
	harness.Eventually(t, 20*time.Second, "calls after the restore", func() bool { return len(s.Seen()) > before+3 })
	complete(t, s, before+4) // what fired after the backup fires again; nothing is left out
	if info, err := os.Stat(saved); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v", info, err)
	}
}

// Schedules continue after a move: each second fires once, whichever store it is in.
func TestMoveToPostgres(t *testing.T) {
	t.Parallel()
	data, to := t.TempDir(), postgrestest.URL(t)
	file := filepath.Join(data, "c.db")
	env := harness.Settings("CARILLON_SECRETS_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	p, s := harness.Start(t, env, "serve", "--database", "sqlite:"+file), harness.NewSink(t)
	harness.Want[client.Calendar](p, 200, "PUT", "/api/v1/calendars/holidays", `{"yearly": ["12-25"]}`)
	harness.Want[client.Secret](p, 200, "PUT", "/api/v1/secrets/token", `{"value": "s3cr3t"}`)
	for _, body := range []string{
		recurs(s, eachSecond, `, "catch_up": "all", "catch_up_limit": 1000, "key": "tick"`),
		`{"name": "paused", "key": "paused", "schedule": {"type": "CRON", "cron_expression": "0 3 * * *", "timezone": "Europe/Berlin", "calendar": "holidays", "max_runs": 7}, "tags": ["a", "ü \"q\""],
			"execution": {"target": "worker", "kind": "k"}, "max_concurrent": 2, "concurrency_key": "payload.x", "rate_limit": {"count": 5, "per": "1m"}, "labels": ["gpu"], "queue": "q"}`,
		`{"name": "later", "key": "later", "schedule": {"type": "ONE_TIME", "scheduled_time": "2099-01-01T00:00:00Z"}, "execution": {"target": "simulate", "work_kind": "noop", "payload": {"a": [1, 2.50]}}}`,
		`{"name": "dies", "key": "dies", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`,
		`{"name": "waits", "key": "waits", "execution": {"target": "worker", "kind": "nobody"}, "unique_key": "u", "expires_after": "100h", "max_concurrent": 3}`,
		`{"name": "secret", "key": "secret", "schedule": {"type": "INTERVAL", "every": "24h"}, "execution": {"callback_url": "https://example.com/", "headers": {"Authorization": "Bearer ${secret:token}", "X-Api-Key": "literal"}}}`,
	} {
		if j := p.Create(body); *j.Key == "dies" {
			p.Ends(j.ExecutionID, "FAILED")
		}
	}
	harness.Want[client.Job](p, 200, "PATCH", "/api/v1/jobs/key:paused/pause", `{"reason": "why not"}`)
	hangs := p.Create(`{"name": "hangs", "key": "hangs", "execution": {"target": "simulate", "work_kind": "sleep", "duration_ms": 600000}}`)
	p.Ends(hangs.ExecutionID, "RUNNING")
	harness.Eventually(t, 20*time.Second, "three calls", func() bool { return len(s.Seen()) >= 3 })
	if out := carillonWith(t, env, 1, "move", "--database", "sqlite:"+file, "--to", to); !strings.Contains(out, "has this database open") {
		t.Errorf("beside a server:\n%s", out)
	}
	read := func(p *harness.Process) (jobs client.Jobs, letters client.DeadLetters, keys client.APIKeys) {
		return harness.Read[client.Jobs](p, "/api/v1/jobs?limit=100"), harness.Read[client.DeadLetters](p, "/api/v1/dead-letters"), harness.Read[client.APIKeys](p, "/api/v1/api-keys")
	}
	jobs, letters, keys := read(p)
	p.Kill() // as it would be after a power cut: something runs, and nobody said goodbye
	out := carillonWith(t, env, 0, "move", "--database", "sqlite:"+file, "--to", to)
	if !strings.Contains(out, "Everything has been moved") {
		t.Errorf("move:\n%s", out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the old store has kept its name")
	}
	p = harness.Start(t, env, "serve", "--database", to)
	movedJobs, movedLetters, movedKeys := read(p)
	changing := cmpopts.IgnoreFields(client.JobSchedule{}, "NextRunAt", "LastRunAt")
	if diff := cmp.Diff(jobs.Jobs, movedJobs.Jobs, changing, cmpopts.IgnoreFields(client.Job{}, "Stats")); diff != "" {
		t.Errorf("the jobs differ:\n%s", diff)
	}
	if diff := cmp.Diff(letters.DeadLetters, movedLetters.DeadLetters); diff != "" || len(letters.DeadLetters) != 1 {
		t.Errorf("the dead letters differ:\n%s", diff)
	}
	if diff := cmp.Diff(keys.APIKeys, movedKeys.APIKeys, cmpopts.IgnoreFields(client.APIKey{}, "LastUsedAt")); diff != "" {
		t.Errorf("the keys differ:\n%s", diff)
	}
	before := len(s.Seen())
	harness.Eventually(t, 30*time.Second, "calls after the move", func() bool { return len(s.Seen()) >= before+5 })
	unbroken(t, 0, s)
	harness.Eventually(t, 40*time.Second, "what ran to run again", func() bool {
		e := harness.Read[client.Execution](p, "/api/v1/executions/"+hangs.ExecutionID)
		return e.Status == "RUNNING" && e.AttemptNumber >= 2
	})
	if out := carillonWith(t, env, 1, "move", "--database", "sqlite:"+file, "--to", to); !strings.Contains(out, "no such file") {
		t.Errorf("again:\n%s", out)
	}
}
