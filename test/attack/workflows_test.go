package attack

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// TestWorkflowsKeepSecretsHidden tries to read hidden credentials by way of workflows, as someone who may change and begin them.
func TestWorkflowsKeepSecretsHidden(t *testing.T) {
	t.Parallel()
	s := stage(t)
	c := s.people["victim/operator"]
	other := harness.NewSink(t)
	literal := "canary-" + rand.Text()
	hidden := fmt.Sprintf(`"callback_url": %q, "headers": {"Authorization": "Bearer %s"}`, s.sink.URL, literal)
	victim := harness.Want[client.Job](c, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "victim", "schedule": {"type": "MANUAL"}, "execution": {%s}}`, hidden))
	harness.Want[client.Job](c, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "sends", "key": "sends", "schedule": {"type": "MANUAL"}, "execution": {"callback_url": %q}}`, other.URL))
	harness.Want[client.Workflow](c, 201, "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "sub", "key": "sub", "nodes": [{"key": "a", "execution": {"callback_url": %q}}]}`, other.URL))

	leaked := func() bool { return strings.Contains(fmt.Sprint(other.Seen()), literal) }
	// begin begins a run of what was answered, if it is a workflow, and waits for its end.
	begin := func(a harness.Answer, id, input string) {
		t.Helper()
		if a.Code >= 300 {
			return
		}
		r := harness.Want[client.WorkflowTriggered](c, 202, "POST", "/api/v1/workflows/"+id+"/trigger", fmt.Sprintf(`{"input": %s}`, input))
		s.final(c, r.WorkflowRunID)
	}
	created := func(what string, want []int, nodes, input string) {
		t.Helper()
		key := fmt.Sprint("w", len(s.rows))
		a := s.answers(c, want, what, "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "w", "key": %q, "nodes": [%s]}`, key, nodes))
		begin(a, "key:"+key, input)
		s.row(!leaked() && !strings.Contains(a.Body, literal), what+": nothing was read", fmt.Sprint(a.Code))
	}

	// The reference under which a credential is stored can be guessed by all who see the job.
	guess := "${secret:~" + victim.JobID + "/authorization}"
	escaped := strings.Replace(guess, "{", `\u007b`, 1)
	to := func(payload string) string {
		return fmt.Sprintf(`{"key": "a", "execution": {"callback_url": %q, "payload": %s}}`, other.URL, payload)
	}
	for name, ref := range map[string]string{"": guess, ", escaped": escaped, ", escaped more": strings.Replace(escaped, "$", `\u0024`, 1)} {
		created("a guessed reference in a payload"+name, []int{422}, to(fmt.Sprintf(`{"s": "%s"}`, ref)), `1`)
		created("a guessed reference beside an expression"+name, []int{422}, to(fmt.Sprintf(`{"s": "%s", "t": "{{ run.id }}"}`, ref)), `1`)
		created("a guessed reference in an expression"+name, []int{422}, to(fmt.Sprintf(`{"s": "{{ '%s' }}"}`, ref)), `1`)
		for _, job := range []string{"sends", "sub"} {
			created("a guessed reference for the "+job+" job"+name, []int{422}, fmt.Sprintf(`{"key": "a", "job_id": "key:%s", "payload_override": {"s": "%s"}}`, job, ref), `1`)
			created("a guessed reference in an expression for the "+job+" job"+name, []int{422}, fmt.Sprintf(`{"key": "a", "job_id": "key:%s", "payload_override": {"s": "{{ '%s' }}"}}`, job, ref), `1`)
			created("a guessed reference as an item for the "+job+" job"+name, []int{201}, fmt.Sprintf(`{"key": "a", "job_id": "key:%s", "map": ["%s"], "payload_override": {"s": "{{ item }}"}}`, job, ref), `1`)
		}
		created("a guessed reference as an item"+name, []int{201}, fmt.Sprintf(`{"key": "a", "map": ["%s"], "execution": {"callback_url": %q, "headers": {"X-A": "{{ item }}"}, "payload": "{{ item }}"}}`, ref, other.URL), `1`)
		created("a guessed reference in a header"+name, []int{422}, fmt.Sprintf(`{"key": "a", "execution": {"callback_url": %q, "headers": {"Authorization": "%s"}}}`, other.URL, ref), `1`)
		created("a guessed reference in a header beside an expression"+name, []int{422}, fmt.Sprintf(`{"key": "a", "execution": {"callback_url": %q, "headers": {"X-A": "{{ run.id }} %s"}}}`, other.URL, ref), `1`)
		created("a guessed reference in the address"+name, []int{422}, fmt.Sprintf(`{"key": "a", "execution": {"callback_url": "%s/%s"}}`, other.URL, ref), `1`)
	}
	for name, input := range map[string]string{"": guess, ", escaped": escaped} {
		a := s.answers(c, []int{202, 422}, "a guessed reference in the input"+name, "POST", "/api/v1/workflows/key:sub/trigger", fmt.Sprintf(`{"input": {"s": "%s"}}`, input))
		s.row(a.Code == 422 || strings.Contains(input, "u007b"), "a guessed reference in the input is refused"+name, fmt.Sprint(a.Code))
	}
	ended := harness.Want[client.WorkflowTriggered](c, 202, "POST", "/api/v1/workflows/key:sub/trigger", `{"input": 1}`)
	s.final(c, ended.WorkflowRunID)
	for name, input := range map[string]string{"": guess, ", of an unknown secret": "${secret:nope}"} {
		s.answers(c, []int{422}, "a reference in the input of a retry"+name, "POST", "/api/v1/workflow-runs/"+ended.WorkflowRunID+"/retry", fmt.Sprintf(`{"nodes": ["a"], "input": {"s": "%s"}}`, input))
	}
	created("a value that says it is a reference", []int{201}, to(`{"s": "{{ '$' + '{secret:~`+victim.JobID+`/authorization}' }}", "t": "{{ '$' }} {{ '{secret:x}' }}"}`), `1`)

	// Who begins a run must not say where a node's credential goes.
	for what, of := range map[string]string{
		"the address": `"callback_url": "{{ run.input }}"`, "the host": `"callback_url": "http://{{ run.input }}/"`, "the port": `"callback_url": "http://127.0.0.1:{{ run.input }}/"`, "the user": `"callback_url": "http://x{{ run.input }}@127.0.0.1/"`,
		"what follows the host": `"callback_url": "http://127.0.0.1{{ run.input }}"`, "the scheme": `"callback_url": "{{ run.input }}://127.0.0.1/"`,
	} {
		created("a run's input as "+what+" of a call with a credential", []int{422}, fmt.Sprintf(`{"key": "a", "execution": {%s, "headers": {"Authorization": "Bearer %s"}}}`, of, literal), fmt.Sprintf("%q", other.URL))
	}
	a := s.answers(c, []int{422}, "a credential beside an expression, where it would be shown", "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "w", "nodes": [{"key": "a", "execution": {"callback_url": %q, "headers": {"Authorization": "Bearer %s{{ run.id }}"}}}]}`, s.sink.URL, literal))
	s.row(!strings.Contains(a.Body, literal), "it is not repeated", "")

	// Changing a node.
	for what, nodes := range map[string]string{
		"another host": fmt.Sprintf(`{"key": "a", "execution": {"callback_url": %q, "headers": {"Authorization": "[redacted]"}}}`, other.URL), "any host": `{"key": "a", "execution": {"callback_url": "{{ run.input }}", "headers": {"Authorization": "[redacted]"}}}`,
		"its items' hosts":   `{"key": "a", "map": "[run.input]", "execution": {"callback_url": "{{ item }}", "headers": {"Authorization": "[redacted]"}}}`,
		"another node":       fmt.Sprintf(`{"key": "b", "execution": {"callback_url": %q, "headers": {"Authorization": "[redacted]"}}}`, other.URL),
		"a node more":        fmt.Sprintf(`{"key": "a", "execution": {"callback_url": %q, "headers": {"Authorization": "[redacted]"}}}, {"key": "b", "execution": {"callback_url": %q, "headers": {"Authorization": "[redacted]"}}}`, s.sink.URL, other.URL),
		"another header":     fmt.Sprintf(`{"key": "a", "execution": {"callback_url": %q, "headers": {"X-Token": "[redacted]"}}}`, s.sink.URL),
		"a command":          `{"key": "a", "execution": {"target": "command", "command": ["env"], "env": {"AUTHORIZATION": "[redacted]"}}}`,
		"an existing job":    `{"key": "a", "job_id": "key:sends", "payload_override": "[redacted]"}`,
		"the host, in turns": fmt.Sprintf(`{"key": "a", "execution": {"callback_url": "%s@%s/", "headers": {"Authorization": "[redacted]"}}}`, s.sink.URL, strings.TrimPrefix(other.URL, "http://")),
	} {
		w := harness.Want[client.Workflow](c, 201, "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "x", "nodes": [{"key": "a", "execution": {%s}}]}`, hidden))
		for _, method := range []string{"PATCH", "PUT"} {
			a := s.answers(c, []int{200, 422}, "re-targeting a node: "+what+", "+method, method, "/api/v1/workflows/"+w.WorkflowID, fmt.Sprintf(`{"name": "x", "nodes": [%s]}`, nodes))
			begin(a, w.WorkflowID, fmt.Sprintf("%q", other.URL))
			s.row(!leaked(), "re-targeting a node: "+what+", "+method+": nothing was read", fmt.Sprint(a.Code))
		}
	}
	// What may change without the credential is no reason to lose it.
	w := harness.Want[client.Workflow](c, 201, "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "x", "nodes": [{"key": "a", "execution": {%s}}]}`, hidden))
	for _, patch := range []string{`{"priority": 4}`, `{"queue": "quick"}`, fmt.Sprintf(`{"nodes": [{"key": "a", "execution": {"callback_url": "%s/other", "headers": {"Authorization": "[redacted]"}}}]}`, s.sink.URL)} {
		before := len(s.sink.Seen())
		begin(s.answers(c, []int{200}, "an honest change: "+short(patch), "PATCH", "/api/v1/workflows/"+w.WorkflowID, patch), w.WorkflowID, "1")
		seen := s.sink.Since(before)
		s.row(len(seen) == 1 && seen[0].Header.Get("Authorization") == "Bearer "+literal, "it keeps the credential", fmt.Sprint(len(seen), " calls"))
	}

	// What is shown.
	for _, path := range []string{"workflows/" + w.WorkflowID, "workflows/" + w.WorkflowID + "/versions", "workflows/" + w.WorkflowID + "/graph", "workflows", "jobs?limit=200", "jobs/" + w.WorkflowID + "/revisions", "executions?limit=200", "audit?limit=200", "secrets"} {
		a := s.answers(s.people["victim/admin"], []int{200}, "reading "+path, "GET", "/api/v1/"+path, "")
		s.row(!strings.Contains(a.Body, literal) && (strings.HasPrefix(path, "audit") || !strings.Contains(a.Body, "${secret:~")), "no credential in "+path, fmt.Sprint(len(a.Body), " bytes"))
	}
	// The job of a node is nobody's to name.
	for _, e := range harness.Read[client.Executions](c, "/api/v1/executions?limit=200").Executions {
		if e.JobName != "x/a" {
			continue
		}
		for _, call := range []struct{ method, path, body string }{
			{"GET", "", ""}, {"PATCH", "", fmt.Sprintf(`{"execution": {"callback_url": %q}}`, other.URL)}, {"DELETE", "", ""}, {"POST", "/trigger", `{"payload_override": 1}`}, {"POST", "/pause", "{}"}, {"GET", "/revisions", ""},
		} {
			s.answers(c, []int{404}, "the job of a node: "+call.method+call.path, call.method, "/api/v1/jobs/"+e.JobID+call.path, call.body)
		}
		s.answers(c, []int{422}, "a node's execution with another payload", "POST", "/api/v1/executions/"+e.ExecutionID+"/retry", `{"payload_override": {"a": 1}}`)
		s.answers(c, []int{202}, "a node's execution again, by its run", "POST", "/api/v1/executions/"+e.ExecutionID+"/retry", "")
		begun := harness.Want[client.Begun](c, 202, "POST", "/api/v1/executions:bulk", fmt.Sprintf(`{"action": "retry", "ids": [%q]}`, e.ExecutionID))
		var op client.Operation
		harness.Within(10*time.Second, func() bool {
			op = harness.Read[client.Operation](c, "/api/v1/operations/"+begun.OperationID)
			return op.State != "RUNNING"
		})
		s.row(op.State == "SUCCEEDED" && op.Done+op.Passed == 1, "nodes' executions in bulk, by their runs", fmt.Sprintf("%s, %d done, %d passed over", op.State, op.Done, op.Passed))
		s.answers(c, []int{422}, "the job of a node as that of another", "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "w", "nodes": [{"key": "a", "job_id": %q}]}`, e.JobID))
		break
	}
	harness.Within(time.Second, leaked)
	s.row(!leaked() && !strings.Contains(s.server.Out.String(), literal), "nothing was read by now, and the server's log holds nothing", "")
	s.alive()
}
