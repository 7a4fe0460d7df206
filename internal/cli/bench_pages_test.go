package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

func TestBenchOfPages(t *testing.T) {
	t.Parallel()
	var out, said strings.Builder
	url := "sqlite:" + filepath.Join(t.TempDir(), "carillon.db")
	args := []string{"bench", "pages", "--database", url, "--jobs", "60", "--executions", "200", "--samples", "1", "--callers", "2", "-o", "json"}
	if code := Main(args, &out, &said); code != done || said.Len() > 0 {
		t.Fatalf("exit code %d, told %q", code, said.String())
	}
	var got struct {
		Benchmark string
		Pages     []struct {
			Name    string
			Route   string
			Callers int
			P99     *float64 `json:"p99_ms"`
			Met     *bool
		}
		Config   map[string]any
		Accepted int
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if len(got.Pages) < 100 || got.Accepted == 0 || got.Config["executions"] != 200.0 || got.Config["database"] != "sqlite" || got.Benchmark != "pages over 60 jobs and 200 executions" {
		t.Errorf("got %s", out.String())
	}
	for _, p := range got.Pages {
		if p.Name == "" || p.P99 == nil || p.Met == nil || p.Callers == 0 {
			t.Errorf("got %+v", p)
		}
	}
}

func TestBenchOfPagesFlags(t *testing.T) {
	for args, say := range map[string]string{
		"--jobs 0":                      "jobs",
		"--jobs 10000001":               "from 1 to 10000000",
		"--executions 0":                "executions",
		"--settle -1s":                  "settle",
		"--settle 3h":                   "settle",
		"--jobs 100 --executions 99":    `executions = "99" (flag): want at least as many as jobs, of which there are 100`,
		"--samples 0":                   "samples",
		"--callers 1001":                "from 1 to 1000",
		"--database mysql://x":          "sqlite:PATH",
		"-o xml":                        "table or json",
		"now":                           "now",
		"--slots 0 --executions 100000": "slots",
	} {
		var out, said strings.Builder
		if code := Main(append([]string{"bench", "pages"}, strings.Fields(args)...), &out, &said); code != misuse || !strings.Contains(said.String(), say) {
			t.Errorf("%s: exit code %d: %s", args, code, said.String())
		}
	}
}

func TestBenchOfWorkflows(t *testing.T) {
	t.Parallel()
	var out, said strings.Builder
	url := "sqlite:" + filepath.Join(t.TempDir(), "carillon.db")
	args := []string{"bench", "workflows", "--database", url, "--chains", "2", "--length", "3", "--turns", "1", "--only", "chains", "-o", "json"}
	if code := Main(args, &out, &said); code != done || said.Len() > 0 {
		t.Fatalf("exit code %d, told %q", code, said.String())
	}
	var got struct {
		Measures []struct {
			Key  string
			Goal *float64
			Aim  *float64
			Hit  *bool `json:"aim_met"`
		}
		Accepted int
		Config   map[string]any
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	judged := 0
	for _, m := range got.Measures {
		if m.Goal != nil && m.Aim != nil && m.Hit != nil {
			judged++
		}
	}
	if judged != 1 || got.Accepted != 2*(6+3) || got.Config["chains"] != 2.0 {
		t.Errorf("got %s", out.String())
	}
	for args, say := range map[string]string{
		"--chains 0": "chains", "--length 1001": "from 1 to 1000", "--star 0": "star", "--map 100001": "map", "--turns 0": "turns", "--only maps": "one or more of map, chains", "now": "now",
	} {
		said.Reset()
		if code := Main(append([]string{"bench", "workflows"}, strings.Fields(args)...), &out, &said); code != misuse || !strings.Contains(said.String(), say) {
			t.Errorf("%s: exit code %d: %s", args, code, said.String())
		}
	}
}

func TestBenchOfHistory(t *testing.T) {
	t.Parallel()
	var out, said strings.Builder
	url := "sqlite:" + filepath.Join(t.TempDir(), "carillon.db")
	args := []string{"bench", "history", "--database", url, "--jobs", "50", "--executions", "600", "--samples", "5", "-o", "json"}
	if code := Main(args, &out, &said); code != done || said.Len() > 0 {
		t.Fatalf("exit code %d, told %q", code, said.String())
	}
	var got struct {
		Measures []struct {
			Key   string
			Value float64
		}
		Accepted int
		Config   map[string]any
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	values := map[string]float64{}
	for _, m := range got.Measures {
		values[m.Key] = m.Value
	}
	for _, key := range []string{"move_per_s", "heap_mb", "create_times", "share", "one_p99_ms", "page_p99_ms", "search_ms"} {
		if values[key] <= 0 {
			t.Errorf("%s is %v", key, values[key])
		}
	}
	if got.Accepted < 1000 || got.Config["executions"] != 600.0 { // those of the day, and some that were created meanwhile
		t.Errorf("got %s", out.String())
	}
	for args, say := range map[string]string{"--executions 0": "executions", "--jobs 100 --executions 99": "at least as many as jobs", "--samples 0": "samples", "now": "now"} {
		said.Reset()
		if code := Main(append([]string{"bench", "history"}, strings.Fields(args)...), &out, &said); code != misuse || !strings.Contains(said.String(), say) {
			t.Errorf("%s: exit code %d: %s", args, code, said.String())
		}
	}
}
