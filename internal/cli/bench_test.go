package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func TestBenchJSON(t *testing.T) {
	for kind, url := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "carillon.db"), "postgres": postgrestest.Server(t)} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var out, said strings.Builder
			if code := Main([]string{"bench", "--database", url, "--jobs", "500", "--batch", "100", "--samples", "3", "--rate", "10", "--callers", "4", "-o", "json"}, &out, &said); code != done || said.Len() > 0 {
				t.Fatalf("exit code %d, told %q", code, said.String())
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			for _, name := range []string{"insert_per_s", "work_per_s", "both_per_s", "single_per_s", "rss_mb", "seconds", "cores", "accepted"} {
				if x, ok := got[name].(float64); !ok || x <= 0 {
					t.Errorf("%s is %v", name, got[name])
				}
			}
			for name, parts := range map[string][]string{"idle_pickup_ms": {"p50", "p99"}, "single_ms": {"p50", "p99"}, "at_rate": {"rate", "p50_ms", "p99_ms", "p999_ms"}} {
				for _, part := range parts {
					of, _ := got[name].(map[string]any)
					if x, ok := of[part].(float64); !ok || x <= 0 {
						t.Errorf("%s.%s is %v", name, part, of[part])
					}
				}
			}
			config, _ := got["config"].(map[string]any)
			if got["lost"] != 0.0 || got["doubled"] != 0.0 || got["engine"] == "" || config["database"] != kind || config["jobs"] != 500.0 || config["batch"] != 100.0 {
				t.Errorf("got %s", out.String())
			}
		})
	}
}

func TestBenchLeavesTheNamedFileAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "carillon.db")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said strings.Builder
	if code := Main([]string{"bench", "--database", "sqlite:" + path, "--jobs", "100", "--only", "both"}, &out, &said); code != done {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	if !strings.Contains(out.String(), "lost 0, doubled 0: all 101 executions") || strings.Contains(out.String(), "\x1b") || !strings.Contains(said.String(), "both: 100 …\n") {
		t.Errorf("got %s\ntold %s", out.String(), said.String())
	}
	files, err := os.ReadDir(dir)
	if text, bad := os.ReadFile(path); err != nil || bad != nil || len(files) != 1 || string(text) != "precious" {
		t.Errorf("the folder holds %v, the file %q", files, text)
	}
}

// forgetful is a store that says of every finish that it is done, and does none.
type forgetful struct{ engine.Store }

func (forgetful) Finish(_ context.Context, fs []job.Finish) ([]job.Verdict, error) {
	vs := make([]job.Verdict, len(fs))
	for i := range vs {
		vs[i].Accepted = true
	}
	return vs, nil
}

func TestBenchFailsWhereSomethingWasLost(t *testing.T) {
	c := benchCommand(func(ctx context.Context, url string) (engine.Store, func(context.Context) error, error) {
		s, remove, err := app.OpenScratch(ctx, url)
		return forgetful{s}, remove, err
	})
	var out, said strings.Builder
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetOut(&out)
	c.SetErr(&said)
	c.SetArgs([]string{"--database", "sqlite:" + filepath.Join(t.TempDir(), "x.db"), "--jobs", "20", "--only", "work", "-o", "json"})
	if code := exit(c, c.ExecuteContext(t.Context()), &said); code != failed {
		t.Errorf("exit code %d, want %d", code, failed)
	}
	if !strings.Contains(out.String(), `"lost": 20,`) || !strings.Contains(said.String(), "of 20 executions that were accepted 20 were lost and 0 doubled") {
		t.Errorf("got %s\ntold %s", out.String(), said.String())
	}
}

func TestBenchFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"--jobs 0":                        `jobs = "0" (flag): want a whole number from 1 to 100000000`,
		"--jobs many":                     `invalid argument "many" for "--jobs"`,
		"--batch 10001":                   `batch = "10001" (flag): want a whole number from 1 to 10000`,
		"--payload -1":                    `payload = "-1" (flag): want a whole number from 0 to 1048576`,
		"--slots 0":                       `slots = "0" (flag)`,
		"--callers 0":                     `callers = "0" (flag)`,
		"--samples 0":                     `samples = "0" (flag)`,
		"--rate -5":                       `rate = "-5" (flag)`,
		"--only insert,claim":             `only = "claim" (flag): want one or more of insert, work, both, limits, callbacks, remote, logs, single, http, idle, rate`,
		"--only rate --rate 0":            `rate = "0" (flag): want a rate of 1 or more`,
		"-o yaml":                         `output = "yaml" (flag): want table or json`,
		"--database mysql://u:secret@h/d": `database = "(not shown)" (flag): want sqlite:PATH or postgres://`,
		"--database sqlite:":              `database = "(not shown)" (flag)`,
		"--colour":                        `unknown flag: --colour`,
		"now":                             `unknown command "now"`,
	} {
		var out, said strings.Builder
		if code := Main(append([]string{"bench"}, strings.Fields(args)...), &out, &said); code != misuse || out.Len() > 0 || !strings.Contains(said.String(), want) || strings.Contains(said.String(), "secret") {
			t.Errorf("%s: exit code %d, want %d and %q; told %s%s", args, code, misuse, want, said.String(), out.String())
		}
	}
}

func TestBenchWhereItCannot(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:" + filepath.Join(t.TempDir(), "none", "carillon.db"): "create a temporary folder in",
		"postgres://u:secret@127.0.0.1:1/x":                           "the store cannot be reached",
		"postgres://u:secret@:port:/x":                                "the address of PostgreSQL is not valid",
	} {
		var out, said strings.Builder
		if code := Main([]string{"bench", "--database", url, "-o", "json"}, &out, &said); code != failed || out.Len() > 0 || !strings.Contains(said.String(), want) || strings.Contains(said.String(), "secret") {
			t.Errorf("%s: exit code %d, told %s%s", url, code, said.String(), out.String())
		}
	}
}

func TestBenchOfSchedules(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		keys []string
	}{
		"schedules": {[]string{"--schedules", "100", "--due", "20", "--seconds", "2"}, []string{"load_per_s", "claimable_p99_ms", "start_p50_ms", "start_p99_ms", "start_max_ms", "rss_mb", "heap_mb"}},
		"herd":      {[]string{"--herd", "100", "--trickle", "5"}, []string{"load_per_s", "all_claimable_s", "all_ran_s", "other_p99_ms", "rss_mb"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, said strings.Builder
			url := "sqlite:" + filepath.Join(t.TempDir(), "carillon.db")
			if code := Main(append([]string{"bench", name, "--database", url, "-o", "json"}, c.args...), &out, &said); code != done || said.Len() > 0 {
				t.Fatalf("exit code %d, told %q", code, said.String())
			}
			var got struct {
				Measures []struct {
					Key   string   `json:"key"`
					Value *float64 `json:"value"`
				} `json:"measures"`
				Config         map[string]any `json:"config"`
				Lost, Accepted int
			}
			if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			have := map[string]bool{}
			for _, m := range got.Measures {
				have[m.Key] = m.Value != nil
			}
			for _, k := range c.keys {
				if !have[k] {
					t.Errorf("%s is missing:\n%s", k, out.String())
				}
			}
			if got.Lost != 0 || got.Accepted == 0 || got.Config["database"] != "sqlite" {
				t.Errorf("got %s", out.String())
			}
		})
	}
}

// slow is a store that tells of what is due a second late.
type slow struct{ engine.Store }

func (s slow) Due(ctx context.Context, f engine.DueFilter) ([]engine.Due, error) {
	f.Until = time.Now().Add(-time.Second)
	return s.Store.Due(ctx, f)
}

func TestStrictFailsWhereAGoalIsMissed(t *testing.T) {
	for flag, want := range map[string]int{"--strict": failed, "--strict=false": done} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			open := func(ctx context.Context, url string) (engine.Store, func(context.Context) error, error) {
				s, remove, err := app.OpenScratch(ctx, url)
				return slow{s}, remove, err
			}
			c := benchSchedulesCommand(open)
			var out, said strings.Builder
			c.SetOut(&out)
			c.SetErr(&said)
			c.SetArgs([]string{"--database", "sqlite:" + filepath.Join(t.TempDir(), "c.db"), "--schedules", "10", "--due", "10", "--seconds", "1", flag})
			if code := exit(c, c.ExecuteContext(t.Context()), &said); code != want || !strings.Contains(out.String(), "✗") {
				t.Errorf("exit code %d, want %d:\n%s%s", code, want, out.String(), said.String())
			}
		})
	}
}

func TestBenchOfSchedulesFlags(t *testing.T) {
	for _, c := range []struct{ args, say string }{
		{"schedules --schedules 10000001", "from 1 to 10000000"},
		{"schedules --due 0", "due"},
		{"schedules --seconds 0", "seconds"},
		{"schedules --database mysql://x", "sqlite:PATH"},
		{"herd --herd 0", "herd"},
		{"herd --trickle 0", "trickle"},
		{"herd -o xml", "table or json"},
		{"herd now", "now"},
	} {
		var out, said strings.Builder
		if code := Main(append([]string{"bench"}, strings.Fields(c.args)...), &out, &said); code != misuse || !strings.Contains(said.String(), c.say) {
			t.Errorf("%s: exit code %d: %s", c.args, code, said.String())
		}
	}
}
