package app_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

// gathered counts what came out, by the way it took.
type gathered struct {
	mu   sync.Mutex
	out  map[string]*strings.Builder // guarded by mu
	seen map[string]int              // guarded by mu: how much was looked at
}

func (g *gathered) add(way, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.out[way] == nil {
		g.out[way] = &strings.Builder{}
	}
	g.out[way].WriteString(text + "\n")
	for line := range strings.SplitSeq(text, "\n") { // as a reader has it, too
		var doc any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &doc) == nil {
			g.strings(g.out[way], doc)
		}
	}
}

func (g *gathered) strings(b *strings.Builder, doc any) {
	switch v := doc.(type) {
	case string:
		b.WriteString(v + "\n")
	case []any:
		for _, x := range v {
			g.strings(b, x)
		}
	case map[string]any:
		for k, x := range v {
			b.WriteString(k + "\n")
			g.strings(b, x)
		}
	}
}

// tells says which part of which secret a way out holds, and forgets what it has looked at.
func (g *gathered) tells(secrets ...string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	const prefix = 6
	by := map[string][]string{}
	for _, s := range secrets {
		for _, p := range parts(s) {
			by[p[:prefix]] = append(by[p[:prefix]], p)
		}
	}
	for way, b := range g.out {
		g.seen[way] += b.Len()
		text := b.String()
		b.Reset()
		for _, text := range []string{text, strings.NewReplacer("\n", "", "\\n", "").Replace(text)} {
			for i := 0; i+prefix <= len(text); i++ {
				for _, p := range by[text[i:i+prefix]] {
					if strings.HasPrefix(text[i:], p) {
						return fmt.Sprintf("%s tells %q: … %q …", way, p, text[max(0, i-100):min(len(text), i+len(p)+100)])
					}
				}
			}
		}
	}
	return ""
}

// leaky is a server whose workers and targets tell every secret they are given, in every way they can.
type leaky struct {
	*server
	*gathered
	session client.Session
	repeat  sync.Map // what the target answers, by path
	tokens  sync.Map // with which calls that the target answers later are completed, by path
	target  string
	told    int
	failed  []string // executions and runs
	flows   int
	headers int // that were secrets

	notified sync.Map // executions and runs whose failure notifications told of, and runs that wait
}

// TestNoWayOutTellsASecret has random secrets told in every encoding through everything that workers and targets may say, and looks for
// them in everything that comes out of a server.
func TestNoWayOutTellsASecret(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		l := &leaky{gathered: &gathered{out: map[string]*strings.Builder{}, seen: map[string]int{}}}
		traces := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			l.add("a trace", string(data))
		}))
		defer traces.Close()
		target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/notify" {
				data, _ := io.ReadAll(r.Body)
				var n client.Notification
				if err := json.Unmarshal(data, &n); err != nil {
					t.Error(err)
				}
				l.add("a notification", string(data))
				switch {
				case n.Approval != nil:
					l.add("a notification of a run", string(data))
					l.notified.Store(n.Approval.WorkflowRunID+" waits", true)
				case n.Execution != nil:
					l.notified.Store(n.Execution.ExecutionID, true)
				}
				return
			}
			if strings.HasSuffix(r.URL.Path, "-later") {
				l.tokens.Store(r.URL.Path, r.Header.Get("Carillon-Callback-Token"))
				w.Header().Set("Carillon-Async", "true")
				w.WriteHeader(202)
			} else {
				w.WriteHeader(500)
			}
			if text, ok := l.repeat.Load(r.URL.Path); ok {
				io.WriteString(w, text.(string))
			}
		}))
		defer target.Close()
		l.target = target.URL
		var logged output
		log := telemetry.NewLog(&logged, "json", "debug")
		l.server = serve(t, where, func(o *app.Options) {
			o.Log, o.Logger = log, log.Logger
			o.Config.Tracing.Endpoint = traces.URL
			o.Config.Callbacks.BreakerFailures, o.Config.Workers.Lease = 1000, 5*time.Minute
		})
		l.session = want[client.Session](l.server, 201, "POST", "/api/v1/workers", `{"kinds": ["k"], "capacity": 1}`)
		want[client.NotificationRule](l.server, 200, "PUT", "/api/v1/notification-rules/all", fmt.Sprintf(`{"events": ["failed", "dead_lettered", "approval_waiting"], "callback_url": %q}`, target.URL+"/notify"))
		l.follow()
		var secrets []string
		rapid.Check(t, func(t *rapid.T) {
			secret := value(t)
			given := append(l.tell(t, secret), secret)
			secrets = append(secrets, given...)
			if what := l.tells(given...); what != "" {
				t.Fatalf("of %q %s", given, what)
			}
		})
		l.until("a notification for each", func() bool {
			return !slices.ContainsFunc(l.failed, func(id string) bool { _, told := l.notified.Load(id); return !told })
		})
		for _, path := range []string{
			"/api/v1/jobs", "/api/v1/executions", "/api/v1/dead-letters", "/api/v1/executions:export?format=csv", "/api/v1/executions:export?format=jsonl", "/api/v1/executions:export?format=parquet", "/api/v1/admin/support",
			"/api/v1/audit", "/api/v1/failures", "/api/v1/dead-letters:groups", "/api/v1/workflows", "/api/v1/workflow-runs", "/api/v1/secrets", "/api/v1/workers", "/api/v1/overview",
		} {
			code, text := l.ask("GET", path, "")
			if code != 200 {
				t.Errorf("%s: %d: %s", path, code, text)
				continue
			}
			if strings.HasSuffix(path, "=parquet") {
				text = columnsOf(t, text)
			}
			l.add(path, text)
		}
		l.stop()
		l.add("the log", logged.String())
		if dir, ok := strings.CutPrefix(where, "sqlite:"); ok {
			_ = filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
				if data, err := os.ReadFile(path); err == nil && !d.IsDir() {
					l.add("the database", string(data))
				}
				return nil
			})
		}
		if what := l.tells(secrets...); what != "" {
			t.Error(what)
		}
		if l.headers == 0 {
			t.Error("no header was a secret")
		}
		for _, way := range []string{
			"a trace", "a notification", "the stream of events", "a log", "a stream of a log", "/api/v1/executions:export?format=csv", "/api/v1/executions:export?format=parquet", "/api/v1/admin/support", "/api/v1/dead-letters:groups", "/api/v1/workflows", "/api/v1/workflow-runs",
			"a run", "an explanation of a run", "the items of a run", "approvals", "a notification of a run", "the log", "a completion",
		} {
			if l.seen[way] < 100 {
				t.Errorf("nothing came out by %s", way)
			}
		}
	})
}

// columnsOf decodes a Parquet file, which is compressed, into a line for each value.
func columnsOf(t *testing.T, file string) string {
	f, err := parquet.OpenFile(strings.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	rows := parquet.NewReader(f)
	for some := make([]parquet.Row, 100); ; {
		n, err := rows.ReadRows(some)
		for _, row := range some[:n] {
			for _, v := range row {
				text.WriteString(v.String() + "\n")
			}
		}
		if errors.Is(err, io.EOF) {
			return text.String()
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// follow gathers the stream of what changes.
func (l *leaky) follow() {
	r, err := http.NewRequestWithContext(l.Context(), "GET", l.url+"/api/v1/events/stream", nil)
	if err != nil {
		l.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	go func() {
		defer w.Body.Close()
		for lines := bufio.NewScanner(w.Body); lines.Scan(); {
			l.add("the stream of events", lines.Text())
		}
	}()
}

// tell has a worker and a target tell a secret, and others that were written into a job as a header.
func (l *leaky) tell(t *rapid.T, secret string) (literals []string) {
	l.told += 2
	name := fmt.Sprintf("s%d", l.told)
	quoted, _ := json.Marshal(map[string]string{"value": secret})
	want[client.Secret](l.server, 200, "PUT", "/api/v1/secrets/"+name, string(quoted))
	width := rapid.SampledFrom([]int{64, 76, 1 << 20, 40}).Draw(t, "columns")
	all := everyWay(secret, width)
	cut := func(most int) string { // so that the last one is cut somewhere
		at := rapid.IntRange(0, len(secret)-1).Draw(t, "cut")
		return strings.Repeat("x", max(0, most-len(secret)+at-1)) + " " + secret
	}

	path := "/" + name + "-" + strconv.Itoa(l.told)
	answer := rapid.SampledFrom([]string{all, cut(4096), base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 2990) + secret))}).Draw(t, "answer")
	l.repeat.Store(path, answer)
	at, given := path, fmt.Sprintf(`"payload": {"v": "${secret:%s}"}`, name)
	if literal := value(t); inHeader(literal) {
		given, literals = fmt.Sprintf(`"headers": {"X-API-Key": %q}`, literal), []string{literal}
		at += "-literal"
		answer = everyWay(literal, width)
		l.headers++
	}
	if l.told == 2 || rapid.Bool().Draw(t, "later") {
		at += "-later"
	}
	l.repeat.Store(at, answer)
	called := want[client.Job](l.server, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q, %s}, "retry_policy": {"max_retries": 0}}`, l.target+at, given))
	want[client.Job](l.server, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "handle", "execution": {"target": "worker", "kind": "k", "payload": {"v": "${secret:%s}"}}, "retry_policy": {"max_retries": 0}}`, name))
	post := func(path string, body any) string { return l.post(t, path, body) }
	a, _ := l.claim(t, secret)
	var lines []client.LogLine
	for line := range strings.SplitSeq(all+"\n"+cut(16<<10), "\n") {
		lines = append(lines, client.LogLine{Text: line, Stream: rapid.SampledFrom([]string{"stdout", "stderr"}).Draw(t, "stream")})
	}
	if width >= 1<<20 || rapid.Bool().Draw(t, "one stream") {
		for i := range lines {
			lines[i].Stream = "stdout"
		}
	}
	for len(lines) > 0 {
		n := rapid.IntRange(1, len(lines)).Draw(t, "chunk")
		post("/logs", client.LogRequest{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Lines: lines[:n]})
		lines = lines[n:]
	}
	message := []rune(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' {
			return -1
		}
		return r
	}, all))
	post("/beat", client.Beat{Executions: []client.Held{{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Progress: &client.Progress{Percent: 1, Message: string(message[:min(len(message), 1000)])}}}})
	_, text := l.ask("GET", "/api/v1/executions/"+a.ExecutionID, "")
	l.add("progress", text)
	result, _ := json.Marshal(map[string]any{"v": secret, "nested": map[string]string{secret: all}, "bytes": []byte(secret)})
	failure := client.Outcome{
		ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Status: client.Failed, Result: result,
		Error:    &client.Error{Type: "HANDLER_ERROR", Message: rapid.SampledFrom([]string{all, cut(client.MaxMessage)}).Draw(t, "error")},
		Response: &client.CallbackResponse{HTTPStatus: 500, BodyPreview: cut(client.MaxMessage)},
	}
	l.add("the verdict", post("/complete", client.CompleteRequest{Outcomes: []client.Outcome{failure}}))
	if strings.HasSuffix(at, "-later") {
		l.complete(t, called.ExecutionID, at, failure)
	}
	l.ends(called.ExecutionID, "FAILED")
	l.look(t, a.ExecutionID)
	l.look(t, called.ExecutionID)
	l.failed = append(l.failed, a.ExecutionID, called.ExecutionID)
	if rapid.IntRange(0, 4).Draw(t, "in a workflow") == 4 || l.flows == 0 {
		l.flow(t, name, secret, path, all)
	}
	return literals
}

// complete has a target that answers later tell what a worker told, and what it repeats at once.
func (l *leaky) complete(t *rapid.T, id, path string, o client.Outcome) {
	var token any
	l.until("the target to be called", func() (called bool) {
		token, called = l.tokens.Load(path)
		return called
	})
	repeated, _ := l.repeat.Load(path)
	o.ExecutionID, o.FencingToken = "", 0
	o.Result, _ = json.Marshal(map[string]any{"told": o.Result, "repeated": repeated})
	o.Error = &client.Error{Type: o.Error.Type, Message: rapid.SampledFrom([]string{o.Error.Message, repeated.(string)}).Draw(t, "completion")}
	data, _ := json.Marshal(o)
	code, text := l.ask("POST", "/api/v1/executions/"+id+"/complete", string(data), "Authorization", "Bearer "+token.(string))
	if code != 200 {
		t.Fatalf("complete: %d: %s", code, text)
	}
	l.add("a completion", text)
}

// flow has the nodes of a workflow tell a secret: by their results, from which other nodes get their payloads and the run its output, and
// by how they fail.
func (l *leaky) flow(t *rapid.T, name, secret, path, all string) {
	worker := func(does, more string) string {
		return fmt.Sprintf(`"execution": {"target": "worker", "kind": "k", "payload": {"v": "${secret:%s}", "does": %q%s}}, "retry_policy": {"max_retries": 0}`, name, does, more)
	}
	want[client.Workflow](l.server, 201, "POST", "/api/v1/workflows", fmt.Sprintf(`{"name": "flow", "key": "flow-%s", "output": "nodes.first.result.v", "nodes": [
		{"key": "first", %s},
		{"key": "called", "execution": {"callback_url": %q, "payload": {"v": "${secret:%s}"}}, "retry_policy": {"max_retries": 0}},
		{"key": "each", "depends_on": ["first"], "map": "nodes.first.result.list", %s},
		{"key": "last", "depends_on": ["each"], %s},
		{"key": "asked", "depends_on": ["last"], "trigger": "all_done", "wait": {"approval": {}}},
		{"key": "chosen", "depends_on": ["first"], "if": "int(nodes.first.result.v) > 0", %s}
	]}`, name, worker("result", ""), l.target+path, name, worker("result", `, "item": "{{ item }}"`), worker("fail", `, "of": "{{ nodes.each.result[0].v }}"`), worker("fail", "")))
	run := want[client.WorkflowTriggered](l.server, 202, "POST", "/api/v1/workflows/key:flow-"+name+"/trigger", "")
	at := "/api/v1/workflow-runs/" + run.WorkflowRunID
	look := func() {
		for what, path := range map[string]string{"a run": at, "an explanation of a run": at + "/explain", "the items of a run": at + "/nodes/each/items", "approvals": "/api/v1/approvals"} {
			code, text := l.ask("GET", path, "")
			if code != 200 {
				t.Fatalf("%s: %d: %s", path, code, text)
			}
			l.add(what, text)
		}
	}
	for range 4 { // first, two items, last
		a, payload := l.claim(t, secret)
		l.look(t, a.ExecutionID) // as it was rendered
		result, _ := json.Marshal(map[string]any{"v": secret, "list": []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))}, "all": all, secret: "a key"})
		o := client.Outcome{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Status: client.Succeeded, Result: result}
		if payload["does"] == "fail" {
			o.Status, o.Error = client.Failed, &client.Error{Type: "HANDLER_ERROR", Message: all[:min(len(all), client.MaxMessage)]}
		}
		l.post(t, "/complete", client.CompleteRequest{Outcomes: []client.Outcome{o}})
	}
	l.until("the run to wait for an approval", func() bool {
		_, text := l.ask("GET", "/api/v1/approvals", "")
		return strings.Contains(text, run.WorkflowRunID)
	})
	look()
	if l.flows++; l.flows == 1 { // others may be approved before anybody is told
		l.until("a notification of the run", func() bool { _, told := l.notified.Load(run.WorkflowRunID + " waits"); return told })
	}
	want[client.WorkflowRunChanged](l.server, 200, "POST", at+"/nodes/asked/approve", "{}")
	var r client.WorkflowRun
	l.until("the run to end", func() bool {
		r = want[client.WorkflowRun](l.server, 200, "GET", at, "")
		return r.FinishedAt != nil
	})
	if r.Status != "FAILED" || string(r.Output) != "null" && !strings.Contains(string(r.Output), "redacted") {
		t.Fatalf("the run is %s, with the output %s", r.Status, r.Output)
	}
	look()
	l.look(t, run.WorkflowRunID)
	for _, n := range r.Nodes {
		if n.ExecutionID != nil {
			l.look(t, *n.ExecutionID)
		}
	}
	l.failed = append(l.failed, run.WorkflowRunID)
}

// post sends a request of the worker.
func (l *leaky) post(t *rapid.T, path string, body any) string {
	data, _ := json.Marshal(body)
	code, text := l.ask("POST", "/api/v1/workers/"+l.session.WorkerID+path, string(data), "X-Worker-Session", l.session.Session)
	if code != 200 {
		t.Fatalf("%s: %d: %s", path, code, text)
	}
	return text
}

// claim claims an attempt that is given a secret, and returns it with its payload.
func (l *leaky) claim(t *rapid.T, secret string) (a client.Attempt, payload map[string]string) {
	var got client.Claimed
	l.until("something to claim", func() bool {
		_ = json.Unmarshal([]byte(l.post(t, "/claim", map[string]int{"max": 1, "wait_seconds": 5})), &got)
		return len(got.Attempts) == 1
	})
	a = got.Attempts[0]
	if json.Unmarshal(a.Payload, &payload) != nil || payload["v"] != secret {
		t.Fatalf("the worker was given %s", a.Payload)
	}
	return a, payload
}

// look gathers what is shown of an execution.
func (l *leaky) look(t *rapid.T, id string) {
	for what, path := range map[string]string{
		"an execution": "", "an attempt": "/attempts", "an event": "/events", "a report": "/report", "a log": "/logs", "a stream of a log": "/logs?follow=true", "an explanation": "/explain",
	} {
		if what == "a stream of a log" {
			if e := want[client.Execution](l.server, 200, "GET", "/api/v1/executions/"+id, ""); e.FinishedAt == nil {
				continue // it would last
			}
		}
		code, text := l.ask("GET", "/api/v1/executions/"+id+path, "")
		if code != 200 {
			t.Fatalf("%s: %d: %s", path, code, text)
		}
		l.add(what, text)
	}
}
