package api_test

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// once asks twice with one key, then with the key for another body, and returns the first answer.
func (f face) once(path, body, other, key string) string {
	f.Helper()
	by := []string{"X-Idempotency-Key", key}
	first := f.ask("POST", path, body, by...)
	again := f.ask("POST", path, body, by...)
	if first.Code != 200 || again.Code != 200 || !bytes.Equal(first.Body.Bytes(), again.Body.Bytes()) {
		f.Errorf("%s: %d %s; repeated: %d %s", path, first.Code, first.Body, again.Code, again.Body)
	}
	if again.Header().Get("Idempotent-Replay") != "true" || first.Header().Get("Idempotent-Replay") != "" {
		f.Errorf("%s: the headers are %v, then %v", path, first.Header(), again.Header())
	}
	if p := want[client.Problem](f, 422, "POST", path, other, by...); p.Code != "idempotency_key_reused" {
		f.Errorf("%s: its key for another body: %s", path, encoded(p))
	}
	return first.Body.String()
}

// replays asks once more, and expects the answer.
func (f face) replays(path, body, key, answer string) {
	f.Helper()
	if got := f.ask("POST", path, body, "X-Idempotency-Key", key); got.Code != 200 || got.Body.String() != answer || got.Header().Get("Idempotent-Replay") != "true" {
		f.Errorf("%s once more: %d %s; want %s", path, got.Code, got.Body, answer)
	}
}

// atOnce asks several times at once with one key, and returns the answer that all get.
func (f face) atOnce(path, body, key string) string {
	f.Helper()
	var wg sync.WaitGroup
	var answers [4]*httptest.ResponseRecorder
	for i := range answers {
		wg.Go(func() { answers[i] = f.ask("POST", path, body, "X-Idempotency-Key", key) })
	}
	wg.Wait()
	texts := make([]string, len(answers))
	for i, a := range answers {
		if texts[i] = a.Body.String(); a.Code != 200 {
			f.Errorf("%s at once: %d %s", path, a.Code, a.Body)
		}
	}
	if len(slices.Compact(texts)) != 1 {
		f.Errorf("%s at once: %q", path, texts)
	}
	return answers[0].Body.String()
}

// audited counts the entries of an action in the audit log.
func (f face) audited(action string) int {
	f.Helper()
	return len(want[client.AuditEntries](f, 200, "GET", "/api/v1/audit?limit=1000&action="+action, "").Audit)
}

// An event that is sent again with its idempotency key is answered as the first time, and not sent.
func TestRepeatedEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		const path, paid = "/api/v1/events:send", `{"event": "paid", "payload": 1}`
		waits := func() string {
			_, run := f.flow(`{"key": "paid", "wait": {"event": "paid", "match": "run.input"}}`, `{"input": 1}`)
			f.stands(run, "RUNNING", "paid", "RUNNING")
			return run
		}
		first := waits()
		if sent := f.once(path, `{"event": "paid", "match": 1}`, paid, "k"); !strings.Contains(sent, first) {
			t.Errorf("it releases %s; want %s", sent, first)
		}
		f.stands(first, "SUCCEEDED")
		if n := f.audited("event.send"); n != 1 {
			t.Errorf("%d events were sent; want one", n)
		}
		ids := map[string]bool{}
		for range 2 {
			ids[want[client.EventSent](f, 200, "POST", path, paid).EventID] = true
		}
		if n := f.audited("event.send"); n != 3 || len(ids) != 2 {
			t.Errorf("without a key: %v; %d are audited", ids, n)
		}
		const dry = `{"event": "paid", "dry_run": true}`
		for range 2 {
			want[client.EventSent](f, 200, "POST", path, dry, "X-Idempotency-Key", "dry")
		}
		f.atOnce(path, paid, "dry") // a dry run claims no key
		if n := f.audited("event.send"); n != 4 {
			t.Errorf("several at once: %d are audited", n)
		}
	})
}

// An act on a run or node that is repeated with its idempotency key is answered as the first time, and changes nothing, whatever became of the
// run.
func TestRepeatedActsOnRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open(withRuns(t))
		c := newCrew(f)
		failed := func() (run, at string) {
			_, run = f.flow(x("a")+","+x("b", after("a")), `{}`)
			for !slices.ContainsFunc(c.held, func(a client.Attempt) bool { return node(a) == "a" }) {
				c.take(len(c.held) + 1) // the run before may continue with its b
			}
			c.end("a", "FAILED")
			f.stands(run, "FAILED")
			return run, "/api/v1/workflow-runs/" + run
		}
		attempts := func(run string, n int) {
			t.Helper()
			if r := f.run(run); r.Attempt != n {
				t.Errorf("the run has %d attempts; want %d", r.Attempt, n)
			}
		}
		run, at := failed()
		dry := want[client.WorkflowRunChanged](f, 200, "POST", at+"/retry", `{"dry_run": true}`, "X-Idempotency-Key", "retry") // claims no key
		retried := f.once(at+"/retry", `{}`, `{"nodes": ["a"]}`, "retry")
		if !strings.Contains(retried, `"attempt":2`) || !strings.Contains(retried, encoded(dry.Changes)) {
			t.Errorf("the retry: %s; the dry run says %s", retried, encoded(dry.Changes))
		}
		want[client.Problem](f, 409, "POST", at+"/retry", `{}`) // without a key
		c.take(1)
		c.end("a", "FAILED")
		f.stands(run, "FAILED")
		f.replays(at+"/retry", `{}`, "retry", retried)
		attempts(run, 2)
		f.atOnce(at+"/retry", `{}`, "at once")
		attempts(run, 3)

		paused := f.once(at+"/pause", `{}`, ``, "pause")
		unpaused := f.once(at+"/unpause", `{}`, ``, "unpause")
		f.replays(at+"/pause", `{}`, "pause", paused)
		if r := f.run(run); r.Status == "PAUSED" {
			t.Error("a repeated pause pauses the run, which continued meanwhile")
		}
		cancelled := f.once(at+"/cancel", `{}`, `{"reason": "wrong day"}`, "cancel")
		f.stands(run, "CANCELLED")
		f.replays(at+"/cancel", `{}`, "cancel", cancelled)
		f.replays(at+"/unpause", `{}`, "unpause", unpaused)
		want[client.WorkflowRunChanged](f, 200, "POST", at+"/retry", `{}`)
		f.replays(at+"/cancel", `{}`, "cancel", cancelled)
		f.stands(run, "RUNNING")
		c.take(1)
		c.end("a", "FAILED")

		for act, bodies := range map[string][2]string{"skip": {`{}`, ``}, "mark": {`{"result": 1}`, `{"result": 2}`}} {
			run, at := failed()
			f.once(at+"/nodes/a/"+act, bodies[0], bodies[1], act)
			attempts(run, 2)
		}
		for action, n := range map[string]int{"retry": 3, "pause": 1, "unpause": 1, "cancel": 1, "skip": 1, "mark": 1} {
			if got := f.audited("workflow_run." + action); got != n {
				t.Errorf("%s is audited %d times; want %d", action, got, n)
			}
		}
	})
}

// A run that is cancelled before it begins is cancelled once, and begins once. What waits behind another run of its job is started on
// PostgreSQL by the owner of its partition, which this server has not.
func TestRepeatedRetryOfARunThatNeverBegan(t *testing.T) {
	var d *dispatch.Dispatcher
	f := newFace(t, withRuns(t), func(c *api.Config, _ engine.Store) { d = c.Dispatch })
	f.fires(d)
	w := want[client.Workflow](f, 201, "POST", "/api/v1/workflows", `{"name": "w", "overlap": "queue", "schedule": {"type": "INTERVAL", "every": "1s", "max_runs": 2}, "nodes": [`+x("a")+`]}`)
	runs := f.runsOf(w.WorkflowID, 2)
	f.stands(runs[0], "RUNNING")
	at := "/api/v1/workflow-runs/" + runs[1]
	f.stands(runs[1], "WAITING")
	cancelled := f.atOnce(at+"/cancel", `{}`, "c")
	f.replays(at+"/cancel", `{}`, "c", cancelled)
	if p := want[client.Problem](f, 422, "POST", at+"/cancel", `{"reason": "no"}`, "X-Idempotency-Key", "c"); p.Code != "idempotency_key_reused" {
		t.Errorf("the key of a cancel for another body: %s", encoded(p))
	}
	if r := f.stands(runs[1], "CANCELLED"); r.StartedAt != nil {
		t.Fatalf("it began: %s", encoded(r))
	}
	begun := f.atOnce(at+"/retry", `{}`, "k")
	f.replays(at+"/retry", `{}`, "k", begun)
	if p := want[client.Problem](f, 422, "POST", at+"/retry", `{"input": 1}`, "X-Idempotency-Key", "k"); p.Code != "idempotency_key_reused" {
		t.Errorf("the key for another body: %s", encoded(p))
	}
	if r := f.run(runs[1]); r.Attempt != 2 || r.StartedAt == nil {
		t.Errorf("after the retry: %s", encoded(r))
	}
}

// unanswering is a store that fails once to keep an answer.
type unanswering struct {
	engine.Store
	fails chan struct{}
}

var errUnanswering = errors.New("the store is away")

func (s unanswering) Answer(ctx context.Context, t tenant.ID, i engine.Idempotency, draft []byte) ([]byte, error) {
	select {
	case <-s.fails:
		return nil, errUnanswering
	default:
		return s.Store.Answer(ctx, t, i, draft)
	}
}

// Whoever did it died before the answer was kept: the next request answers.
func TestAnActWhoseAnswerWasLost(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		fails := make(chan struct{}, 1)
		f := open(func(c *api.Config, store engine.Store) { withRuns(t)(c, unanswering{store, fails}) })
		c := newCrew(f)
		_, run := f.flow(x("a"), `{}`)
		c.take(1)
		c.end("a", "FAILED")
		f.stands(run, "FAILED")
		at := "/api/v1/workflow-runs/" + run
		for act, status := range []string{"RUNNING", "CANCELLED"} {
			act := []string{"/retry", "/cancel"}[act]
			fails <- struct{}{}
			if lost := f.ask("POST", at+act, `{}`, "X-Idempotency-Key", act); lost.Code < 500 {
				t.Errorf("%s without an answer: %d %s", act, lost.Code, lost.Body)
			}
			want[client.Problem](f, 422, "POST", at+act, `{"dry_run": false}`, "X-Idempotency-Key", act)
			f.stands(run, status)
			got := f.ask("POST", at+act, `{}`, "X-Idempotency-Key", act)
			if text := got.Body.String(); got.Code != 200 || !strings.Contains(text, `"changes":[{"node":"a"`) || !strings.Contains(text, `"attempt":2`) || !strings.Contains(text, status) {
				t.Errorf("%s: %d %s", act, got.Code, text)
			}
			f.replays(at+act, `{}`, act, got.Body.String())
			if n := f.audited("workflow_run." + act[1:]); n != 1 {
				t.Errorf("%s is audited %d times", act, n)
			}
		}
	})
}
