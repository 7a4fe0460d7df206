package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

func TestDevNeedsNothing(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "state")
	p := harness.Start(t, nil, "dev", "--data", data, "--demo")
	p.Key = "" // there is no sign-in
	jobs := func() map[string]string {
		status := map[string]string{}
		for _, j := range harness.Want[client.Jobs](p, 200, "GET", "/api/v1/jobs?tag=demo", "").Jobs {
			if j.Stats.LastStatus != nil {
				status[*j.Key] = *j.Stats.LastStatus
			}
		}
		return status
	}
	harness.Eventually(t, 30*time.Second, "the sample jobs to run", func() bool {
		got := jobs()
		return got["demo-hello"] == "SUCCEEDED" && got["demo-flaky"] == "SUCCEEDED" && got["demo-failing"] == "FAILED"
	})
	for _, say := range []string{"curl -s " + p.Base + "/api/v1/jobs", p.Base + "/docs", "SQLite 3", data, "Ctrl-C"} {
		if !strings.Contains(p.Out.String(), say) {
			t.Errorf("the greeting lacks %q:\n%s", say, p.Out.String())
		}
	}
	info, err := os.Stat(filepath.Join(data, "carillon.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}

	second := harness.Launch(t, nil, "dev", "--data", data, "--listen", "127.0.0.1:0")
	if code := second.Exit(); code != 1 || !strings.Contains(second.Out.String(), "another Carillon") {
		t.Errorf("a second process on the same data: exit code %d:\n%s", code, second.Out.String())
	}
	busy := harness.Launch(t, nil, "dev", "--data", t.TempDir(), "--listen", strings.TrimPrefix(p.Base, "http://"))
	if code := busy.Exit(); code != 1 || !strings.Contains(busy.Out.String(), "address already in use") {
		t.Errorf("a taken port: exit code %d:\n%s", code, busy.Out.String())
	}

	p.End(os.Kill)
	p = harness.Start(t, nil, "dev", "--data", data, "--demo") // on another port, too
	p.Key = ""
	harness.Eventually(t, 30*time.Second, "the sample jobs to run again", func() bool {
		hello := harness.Want[client.Executions](p, 200, "GET", "/api/v1/jobs/key:demo-hello/executions?status=SUCCEEDED", "").Pagination.Total
		flaky := harness.Want[client.Executions](p, 200, "GET", "/api/v1/jobs/key:demo-flaky/executions?status=SUCCEEDED", "").Pagination.Total
		return hello >= 2 && flaky >= 2 // they ring repeatedly
	})
	if code := p.End(os.Interrupt); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A file of SQLite is one process's own: another is told who has it, and changes nothing.
func TestASecondServerOnOneFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.db")
	p := harness.Serve(t, "sqlite:"+path)
	j := p.Create(`{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	for _, roles := range []string{"api,scheduler,worker", "scheduler"} {
		second := harness.Launch(t, harness.Settings(), "serve", "--database", "sqlite:"+path, "--roles", roles, "--listen", "127.0.0.1:0")
		if code := second.Exit(); code != 1 || !second.Says("another Carillon") || !second.Says(path) || second.Says("goroutine") {
			t.Errorf("roles %s: exit code %d:\n%s", roles, code, second.Out.String())
		}
	}
	p.Ends(j.ExecutionID, "SUCCEEDED")
	p.Kill() // the lock is the system's, so nothing is left behind
	harness.Serve(t, "sqlite:"+path).Ends(j.ExecutionID, "SUCCEEDED")
}

func TestBadUsage(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.toml")
	if err := os.WriteFile(bad, []byte("listen = 5\n[workers]\nmax_count = 0\nmax_cuont = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.toml")
	if err := os.WriteFile(broken, []byte("listen = \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		says []string
	}{
		{"an address that is not loopback", nil, []string{"dev", "--listen", "0.0.0.0:8080"}, 2, []string{"listen", "0.0.0.0:8080", "loopback", "carillon serve"}},
		{"every address", nil, []string{"dev", "--listen", ":8080"}, 2, []string{"loopback"}},
		{"no address", nil, []string{"dev", "--listen", "localhost"}, 2, []string{"listen", `"localhost"`, "127.0.0.1:8080"}},
		{"an unknown flag", nil, []string{"dev", "--colour"}, 2, []string{"unknown flag: --colour", "--help"}},
		{"an unknown command", nil, []string{"sevre"}, 2, []string{"sevre"}},
		{"an argument too many", nil, []string{"dev", "now"}, 2, []string{"now"}},
		{"no database", nil, []string{"serve"}, 2, []string{"database", "CARILLON_DATABASE", "postgres://"}},
		{"a database of another kind", nil, []string{"serve", "--database", "mysql://u:geheim@h/x"}, 2, []string{"database", "postgres://"}},
		{"an unknown role", nil, []string{"serve", "--database", "sqlite:x", "--roles", "api,cook"}, 2, []string{"roles", "api,cook", "scheduler"}},
		{"a short bootstrap key", []string{"CARILLON_BOOTSTRAP_KEY=short"}, []string{"serve", "--database", "sqlite:x"}, 2, []string{"bootstrap_key", "32"}},
		{"a number that is none", []string{"CARILLON_WORKERS_MAX_COUNT=many"}, []string{"dev"}, 2, []string{"workers.max_count", `"many"`, "CARILLON_WORKERS_MAX_COUNT"}},
		{"half of TLS", nil, []string{"serve", "--database", "sqlite:x", "--tls-cert", "c.pem"}, 2, []string{"tls.cert and tls.key together"}},
		{"TLS files that are not there", nil, []string{"serve", "--database", "sqlite:x", "--tls-cert", "/nope.pem", "--tls-key", "/nope.key"}, 2, []string{"tls.cert", "/nope.pem"}},
		{"a range that is none", nil, []string{"serve", "--database", "sqlite:x", "--allow-callback", "10.0.0.0/99"}, 2, []string{"callbacks.allow", "10.0.0.0/99"}},
		{"a worker without a server", nil, []string{"worker", "--token", "x"}, 2, []string{"server", "--server https://"}},
		{"a worker without a key", nil, []string{"worker", "--server", "http://h"}, 2, []string{"token", "CARILLON_TOKEN"}},
		{"a worker with a path", nil, []string{"worker", "--server", "http://h/api", "--token", "x", "--capacity", "0"}, 2, []string{"http://h/api", "capacity"}},
		{"a bad file", nil, []string{"dev", "--config", bad}, 2, []string{"listen", "workers.max_count", "workers.max_cuont", "bad.toml"}},
		{"a broken file", nil, []string{"dev", "--config", broken}, 2, []string{"broken.toml", "TOML"}},
		{"no file", nil, []string{"dev", "--config", "nowhere.toml"}, 2, []string{"nowhere.toml"}},
		{"nobody there", nil, []string{"serve", "--listen", "127.0.0.1:0", "--database", "postgres://u:geheim@" + closed + "/x"}, 1, []string{closed}},
		{"a folder that cannot be", nil, []string{"dev", "--listen", "127.0.0.1:0", "--data", "/dev/null/x"}, 1, []string{"/dev/null/x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := harness.Launch(t, c.env, c.args...)
			if code := p.Exit(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			out := p.Out.String()
			for _, s := range c.says {
				if !strings.Contains(out, s) {
					t.Errorf("it does not say %q:\n%s", s, out)
				}
			}
			if strings.Contains(out, "geheim") || strings.Contains(out, "goroutine") {
				t.Errorf("it says too much:\n%s", out)
			}
		})
	}
}

func TestSignInIsNeeded(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Start(t, nil, "serve", "--database", where)
		m := regexp.MustCompile(`car_live_\S+`).FindString(p.Out.String())
		if m == "" {
			t.Fatalf("no key was printed:\n%s", p.Out.String())
		}
		for given, code := range map[string]int{"": 401, "wrong": 401, m: 200} {
			p.Key = given
			if got, body, err := p.Ask("GET", "/api/v1/jobs", ""); err != nil || got != code {
				t.Errorf("with %q: got %d, %v, want %d: %s", given, got, err, code, body)
			}
		}
		p.End(os.Interrupt)
		p = harness.Start(t, harness.Settings(), "serve", "--database", where)
		if strings.Contains(p.Out.String(), "car_live_") {
			t.Error("a second key was printed")
		}
		p.Key = m
		if got, _, err := p.Ask("GET", "/api/v1/jobs", ""); err != nil || got != 200 {
			t.Errorf("the first key is forgotten: %d, %v", got, err)
		}
	})
}

// The role of a process decides what it answers and does.
func TestRoles(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	api := harness.Serve(t, where, "--roles", "api")
	j := api.Create(`{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	if e := api.Execution(j.ExecutionID); e.Status != "PENDING" {
		t.Errorf("it is %s, though nobody works", e.Status)
	}
	worker := harness.Serve(t, where, "--roles", "worker")
	if code, _, err := worker.Ask("GET", "/api/v1/jobs", ""); err != nil || code != 404 {
		t.Errorf("a worker answers the API: %d, %v", code, err)
	}
	if code, _, err := worker.Ask("GET", "/readyz", ""); err != nil || code != 200 {
		t.Errorf("a worker is not ready: %d, %v", code, err)
	}
	api.Ends(j.ExecutionID, "SUCCEEDED")
}

// A worker hears of new executions from other servers, long before it would look for them.
func TestServersWakeEachOther(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	env := harness.Settings("CARILLON_WORKERS_POLL_INTERVAL_MS=60000")
	harness.Start(t, env, "serve", "--database", where, "--roles", "worker")
	api := harness.Start(t, env, "serve", "--database", where, "--roles", "api")
	for range 5 {
		began := time.Now()
		j := api.Create(`{"name": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		api.Ends(j.ExecutionID, "SUCCEEDED")
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("it took %v, about as long as if nobody had told it", took)
		}
	}
}

// A server that may lose what it acknowledged is refused, unless told otherwise.
func TestAsyncCommitIsRefused(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	admin, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.Background())
	var name string
	if err := admin.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET synchronous_commit = off", name)); err != nil {
		t.Fatal(err)
	}
	p := harness.Launch(t, harness.Settings(), "serve", "--database", where, "--listen", "127.0.0.1:0")
	if code := p.Exit(); code != 1 || !strings.Contains(p.Out.String(), "synchronous_commit") || !strings.Contains(p.Out.String(), "allow_async_commit") {
		t.Errorf("exit code %d:\n%s", code, p.Out.String())
	}
	harness.Start(t, harness.Settings(), "serve", "--database", where, "--allow-async-commit")
}
