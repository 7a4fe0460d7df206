package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	corejob "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/worker"
)

// secretJob names the secret canary in its payload, beside bytes that JSON encoders like to escape.
const secretJob = `{"name": "mail", "execution": {"target": "worker", "kind": "send-email", "payload": {"as": "<a&b>", "with": "${secret:canary}"}}, "retry_policy": {"max_retries": 2, "initial_delay_ms": 0, "max_delay_ms": 0}}`

// put stores the secret canary.
func (f face) put(value string, headers ...string) {
	f.Helper()
	want[client.Secret](f, 200, "PUT", "/api/v1/secrets/canary", fmt.Sprintf(`{"value": %q}`, value), headers...)
}

// late claims one attempt without the values of its secrets.
func (f face) late(path string, mine ...string) client.Attempt {
	f.Helper()
	w := f.ask("POST", path+"/claim", `{"max": 5, "wait_seconds": 10, "late_secrets": true}`, mine...)
	var got client.Claimed
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Attempts) != 1 {
		f.Fatalf("claim: %d %s", w.Code, w.Body)
	}
	if a := got.Attempts[0]; !a.LateSecrets || strings.Contains(w.Body.String(), "value") || strings.Contains(w.Body.String(), "canary") {
		f.Fatalf("claimed %s; want it without the secret", w.Body)
	}
	return got.Attempts[0]
}

// starts sends the request that starts an attempt, for the worker with that path.
func (f face) starts(a client.Attempt, path string, headers []string) *httptest.ResponseRecorder {
	f.Helper()
	by := append([]string{"X-Worker-ID", strings.TrimPrefix(path, "/api/v1/workers/")}, headers...)
	return f.ask("POST", "/api/v1/executions/"+a.ExecutionID+"/start", fmt.Sprintf(`{"fencing_token": %d}`, a.FencingToken), by...)
}

func TestValuesComeWithTheStart(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open()
		mine, path := signed{face: f}.worker(nil)
		f.put("value-1")
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", secretJob)
		a := f.late(path, mine...)
		if string(a.Payload) != "null" || a.ExecutionID != j.ExecutionID || a.Kind != "send-email" || a.AttemptNumber != 1 || a.FencingToken <= 0 || a.IdempotencyKey == "" {
			t.Errorf("claimed: %+v", a)
		}
		f.put("value-2") // after the claim: what counts is the value when it begins
		for range 2 {    // an answer may get lost
			w := f.starts(a, path, mine)
			if !strings.Contains(w.Body.String(), `"payload":{"as":"<a&b>","with":"value-2"}`) || !strings.Contains(w.Body.String(), `"payload_secret":true`) {
				t.Fatalf("start: %d %s", w.Code, w.Body)
			}
			var got client.Attempt
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			got.Payload, got.PayloadSecret, got.LateSecrets = a.Payload, false, true
			if x, y := must(json.Marshal(got)), must(json.Marshal(a)); !bytes.Equal(x, y) {
				t.Errorf("the rest is %s, want it as claimed, %s", x, y)
			}
		}
		done := fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, "status": "FAILED", "error": {"type": "HANDLER_ERROR", "message": "sent value-2 to nobody"}}]}`, a.ExecutionID, a.FencingToken)
		if v := want[client.Verdicts](f, 200, "POST", path+"/complete", done, mine...).Verdicts[0]; v.Verdict != client.Accepted {
			t.Errorf("report: %+v", v)
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+a.ExecutionID, ""); e.Error == nil || e.Error.Message != "sent [redacted] to nobody" {
			t.Errorf("its error is %+v; want it redacted", e.Error)
		}
		if w := f.starts(a, path, mine); w.Code != 409 || !strings.Contains(w.Body.String(), client.CodeStaleToken) {
			t.Errorf("after its end: %d %s", w.Code, w.Body)
		}
	})
}

// Who claims no more than it can begin may leave the flag out, and gets everything with the claim; with it, what
// names no secret comes whole, too.
func TestClaimsWithEverythingInThem(t *testing.T) {
	f := newFace(t)
	mine, path := signed{face: f}.worker(nil)
	f.put("value-1")
	want[client.Job](f, 201, "POST", "/api/v1/jobs", secretJob)
	got := want[client.Claimed](f, 200, "POST", path+"/claim", `{"max": 5, "wait_seconds": 10}`, mine...)
	if len(got.Attempts) != 1 || got.Attempts[0].LateSecrets || string(got.Attempts[0].Payload) != `{"as":"<a&b>","with":"value-1"}` {
		t.Errorf("without the flag: %+v", got)
	}
	if w := f.starts(got.Attempts[0], path, mine); w.Code != 200 || !strings.Contains(w.Body.String(), `"payload":{"as":"<a&b>","with":"value-1"}`) { // not needed, and harmless
		t.Errorf("started: %d %s", w.Code, w.Body)
	}
	want[client.Job](f, 201, "POST", "/api/v1/jobs", emailJob)
	got = want[client.Claimed](f, 200, "POST", path+"/claim", `{"max": 5, "wait_seconds": 10, "late_secrets": true}`, mine...)
	if len(got.Attempts) != 1 || got.Attempts[0].LateSecrets || string(got.Attempts[0].Payload) != `{"to":"ann"}` {
		t.Errorf("with it, and no secret: %+v", got)
	}
}

// Between the claim and the start much can happen; then no value is told.
func TestStartsAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open()
		mine, path := signed{face: f}.worker(nil)
		his, thief := signed{face: f}.worker(nil)
		again := func() client.Attempt {
			f.put("value-1")
			want[client.Job](f, 201, "POST", "/api/v1/jobs", secretJob)
			return f.late(path, mine...)
		}
		server := f
		refused := func(what string, a client.Attempt, by string, headers []string, status int, code string) string {
			t.Helper()
			w := server.starts(a, by, headers)
			var p client.Problem
			if json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Status != status || p.Code != code || strings.Contains(w.Body.String(), "value-1") {
				t.Errorf("%s: %d %s; want %d %s", what, w.Code, w.Body, status, code)
			}
			return p.Detail
		}
		a := again()
		b := a
		for what, token := range map[string]int64{"an older token": a.FencingToken - 1, "a newer token": a.FencingToken + 1, "no token": 0, "a negative token": -a.FencingToken} {
			b.FencingToken = token
			refused(what, b, path, mine, 409, "stale_token")
		}
		refused("another worker", a, thief, his, 409, "stale_token")
		refused("another's session", a, path, his, 404, "not_found")
		refused("no session", a, path, nil, 404, "not_found")
		refused("an unknown worker", a, "/api/v1/workers/"+uuid.NewString(), mine, 404, "not_found")
		refused("no worker", a, "nobody", mine, 404, "not_found")
		refused("none named", a, "", mine, 404, "not_found")
		b = a
		b.ExecutionID = uuid.NewString()
		refused("an unknown execution", b, path, mine, 409, "stale_token")
		b.ExecutionID = "x"
		refused("no execution", b, path, mine, 404, "not_found")
		by := append([]string{"X-Worker-ID", strings.TrimPrefix(path, "/api/v1/workers/")}, mine...)
		if w := f.ask("POST", "/api/v1/executions/"+a.ExecutionID+"/start", `{"worker": 1}`, by...); w.Code != 400 {
			t.Errorf("an unknown field: %d %s", w.Code, w.Body)
		}

		held := fmt.Sprintf(`{"executions": [{"execution_id": %q, "fencing_token": %d}]}`, a.ExecutionID, a.FencingToken)
		want[struct{}](f, 200, "POST", path+"/release", held, mine...)
		refused("released", a, path, mine, 409, "stale_token")
		b = f.late(thief, his...)
		refused("held by another", a, path, mine, 409, "stale_token")
		if b.AttemptNumber != 1 || !strings.Contains(f.starts(b, thief, his).Body.String(), "value-1") {
			t.Errorf("its holder could not start attempt %d", b.AttemptNumber)
		}

		a = again()
		want[client.Execution](f, 202, "POST", "/api/v1/executions/"+a.ExecutionID+"/cancel", "")
		refused("cancelled", a, path, mine, 409, "stale_token")

		a = again()
		want[client.Secret](f, 200, "DELETE", "/api/v1/secrets/canary?force=true", "")
		server = faceOver(t, f.store) // f remembers the secrets of a tenant for seconds
		if why := refused("a secret that is gone", a, path, mine, 409, "not_started"); !strings.Contains(why, "canary") {
			t.Errorf("it does not say which: %s", why)
		}
		if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+a.ExecutionID, ""); e.Status != "FAILED" || e.AttemptNumber != 1 || !strings.Contains(e.Error.Message, "canary") {
			t.Errorf("then it is %s after %d attempts: %+v", e.Status, e.AttemptNumber, e.Error)
		}

		server = f
		a = again()
		want[struct{}](f, 200, "DELETE", path, "", mine...)
		refused("it has left", a, path, mine, 409, "session_ended")
	})
}

// Another server over the same store, or the same one after a restart, starts what the first one handed out.
func TestAnotherServerStartsIt(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(...func(*api.Config, engine.Store)) face) {
		f := open()
		mine, path := signed{face: f}.worker(nil)
		f.put("value-1")
		want[client.Job](f, 201, "POST", "/api/v1/jobs", secretJob)
		a := f.late(path, mine...)
		again := faceOver(t, f.store)
		if w := again.starts(a, path, mine); w.Code != 200 || !strings.Contains(w.Body.String(), `"payload":{"as":"<a&b>","with":"value-1"}`) {
			t.Errorf("started: %d %s", w.Code, w.Body)
		}
	})
}

// A key that stops working after the claim gets no value: five seconds later at the latest, also elsewhere.
func TestARevokedKeyStartsNothing(t *testing.T) {
	onServers(t, func(t *testing.T, here, there signed) {
		there.put("value-1", there.system...)
		k := want[client.APIKey](there.face, 201, "POST", "/api/v1/api-keys", `{"name": "w", "role": "worker"}`, there.system...)
		headers, path := here.worker([]string{"Authorization", "Bearer " + *k.Key})
		want[client.Job](there.face, 201, "POST", "/api/v1/jobs", secretJob, there.system...)
		a := here.late(path, headers...)
		want[client.APIKey](there.face, 200, "DELETE", "/api/v1/api-keys/"+k.KeyID, "", there.system...)
		began := time.Now()
		w := here.starts(a, path, headers)
		for w.Code == 200 && time.Since(began) < 2*revokedWithin {
			<-time.After(50 * time.Millisecond)
			w = here.starts(a, path, headers)
		}
		if late := time.Since(began); w.Code != 401 || strings.Contains(w.Body.String(), "value-1") || late > revokedWithin {
			t.Errorf("%s after its key was revoked: %d %s", late, w.Code, w.Body)
		}
	})
}

// A key that stops working while the values are read gets none of them, and the execution goes back.
func TestAKeyThatIsRevokedDuringTheStart(t *testing.T) {
	var over, slow atomic.Bool
	f := newFace(t, func(c *api.Config, _ engine.Store) {
		c.Authenticate = func(_ context.Context, header, _ string) (tenant.Principal, error) {
			if header == "bad" && over.Load() {
				return tenant.Principal{}, access.ErrUnknownKey
			}
			return tenant.Principal{Tenant: tenant.Default, Role: tenant.System, Key: header}, nil
		}
		c.Delivery = delivery.New(c.Dispatch, c.Logger, c.Secrets.Step, func(context.Context, corejob.Attempt, *client.Attempt) error {
			if slow.Load() {
				<-time.After(1100 * time.Millisecond) // longer than a credential counts as fresh
				over.Store(true)
			}
			return nil
		})
	})
	f.put("value-1")
	s := signed{face: f}
	headers, path := s.worker([]string{"Authorization", "bad"})
	want[client.Job](f, 201, "POST", "/api/v1/jobs", secretJob)
	a := f.late(path, headers...)
	slow.Store(true)
	if w := f.starts(a, path, headers); w.Code != 401 || strings.Contains(w.Body.String(), "value-1") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	slow.Store(false)
	others, path := s.worker([]string{"Authorization", "good"})
	if b := f.late(path, others...); b.ExecutionID != a.ExecutionID || b.AttemptNumber != 1 {
		t.Errorf("another worker was given %+v", b)
	}
}

// watched is a server behind an ear that hears every answer to workers.
type watched struct {
	mu      sync.Mutex
	claims  []string // answers
	started int
	most    int // attempts whose values were told, and that had not ended
	open    map[string]bool
}

func (w *watched) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		sent, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(data))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/claim"):
		w.claims = append(w.claims, string(data))
	case strings.HasSuffix(r.URL.Path, "/start"):
		w.started++
		w.open[r.URL.Path] = true
		w.most = max(w.most, len(w.open))
	}
	return resp, err
}

// The Go package claims ahead of its slots, and has the values of no more attempts than it has slots.
func TestAWorkerThatClaimsAheadHasNoValues(t *testing.T) {
	f := newFace(t)
	f.put("value-1")
	server := httptest.NewServer(f.http)
	defer server.Close()
	const slots, n = 2, 300
	ear := &watched{open: map[string]bool{}}
	var mu sync.Mutex
	wrong, ran := "", 0
	done := make(chan struct{})
	w := worker.Serve(client.New([]string{server.URL}, "", client.WithHTTPClient(&http.Client{Transport: ear})), worker.Options{Slots: slots})
	worker.Handle(w, "send-email", func(ctx context.Context, in map[string]string) error {
		mu.Lock()
		defer mu.Unlock()
		if in["with"] != "value-1" {
			wrong = fmt.Sprint(in)
		}
		a, _ := worker.AttemptFrom(ctx)
		ear.mu.Lock()
		delete(ear.open, "/api/v1/executions/"+a.ExecutionID+"/start")
		ear.mu.Unlock()
		if ran++; ran == n {
			close(done)
		}
		return nil
	})
	for range n {
		want[client.Job](f, 201, "POST", "/api/v1/jobs", secretJob)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("they did not all run")
	}
	cancel()
	wg.Wait()
	ear.mu.Lock()
	defer ear.mu.Unlock()
	if wrong != "" || ear.started < n || ear.most > slots {
		t.Errorf("one ran with %s; %d starts; the values of %d attempts at once, with %d slots", wrong, ear.started, ear.most, slots)
	}
	ahead := 0
	for _, answer := range ear.claims {
		ahead = max(ahead, strings.Count(answer, `"late_secrets":true`))
		if strings.Contains(answer, "value-1") {
			t.Errorf("a claim was answered with a value: %s", answer)
		}
	}
	if ahead <= slots {
		t.Errorf("no claim was ahead of the slots: %d at most", ahead)
	}
}
