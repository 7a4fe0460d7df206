package telemetry_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPromtool has Prometheus' own tool read the alerts and every query of the dashboards, and run the alerts' tests.
// scripts/promtool gets it.
func TestPromtool(t *testing.T) {
	tool := os.Getenv("CARILLON_PROMTOOL")
	if tool == "" {
		var err error
		if tool, err = exec.LookPath("promtool"); err != nil {
			t.Skip("there is no promtool; CARILLON_PROMTOOL=$(scripts/promtool) gets it")
		}
	}
	run := func(dir string, args ...string) {
		t.Helper()
		c := exec.Command(tool, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	// The queries become rules, with Grafana's variables filled in.
	fill := strings.NewReplacer("$__rate_interval", "5m", "$__range", "6h", "$job", ".*")
	var rules bytes.Buffer
	rules.WriteString("groups:\n- name: dashboards\n  rules:\n")
	all := expressions(t)
	n := 0
	for _, where := range slices.Sorted(maps.Keys(all)) {
		expr := all[where]
		if strings.HasSuffix(where, ".yaml") || strings.HasPrefix(expr, "label_values(") {
			continue
		}
		fmt.Fprintf(&rules, "  - record: query:%d\n    expr: %q # %s\n", n, fill.Replace(expr), where)
		n++
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(file, rules.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if n < 40 {
		t.Errorf("there are %d queries", n)
	}
	run("", "check", "rules", "--lint=none", file)
	dir := filepath.Join(root, "deploy", "prometheus")
	run(dir, "check", "rules", "alerts.yaml", "alerts-small.yaml")
	run(dir, "check", "config", "--syntax-only", "prometheus.yaml")
	run(dir, "test", "rules", "alerts_test.yaml", "alerts-small_test.yaml")
}
