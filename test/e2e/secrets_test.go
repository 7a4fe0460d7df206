package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

const (
	firstKey  = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	secondKey = "MTEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
)

// encodings are a text and what it looks like encoded.
func encodings(s string) map[string]string {
	quoted, _ := json.Marshal(s)
	return map[string]string{
		"itself": s, "json": string(quoted[1 : len(quoted)-1]), "query": url.QueryEscape(s), "path": url.PathEscape(s),
		"base64": base64.StdEncoding.EncodeToString([]byte(s)), "raw base64": base64.RawStdEncoding.EncodeToString([]byte(s)),
		"base64url": base64.URLEncoding.EncodeToString([]byte(s)), "raw base64url": base64.RawURLEncoding.EncodeToString([]byte(s)),
	}
}

// TestCanary sends secrets the whole way, has everyone repeat them, and looks for them wherever anything is kept or told.
func TestCanary(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		named, literal := `named-canary/+"\<&> `+rand.Text(), "Bearer literal-canary?~"+rand.Text()
		var traces harness.Output
		collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&traces, r.Body) }))
		defer collector.Close()
		p := harness.Start(t, harness.Settings("CARILLON_SECRETS_KEY="+firstKey, "CARILLON_LOG_LEVEL=debug", "CARILLON_TRACING_ENDPOINT="+collector.URL), "serve", "--database", where)
		s := harness.NewSink(t)
		repeat := fmt.Sprint(encodings(named), encodings(literal))
		s.Answer(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, r.Header["X-Named"], r.Header["Authorization"], repeat)
		})
		var told strings.Builder
		ask := func(status int, method, path, body string) string {
			t.Helper()
			code, text, err := p.Ask(method, path, body)
			if err != nil || code != status {
				t.Fatalf("%s %s: %d, %v: %s", method, path, code, err, text)
			}
			told.WriteString(text)
			return text
		}
		quoted, _ := json.Marshal(map[string]string{"value": named})
		ask(200, "PUT", "/api/v1/secrets/canary", string(quoted))
		ask(400, "PUT", "/api/v1/secrets/other", `{"value": ["`+strings.ReplaceAll(literal, `"`, "")+`"]}`)
		header, _ := json.Marshal(literal)
		made := ask(201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q, "headers": {"X-Named": "${secret:canary}", "Authorization": %s},
			"payload": {"n": 1.50,  "a": ["x${secret:canary}", "$${secret:canary}"]}}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1}}`, s.URL, header))
		var j client.Job
		if err := json.Unmarshal([]byte(made), &j); err != nil {
			t.Fatal(err)
		}
		if j.Execution.Headers["Authorization"] != "[redacted]" || j.Execution.Headers["X-Named"] != "${secret:canary}" {
			t.Errorf("headers: %v", j.Execution.Headers)
		}
		e := p.Ends(j.ExecutionID, "FAILED")
		if e.CallbackResponse == nil || !strings.Contains(e.CallbackResponse.BodyPreview, "[redacted]") {
			t.Errorf("the answer: %+v", e.CallbackResponse)
		}
		for _, a := range s.Seen() {
			var body struct {
				N json.Number `json:"n"`
				A []string    `json:"a"`
			}
			if err := json.Unmarshal([]byte(a.Body), &body); err != nil || a.Header.Get("X-Named") != named || a.Header.Get("Authorization") != literal || body.A[0] != "x"+named || body.A[1] != "${secret:canary}" || !strings.HasPrefix(a.Body, `{"n":1.50,"a":[`) {
				t.Errorf("the target got %v, %s, %v", a.Header, a.Body, err)
			}
		}
		asWorker(p, ask, named, fmt.Sprint(encodings(named))) // it was never given the other
		for _, path := range []string{
			"jobs", "jobs/" + j.JobID, "jobs/" + j.JobID + "/executions", "executions/" + j.ExecutionID, "executions/" + j.ExecutionID + "/attempts", "executions/" + j.ExecutionID + "/events",
			"executions/" + j.ExecutionID + "/report", "dead-letters", "secrets", "secrets/canary", "workers",
		} {
			ask(200, "GET", "/api/v1/"+path, "")
		}
		counted := ask(200, "GET", "/metrics", "")
		ask(422, "POST", "/api/v1/jobs", `{"name": "x", "execution": {"target": "worker", "kind": "k", "payload": "${secret:none}"}}`)
		if code := p.End(syscall.SIGTERM); code != 0 {
			t.Errorf("it ended with %d", code)
		}
		kept := dump(t, where)
		for _, canary := range []string{named, literal} {
			for how, form := range encodings(canary) {
				for place, text := range map[string]string{"an answer": told.String(), "the log": p.Out.String(), "the database": kept, "the metrics": counted, "the traces": traces.String()} {
					if strings.Contains(text, form) || strings.Contains(text, hex.EncodeToString([]byte(form))) {
						t.Errorf("%s holds %q (%s)", place, form, how)
					}
				}
			}
		}
		if !strings.Contains(kept, "canary") {
			t.Error("the dump holds nothing at all")
		}
		if !strings.Contains(counted, `carillon_executions_total{status="FAILED"} 2`) || !strings.Contains(traces.String(), j.ExecutionID) {
			t.Error("the metrics or the traces hold nothing at all")
		}
	})
}

// asWorker takes a job as a worker elsewhere does, and tells the secret in progress, error and result.
func asWorker(p *harness.Process, ask func(int, string, string, string) string, named, repeat string) {
	p.Helper()
	ask(201, "POST", "/api/v1/jobs", `{"name": "handled", "execution": {"target": "worker", "kind": "k", "payload": {"${secret:canary}": "${secret:canary}"}}, "retry_policy": {"max_retries": 0}}`)
	session := harness.Want[client.Session](p, 201, "POST", "/api/v1/workers", `{"kinds": ["k"], "capacity": 1}`)
	path := "/api/v1/workers/" + session.WorkerID
	post := func(what, body string) string {
		p.Helper()
		code, text, err := p.Ask("POST", path+what, body, "X-Worker-Session", session.Session)
		if err != nil || code != 200 {
			p.Fatalf("%s: %d, %v: %s", what, code, err, text)
		}
		return text
	}
	var got client.Claimed
	harness.Eventually(p.T, 20*time.Second, "something to claim", func() bool {
		if err := json.Unmarshal([]byte(post("/claim", `{"max": 1, "wait_seconds": 5}`)), &got); err != nil {
			p.Fatal(err)
		}
		return len(got.Attempts) == 1
	})
	a := got.Attempts[0]
	var payload map[string]string
	if err := json.Unmarshal(a.Payload, &payload); err != nil || payload["${secret:canary}"] != named {
		p.Errorf("the worker got %s", a.Payload)
	}
	body, _ := json.Marshal(client.Beat{Executions: []client.Held{{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Progress: &client.Progress{Percent: 1, Message: "at " + named}}}})
	post("/beat", string(body))
	body, _ = json.Marshal(client.LogRequest{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Lines: []client.LogLine{{Text: "logged: " + named}, {Text: repeat}}})
	post("/logs", string(body))
	if log := ask(200, "GET", "/api/v1/executions/"+a.ExecutionID+"/logs", ""); !strings.Contains(log, "logged: [redacted]") {
		p.Errorf("the log: %s", log)
	}
	ask(200, "GET", "/api/v1/executions/"+a.ExecutionID, "")
	result, _ := json.Marshal(map[string]string{named: repeat})
	body, _ = json.Marshal(client.CompleteRequest{Outcomes: []client.Outcome{{
		ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Status: client.Failed, Error: &client.Error{Type: "HANDLER_ERROR", Message: repeat}, Result: result,
	}}})
	post("/complete", string(body))
	if e := p.Ends(a.ExecutionID, "FAILED"); !strings.Contains(e.Error.Message, "[redacted]") {
		p.Errorf("the error: %+v", e.Error)
	}
	ask(200, "GET", "/api/v1/executions/"+a.ExecutionID, "")
}

// dump is all that a store holds.
func dump(t *testing.T, where string) string {
	t.Helper()
	var out bytes.Buffer
	if file, ok := strings.CutPrefix(where, "sqlite:"); ok {
		err := filepath.WalkDir(filepath.Dir(file), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			out.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	c, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	rows, _ := c.Query(t.Context(), "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'")
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if _, err := c.PgConn().CopyTo(t.Context(), &out, "COPY (SELECT * FROM "+table+") TO STDOUT (FORMAT binary)"); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestSecretsChange changes, deletes and rekeys secrets under running processes.
func TestSecretsChange(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		keyed := func(keys string) []string {
			return harness.Settings("CARILLON_SECRETS_KEY=" + keys)
		}
		p := harness.Start(t, keyed(firstKey), "serve", "--database", where)
		s := harness.NewSink(t)
		last := func() string {
			seen := s.Seen()
			return seen[len(seen)-1].Header.Get("X-A")
		}
		harness.Want[client.SigningSecret](p, 201, "POST", "/api/v1/signing-secrets", "")
		harness.Want[client.Secret](p, 200, "PUT", "/api/v1/secrets/a", `{"value": "value one"}`)
		j := p.Create(fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q, "headers": {"X-A": "${secret:a}"}}}`, s.URL))
		p.Ends(j.ExecutionID, "SUCCEEDED")
		if last() != "value one" {
			t.Errorf("the target got %q", last())
		}
		if again := harness.Want[client.Secret](p, 200, "PUT", "/api/v1/secrets/a", `{"value": "value one"}`); again.Version != 1 {
			t.Errorf("the same value again: %+v", again)
		}
		if next := harness.Want[client.Secret](p, 200, "PUT", "/api/v1/secrets/a", `{"value": "value two"}`); next.Version != 2 {
			t.Errorf("another value: %+v", next)
		}
		harness.Eventually(t, 5*time.Second, "the new value to be used", func() bool {
			e := harness.Want[client.Triggered](p, 202, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", "")
			p.Ends(e.ExecutionID, "SUCCEEDED")
			return last() == "value two"
		})
		for _, body := range []string{`{"payload_override": "${secret:b}"}`, `{"payload_override": "${secret:B}"}`} {
			harness.Want[client.Problem](p, 422, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", body)
		}
		if code := p.End(syscall.SIGTERM); code != 0 {
			t.Errorf("it ended with %d", code)
		}
		for _, keys := range []string{"", secondKey} {
			wrong := harness.Launch(t, keyed(keys), "serve", "--database", where, "--listen", "127.0.0.1:0")
			if code := wrong.Exit(); code == 0 || !strings.Contains(wrong.Out.String(), "CARILLON_SECRETS_KEY") {
				t.Errorf("with the keys %q it ended with %d: %s", keys, code, wrong.Out.String())
			}
		}
		rekey := exec.Command(harness.Binary(), "secrets", "rekey", "--database", where)
		rekey.Env = append(os.Environ(), "CARILLON_SECRETS_KEY="+secondKey+","+firstKey)
		if out, err := rekey.CombinedOutput(); err != nil || !strings.Contains(string(out), "3 were re-encrypted") {
			t.Errorf("rekey: %s, %v", out, err)
		}
		p = harness.Start(t, keyed(secondKey), "serve", "--database", where)
		e := harness.Want[client.Triggered](p, 202, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", "")
		p.Ends(e.ExecutionID, "SUCCEEDED")
		if seen := s.Seen(); seen[len(seen)-1].Header.Get("webhook-signature") == "" {
			t.Error("after the keys were changed callbacks are not signed")
		}
		harness.Want[client.Secret](p, 200, "DELETE", "/api/v1/secrets/a", "")
		harness.Want[client.Problem](p, 404, "GET", "/api/v1/secrets/a", "")
		harness.Eventually(t, 10*time.Second, "the secret to be gone", func() bool {
			e := harness.Want[client.Triggered](p, 202, "POST", "/api/v1/jobs/"+j.JobID+"/trigger", "")
			var got client.Execution
			harness.Eventually(t, 10*time.Second, "its end", func() bool {
				got = p.Execution(e.ExecutionID)
				return got.Status == "SUCCEEDED" || got.Status == "FAILED"
			})
			if got.Status == "FAILED" && (got.Error == nil || !strings.Contains(got.Error.Message, `"a"`) || got.AttemptNumber != 1) {
				t.Errorf("it failed with %+v after %d attempts", got.Error, got.AttemptNumber)
			}
			return got.Status == "FAILED"
		})
	})
}

// TestServeWithoutAKey refuses what it cannot encrypt.
func TestServeWithoutAKey(t *testing.T) {
	t.Parallel()
	p := harness.Serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"))
	problem := harness.Want[client.Problem](p, 422, "POST", "/api/v1/jobs", `{"name": "x", "execution": {"callback_url": "https://example.com/", "headers": {"Authorization": "Bearer topsecret"}}}`)
	if len(problem.Errors) != 1 || !strings.Contains(problem.Detail, "secrets.key_file") || strings.Contains(fmt.Sprint(problem), "topsecret") {
		t.Errorf("got %+v", problem)
	}
	harness.Want[client.Problem](p, 422, "PUT", "/api/v1/secrets/a", `{"value": "topsecret"}`)
}
