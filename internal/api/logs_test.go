package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/worker"
)

// claimed is a worker with one attempt.
type claimed struct {
	face
	path string
	mine []string
	client.Attempt
}

func claimOne(t *testing.T, change ...func(*api.Config, engine.Store)) claimed {
	t.Helper()
	f := newFace(t, change...)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"]}`)
	want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
	c := claimed{face: f, path: "/api/v1/workers/" + s.WorkerID, mine: []string{"X-Worker-Session", s.Session}}
	c.claim()
	return c
}

func (c *claimed) claim() {
	c.Helper()
	got := want[client.Claimed](c.face, 200, "POST", c.path+"/claim", `{"wait_seconds": 5}`, c.mine...)
	if len(got.Attempts) != 1 {
		c.Fatalf("claimed %+v", got)
	}
	c.Attempt = got.Attempts[0]
}

// body is a request to the worker protocol about the attempt.
func (c *claimed) body(rest string) string {
	return fmt.Sprintf(`{"execution_id": %q, "fencing_token": %d, %s}`, c.ExecutionID, c.FencingToken, rest)
}

func (c *claimed) log(status int, rest string) *httptest.ResponseRecorder {
	c.Helper()
	w := c.ask("POST", c.path+"/logs", c.body(rest), c.mine...)
	if w.Code != status {
		c.Fatalf("logs: %d %s, want %d", w.Code, w.Body, status)
	}
	return w
}

func (c *claimed) end(outcome string) {
	c.Helper()
	want[client.Verdicts](c.face, 200, "POST", c.path+"/complete", `{"outcomes": [`+c.body(outcome)+`]}`, c.mine...)
}

func TestLogsOverHTTP(t *testing.T) {
	c := claimOne(t)
	logs := "/api/v1/executions/" + c.ExecutionID + "/logs"
	if got := want[client.Log](c.face, 200, "GET", logs, ""); len(got.Lines) != 0 || got.Pagination.Total != 0 {
		t.Errorf("before: %+v", got)
	}
	at := `"at": "2026-01-31T15:04:05.123456Z"`
	if got := c.log(200, `"offset": 0, "lines": [{`+at+`, "stream": "stderr", "text": "one"}, {"text": "two\u0000\u001b[31m"}]`).Body.String(); got != "{\"lines\":2,\"cut\":false}\n" {
		t.Errorf("answer: %s", got)
	}
	c.log(200, `"offset": 1, "lines": [{"text": "two again"}, {"stream": "log", "text": "three"}]`)
	c.log(200, `"lines": [{"text": "four"}]`)
	c.log(200, `"lines": []`)
	got := want[client.Log](c.face, 200, "GET", logs, "")
	if len(got.Lines) != 4 || got.Pagination.Total != 4 || got.Pagination.NextCursor != nil {
		t.Fatalf("read: %+v", got)
	}
	one, two := got.Lines[0], got.Lines[1]
	if one.Attempt != 1 || one.Line != 0 || one.Stream != "stderr" || one.Text != "one" || one.ID != fmt.Sprintf("%d.0", c.FencingToken) || !one.At.Equal(time.Date(2026, 1, 31, 15, 4, 5, 123456000, time.UTC)) ||
		two.Text != "two\uFFFD\x1b[31m" || two.Stream != "stdout" || time.Since(two.At) > time.Minute || got.Lines[2].Text != "three" || got.Lines[3].Line != 3 {
		t.Errorf("lines: %+v", got.Lines)
	}
	page := want[client.Log](c.face, 200, "GET", logs+"?limit=3", "")
	if len(page.Lines) != 3 || page.Pagination.NextCursor == nil || *page.Pagination.NextCursor != page.Lines[2].ID {
		t.Fatalf("page: %+v", page)
	}
	for _, name := range []string{"cursor", "after"} {
		if rest := want[client.Log](c.face, 200, "GET", logs+"?"+name+"="+*page.Pagination.NextCursor, ""); len(rest.Lines) != 1 || rest.Lines[0].Text != "four" {
			t.Errorf("rest by %s: %+v", name, rest)
		}
	}
	stale := c
	c.end(`"status": "FAILED", "retryable": true`)
	if got := stale.log(409, `"lines": [{"text": "late"}]`).Body.String(); !strings.Contains(got, `"code":"stale_token"`) {
		t.Errorf("stale: %s", got)
	}
	c.claim()
	c.log(200, `"lines": [{"text": "again"}]`)
	stale.log(409, `"lines": [{"text": "late"}]`)
	if all, second := want[client.Log](c.face, 200, "GET", logs, ""), want[client.Log](c.face, 200, "GET", logs+"?attempt=2", ""); len(all.Lines) != 5 || len(second.Lines) != 1 || second.Lines[0].Attempt != 2 || second.Pagination.Total != 1 {
		t.Errorf("all: %+v\nthe second: %+v", all, second)
	}
	c.log(422, `"offset": 7, "lines": [{"text": "a gap"}]`)
	c.log(422, `"offset": -1, "lines": []`)
	c.log(422, `"lines": [{"stream": "other", "text": "x"}]`)
	c.log(422, `"lines": [`+strings.Repeat(`{"text": ""}, `, client.MaxLogLines)+`{"text": ""}]`)
	c.log(400, `"lines": [{"txt": "x"}]`)
	c.log(413, `"lines": [{"text": "`+strings.Repeat("x", 1<<20)+`"}]`)
	if w := c.ask("POST", c.path+"/logs", `{"execution_id": "x", "fencing_token": 1, "lines": []}`, c.mine...); w.Code != 422 {
		t.Errorf("no id: %d %s", w.Code, w.Body)
	}
	if w := c.ask("POST", c.path+"/logs", c.body(`"lines": []`)); w.Code != 404 {
		t.Errorf("without a session: %d %s", w.Code, w.Body)
	}
	for _, bad := range []string{"?after=x", "?attempt=0", "?attempt=x", "?limit=0", "?follow=maybe", "?nonsense=1"} {
		want[client.Problem](c.face, 400, "GET", logs+bad, "")
	}
	want[client.Problem](c.face, 404, "GET", "/api/v1/executions/0190a6c8-7b3e-7cc0-8a1b-0123456789ab/logs", "")
	want[client.Problem](c.face, 404, "GET", "/api/v1/executions/0190a6c8-7b3e-7cc0-8a1b-0123456789ab/logs?follow=true", "")
	want[client.Problem](c.face, 404, "GET", "/api/v1/executions/x/logs", "")
}

func TestFollowingALog(t *testing.T) {
	c := claimOne(t)
	server := httptest.NewUnstartedServer(c.http)
	server.Config.WriteTimeout, server.Config.ReadTimeout = time.Second, time.Second // a stream outlasts them
	server.Start()
	defer server.Close()
	c.log(200, `"lines": [{"text": "0"}, {"text": "1"}]`)
	lines := make(chan client.LoggedLine)
	type end struct {
		status string
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		status, err := client.New([]string{server.URL}, "").FollowLog(t.Context(), c.ExecutionID, client.LogOptions{}, func(l client.LoggedLine) error {
			lines <- l
			return nil
		})
		ended <- end{status, err}
	}()
	next := func(text string) client.LoggedLine {
		t.Helper()
		select {
		case l := <-lines:
			if l.Text != text {
				t.Fatalf("got %+v, want %s", l, text)
			}
			return l
		case e := <-ended:
			t.Fatalf("ended: %+v", e)
		case <-time.After(time.Minute):
			t.Fatalf("no line %s", text)
		}
		panic("not reached")
	}
	next("0")
	seen := next("1")
	server.CloseClientConnections() // it comes again, and continues where it was
	c.log(200, `"lines": [{"text": "2"}]`)
	next("2")
	c.end(`"status": "FAILED", "retryable": true`)
	c.claim()
	c.log(200, `"lines": [{"text": "3"}]`)
	next("3")
	c.end(`"status": "SUCCEEDED"`)
	if e := <-ended; e.status != "SUCCEEDED" || e.err != nil {
		t.Errorf("ended: %+v", e)
	}

	req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/api/v1/executions/"+c.ExecutionID+"/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", seen.ID)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := string(data)
	if resp.Header.Get("Content-Type") != "text/event-stream" || strings.Count(got, "event: line\n") != 2 || !strings.HasPrefix(got, "id: ") || !strings.HasSuffix(got, "event: end\ndata: {\"status\":\"SUCCEEDED\"}\n\n") {
		t.Errorf("stream: %s", got)
	}
}

func TestFollowersAreBoundedAndEndWithTheServer(t *testing.T) {
	c := claimOne(t)
	var began, ended sync.WaitGroup
	path := "http://localhost:8080/api/v1/executions/" + c.ExecutionID + "/logs?follow=true"
	for range 375 { // of 500, which is as many as one tenant may have
		began.Add(1)
		ended.Go(func() {
			c.http.ServeHTTP(&signalling{ResponseRecorder: httptest.NewRecorder(), begun: sync.OnceFunc(began.Done)}, httptest.NewRequest("GET", path, nil))
		})
	}
	began.Wait()
	if w := c.ask("GET", "/api/v1/executions/"+c.ExecutionID+"/logs?follow=true", ""); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s", w.Code, w.Body)
	}
	c.http.(*api.Server).Stop()
	ended.Wait()
}

// signalling says when an answer begins.
type signalling struct {
	*httptest.ResponseRecorder
	begun func()
}

func (s *signalling) Flush() { s.ResponseRecorder.Flush(); s.begun() }

// loud logs so many lines as fast as it can.
type loud struct{ lines int }

func (l loud) Execute(ctx context.Context, _ client.Attempt) client.Outcome {
	for i := range l.lines {
		worker.Log(ctx, worker.Stdout, fmt.Sprintf("line %d of a job that has a lot to say", i))
	}
	return client.Outcome{Status: client.Succeeded}
}

// Nothing of what a job writes at once is lost below the limit, in this process or over HTTP, though answers are.
func TestALoudJobLosesNoLine(t *testing.T) {
	const lines = 30_000
	for _, over := range []string{"door", "http"} {
		t.Run(over, func(t *testing.T) {
			var disp *dispatch.Dispatcher
			var out *delivery.Pipeline
			f := newFace(t, func(cfg *api.Config, _ engine.Store) { disp, out = cfg.Dispatch, cfg.Delivery })
			j := want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
			var src worker.Source = api.NewDoor(disp, out, clock.System{})
			if over == "http" {
				server := httptest.NewServer(f.http)
				defer server.Close()
				src = client.New([]string{server.URL}, "")
			}
			src = &lossy{Source: src}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				worker.New(src, loud{lines}, worker.Config{Targets: []string{"worker"}, Kinds: []string{"send-email"}}).Run(ctx)
			})
			defer wg.Wait()
			defer cancel()
			server := httptest.NewServer(f.http)
			defer server.Close()
			n := 0
			status, err := client.New([]string{server.URL}, "").FollowLog(t.Context(), j.ExecutionID, client.LogOptions{}, func(l client.LoggedLine) error {
				if l.Text != fmt.Sprintf("line %d of a job that has a lot to say", n) || l.Line != n {
					return fmt.Errorf("line %d is %+v", n, l)
				}
				n++
				return nil
			})
			if err != nil || status != "SUCCEEDED" || n != lines {
				t.Errorf("%s, %v, %d lines", status, err, n)
			}
			if got := want[client.Log](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/logs", ""); got.Pagination.Total != lines {
				t.Errorf("%d lines are kept", got.Pagination.Total)
			}
		})
	}
}

// lossy loses every third answer about a log.
type lossy struct {
	worker.Source
	n atomic.Int64
}

func (l *lossy) Logs(ctx context.Context, s client.Session, r client.LogRequest) (client.LogAnswer, error) {
	a, err := l.Source.Logs(ctx, s, r)
	if l.n.Add(1)%3 == 0 && err == nil {
		return client.LogAnswer{}, errors.New("the answer was lost")
	}
	return a, err
}

// Another tenant's log is not there, whether it is read or followed.
func TestLogsOfAnotherTenant(t *testing.T) {
	f := commanding(t)
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "n", "execution": {"target": "command", "command": ["true"]}}`, "Authorization", "default operator")
	at := "/api/v1/executions/" + j.ExecutionID + "/logs"
	want[client.Log](f, 200, "GET", at, "", "Authorization", "default viewer")
	for _, path := range []string{at, at + "?follow=true"} {
		want[client.Problem](f, 404, "GET", path, "", "Authorization", "other admin")
	}
	want[client.Problem](f, 404, "GET", at, "", "Authorization", "other admin", "Accept", "text/event-stream")
	want[client.Problem](f, 403, "GET", at+"?follow=true", "", "Authorization", "default worker")
}
