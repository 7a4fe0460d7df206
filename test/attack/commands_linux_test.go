package attack

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// TestHiddenVariables tries to read a hidden variable of a command, as someone who may change jobs. Commands print it in reverse, which
// no redaction finds.
func TestHiddenVariables(t *testing.T) {
	t.Parallel()
	s := stage(t, "CARILLON_COMMANDS_ALLOW=true", "CARILLON_ROLES=api,scheduler")
	c := s.people["victim/operator"]
	w := harness.Launch(t, harness.Settings("CARILLON_TOKEN="+s.people["victim/worker"].Key), "worker", "--server", s.server.Base, "--allow-commands")
	literal := "canary-" + rand.Text()
	runes := []rune(literal)
	slices.Reverse(runes)
	reverse := string(runes)
	back := `awk 'BEGIN {for (n in ENVIRON) {v = ENVIRON[n]; r = ""; for (i = length(v); i > 0; i--) r = r substr(v, i, 1); print n, r}}'`
	told := func(id string) string {
		s.final(c, id)
		a, err := c.Do("GET", "/api/v1/executions/"+id+"/logs", "")
		if err != nil {
			t.Fatal(err)
		}
		e := harness.Read[map[string]any](c, "/api/v1/executions/"+id)
		return a.Body + fmt.Sprint(e)
	}
	job := func(command, more string) string {
		return fmt.Sprintf(`{"name": "x", "schedule": {"type": "INTERVAL", "every": "24h"}, "retry_policy": {"max_retries": 0}, "execution": {"target": "command", "command": [%s], "env": {"API_TOKEN": %q, "MODE": "quiet"}%s}}`, command, literal, more)
	}
	run := func(j client.Job, body string) string {
		a, err := c.Do("POST", "/api/v1/jobs/"+j.JobID+"/trigger", body)
		if err != nil || a.Code != 202 {
			return a.Body
		}
		return told(field(a.Body, "execution_id"))
	}
	shell := `"/bin/sh", "-c", ` + quote(back)
	s.row(strings.Contains(run(c.Create(job(shell, "")), ""), reverse), "a command that was given the variable from the start reads it", "it does, so that the rows below mean something")
	for what, patch := range map[string]string{
		"another program":             `{"execution": {"command": [` + shell + `]}}`,
		"another program, sent back":  `{"execution": {"command": [` + shell + `], "env": {"API_TOKEN": "[redacted]", "MODE": "quiet"}}}`,
		"another variable":            `{"execution": {"env": {"API_TOKEN": "[redacted]", "MODE": "loud"}}}`,
		"a variable more":             `{"execution": {"env": {"API_TOKEN": "[redacted]", "MODE": "quiet", "LD_PRELOAD": "/tmp/x.so"}}}`,
		"under another name":          `{"execution": {"env": {"OTHER": "[redacted]", "MODE": "quiet"}}}`,
		"under another hidden name":   `{"execution": {"env": {"OTHER_TOKEN": "[redacted]", "MODE": "quiet"}}}`,
		"another payload, as program": `{"execution": {"payload": ` + quote(back) + `}}`,
		"as a call":                   fmt.Sprintf(`{"execution": {"target": "http", "callback_url": %q, "command": null, "env": null, "headers": {"X-Token": "[redacted]"}}}`, s.sink.URL),
	} {
		command := `"/bin/true"`
		switch {
		case strings.Contains(what, "payload"):
			command = `"/bin/sh", "-s"`
		case strings.Contains(what, "variable"):
			command = `"/bin/sh", "-c", ` + quote(`test "$MODE$LD_PRELOAD" = quiet || `+back)
		}
		j := c.Create(job(command, `, "payload": ":"`))
		a, err := c.Do("PATCH", "/api/v1/jobs/"+j.JobID, patch)
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		if a.Code == 200 {
			out = run(j, "")
		}
		leaked := strings.Contains(out+a.Body+fmt.Sprint(s.sink.Seen()), reverse) || strings.Contains(out+a.Body+fmt.Sprint(s.sink.Seen()), literal)
		s.row(!leaked && a.Code < 500, "re-targeting a hidden variable: "+what, fmt.Sprintf("%d, leaked: %v", a.Code, leaked))
	}
	j := c.Create(job(`"/bin/sh", "-s"`, `, "payload": ":"`))
	out := run(j, fmt.Sprintf(`{"payload_override": %s}`, quote(back)))
	s.row(!strings.Contains(out, reverse) && !strings.Contains(out, literal), "a payload for one run, as program", "nothing leaked")
	for _, path := range []string{"jobs/" + j.JobID, "jobs/" + j.JobID + "/revisions", "audit?limit=200"} {
		a := s.answers(s.people["victim/admin"], []int{200}, "reading "+path, "GET", "/api/v1/"+path, "")
		s.row(!strings.Contains(a.Body, literal), "no variable in "+path, fmt.Sprint(len(a.Body), " bytes"))
	}
	said := s.server.Out.String() + w.Out.String()
	s.row(!strings.Contains(said, literal) && !strings.Contains(said, reverse), "no variable in the logs of server and worker", "")
	s.alive()
}

// TestServeRefusesCommands starts servers that would run commands beside the keys that they hold, without being told so in so many words.
func TestServeRefusesCommands(t *testing.T) {
	t.Parallel()
	r := newReport(t)
	for what, x := range map[string]struct {
		env  []string
		args []string
	}{
		"serve --allow-commands":              {args: []string{"--allow-commands"}},
		"serve with CARILLON_COMMANDS_ALLOW":  {env: []string{"CARILLON_COMMANDS_ALLOW=true"}},
		"serve --roles worker with commands":  {args: []string{"--allow-commands", "--roles", "worker"}},
		"serve --allow-commands, with a user": {args: []string{"--allow-commands"}, env: []string{"CARILLON_COMMANDS_USER=61234:61234"}},
	} {
		p := harness.Launch(t, harness.Settings(x.env...), append([]string{"serve", "--database", "sqlite:" + t.TempDir() + "/c.db", "--listen", "127.0.0.1:0"}, x.args...)...)
		harness.Within(20*time.Second, func() bool { return p.Exited() || harness.Address(p.Out.String()) != "" })
		code := -1
		if p.Exited() {
			code = p.Exit()
		}
		r.row(code == 2 && strings.Contains(p.Out.String(), "--commands-risk-server"), what, fmt.Sprintf("it ends with %d", code))
	}
}
