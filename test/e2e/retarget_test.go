package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// TestHiddenCredentialsStayWhereTheyWereGiven tries every way to have a hidden credential sent to another place than the one it was
// given for.
func TestHiddenCredentialsStayWhereTheyWereGiven(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, nil, "dev", "--data", t.TempDir())
	good, evil := harness.NewSink(t), harness.NewSink(t)
	canary := "canary-" + rand.Text()
	ask := func(status int, method, path, body string, headers ...string) (j client.Job) {
		t.Helper()
		a, err := p.Do(method, "/api/v1"+path, body, headers...)
		if err != nil || a.Code != status {
			t.Fatalf("%s %s %s: %d, %v: %s", method, path, body, a.Code, err, a.Body)
		}
		if strings.Contains(a.Body, canary) {
			t.Errorf("%s %s tells the credential: %s", method, path, a.Body)
		}
		if err := json.Unmarshal([]byte(a.Body), &j); err != nil {
			t.Fatal(err)
		}
		return j
	}
	run := func(j client.Job, override string) client.Execution {
		t.Helper()
		x := ask(202, "POST", "/jobs/"+j.JobID+"/trigger", override)
		return p.Ended(x.ExecutionID)
	}
	leaks := func(what string) {
		t.Helper()
		for _, a := range evil.Seen() {
			if text := fmt.Sprint(a.Header, a.Body); strings.Contains(text, canary) {
				t.Fatalf("%s: another origin got the credential: %s", what, text)
			}
		}
	}
	call := func(more string) client.Job {
		return ask(201, "POST", "/jobs", fmt.Sprintf(`{"name": "call", "schedule": {"type": "INTERVAL", "every": "24h"}, "execution": {"callback_url": "%s/in", "headers": {"Authorization": "Bearer %s", "X-Env": "prod"}%s}}`, good.URL, canary, more))
	}
	dropped := func(what string, j client.Job, names ...string) {
		t.Helper()
		if fmt.Sprint(j.DroppedCredentials) != fmt.Sprint(names) {
			t.Errorf("%s: dropped %v, want %v", what, j.DroppedCredentials, names)
		}
	}
	const header = "execution.headers.Authorization"

	// The same origin keeps it.
	j := call("")
	kept := ask(200, "PATCH", "/jobs/"+j.JobID, fmt.Sprintf(`{"execution": {"callback_url": "%s/other"}}`, good.URL))
	dropped("another path", kept)
	run(j, "")
	if seen := good.Seen(); len(seen) != 1 || seen[0].Header.Get("Authorization") != "Bearer "+canary {
		t.Fatalf("the same origin got %v", seen)
	}

	// Another origin does not get it, however it is asked for.
	for what, patch := range map[string]string{
		"the URL alone":           `{"execution": {"callback_url": %q}}`,
		"the URL and the answer":  `{"execution": {"callback_url": %q, "headers": {"Authorization": "[redacted]", "X-Env": "prod"}}}`,
		"the URL and the target":  `{"execution": {"target": "http", "callback_url": %q, "follow_redirects": true}}`,
		"the URL and other texts": `{"name": "other", "tags": ["a"], "execution": {"callback_url": %q, "payload": {"a": 1}}}`,
	} {
		j := call("")
		got := ask(200, "PATCH", "/jobs/"+j.JobID, fmt.Sprintf(patch, evil.URL))
		dropped(what, got, header)
		if _, ok := got.Execution.Headers["Authorization"]; ok || got.Execution.Headers["X-Env"] != "prod" {
			t.Errorf("%s: headers %v", what, got.Execution.Headers)
		}
		n := len(evil.Seen())
		run(j, `{"payload_override": {"n": 1}}`)
		if len(evil.Seen()) != n+1 {
			t.Errorf("%s: the new origin was not called", what)
		}
		leaks(what)
		// Nor does it come back.
		back := ask(200, "PATCH", "/jobs/"+j.JobID, fmt.Sprintf(`{"execution": {"callback_url": "%s/in"}}`, good.URL))
		if _, ok := back.Execution.Headers["Authorization"]; ok {
			t.Errorf("%s: it came back: %v", what, back.Execution.Headers)
		}
		if a, err := p.Do("GET", "/api/v1/audit?limit=5", ""); err != nil || !strings.Contains(a.Body, "dropped_credentials") || !strings.Contains(a.Body, header) {
			t.Errorf("%s: the audit log says nothing of it: %v %s", what, err, a.Body)
		}
	}

	// The reference in the store can be guessed; it does not go along either.
	j = call("")
	dropped("guessed", ask(200, "PATCH", "/jobs/"+j.JobID, fmt.Sprintf(`{"execution": {"callback_url": %q, "headers": {"Authorization": "${secret:~%s/authorization}"}}}`, evil.URL, j.JobID)), header)
	run(j, "")
	leaks("guessed")

	// Supplied again, it goes along.
	j = call("")
	got := ask(200, "PATCH", "/jobs/"+j.JobID, fmt.Sprintf(`{"execution": {"callback_url": %q, "headers": {"Authorization": "Bearer given-again"}}}`, evil.URL))
	dropped("given again", got)
	run(j, "")
	if seen := evil.Seen(); seen[len(seen)-1].Header.Get("Authorization") != "Bearer given-again" {
		t.Errorf("given again: %v", seen[len(seen)-1].Header)
	}

	// A revision that had another origin does not get what was set since.
	j = ask(201, "POST", "/jobs", fmt.Sprintf(`{"name": "trap", "schedule": {"type": "INTERVAL", "every": "24h"}, "execution": {"callback_url": %q, "headers": {"Authorization": "Bearer bait"}}}`, evil.URL))
	ask(200, "PATCH", "/jobs/"+j.JobID, fmt.Sprintf(`{"execution": {"callback_url": %q, "headers": {"Authorization": "Bearer %s"}}}`, good.URL, canary))
	dropped("restored", ask(200, "POST", "/jobs/"+j.JobID+"/revisions/1/restore", ""), header)
	run(j, "")
	leaks("restored")

	// A declared file says beforehand what it loses, and loses it.
	j = ask(201, "POST", "/jobs", fmt.Sprintf(`{"key": "declared", "name": "declared", "schedule": {"type": "INTERVAL", "every": "24h"}, "execution": {"callback_url": %q, "headers": {"Authorization": "Bearer %s"}}}`, good.URL, canary))
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	text := fmt.Sprintf("jobs:\n  - key: declared\n    name: declared\n    schedule: {type: INTERVAL, every: 24h}\n    execution: {callback_url: %q, headers: {Authorization: '[redacted]'}}\n", evil.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := cli(t, p, "plan", "-f", file); !strings.Contains(out, header) || !strings.Contains(out, "dropped") {
		t.Errorf("the plan does not say what is lost: %s", out)
	}
	if out := cli(t, p, "apply", "-f", file); !strings.Contains(out, "Credentials removed") {
		t.Errorf("apply does not say what is lost: %s", out)
	}
	run(j, "")
	leaks("applied")

	// Another job cannot name it, and a copy does not have it.
	j = call("")
	for what, body := range map[string]string{
		"a copy":       fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "headers": {"Authorization": "[redacted]"}}}`, evil.URL),
		"a reference":  fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "headers": {"X-A": "${secret:~%s/authorization}"}}}`, evil.URL, j.JobID),
		"a payload":    fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "payload": "${secret:~%s/authorization}"}}`, evil.URL, j.JobID),
		"a variable":   fmt.Sprintf(`{"name": "x", "execution": {"target": "command", "command": ["env"], "env": {"A": "${secret:~%s/authorization}"}}}`, j.JobID),
		"a shown text": `{"name": "x", "execution": {"target": "command", "command": ["env"], "env": {"API_TOKEN": "[redacted]"}}}`,
	} {
		if code, text, err := p.Ask("POST", "/api/v1/jobs", body); err != nil || code != 422 {
			t.Errorf("%s: %d %v %s", what, code, err, text)
		}
	}
	for what, body := range map[string]string{
		"another header":        `{"execution": {"headers": {"X-Other-Token": "[redacted]"}}}`,
		"a header by its name":  fmt.Sprintf(`{"execution": {"headers": {"X-Other": "${secret:~%s/authorization}"}}}`, j.JobID),
		"a payload by its name": fmt.Sprintf(`{"execution": {"payload": "${secret:~%s/authorization}"}}`, j.JobID),
		"a program's variable":  `{"execution": {"target": "command", "command": ["env"], "env": {"AUTHORIZATION_TOKEN": "[redacted]"}}}`,
	} {
		if code, text, err := p.Ask("PATCH", "/api/v1/jobs/"+j.JobID, body); err != nil || code != 422 {
			t.Errorf("%s: %d %v %s", what, code, err, text)
		}
	}
	if code, text, err := p.Ask("POST", "/api/v1/jobs/"+j.JobID+"/trigger", fmt.Sprintf(`{"payload_override": "${secret:~%s/authorization}"}`, j.JobID)); err != nil || code != 422 {
		t.Errorf("a payload in its place: %d %v %s", code, err, text)
	}

	// A redirect to another origin gets neither headers nor a payload with a secret in it.
	ask(200, "PUT", "/secrets/named", fmt.Sprintf(`{"value": %q}`, canary))
	for _, status := range []int{307, 308} {
		good.Answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, evil.URL+"/redirected", status) })
		j := call(`, "follow_redirects": true, "payload": {"a": "${secret:named}"}`)
		if x := run(j, ""); x.Status != "FAILED" || x.Error == nil || !strings.Contains(x.Error.Message, "secret") {
			t.Errorf("%d with a secret in the payload: %s %+v", status, x.Status, x.Error)
		}
		leaks("redirected")
		j = call(`, "follow_redirects": true, "payload": {"a": "open"}`)
		n := len(evil.Seen())
		if x := run(j, ""); x.Status != "SUCCEEDED" {
			t.Errorf("%d without a secret: %s %+v", status, x.Status, x.Error)
		}
		for _, a := range evil.Seen()[n:] {
			if a.Header.Get("Authorization") != "" || a.Header.Get("X-Env") != "" || a.Header.Get("webhook-signature") != "" || a.Header.Get("Carillon-Callback-Token") != "" || a.Body != `{"a":"open"}` {
				t.Errorf("%d: another origin got %v %s", status, a.Header, a.Body)
			}
		}
		leaks("redirected")
	}
}

// cli returns the output of a command that calls a server.
func cli(t *testing.T, p *harness.Process, args ...string) string {
	t.Helper()
	cmd := exec.Command(harness.Binary(), args...)
	cmd.Env = append(os.Environ(), "CARILLON_SERVER="+p.Base)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("carillon %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestHiddenVariablesStayWithTheirProgram tries every way to have a hidden variable told by another program.
func TestHiddenVariablesStayWithTheirProgram(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, nil, "dev", "--data", t.TempDir())
	canary := "canary-" + rand.Text()
	ask := func(status int, method, path, body string) (j client.Job) {
		t.Helper()
		code, text, err := p.Ask(method, "/api/v1"+path, body)
		if err != nil || code != status {
			t.Fatalf("%s %s %s: %d, %v: %s", method, path, body, code, err, text)
		}
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			t.Fatal(err)
		}
		return j
	}
	// Redaction does not see through a cipher.
	const tell = `printf '%s' \"$API_TOKEN\" | tr 'a-zA-Z' 'b-zaB-ZA'`
	run := func(j client.Job, override string) string {
		t.Helper()
		x := ask(202, "POST", "/jobs/"+j.JobID+"/trigger", override)
		p.Ended(x.ExecutionID)
		_, text, err := p.Ask("GET", "/api/v1/executions/"+x.ExecutionID+"/logs", "")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	shifted := strings.Map(func(r rune) rune {
		switch {
		case r == 'z' || r == 'Z':
			return r - 25
		case r >= 'a' && r < 'z' || r >= 'A' && r < 'Z':
			return r + 1
		}
		return r
	}, canary)
	make := func(command string) client.Job {
		return ask(201, "POST", "/jobs", fmt.Sprintf(`{"name": "run", "schedule": {"type": "INTERVAL", "every": "24h"}, "execution": {"target": "command", "command": %s, "env": {"API_TOKEN": %q, "MODE": "x"}}}`, command, canary))
	}
	if text := run(make(`["sh", "-c", "`+tell+`"]`), ""); !strings.Contains(text, shifted) {
		t.Fatalf("the program does not have its own variable: %s", text)
	}
	for what, patch := range map[string]string{
		"another program":  `{"execution": {"command": ["sh", "-c", "` + tell + `"]}}`,
		"the answer again": `{"execution": {"command": ["sh", "-c", "` + tell + `"], "env": {"API_TOKEN": "[redacted]", "MODE": "x"}}}`,
		"a hook":           `{"execution": {"env": {"API_TOKEN": "[redacted]", "BASH_ENV": "$(` + tell + ` >&2)"}}}`,
	} {
		j := make(`["bash", "-c", "true"]`)
		got := ask(200, "PATCH", "/jobs/"+j.JobID, patch)
		if fmt.Sprint(got.DroppedCredentials) != "[execution.env.API_TOKEN]" {
			t.Errorf("%s: dropped %v", what, got.DroppedCredentials)
		}
		if text := run(j, ""); strings.Contains(text, shifted) {
			t.Errorf("%s tells it: %s", what, text)
		}
	}
	// Any variable may say what a program does, but for the language and the time zone.
	j := make(`["make", "-f", "/dev/null", "-n", "all"]`)
	if got := ask(200, "PATCH", "/jobs/"+j.JobID, `{"execution": {"env": {"API_TOKEN": "[redacted]", "MODE": "x", "MAKEFLAGS": "--eval=$(info $(shell printenv API_TOKEN | rev))"}}}`); fmt.Sprint(got.DroppedCredentials) != "[execution.env.API_TOKEN]" {
		t.Errorf("flags of make: %+v", got)
	}
	j = make(`["sh", "-c", "` + tell + `"]`)
	if got := ask(200, "PATCH", "/jobs/"+j.JobID, `{"execution": {"env": {"API_TOKEN": "[redacted]", "MODE": "x", "TZ": "Europe/Berlin", "LC_ALL": "C"}}, "name": "other"}`); len(got.DroppedCredentials) > 0 || got.Execution.Env["LC_ALL"] != "C" {
		t.Errorf("another language: %+v", got)
	}
	if text := run(j, ""); !strings.Contains(text, shifted) {
		t.Errorf("another language: %s", text)
	}
	if code, text, err := p.Ask("POST", "/api/v1/jobs/"+j.JobID+"/trigger", `{"payload_override": {"a": 1}}`); err != nil || code != 422 || !strings.Contains(text, "payload_override") {
		t.Errorf("another payload of a shell's code: %d %v %s", code, err, text)
	}
	if got := ask(200, "PATCH", "/jobs/"+j.JobID, `{"execution": {"env": {"API_TOKEN": "[redacted]", "MODE": "y", "TZ": "Europe/Berlin", "LC_ALL": "C"}}}`); fmt.Sprint(got.DroppedCredentials) != "[execution.env.API_TOKEN]" || got.Execution.Env["MODE"] != "y" {
		t.Errorf("another mode: %+v", got)
	}
	if text := run(j, ""); strings.Contains(text, shifted) {
		t.Errorf("another mode tells it: %s", text)
	}
	j = make(`["sh", "/opt/report.sh"]`) // which need not be there
	ask(202, "POST", "/jobs/"+j.JobID+"/trigger", `{"payload_override": {"a": 1}}`)
	// Programs that may read orders from the payload: all but scripts.
	for _, command := range []string{`["bash"]`, `["curl", "-K", "-"]`, `["jq", "-f", "/dev/stdin"]`, `["report"]`} {
		j = make(command)
		if got := ask(200, "PATCH", "/jobs/"+j.JobID, `{"execution": {"payload": "env"}}`); fmt.Sprint(got.DroppedCredentials) != "[execution.env.API_TOKEN]" {
			t.Errorf("another payload of %s: %+v", command, got.DroppedCredentials)
		}
	}
	// One that waited since before the job had a hidden variable does not get it.
	early := ask(201, "POST", "/jobs", `{"name": "early", "schedule": {"type": "INTERVAL", "every": "24h"}, "execution": {"target": "command", "command": ["bash"]}, "queue": "early", "retry_policy": {"max_retries": 0}}`)
	ask(200, "POST", "/queues/early/pause", `{"reason": "a test"}`)
	waits := ask(202, "POST", "/jobs/"+early.JobID+"/trigger", `{"payload_override": "$(printenv API_TOKEN | tr 'a-zA-Z' 'b-zaB-ZA' >&2)"}`)
	own := ask(202, "POST", "/jobs/"+early.JobID+"/trigger", "")
	ask(200, "PATCH", "/jobs/"+early.JobID, fmt.Sprintf(`{"execution": {"env": {"API_TOKEN": %q}}}`, canary))
	ask(200, "POST", "/queues/early/resume", "")
	if e := p.Ended(waits.ExecutionID); e.Status != "FAILED" || e.Error == nil || !strings.Contains(e.Error.Message, "hidden variables API_TOKEN") {
		t.Errorf("a payload from before: %+v", e)
	}
	if _, text, err := p.Ask("GET", "/api/v1/executions/"+waits.ExecutionID+"/logs", ""); err != nil || strings.Contains(text, shifted) {
		t.Errorf("a payload from before tells it: %v %s", err, text)
	}
	if e := p.Ended(own.ExecutionID); e.Status != "SUCCEEDED" {
		t.Errorf("the job's own payload: %+v", e)
	}
	j = make(`["bash"]`)
	plain := ask(202, "POST", "/jobs/"+j.JobID+"/trigger", "")
	p.Ended(plain.ExecutionID)
	for _, path := range []string{"/jobs/" + j.JobID + "/trigger", "/executions/" + plain.ExecutionID + "/retry"} {
		if code, text, err := p.Ask("POST", "/api/v1"+path, `{"payload_override": "env"}`); err != nil || code != 422 || !strings.Contains(text, "payload_override") {
			t.Errorf("%s of a shell: %d %v %s", path, code, err, text)
		}
	}
}

// A node of a workflow with a hidden variable runs the payload that its definition gives it, byte by byte, also where its command may run
// that as code; and it runs no other.
func TestANodesOwnPayloadMayBeAProgram(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, nil, "dev", "--data", t.TempDir())
	const payload = `{"b": 1, "a": [1, 2.0, "<&>"]}`
	node := func(key, more string) string {
		return fmt.Sprintf(`{"key": %q, "execution": {"target": "command", "command": ["cat"], "env": {"API_TOKEN": "canary-abcdef"}, "payload": %s}%s}`, key, payload, more)
	}
	harness.Want[client.Workflow](p, 201, "POST", "/api/v1/workflows", `{"name": "w", "key": "w", "nodes": [`+node("a", "")+`,`+node("b", `, "map": 2`)+`]}`)
	r := harness.Want[client.WorkflowTriggered](p, 202, "POST", "/api/v1/workflows/key:w/trigger", `{"input": "printenv"}`)
	if e := p.Ended(r.WorkflowRunID); e.Status != "SUCCEEDED" {
		t.Errorf("the run: %+v", e)
	}
	n := 0
	for _, e := range harness.Read[client.Executions](p, "/api/v1/executions?limit=10").Executions {
		if e.ExecutionID == r.WorkflowRunID {
			continue
		}
		n++
		if log := harness.Read[client.Log](p, "/api/v1/executions/"+e.ExecutionID+"/logs"); len(log.Lines) != 1 || log.Lines[0].Text != payload {
			t.Errorf("%s was given %+v", e.JobName, log.Lines)
		}
	}
	if n != 3 {
		t.Errorf("%d nodes and items ran, want 3", n)
	}
}
