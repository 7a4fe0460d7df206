package api_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/executor"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
	"github.com/carillon-jobs/carillon/internal/upkeep"
	"github.com/carillon-jobs/carillon/worker"
)

// callbacks is the API with all that callbacks need, and a worker that makes them.
type callbacks struct {
	face
	stopWorker func()
	newWorker  func() (stop func())
}

func newCallbacks(t *testing.T, change ...func(*executor.Config)) callbacks {
	t.Helper()
	keys, err := seal.ParseKeys(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	var door *api.Door
	f := newFace(t, func(c *api.Config, store engine.Store) {
		secrets := sign.NewSecrets(store, ring, clock.System{})
		if c.Tokens, err = sign.LoadTokens(t.Context(), store, ring); err != nil {
			t.Fatal(err)
		}
		c.Delivery = delivery.New(c.Dispatch, c.Logger, sign.Step(secrets, c.Tokens, clock.System{}))
		c.Service = service.New(store, clock.System{}, service.Config{LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer, Sealer: ring, Resign: secrets.Forget})
		secrets.Seed(c.Service.SeedSigningSecret)
		door = api.NewDoor(c.Dispatch, c.Delivery, clock.System{})
	})
	cfg := executor.Config{AllowLoopback: true, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	x := callbacks{face: f}
	x.newWorker = func() func() {
		exec := executor.New(cfg)
		pool := worker.New(door, exec, worker.Config{Slots: 4, MaxSlots: 4, Targets: []string{"http"}, Drain: time.Second, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { pool.Run(ctx) })
		return sync.OnceFunc(func() { cancel(); wg.Wait(); exec.Close() })
	}
	x.stopWorker = x.newWorker()
	t.Cleanup(x.stopWorker)
	return x
}

// until waits for an execution to be as wanted.
func (c callbacks) until(id string, ok func(client.Execution) bool) client.Execution {
	c.Helper()
	limit := time.After(2 * time.Minute)
	for {
		e := want[client.Execution](c.face, 200, "GET", "/api/v1/executions/"+id, "")
		if ok(e) {
			return e
		}
		select {
		case <-limit:
			c.Fatalf("the execution is %+v, %+v", e, e.Error)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (c callbacks) job(url, rest string) client.Job {
	c.Helper()
	return want[client.Job](c.face, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "call", "execution": {"callback_url": %q, "payload": { "a" : "<b  c>" }%s}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 0, "max_delay_ms": 0}}`, url, rest))
}

func is(status string) func(client.Execution) bool {
	return func(e client.Execution) bool { return e.Status == status }
}

// call is a request that a sink got.
type call struct {
	header http.Header
	body   string
	method string
}

// sink is a target that records what it gets.
func sink(t *testing.T, h http.HandlerFunc) (url string, calls chan call) {
	t.Helper()
	calls = make(chan call, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.Header.Clone(), string(body), r.Method}
		if h != nil {
			h(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

// verified counts how many of a call's signatures are of a secret, as a target checks them.
func verified(t *testing.T, c call, secret string) int {
	t.Helper()
	key, err := sign.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseInt(c.header.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
		t.Errorf("the timestamp %q is not now: %v", c.header.Get("webhook-timestamp"), err)
	}
	n := 0
	for s := range strings.FieldsSeq(c.header.Get("webhook-signature")) {
		if s == key.Sign(c.header.Get("webhook-id"), time.Unix(at, 0), []byte(c.body)) {
			n++
		}
	}
	return n
}

// publicly reports whether one of a call's signatures is of a public key, as a target checks it.
func publicly(t *testing.T, c call, public string) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(public, "whpk_"))
	if err != nil {
		t.Fatal(err)
	}
	signed := c.header.Get("webhook-id") + "." + c.header.Get("webhook-timestamp") + "." + c.body
	for s := range strings.FieldsSeq(c.header.Get("webhook-signature")) {
		if text, ok := strings.CutPrefix(s, "v1a,"); ok {
			sum, err := base64.StdEncoding.DecodeString(text)
			return err == nil && ed25519.Verify(key, []byte(signed), sum)
		}
	}
	return false
}

func TestCallbacksAreSigned(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t)
	url, calls := sink(t, nil)
	run := func(rest string) call {
		t.Helper()
		j := c.job(url, rest)
		c.until(j.ExecutionID, is("SUCCEEDED"))
		got := <-calls
		if got.header.Get("webhook-id") != j.ExecutionID || got.header.Get("X-Execution-ID") != j.ExecutionID || got.header.Get("X-Job-ID") != j.JobID || !strings.HasPrefix(got.header.Get("traceparent"), "00-"+strings.ReplaceAll(j.ExecutionID, "-", "")) {
			t.Errorf("headers: %v", got.header)
		}
		if a := got.header.Get("Authorization"); a != "" {
			t.Errorf("a credential was sent: %s", a)
		}
		return got
	}
	if got := run(""); len(strings.Fields(got.header.Get("webhook-signature"))) != 1 {
		t.Errorf("not signed from the start: %v", got.header)
	}
	first := want[client.SigningSecret](c.face, 201, "POST", "/api/v1/signing-secrets", "")
	if !strings.HasPrefix(first.Secret, first.Prefix) || first.ExpiresAt != nil {
		t.Errorf("made: %+v", first)
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD"} {
		got := run(fmt.Sprintf(`, "method": %q`, method))
		if n := verified(t, got, first.Secret); n != 1 || got.method != method || (got.body == "") != (method == "GET" || method == "HEAD") {
			t.Errorf("%s: %d good signatures, body %q", method, n, got.body)
		}
	}
	second := want[client.SigningSecret](c.face, 201, "POST", "/api/v1/signing-secrets", `{"overlap_seconds": 60}`, "Idempotency-Key", "k")
	again := want[client.SigningSecret](c.face, 201, "POST", "/api/v1/signing-secrets", `{"overlap_seconds": 60}`, "Idempotency-Key", "k")
	if again.Secret != second.Secret || again.ID != second.ID {
		t.Errorf("the same request again: %+v, %+v", second, again)
	}
	if got := run(""); verified(t, got, first.Secret) != 1 || verified(t, got, second.Secret) != 1 {
		t.Errorf("while one follows the other: %v", got.header)
	}
	list := want[client.SigningSecrets](c.face, 200, "GET", "/api/v1/signing-secrets", "")
	if len(list.SigningSecrets) != 2 || list.SigningSecrets[0].ID != second.ID || list.SigningSecrets[1].ExpiresAt == nil || list.SigningSecrets[0].Secret != "" {
		t.Errorf("list: %+v", list)
	}
	want[client.SigningSecret](c.face, 200, "DELETE", "/api/v1/signing-secrets/"+first.ID, "")
	if got := run(""); verified(t, got, first.Secret) != 0 || verified(t, got, second.Secret) != 1 {
		t.Errorf("after it was revoked: %v", got.header)
	}
	pair := want[client.SigningSecret](c.face, 201, "POST", "/api/v1/signing-secrets", `{"algorithm": "Ed25519"}`)
	if pair.Algorithm != "ed25519" || pair.Secret != "" || !strings.HasPrefix(pair.PublicKey, "whpk_") || pair.Prefix != pair.PublicKey[:10] {
		t.Fatalf("a pair: %+v", pair)
	}
	if list := want[client.SigningSecrets](c.face, 200, "GET", "/api/v1/signing-secrets", ""); list.SigningSecrets[0].PublicKey != pair.PublicKey || list.SigningSecrets[1].PublicKey != "" {
		t.Errorf("list: %+v", list)
	}
	if got := run(""); verified(t, got, second.Secret) != 1 || !publicly(t, got, pair.PublicKey) {
		t.Errorf("with a pair: %v", got.header)
	}
	if p := want[client.Problem](c.face, 422, "POST", "/api/v1/signing-secrets", `{"algorithm": "rsa"}`); len(p.Errors) != 1 || p.Errors[0].Field != "algorithm" {
		t.Errorf("another algorithm: %+v", p)
	}
	for _, bad := range []string{`{"overlap_seconds": -1}`, `{"overlap_seconds": 2592001}`} {
		if p := want[client.Problem](c.face, 422, "POST", "/api/v1/signing-secrets", bad); len(p.Errors) != 1 || p.Errors[0].Field != "overlap_seconds" {
			t.Errorf("%s: %+v", bad, p)
		}
	}
	if p := want[client.Problem](newFace(t), 409, "POST", "/api/v1/signing-secrets", ""); p.Code != "cannot_create" {
		t.Errorf("without a key: %+v", p)
	}
	if p := want[client.Problem](c.face, 404, "DELETE", "/api/v1/signing-secrets/"+first.ID, ""); p.Code != "not_found" {
		t.Errorf("a second time: %+v", p)
	}
}

// A worker elsewhere gets the payload as JSON does on its way; what it then sends is what was signed.
func TestASignatureSurvivesTheWayToAWorker(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t)
	c.stopWorker()
	secret := want[client.SigningSecret](c.face, 201, "POST", "/api/v1/signing-secrets", "")
	s := want[client.Session](c.face, 201, "POST", "/api/v1/workers", `{"targets": ["http"]}`)
	url, calls := sink(t, nil)
	c.job(url, "")
	got := want[client.Claimed](c.face, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"wait_seconds": 5}`, "X-Worker-Session", s.Session)
	if len(got.Attempts) != 1 || got.Attempts[0].TenantID != "default" {
		t.Fatalf("claimed %+v", got)
	}
	exec := executor.New(executor.Config{AllowLoopback: true})
	defer exec.Close()
	if o := exec.Execute(t.Context(), got.Attempts[0]); o.Status != client.Succeeded {
		t.Fatalf("%+v", o)
	}
	if r := <-calls; verified(t, r, secret.Secret) != 1 {
		t.Errorf("body %s, headers %v", r.body, r.header)
	}
}

func TestAsynchronousCompletion(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t)
	url, calls := sink(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Carillon-Async", "true")
		w.WriteHeader(http.StatusAccepted)
	})
	parked := func(id string) {
		t.Helper()
		limit := time.After(2 * time.Minute)
		for {
			for _, e := range want[client.Events](c.face, 200, "GET", "/api/v1/executions/"+id+"/events", "").Events {
				if e.Type == "parked" {
					return
				}
			}
			select {
			case <-limit:
				t.Fatal("it is not parked")
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	complete := func(status int, id, token, body string) *httptest.ResponseRecorder {
		t.Helper()
		w := c.ask("POST", "/api/v1/executions/"+id+"/complete", body, "Authorization", "Bearer "+token)
		if w.Code != status {
			t.Errorf("%s: got %d, want %d: %s", body, w.Code, status, w.Body)
		}
		return w
	}
	j, k := c.job(url, ""), c.job(url, "")
	tokens := map[string]string{}
	for range 2 {
		r := <-calls
		tokens[r.header.Get("X-Execution-ID")] = r.header.Get("Carillon-Callback-Token")
	}
	parked(j.ExecutionID)
	parked(k.ExecutionID)
	c.stopWorker() // who made the calls is gone
	if e := c.until(j.ExecutionID, is("RUNNING")); e.AttemptNumber != 1 {
		t.Errorf("got %+v", e)
	}
	success := `{"status": "SUCCEEDED", "result": {"rows": 12}}`
	for name, token := range map[string]string{"another's": tokens[k.ExecutionID], "none": "", "made up": "cct_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "cut off": tokens[j.ExecutionID][:30]} {
		if w := complete(401, j.ExecutionID, token, success); w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
	complete(401, "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", tokens[j.ExecutionID], success)
	complete(401, "nonsense", tokens[j.ExecutionID], success)
	for _, bad := range []string{`{"status": "PARKED"}`, `{"status": "SNOOZED", "retry_after_ms": 5}`, `{"status": "DONE"}`, fmt.Sprintf(`{"status": "SUCCEEDED", "execution_id": %q}`, k.ExecutionID), `{"status": "SUCCEEDED", "fencing_token": 1}`} {
		complete(422, j.ExecutionID, tokens[j.ExecutionID], bad)
	}
	complete(400, j.ExecutionID, tokens[j.ExecutionID], `{"status": `)
	for range 2 { // the same again is accepted again
		complete(200, j.ExecutionID, tokens[j.ExecutionID], success)
	}
	if e := c.until(j.ExecutionID, is("SUCCEEDED")); string(e.Result) != `{"rows":12}` && string(e.Result) != `{"rows": 12}` {
		t.Errorf("result %s", e.Result)
	}
	complete(409, j.ExecutionID, tokens[j.ExecutionID], `{"status": "FAILED"}`)

	// A failure is retried as the policy says; the token of the attempt before is stale then.
	failure := `{"status": "FAILED", "retryable": true, "error": {"type": "HANDLER_ERROR", "message": "no disk"}}`
	complete(200, k.ExecutionID, tokens[k.ExecutionID], failure)
	stop := c.newWorker()
	defer stop()
	r := <-calls
	if r.header.Get("X-Execution-ID") != k.ExecutionID || r.header.Get("X-Attempt-Number") != "2" || r.header.Get("webhook-id") != k.ExecutionID {
		t.Errorf("the second attempt: %v", r.header)
	}
	var p client.Problem
	w := complete(409, k.ExecutionID, tokens[k.ExecutionID], success)
	if json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Code != "stale_token" {
		t.Errorf("stale: %s", w.Body)
	}
	complete(200, k.ExecutionID, tokens[k.ExecutionID], failure) // that is how the first one ended
	complete(200, k.ExecutionID, r.header.Get("Carillon-Callback-Token"), `{"status": "CANCELLED"}`)
	c.until(k.ExecutionID, is("CANCELLED"))
}

func TestWhatIsNotCompletedTimesOut(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t)
	url, calls := sink(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Carillon-Async", "true")
		w.WriteHeader(http.StatusAccepted)
	})
	dog := &upkeep.Watchdog{Store: c.store, Clock: clock.System{}, Hint: func([]core.Ready) {}, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := dog.Tick(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	defer func() { cancel(); wg.Wait() }()
	j := c.job(url, `, "timeout_seconds": 3`)
	e := c.until(j.ExecutionID, is("TIMED_OUT"))
	if e.Error == nil || e.Error.Type != "TIMEOUT" || !strings.Contains(e.Error.Message, "202") || e.AttemptNumber != 2 {
		t.Errorf("got %+v, %+v", e, e.Error)
	}
	last := <-calls
	last = <-calls
	if w := c.ask("POST", "/api/v1/executions/"+j.ExecutionID+"/complete", `{"status": "SUCCEEDED"}`, "Authorization", "Bearer "+last.header.Get("Carillon-Callback-Token")); w.Code != 409 {
		t.Errorf("too late: %d %s", w.Code, w.Body)
	}
}

func TestADeadHostPutsOffItsExecutions(t *testing.T) {
	t.Parallel()
	c := newCallbacks(t, func(x *executor.Config) {
		x.Breaker = executor.Breaker{Failures: 2, Pause: 4 * time.Second} // longer than a slow machine takes to look
	})
	var mu sync.Mutex
	down := true
	url, _ := sink(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	well, _ := sink(t, nil)
	first := c.job(url, "")
	c.until(first.ExecutionID, is("FAILED")) // which opened it
	second := c.job(url, "")
	c.until(c.job(well, "").ExecutionID, is("SUCCEEDED"))
	limit := time.After(2 * time.Minute)
	for note, code := "", ""; !strings.Contains(note, "is taken to be down after") || code != "CIRCUIT_OPEN"; {
		select {
		case <-limit:
			t.Fatal("no event tells why it waits")
		case <-time.After(5 * time.Millisecond):
		}
		for _, e := range want[client.Events](c.face, 200, "GET", "/api/v1/executions/"+second.ExecutionID+"/events", "").Events {
			if e.Type == "snoozed" {
				note = e.Detail
			}
		}
		code = want[client.Explanation](c.face, 200, "GET", "/api/v1/executions/"+second.ExecutionID+"/explain", "").Code
	}
	mu.Lock()
	down = false
	mu.Unlock()
	c.until(second.ExecutionID, is("SUCCEEDED"))
	if past := want[client.ExecutionAttempts](c.face, 200, "GET", "/api/v1/executions/"+second.ExecutionID+"/attempts", ""); len(past.Attempts) > 1 {
		t.Errorf("attempts: %+v", past)
	}
}
