package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/declare"
)

const declared = `
jobs:
  - key: apply-a
    name: A
    tags: [apply-test]
    schedule: {type: CRON, cron_expression: "30 2 * * *", timezone: Europe/Berlin}
    execution: {target: simulate, work_kind: noop}
  - key: apply-b
    name: B
    tags: [apply-test]
    depends_on: [apply-a]
    schedule: {type: INTERVAL, every: 1h}
    execution: {target: simulate, work_kind: noop}
`

func TestApplyFromTheCommandLine(t *testing.T) {
	c := at(t, "--server", devServer(t))
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(declared)
	if out := c.ok("plan", "-f", file); !strings.Contains(out, "+ create job apply-a (A)") || !strings.Contains(out, "2 to create, 1 to change, 0 to delete, 0 unchanged.") || !strings.Contains(out, "02:30:00 (Europe/Berlin") {
		t.Errorf("plan:\n%s", out)
	}
	c.ok("apply", "-f", file, "--dry-run")
	c.fails(notFound, "", "job", "get", "apply-a")
	c.ok("apply", "-f", file)
	if !strings.Contains(c.err, "job apply-a: created") || !strings.Contains(c.err, "dependencies apply-b: changed") || !strings.Contains(c.err, "2 created, 1 changed, 0 deleted, 0 unchanged, 0 failed.") {
		t.Errorf("apply:\n%s", c.err)
	}
	if rs := read[[]declare.Result](c, "apply", "-f", file); len(rs) != 2 || rs[0].Action != client.ActionUnchanged || !rs[1].Done {
		t.Errorf("again: %+v", rs)
	}
	c.in = c.ok("job", "export", "--tag", "apply-test")
	if out := c.ok("plan", "-f", "-"); out != "Nothing would change: 2 are as declared." {
		t.Errorf("an export:\n%s", out)
	}
	write(strings.Replace(declared[:strings.Index(declared, "  - key: apply-b")], "30 2", "0 4", 1))
	c.fails(misuse, "--yes", "apply", "-f", file, "--prune", "-l", "apply-test")
	if j := read[client.Job](c, "job", "get", "apply-a"); *j.Schedule.CronExpression != "30 2 * * *" {
		t.Error("without --yes something was changed")
	}
	c.ok("apply", "-f", file, "--prune", "-l", "apply-test", "--yes")
	if !strings.Contains(c.err, "0 created, 1 changed, 1 deleted, 0 unchanged, 0 failed.") {
		t.Errorf("prune:\n%s", c.err)
	}
	write("jobs:\n  - key: x\n    nam: y\n")
	c.fails(misuse, "jobs.yaml:3: jobs[0].nam", "plan", "-f", file)
	c.fails(misuse, "-f FILE", "apply")
	c.fails(misuse, "-l TAG", "apply", "-f", file, "--prune")
	c.ok("job", "delete", "apply-a", "--yes")
}

func TestImportFromTheCommandLine(t *testing.T) {
	c := at(t)
	report := filepath.Join(t.TempDir(), "report.json")
	c.in = "*/5 * * * * /bin/sync\n@reboot x\n"
	out := c.ok("import", "crontab", "-", "--timezone", "Europe/Berlin", "--report", report)
	if !strings.Contains(out, "key: sync") || !strings.Contains(c.err, "[left out] line 2: @reboot: ") || !strings.Contains(c.err, "1 jobs, ") {
		t.Errorf("got\n%s\n%s", out, c.err)
	}
	if data, err := os.ReadFile(report); err != nil || !strings.Contains(string(data), `"about": "@reboot"`) {
		t.Errorf("report: %s, %v", data, err)
	}
	c.in = out
	dev := at(t, "--server", devServer(t))
	dev.in = out
	if got := dev.ok("plan", "-f", "-"); !strings.Contains(got, "+ create job sync (/bin/sync)") {
		t.Errorf("plan:\n%s", got)
	}
	c.in = "kind: [\n"
	c.fails(misuse, "valid YAML", "import", "cronjob", "-")
	c.in = "kind: Deployment\n"
	c.fails(failed, "nothing to import", "import", "cronjob", "-")
}

func TestConfigFromTheCommandLine(t *testing.T) {
	c := at(t)
	file := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(file, []byte("[workers]\nmax_cuont = 9\n\n[log]\nlevel = \"debug\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.fails(misuse, "line 2): want a key that exists: perhaps workers.max_count", "config", "check", "--config", file)
	if err := os.WriteFile(file, []byte("[workers]\nmax_count = 9\n[history]\nwarm_days = 30\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ok("config", "check", "--config", file)
	if !strings.Contains(c.err, "valid: 2 set") || !strings.Contains(c.err, "note: history.warm_days") {
		t.Errorf("check:\n%s", c.err)
	}
	t.Setenv("CARILLON_CONFIG", file)
	t.Setenv("CARILLON_LOG_FORMAT", "json")
	rows := map[string]shownSetting{}
	for _, s := range read[[]shownSetting](c, "config", "show", "--retry-max-retries", "7", "--commands-shared") {
		rows[s.Key] = s
	}
	for key, want := range map[string][2]string{
		"workers.max_count": {"9", ", line 2"}, "log.format": {"json", "environment CARILLON_LOG_FORMAT"}, "retry.max_retries": {"7", "flag --retry-max-retries"},
		"commands.shared": {"true", "flag --commands-shared"}, "listen": {":8080", "default"},
	} {
		if s := rows[key]; s.Value != want[0] || !strings.HasSuffix(s.From, want[1]) {
			t.Errorf("%s: %+v, want %v", key, s, want)
		}
	}
	c.fails(misuse, "dev, serve or worker", "config", "show", "--for", "cook")
	if out := c.ok("config", "show", "--for", "dev", "-o", "toml"); !strings.Contains(out, "[commands]\nallow = true\n") || !strings.Contains(out, `listen = "127.0.0.1:8080"`) {
		t.Errorf("toml:\n%s", out)
	}
}
