package app_test

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/telemetry"
)

// value draws a secret: a token, several lines, a key in PEM, or text with characters that encodings escape. It is random enough to be in
// nothing by chance.
func value(t *rapid.T) string {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	text := func(n int, of string) string {
		var b strings.Builder
		for range n {
			c := []rune(of)
			b.WriteRune(c[r.IntN(len(c))])
		}
		return b.String()
	}
	const letters = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	const wild = letters + `"'\/<>&%+-_ =é€😀`
	switch rapid.IntRange(0, 4).Draw(t, "shape") {
	case 0:
		return text(12+r.IntN(40), letters)
	case 1:
		return text(14+r.IntN(40), wild)
	case 2:
		lines := make([]string, 2+r.IntN(5))
		for i := range lines {
			lines[i] = text(10+r.IntN(30), wild)
		}
		return strings.Join(lines, "\n")
	case 3:
		return fmt.Sprintf("{\n  \"user\": %q,\n  \"password\": %q\n}\n", text(14, letters), text(20, letters))
	}
	return "-----BEGIN PRIVATE KEY " + text(8, letters) + "-----\n" + columns(text(200+r.IntN(300), letters+"+/"), 64, "\n") + "\n-----END PRIVATE KEY " + text(8, letters) + "-----\n"
}

func columns(s string, n int, sep string) string {
	var parts []string
	text := []rune(s)
	for len(text) > n {
		parts, text = append(parts, string(text[:n])), text[n:]
	}
	return strings.Join(append(parts, string(text)), sep)
}

// codes are a text as programs write it down.
func codes(s string) []string {
	quoted, _ := json.Marshal(s)
	b := []byte(s)
	return []string{
		s, string(quoted), strconv.Quote(s), strconv.QuoteToASCII(s), url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
		base64.StdEncoding.EncodeToString(b), base64.RawStdEncoding.EncodeToString(b), base64.URLEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b),
		base64.StdEncoding.EncodeToString(append([]byte("u"), b...)), base64.StdEncoding.EncodeToString(append([]byte("u:"), b...)), "'" + strings.ReplaceAll(s, "'", `'\''`) + "'",
	}
}

// parts are a secret, its lines, and how these are written down.
func parts(secret string) []string {
	all := []string{secret}
	for l := range strings.SplitSeq(secret, "\n") {
		if l = strings.TrimSpace(l); len(l) >= 6 {
			all = append(all, l)
		}
	}
	var out []string
	for _, s := range all {
		for _, c := range codes(s) {
			out = append(out, strings.Trim(c, `"'=`))
		}
	}
	return out
}

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
	target  string
	told    int
	failed  []string // executions and runs
	flows   int

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
			w.WriteHeader(500)
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
			secrets = append(secrets, secret)
			l.tell(t, secret)
			if what := l.tells(secret); what != "" {
				t.Fatalf("of %q %s", secret, what)
			}
		})
		l.until("a notification for each", func() bool {
			return !slices.ContainsFunc(l.failed, func(id string) bool { _, told := l.notified.Load(id); return !told })
		})
		for _, path := range []string{
			"/api/v1/jobs", "/api/v1/executions", "/api/v1/dead-letters", "/api/v1/executions:export?format=csv", "/api/v1/executions:export?format=jsonl", "/api/v1/executions:export?format=parquet", "/api/v1/admin/support",
			"/api/v1/audit", "/api/v1/failures", "/api/v1/dead-letters:groups", "/api/v1/workflows", "/api/v1/workflow-runs", "/api/v1/secrets", "/api/v1/workers", "/api/v1/overview",
		} {
			if code, text := l.ask("GET", path, ""); code == 200 {
				l.add(path, text)
			} else {
				t.Errorf("%s: %d: %s", path, code, text)
			}
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
		for _, way := range []string{
			"a trace", "a notification", "the stream of events", "a log", "a stream of a log", "/api/v1/executions:export?format=csv", "/api/v1/admin/support", "/api/v1/dead-letters:groups", "/api/v1/workflows", "/api/v1/workflow-runs",
			"a run", "an explanation of a run", "the items of a run", "approvals", "a notification of a run", "the log",
		} {
			if l.seen[way] < 100 {
				t.Errorf("nothing came out by %s", way)
			}
		}
	})
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

// tell has a worker and a target tell a secret.
func (l *leaky) tell(t *rapid.T, secret string) {
	l.told += 2
	name := fmt.Sprintf("s%d", l.told)
	quoted, _ := json.Marshal(map[string]string{"value": secret})
	want[client.Secret](l.server, 200, "PUT", "/api/v1/secrets/"+name, string(quoted))
	width := rapid.SampledFrom([]int{64, 76, 1 << 20, 40}).Draw(t, "columns")
	var wrapped []string
	for _, c := range codes(secret) {
		wrapped = append(wrapped, columns(c, width, "\n"))
	}
	all := strings.Join(wrapped, "\n--\n")
	cut := func(most int) string { // so that the last one is cut somewhere
		at := rapid.IntRange(0, len(secret)-1).Draw(t, "cut")
		return strings.Repeat("x", max(0, most-len(secret)+at-1)) + " " + secret
	}

	path := "/" + name + "-" + strconv.Itoa(l.told)
	l.repeat.Store(path, rapid.SampledFrom([]string{all, cut(4096), base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 2990) + secret))}).Draw(t, "answer"))
	called := want[client.Job](l.server, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q, "payload": {"v": "${secret:%s}"}}, "retry_policy": {"max_retries": 0}}`, l.target+path, name))
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
	l.ends(called.ExecutionID, "FAILED")
	l.look(t, a.ExecutionID)
	l.look(t, called.ExecutionID)
	l.failed = append(l.failed, a.ExecutionID, called.ExecutionID)
	if rapid.IntRange(0, 4).Draw(t, "in a workflow") == 4 || l.flows == 0 {
		l.flow(t, name, secret, path, all)
	}
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
