package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/archive/mover"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
	"github.com/carillon-jobs/carillon/internal/feed"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/service"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// face is the API over a fresh store, with nobody who runs anything.
type face struct {
	testing.TB
	store   engine.Store
	http    http.Handler
	counter *feed.Counter
}

func newFace(t testing.TB, change ...func(*api.Config, engine.Store)) face {
	t.Helper()
	return faceOver(t, storetest.SQLite(t), change...)
}

// onBoth runs a test over each store; over PostgreSQL where there is a server.
func onBoth(t *testing.T, test func(*testing.T, func(...func(*api.Config, engine.Store)) face)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(change ...func(*api.Config, engine.Store)) face { return newFace(t, change...) })
	})
	if os.Getenv("CARILLON_TEST_POSTGRES") == "" {
		return
	}
	t.Run("postgres", func(t *testing.T) {
		test(t, func(change ...func(*api.Config, engine.Store)) face {
			return faceOver(t, storetest.Postgres(t), change...)
		})
	})
}

func faceOver(t testing.TB, raw engine.Store, change ...func(*api.Config, engine.Store)) face {
	t.Helper()
	hub := feed.NewHub()
	counter := feed.NewCounter(raw, clock.System{})
	store := feed.Over(raw, counter, hub)
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := api.Config{
		Feed: hub, Ready: store.Ping, Version: "test", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	cfg.Dispatch = dispatch.New(store, clock.System{}, cfg.Logger, dispatch.Config{LeaseTTL: 30 * time.Second})
	cfg.Secrets = secret.New(store, must(seal.NewRing([]byte(strings.Repeat("k", seal.KeySize)))))
	cfg.Delivery = delivery.New(cfg.Dispatch, cfg.Logger, cfg.Secrets.Step)
	cfg.Service = service.New(store, clock.System{}, service.Config{LookAhead: 5 * time.Second, Hint: cfg.Dispatch.Offer, Secrets: cfg.Secrets})
	cfg.Archive = &api.Archive{Office: &mover.Office{Store: store, Files: folder.New(t.TempDir()), Clock: clock.System{}, Hot: 7, Wake: func() {}}, Place: "file:/srv/carillon/history", Layout: "shared"}
	for _, c := range change {
		c(&cfg, store)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { cfg.Dispatch.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return face{t, store, api.New(cfg), counter}
}

// ask sends a request; headers are name, value pairs.
func (f face) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	f.Helper()
	r := httptest.NewRequest(method, "http://localhost:8080"+path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.http.ServeHTTP(w, r)
	return w
}

// want sends a request, checks the status and decodes the answer.
func want[T any](f face, status int, method, path, body string, headers ...string) T {
	f.Helper()
	w := f.ask(method, path, body, headers...)
	if w.Code != status {
		f.Fatalf("%s %s: got %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	var v T
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		f.Fatalf("%s %s: %v", method, path, err)
	}
	return v
}

const noop = `{"name": "hello", "execution": {"target": "simulate", "work_kind": "noop"}}`

func TestJobLifeOverHTTP(t *testing.T) {
	f := newFace(t)
	made := want[client.Job](f, 201, "POST", "/api/v1/jobs", noop)
	if made.Status != "ACTIVE" || made.ExecutionID == "" || made.Schedule.Type != "IMMEDIATE" || made.Priority != 5 || made.Revision != 1 || made.RetryPolicy.MaxRetries != 3 {
		t.Errorf("made: %+v", made)
	}
	got := want[client.Job](f, 200, "GET", "/api/v1/jobs/"+made.JobID, "")
	if got.JobID != made.JobID || got.ExecutionID != "" {
		t.Errorf("read: %+v", got)
	}
	e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+made.ExecutionID, "")
	if e.Status != "PENDING" || e.JobID != made.JobID || e.JobName != "hello" || e.Trigger != "api" || e.MaxAttempts != 4 || len(e.IdempotencyKey) != 32 || e.AttemptNumber != 0 {
		t.Errorf("execution: %+v", e)
	}
	triggered := want[client.Triggered](f, 202, "POST", "/api/v1/jobs/"+made.JobID+"/trigger", `{"payload_override": {"a": 1}}`)
	if triggered.Status != "PENDING" || triggered.JobID != made.JobID {
		t.Errorf("triggered: %+v", triggered)
	}
	if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+triggered.ExecutionID, ""); e.Trigger != "manual" || e.Priority != 3 {
		t.Errorf("triggered execution: %+v", e)
	}
	want[client.Triggered](f, 202, "POST", "/api/v1/jobs/"+made.JobID+"/trigger", "")
	list := want[client.Executions](f, 200, "GET", "/api/v1/jobs/"+made.JobID+"/executions?limit=2", "")
	if len(list.Executions) != 2 || list.Pagination.Total != 3 || list.Pagination.NextCursor == nil {
		t.Errorf("list: %d, %+v", len(list.Executions), list.Pagination)
	}
	rest := want[client.Executions](f, 200, "GET", "/api/v1/jobs/"+made.JobID+"/executions?limit=2&cursor="+*list.Pagination.NextCursor, "")
	if len(rest.Executions) != 1 || rest.Pagination.NextCursor != nil {
		t.Errorf("rest: %d, %+v", len(rest.Executions), rest.Pagination)
	}
	gone := want[client.Job](f, 200, "DELETE", "/api/v1/jobs/"+made.JobID, "")
	if gone.Status != "DELETED" || gone.Revision != 2 {
		t.Errorf("deleted: %+v", gone)
	}
	if again := want[client.Job](f, 200, "DELETE", "/api/v1/jobs/"+made.JobID, ""); again.Revision != 2 {
		t.Errorf("deleted again: %+v", again)
	}
	if e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+made.ExecutionID, ""); e.Status != "CANCELLED" {
		t.Errorf("its execution is %s", e.Status)
	}
	want[client.Problem](f, 404, "POST", "/api/v1/jobs/"+made.JobID+"/trigger", "")
	if jobs := want[client.Jobs](f, 200, "GET", "/api/v1/jobs", ""); len(jobs.Jobs) != 0 {
		t.Errorf("it is still listed")
	}
}

func TestOneTime(t *testing.T) {
	f := newFace(t)
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	body := fmt.Sprintf(`{"name": "later", "schedule": {"type": "one_time", "scheduled_time": %q}, "execution": {"target": "simulate", "work_kind": "noop"}}`, later.Format(time.RFC3339Nano))
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", body)
	if j.ExecutionID != "" || j.Schedule.NextRunAt == nil || !j.Schedule.NextRunAt.Equal(later) || j.Schedule.Type != "ONE_TIME" {
		t.Errorf("later: %+v", j.Schedule)
	}
	body = `{"name": "past", "schedule": {"type": "ONE_TIME", "scheduled_time": "2001-02-03T04:05:06+01:00"}, "execution": {"target": "simulate", "work_kind": "noop"}}`
	j = want[client.Job](f, 201, "POST", "/api/v1/jobs", body)
	if j.ExecutionID == "" {
		t.Fatal("a past instant does not fire at once")
	}
	e := want[client.Execution](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID, "")
	if got := e.ScheduledTime.Format(time.RFC3339); got != "2001-02-03T03:05:06Z" || time.Since(e.DueAt) > time.Minute {
		t.Errorf("scheduled %s, due %v", got, e.DueAt)
	}
}

func TestKeyStandsForTheID(t *testing.T) {
	f := newFace(t)
	body := `{"name": "keyed", "key": "nightly.report-1", "execution": {"target": "simulate", "work_kind": "noop"}}`
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", body)
	for _, path := range []string{"/api/v1/jobs/key:nightly.report-1", "/api/v1/jobs/" + j.JobID} {
		if got := want[client.Job](f, 200, "GET", path, ""); got.JobID != j.JobID || got.Key == nil || *got.Key != "nightly.report-1" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	p := want[client.Problem](f, 409, "POST", "/api/v1/jobs", body)
	if p.Code != "key_taken" || len(p.Errors) != 1 || p.Errors[0].Field != "key" || p.Errors[0].Value != "nightly.report-1" {
		t.Errorf("taken: %+v", p)
	}
	want[client.Triggered](f, 202, "POST", "/api/v1/jobs/key:nightly.report-1/trigger", "{}")
	want[client.Executions](f, 200, "GET", "/api/v1/jobs/key:nightly.report-1/executions", "")
	want[client.Job](f, 200, "DELETE", "/api/v1/jobs/key:nightly.report-1", "")
	want[client.Problem](f, 404, "GET", "/api/v1/jobs/key:nightly.report-1", "")
}

func TestIdempotencyOverHTTP(t *testing.T) {
	f := newFace(t)
	first := f.ask("POST", "/api/v1/jobs", noop, "X-Idempotency-Key", "k")
	again := f.ask("POST", "/api/v1/jobs", noop, "Idempotency-Key", "k")
	if first.Code != 201 || again.Code != 201 || first.Body.String() != again.Body.String() || again.Header().Get("Idempotent-Replay") != "true" {
		t.Errorf("got %d %s\nthen %d %s", first.Code, first.Body, again.Code, again.Body)
	}
	if p := want[client.Problem](f, 422, "POST", "/api/v1/jobs", strings.Replace(noop, "hello", "other", 1), "X-Idempotency-Key", "k"); p.Code != "idempotency_key_reused" {
		t.Errorf("reused: %+v", p)
	}
	if p := want[client.Problem](f, 422, "POST", "/api/v1/jobs:batch", "["+noop+"]", "X-Idempotency-Key", "k"); p.Code != "idempotency_key_reused" {
		t.Errorf("reused elsewhere: %+v", p)
	}
	if jobs := want[client.Jobs](f, 200, "GET", "/api/v1/jobs", ""); len(jobs.Jobs) != 1 {
		t.Errorf("%d jobs, want 1", len(jobs.Jobs))
	}
	want[client.Problem](f, 400, "POST", "/api/v1/jobs", noop, "X-Idempotency-Key", "a", "Idempotency-Key", "b")
	want[client.Problem](f, 400, "POST", "/api/v1/jobs", noop, "X-Idempotency-Key", strings.Repeat("k", 256))
	want[client.Problem](f, 400, "POST", "/api/v1/jobs", noop, "X-Idempotency-Key", "ü")

	batch := "[" + noop + "," + noop + "]"
	a := f.ask("POST", "/api/v1/jobs:batch", batch, "X-Idempotency-Key", "b")
	b := f.ask("POST", "/api/v1/jobs:batch", batch, "X-Idempotency-Key", "b")
	if a.Code != 201 || a.Body.String() != b.Body.String() {
		t.Errorf("batch: %d %s, then %d %s", a.Code, a.Body, b.Code, b.Body)
	}
	var made client.Job
	if err := json.Unmarshal(first.Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	x := f.ask("POST", "/api/v1/jobs/"+made.JobID+"/trigger", "", "X-Idempotency-Key", "t")
	y := f.ask("POST", "/api/v1/jobs/"+made.JobID+"/trigger", "", "X-Idempotency-Key", "t")
	if x.Code != 202 || x.Body.String() != y.Body.String() {
		t.Errorf("trigger: %d %s, then %d %s", x.Code, x.Body, y.Code, y.Body)
	}
}

func TestBatch(t *testing.T) {
	f := newFace(t)
	made := want[client.CreatedJobs](f, 201, "POST", "/api/v1/jobs:batch", "["+strings.Repeat(noop+",", 99)+noop+"]")
	if len(made.Jobs) != 100 || made.Jobs[99].ExecutionID == "" {
		t.Fatalf("%d made", len(made.Jobs))
	}
	bad := `[` + noop + `,{"name": "", "execution": {"target": "simulate", "work_kind": "noop"}}]`
	p := want[client.Problem](f, 422, "POST", "/api/v1/jobs:batch", bad)
	if len(p.Errors) != 1 || p.Errors[0].Field != "[1].name" {
		t.Errorf("got %+v", p)
	}
	p = want[client.Problem](f, 422, "POST", "/api/v1/jobs:batch", `[{"name": "n", "overlap": "pile", "execution": {"target": "nope"}}]`)
	if len(p.Errors) != 2 || p.Errors[0].Field != "[0].overlap" || p.Errors[1].Field != "[0].execution.target" {
		t.Errorf("got %+v", p)
	}
	p = want[client.Problem](f, 400, "POST", "/api/v1/jobs:batch", `[{"nmae": "x"}]`)
	if len(p.Errors) == 0 || p.Errors[0].Field != "[0].nmae" {
		t.Errorf("got %+v", p)
	}
	want[client.Problem](f, 422, "POST", "/api/v1/jobs:batch", `[]`)
	want[client.Problem](f, 422, "POST", "/api/v1/jobs:batch", "["+strings.Repeat(noop+",", 10_000)+noop+"]")
	if jobs := want[client.Jobs](f, 200, "GET", "/api/v1/jobs?limit=1", ""); jobs.Pagination.Total != 100 {
		t.Errorf("%d jobs, want 100", jobs.Pagination.Total)
	}
}

func TestSecretsAreNotShownAgain(t *testing.T) {
	f := newFace(t)
	body := `{"name": "h", "execution": {"callback_url": "https://example.com", "headers": {"Authorization": "Bearer geheim", "X-Auth-Token": "geheim", "X-Env": "prod"}}}`
	w := f.ask("POST", "/api/v1/jobs", body, "X-Idempotency-Key", "k")
	var j client.Job
	if err := json.Unmarshal(w.Body.Bytes(), &j); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{w.Body.String(), f.ask("GET", "/api/v1/jobs/"+j.JobID, "").Body.String(), f.ask("GET", "/api/v1/jobs", "").Body.String()} {
		if strings.Contains(text, "geheim") || !strings.Contains(text, `"X-Env":"prod"`) || !strings.Contains(text, "[redacted]") {
			t.Errorf("got %s", text)
		}
	}
}

func TestHealth(t *testing.T) {
	f := newFace(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if w := f.ask("GET", path, ""); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	f.store.Close()
	if w := f.ask("GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("alive without a store: %d", w.Code)
	}
	if p := want[client.Problem](f, 503, "GET", "/readyz", ""); p.Code != "not_ready" {
		t.Errorf("got %+v", p)
	}
	for err, detail := range map[error]string{
		fmt.Errorf("ping: %w: /data/carillon.db", engine.ErrNoRoom):  "The store's disk is full.",
		fmt.Errorf("ping: %w: it is a standby", engine.ErrReadOnly):  "The store is read-only: it takes no writes.",
		fmt.Errorf("%w: 3 steps are missing", engine.ErrSchema):      "The store's migrations are not current.",
		fmt.Errorf("ping: %w: 10.0.0.7:5432", engine.ErrUnavailable): "The store is not reachable.",
		errors.New("the server is stopping"):                         "The server is starting or stopping, or its store failed; its log says why.",
	} {
		ill := newFace(t, func(c *api.Config, _ engine.Store) { c.Ready = func(context.Context) error { return err } })
		if p := want[client.Problem](ill, 503, "GET", "/readyz", ""); p.Code != "not_ready" || p.Detail != detail {
			t.Errorf("%v: %+v, want %q", err, p, detail)
		}
	}
	w := f.ask("POST", "/api/v1/jobs", noop)
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("without a store: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	only := newFace(t, func(c *api.Config, _ engine.Store) { c.HealthOnly = true })
	if w := only.ask("GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("health only: %d", w.Code)
	}
	if w := only.ask("GET", "/api/v1/jobs", ""); w.Code != 404 {
		t.Errorf("health only answers the API with %d", w.Code)
	}
}

func TestWithoutSignInOnlyLoopback(t *testing.T) {
	f := newFace(t)
	for host, code := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "127.0.0.1:1": 200, "[::1]:80": 200, "x.localhost": 200,
		"example.com": 403, "192.168.0.1:8080": 403, "127.0.0.1.evil.com": 403, "localhost.evil.com": 403, "": 403,
	} {
		r := httptest.NewRequest("GET", "/api/v1/jobs", nil)
		r.Host = host
		w := httptest.NewRecorder()
		f.http.ServeHTTP(w, r)
		if w.Code != code {
			t.Errorf("host %q: got %d, want %d", host, w.Code, code)
		}
	}
	if w := f.ask("POST", "/api/v1/jobs", noop, "Origin", "https://evil.com"); w.Code != 403 {
		t.Errorf("another origin: %d", w.Code)
	}
	if w := f.ask("POST", "/api/v1/jobs", noop, "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
		t.Errorf("cross-site: %d", w.Code)
	}
	if w := f.ask("GET", "/api/v1/jobs", "", "X-Tenant-ID", "other"); w.Code != 403 {
		t.Errorf("another tenant: %d", w.Code)
	}
	if w := f.ask("GET", "/api/v1/jobs", "", "X-Tenant-ID", "default"); w.Code != 200 {
		t.Errorf("the default tenant: %d", w.Code)
	}
}

func TestSignIn(t *testing.T) {
	var key string
	f := newFace(t, func(c *api.Config, store engine.Store) {
		var err error
		if key, err = access.Bootstrap(context.Background(), store, "", time.Now()); err != nil {
			t.Fatal(err)
		}
		c.Authenticate = access.New(store, clock.System{}, nil).Authenticate
	})
	if !regexp.MustCompile(`^car_live_[a-z2-7]+_[a-z2-7]{59}$`).MatchString(key) {
		t.Errorf("key %q", key)
	}
	bearer := "Bearer " + key
	if w := f.ask("GET", "/api/v1/jobs", "", "Authorization", bearer); w.Code != 200 {
		t.Errorf("with the key: %d %s", w.Code, w.Body)
	}
	for _, bad := range []string{"", "Bearer", "Bearer ", "Bearer x", "Basic " + key, key, bearer + "x", "Bearer " + strings.Repeat("x", 9000)} {
		w := f.ask("GET", "/api/v1/jobs", "", "Authorization", bad)
		if w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%.20q: got %d", bad, w.Code)
		}
	}
	if w := f.ask("GET", "/api/v1/jobs", "", "Authorization", bearer, "X-Tenant-ID", "nobody"); w.Code != 404 {
		t.Errorf("an unknown tenant: %d", w.Code)
	}
	if w := f.ask("GET", "/api/v1/jobs", "", "Authorization", bearer, "X-Tenant-ID", "default"); w.Code != 200 {
		t.Errorf("the default tenant: %d", w.Code)
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs"} {
		if w := f.ask("GET", path, ""); w.Code != 200 {
			t.Errorf("%s without a key: %d", path, w.Code)
		}
	}
	if made, err := access.Bootstrap(t.Context(), f.store, "", time.Now()); err != nil || made != "" {
		t.Errorf("a second bootstrap key: %q, %v", made, err)
	}
	if _, err := access.Bootstrap(t.Context(), f.store, "short", time.Now()); err == nil {
		t.Error("a short key was taken")
	}
}

// The page for people shows every call, and examples that work where it was asked for.
func TestDocs(t *testing.T) {
	w := newFace(t).ask("GET", "/docs", "")
	page := w.Body.String()
	for _, say := range []string{"curl -s http://localhost:8080/api/v1/jobs", "/api/v1/jobs:batch", "/api/v1/executions/{id}", "no sign-in", "execution.callback_url", "schedule.scheduled_time"} {
		if !strings.Contains(page, say) {
			t.Errorf("it lacks %q", say)
		}
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(page, "<script") {
		t.Errorf("policy %q", csp)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s has changed; if that is meant, run the test with -update\ngot:\n%s", name, got)
	}
}

var changing = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uuid>"},
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`"idempotency_key": "[0-9a-f]{32}"`), `"idempotency_key": "<key>"`},
	{regexp.MustCompile(`"(trigger_delay|queue_wait|running|between_attempts|total|duration)_ms": \d+`), `"${1}_ms": "<ms>"`},
	{regexp.MustCompile(`"fencing_token": \d+`), `"fencing_token": "<token>"`},
}

// The shape of each answer is kept as a file, so that no field changes by accident.
func TestGoldenAnswers(t *testing.T) {
	f := newFace(t)
	full := `{"name": "nightly-report", "description": "what", "key": "nightly",
		"schedule": {"type": "IMMEDIATE", "timezone": "UTC", "day": "vixie", "jitter_ms": 0, "start_at": null, "end_at": null, "max_runs": null, "calendar": null},
		"execution": {"target": "http", "callback_url": "https://example.com/x?y=z", "method": "put", "headers": {"X-Env": "prod"}, "payload": {"any": "json", "big": 12345678901234567890},
			"timeout_seconds": 30, "stall_timeout_seconds": null, "total_timeout_seconds": null, "expect": {"status": [200, 204], "body_contains": null}, "follow_redirects": false},
		"retry_policy": {"max_retries": 3, "backoff": "exponential", "initial_delay_ms": 1000, "max_delay_ms": 60000},
		"overlap": "allow", "catch_up": "latest", "catch_up_limit": 100, "priority": 4, "tags": ["reporting"], "labels": [], "queue": "default",
		"max_concurrent": null, "concurrency_key": null, "unique_key": null, "expires_after": null, "auto_redrive_after": null, "owner": "ann", "runbook": "https://example.com/rb"}`
	answers := map[string]string{
		"job_created.json":   f.ask("POST", "/api/v1/jobs", full, "X-Request-ID", "r1").Body.String(),
		"job.json":           f.ask("GET", "/api/v1/jobs/key:nightly", "").Body.String(),
		"jobs.json":          f.ask("GET", "/api/v1/jobs", "").Body.String(),
		"triggered.json":     f.ask("POST", "/api/v1/jobs/key:nightly/trigger", "").Body.String(),
		"executions.json":    f.ask("GET", "/api/v1/jobs/key:nightly/executions?limit=1", "").Body.String(),
		"problem_422.json":   f.ask("POST", "/api/v1/jobs", `{"name": "", "priority": 11, "execution": {"callback_url": "ftp://x"}}`, "X-Request-ID", "r1").Body.String(),
		"problem_400.json":   f.ask("POST", "/api/v1/jobs", `{"name": 5, "prioritty": 1, "execution": {}, "name": "x"}`, "X-Request-ID", "r1").Body.String(),
		"problem_json.json":  f.ask("POST", "/api/v1/jobs", `{"name": "x",}`, "X-Request-ID", "r1").Body.String(),
		"problem_404.json":   f.ask("GET", "/api/v1/jobs/nope", "", "X-Request-ID", "r1").Body.String(),
		"problem_405.json":   f.ask("PUT", "/api/v1/jobs", "", "X-Request-ID", "r1").Body.String(),
		"problem_query.json": f.ask("GET", "/api/v1/jobs?limit=0&staus=x", "", "X-Request-ID", "r1").Body.String(),
		"openapi.json":       f.ask("GET", "/openapi.json", "").Body.String(),
	}
	goldens(t, answers)
}

// goldens compares answers with their files, but for what changes with every run.
func goldens(t *testing.T, answers map[string]string) {
	t.Helper()
	for name, text := range answers {
		t.Run(name, func(t *testing.T) {
			var v any
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				t.Fatal(err)
			}
			pretty, err := json.MarshalIndent(v, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changing {
				pretty = c.from.ReplaceAll(pretty, []byte(c.to))
			}
			pretty = []byte(regexp.MustCompile(`"next_cursor": "[^"]+"`).ReplaceAllString(string(pretty), `"next_cursor": "<cursor>"`))
			golden(t, name, append(pretty, '\n'))
		})
	}
}
