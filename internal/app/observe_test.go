package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

const key = "a-bootstrap-key-of-thirty-two-characters-or-more"

// onEachStore runs a test over each store; over PostgreSQL where there is a server.
func onEachStore(t *testing.T, test func(t *testing.T, where string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db")) })
	if os.Getenv("CARILLON_TEST_POSTGRES") != "" {
		t.Run("postgres", func(t *testing.T) { test(t, storetest.PostgresURL(t)) })
	}
}

// server is a whole server in the process of the test.
type server struct {
	*testing.T
	url, metrics string
	stop         func()
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func serve(t *testing.T, where string, change ...func(*app.Options)) *server {
	t.Helper()
	c := config.Default()
	c.Listen, c.Data, c.Database, c.BootstrapKey = "127.0.0.1:0", t.TempDir(), where, key
	c.SecretsKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	c.Workers.Drain, c.Workers.Lease, c.Workers.DefaultCount, c.Workers.MaxCount = time.Second, 8*time.Second, 4, 4 // long enough for a machine that stands still for seconds
	c.CallbacksAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Callbacks.BreakerFailures, c.LookAhead = 2, time.Second
	c.Metrics.Listen = "127.0.0.1:0"
	out := &output{}
	o := app.Options{Config: c, Out: out, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, o) }()
	s := &server{T: t}
	s.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(s.stop)
	s.until("the server to greet", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it did not start: %v", err)
		default:
		}
		health := regexp.MustCompile(`Health +(\S+)/readyz`).FindStringSubmatch(out.String())
		metrics := regexp.MustCompile(`Metrics +(\S+)`).FindStringSubmatch(out.String())
		if health == nil || metrics == nil {
			return false
		}
		s.url, s.metrics = health[1], metrics[1]
		return true
	})
	return s
}

// until looks until something holds.
func (s *server) until(what string, holds func() bool) {
	s.Helper()
	for began := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			s.Fatalf("waited two minutes for %s", what)
		}
	}
}

func (s *server) ask(method, path, body string, headers ...string) (int, string) {
	s.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer w.Body.Close()
	data, err := io.ReadAll(w.Body)
	if err != nil {
		s.Fatal(err)
	}
	return w.StatusCode, string(data)
}

func want[T any](s *server, status int, method, path, body string, headers ...string) (v T) {
	s.Helper()
	code, text := s.ask(method, path, body, headers...)
	if code != status {
		s.Fatalf("%s %s: %d, want %d: %s", method, path, code, status, text)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		s.Fatal(err)
	}
	return v
}

// run creates a job and waits until its execution is in the state.
func (s *server) run(job, status string) client.Job {
	s.Helper()
	j := want[client.Job](s, 201, "POST", "/api/v1/jobs", job)
	s.ends(j.ExecutionID, status)
	return j
}

func (s *server) ends(id, status string) {
	s.Helper()
	var e client.Execution
	defer func() {
		if e.Status != status {
			s.Errorf("it is %s: %+v", e.Status, e.Error)
		}
	}()
	s.until("execution "+id+" to be "+status, func() bool {
		e = want[client.Execution](s, 200, "GET", "/api/v1/executions/"+id, "")
		return e.Status == status
	})
}

// scrape returns the metrics of the process: the value of each series.
func (s *server) scrape() map[string]float64 {
	s.Helper()
	w, err := http.Get(s.metrics)
	if err != nil {
		s.Fatal(err)
	}
	defer w.Body.Close()
	data, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != 200 {
		s.Fatalf("%d, %v: %s", w.StatusCode, err, data)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			if out[strings.TrimPrefix(line[:i], "carillon_")], err = strconv.ParseFloat(line[i+1:], 64); err != nil {
				s.Fatalf("%q: %v", line, err)
			}
		}
	}
	return out
}

// nobodyListens is a URL of this machine whose connections are refused.
func nobodyListens(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String() + "/"
}

func simulate(kind, more string) string {
	return fmt.Sprintf(`{"name": "x", "execution": {"target": "simulate", "work_kind": %q, "timeout_seconds": 1%s}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1}}`, kind, more)
}

const unserved = `{"name": "x", "priority": %d, "execution": {"target": "worker", "kind": "nobody"}%s}`

// TestEveryMetricMoves has a server do all that is counted, and looks at the numbers.
func TestEveryMetricMoves(t *testing.T) {
	onEachStore(t, func(t *testing.T, where string) {
		s := serve(t, where, func(o *app.Options) { o.Config.Callbacks.HostConcurrent = 1 })
		for range 3 {
			s.run(simulate("noop", ""), "SUCCEEDED")
		}
		s.run(simulate("flaky", `, "fail_attempts": 1`), "SUCCEEDED")
		s.run(simulate("fail_permanent", ""), "FAILED")
		late := strings.Replace(simulate("hang", ""), `"max_retries": 1`, `"max_retries": 0`, 1)
		s.run(late, "TIMED_OUT")
		s.run(fmt.Sprintf(`{"name": "down", "execution": {"callback_url": %q}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1}}`, nobodyListens(t)), "FAILED")
		waits := want[client.Job](s, 201, "POST", "/api/v1/jobs", fmt.Sprintf(unserved, 1, ""))
		s.run(fmt.Sprintf(unserved, 5, `, "expires_after": "1ms"`), "EXPIRED")
		fires := want[client.Job](s, 201, "POST", "/api/v1/jobs", strings.Replace(simulate("noop", ""), `"name": "x",`, `"name": "x", "catch_up": "none", "schedule": {"type": "INTERVAL", "every": "1s"},`, 1))

		got := s.scrape()
		s.until("what waits to be counted", func() bool {
			got = s.scrape()
			return got[`queue_depth{band="high",state="pending"}`] == 1 && got["trigger_delay_seconds_count"] >= 1 && got[`worker_slots{state="busy"}`] == 0
		})
		for name, least := range map[string]float64{
			"desired_workers": 1, "oldest_pending_seconds": 0.001, "oldest_dead_letter_seconds": 0.001, "history_bytes{tier=\"hot\"}": 4096, "queue_wait_seconds_sum": 0.000001, "execution_duration_seconds_sum": 1, "end_to_end_seconds_sum": 1,
			`store_seconds_count{op="create"}`: 8, `store_seconds_count{op="lease"}`: 8, `store_seconds_count{op="finish"}`: 8, `store_seconds_count{op="renew"}`: 0, `store_seconds_count{op="due"}`: 1, `store_seconds_count{op="fire"}`: 1,
			`http_requests_total{code="201",route="POST /api/v1/jobs"}`: 9, `http_requests_total{code="200",route="GET /api/v1/executions/{id}"}`: 8, `executions_total{status="SUCCEEDED"}`: 4,
		} {
			if got[name] < least {
				t.Errorf("%s is %v, want %v or more", name, got[name], least)
			}
		}
		for name, n := range map[string]float64{
			`executions_total{status="FAILED"}`: 2, `executions_total{status="TIMED_OUT"}`: 1, `executions_total{status="EXPIRED"}`: 1, `executions_total{status="CANCELLED"}`: 0,
			"retries_total": 2, "timeouts_total": 1, "dead_lettered_total": 3, "dead_letters": 3, "leases_lost_total": 0, "stale_results_total": 0, "worker_deaths_total": 0,
			`workers{state="active"}`: 1, `worker_slots{state="free"}`: 4, "partitions_owned": 64, "partitions_unowned": 0, "breakers_open": 1, "overdue_jobs": 0, "archive_lag_seconds": 0,
			`store_errors_total{op="lease"}`: 0,
		} {
			if v, ok := got[name]; !ok || v != n {
				t.Errorf("%s is %v, want %v", name, v, n)
			}
		}
		if share := got[`trigger_delay_seconds_bucket{le="30"}`] / got["trigger_delay_seconds_count"]; share != 1 { // one, on a machine that is idle
			t.Errorf("%v of the fires were within half a minute", share)
		}
		s.agrees()

		want[client.Execution](s, 202, "POST", "/api/v1/executions/"+waits.ExecutionID+"/cancel", "")
		s.limited()
		s.putsOff()
		s.dies()
		want[client.Job](s, 200, "POST", "/api/v1/jobs/"+fires.JobID+"/pause", "")
		want[client.Job](s, 200, "POST", "/api/v1/jobs/"+fires.JobID+"/resume", "")
		got = s.scrape()
		for name, n := range map[string]float64{`executions_total{status="CANCELLED"}`: 1, `limited_total{limit="payload_bytes"}`: 1, "worker_deaths_total": 1, "leases_lost_total": 1, "stale_results_total": 1} {
			if got[name] != n {
				t.Errorf("%s is %v, want %v", name, got[name], n)
			}
		}
		if labels := regexp.MustCompile(`job|tenant|execution_id|host|url`); slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(k string) bool {
			_, l, _ := strings.Cut(k, "{")
			return labels.MatchString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(l, ""))
		}) {
			t.Error("there is a label whose values users choose")
		}

		s.stop()
		down := time.Now()
		s.until("instants to pass", func() bool { return time.Since(down) > 3500*time.Millisecond })
		s = serve(t, where)
		s.until("missed instants to be counted", func() bool {
			got = s.scrape()
			return got["occurrences_missed_total"] >= 1 && got[`executions_total{status="SKIPPED"}`] >= 1
		})
	})
}

// putsOff has two calls to a host that takes one at a time.
func (s *server) putsOff() {
	s.Helper()
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-answer }))
	defer slow.Close()
	call := fmt.Sprintf(`{"name": "slow", "execution": {"callback_url": %q}}`, strings.Replace(slow.URL, "127.0.0.1", "localhost", 1)) // by name, as nothing in callbacks.allow is paced
	first := want[client.Job](s, 201, "POST", "/api/v1/jobs", call)
	<-arrived
	second := want[client.Job](s, 201, "POST", "/api/v1/jobs", call)
	const name = `callbacks_put_off_total{reason="concurrency"}`
	s.until("a call to be put off", func() bool { return s.scrape()[name] >= 1 })
	close(answer)
	s.ends(first.ExecutionID, "SUCCEEDED")
	s.ends(second.ExecutionID, "SUCCEEDED")
	if v, ok := s.scrape()[`callbacks_put_off_total{reason="rate"}`]; !ok || v != 0 {
		s.Errorf("of the rate: %v, %v", v, ok)
	}
}

// agrees compares the numbers with those of the API.
func (s *server) agrees() {
	s.Helper()
	var wrong string
	s.until("the numbers to agree", func() bool { // what a server counts it writes down every few seconds
		got, st := s.scrape(), want[client.QueueStatus](s, 200, "GET", "/api/v1/admin/queue/status", "")
		sc := want[client.Scaling](s, 200, "GET", "/api/v1/admin/scaling", "")
		sum := func(prefix string) (n float64) {
			for k, v := range got {
				if strings.HasPrefix(k, prefix) && strings.Contains(k, `"`) {
					n += v
				}
			}
			return n
		}
		pending := got[`queue_depth{band="high",state="pending"}`] + got[`queue_depth{band="normal",state="pending"}`] + got[`queue_depth{band="low",state="pending"}`]
		wrong = ""
		for what, pair := range map[string][2]float64{
			"pending": {pending, float64(st.Pending)}, "in progress": {sum("queue_depth") - pending, float64(st.InProgress)}, "dead letters": {got["dead_letters"], float64(st.DeadLetters)},
			"completed": {got[`executions_total{status="SUCCEEDED"}`], float64(st.Completed24h)}, "failed": {got[`executions_total{status="FAILED"}`] + got[`executions_total{status="TIMED_OUT"}`], float64(st.Failed24h)},
			"retried": {got["retries_total"], float64(st.Retried24h)}, "workers": {got[`workers{state="active"}`], float64(st.ActiveWorkers)}, "overdue": {got["overdue_jobs"], float64(st.OverdueJobs)},
			"slots": {got[`worker_slots{state="busy"}`] + got[`worker_slots{state="free"}`], float64(st.Slots)}, "average wait": {math.Round(1000 * got["queue_wait_seconds_sum"] / got["queue_wait_seconds_count"]), math.Round(1000 * st.AverageWaitSeconds)},
			"desired workers": {got["desired_workers"], float64(sc.DesiredWorkers)}, "waiting": {pending, float64(sc.Waiting)},
		} {
			if d := math.Abs(pair[0] - pair[1]); d > 1 && what == "average wait" || d > 0 && what != "average wait" {
				wrong += fmt.Sprintf("%s: counted %v, answered %v; ", what, pair[0], pair[1])
			}
		}
		return wrong == ""
	})
	if wrong != "" {
		s.Error(wrong)
	}
}

// limited asks for more than a tenant may have.
func (s *server) limited() {
	s.Helper()
	want[client.Tenant](s, 201, "POST", "/api/v1/tenants", `{"name": "small", "tier": "free"}`)
	k := want[client.APIKey](s, 201, "POST", "/api/v1/api-keys", `{"tenant_id": "small", "name": "k", "role": "operator"}`)
	long := strings.Replace(simulate("noop", `, "payload": "`+strings.Repeat("x", 2000)+`"`), `"max_retries": 1`, `"max_retries": 0`, 1)
	want[client.Problem](s, 413, "POST", "/api/v1/jobs", long, "Authorization", "Bearer "+*k.Key)
}

// dies lets a worker die over an execution, and come back with a result when another has it.
func (s *server) dies() {
	s.Helper()
	j := want[client.Job](s, 201, "POST", "/api/v1/jobs", strings.Replace(fmt.Sprintf(unserved, 5, ""), "nobody", "mortal", 1))
	claim := func() (at string, by []string, a client.Attempt) {
		w := want[client.Session](s, 201, "POST", "/api/v1/workers", `{"kinds": ["mortal"]}`)
		at, by = "/api/v1/workers/"+w.WorkerID, []string{"X-Worker-Session", w.Session}
		s.until("something to claim", func() bool {
			got := want[client.Claimed](s, 200, "POST", at+"/claim", `{"max": 1, "wait_seconds": 1}`, by...)
			if len(got.Attempts) == 1 {
				a = got.Attempts[0]
			} else {
				want[client.Orders](s, 200, "POST", at+"/beat", `{"executions": []}`, by...)
			}
			return len(got.Attempts) == 1
		})
		return at, by, a
	}
	report := func(at string, by []string, a client.Attempt) client.Verdict {
		return want[client.Verdicts](s, 200, "POST", at+"/complete", fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, "status": "SUCCEEDED"}]}`, a.ExecutionID, a.FencingToken), by...).Verdicts[0]
	}
	at, by, a := claim()
	at2, by2, again := claim() // when the first has not beaten for too long
	if v := report(at, by, a); v.Verdict != client.Refused || v.Reason != "stale_token" {
		s.Errorf("a stale result: %+v", v)
	}
	if v := report(at2, by2, again); v.Verdict != client.Accepted || again.AttemptNumber != 2 {
		s.Errorf("its successor: %+v of attempt %d", v, again.AttemptNumber)
	}
	want[struct{}](s, 200, "DELETE", at2, "", by2...)
	s.ends(j.ExecutionID, "SUCCEEDED")
}

// TestWhoMayWatch asks for what is about a process with each credential, and none.
func TestWhoMayWatch(t *testing.T) {
	log := &output{}
	s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) {
		o.Config.Pprof, o.Config.LogFormat = true, "json"
		o.Log = app.NewLog(o.Config, log)
		o.Logger = o.Log.Logger
	})
	viewer := *want[client.APIKey](s, 201, "POST", "/api/v1/api-keys", `{"name": "prometheus", "role": "viewer"}`).Key
	for _, c := range []struct {
		path, key string
		status    int
	}{
		{"/metrics", "", 401},
		{"/metrics", viewer, 200},
		{"/debug/pprof/", "", 401},
		{"/debug/pprof/", viewer, 403},
		{"/debug/pprof/", key, 200},
		{"/debug/pprof/heap?debug=1", key, 200},
		{"/debug/pprof/cmdline", key, 404},
		{"/debug/pprof/nonsense", key, 404},
		{"/api/v1/admin/log-level", viewer, 403},
	} {
		if code, text := s.ask("GET", c.path, "", "Authorization", "Bearer "+c.key); code != c.status {
			t.Errorf("GET %s with %.3q: %d, want %d: %.200s", c.path, c.key, code, c.status, text)
		}
	}
	other := *s
	other.url = strings.TrimSuffix(s.metrics, "/metrics")
	for path, status := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 200, "/api/v1/jobs": 404, "/docs": 404, "/debug/pprof/": 404, "/api/v1/admin/log-level": 404} {
		if code, text := other.ask("GET", path, "", "Authorization", ""); code != status {
			t.Errorf("GET %s where scrapes are answered: %d, want %d: %.200s", path, code, status, text)
		}
	}

	if l := want[client.LogLevel](s, 200, "GET", "/api/v1/admin/log-level", ""); l.Level != "info" {
		t.Errorf("the level is %q", l.Level)
	}
	if strings.Contains(log.String(), "a request was answered") {
		t.Error("requests are logged at info")
	}
	p := want[client.Problem](s, 422, "PUT", "/api/v1/admin/log-level", `{"level": "loud"}`)
	if len(p.Errors) != 1 || p.Errors[0].Field != "level" || p.Errors[0].Value != "loud" {
		t.Errorf("%+v", p)
	}
	want[client.LogLevel](s, 200, "PUT", "/api/v1/admin/log-level", `{"level": "debug"}`)
	want[client.Jobs](s, 200, "GET", "/api/v1/jobs?name=a%0Aforged", "", "X-Request-ID", "the-request")
	s.until("a line of the request", func() bool { return strings.Contains(log.String(), `"request_id":"the-request"`) })
	for line := range strings.Lines(log.String()) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil || event["msg"] == nil || event["level"] == nil || event["time"] == nil {
			t.Errorf("%v: %s", err, line)
		}
		if strings.Contains(line, viewer) || strings.Contains(line, key) {
			t.Errorf("a key is in the log: %s", line)
		}
	}
	entries := want[client.AuditEntries](s, 200, "GET", "/api/v1/audit?action=log.level", "")
	if len(entries.Audit) != 1 || entries.Audit[0].Before["log"] != "info" || entries.Audit[0].After["log"] != "debug" {
		t.Errorf("the audit log: %+v", entries)
	}
}

// TestNoCallbackComesBack calls the places where the server itself answers, which its operator has not forbidden.
func TestNoCallbackComesBack(t *testing.T) {
	s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) { o.Config.CallbacksAllow = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")} })
	for _, to := range []string{s.url + "/healthz", s.metrics, strings.Replace(s.url, "127.0.0.1", "0.0.0.0", 1) + "/healthz"} {
		j := s.run(fmt.Sprintf(`{"name": "x", "execution": {"callback_url": %q, "method": "GET"}, "retry_policy": {"max_retries": 0}}`, to), "FAILED")
		if e := want[client.Execution](s, 200, "GET", "/api/v1/executions/"+j.ExecutionID, ""); e.Error == nil || e.Error.Type != "BLOCKED_ADDRESS" || strings.Contains(e.Error.Message, "--allow-callback") {
			t.Errorf("%s: %+v", to, e.Error)
		}
	}
}

// TestAWorkerIsWatched asks a worker, which knows no credentials, for what other processes show to who has one.
func TestAWorkerIsWatched(t *testing.T) {
	c := config.Default()
	c.Listen, c.Metrics.Listen = "127.0.0.1:0", "127.0.0.1:0"
	out, log := &output{}, &output{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- app.RunWorker(ctx, app.WorkerOptions{
			Options: app.Options{Config: c, Out: out, Logger: slog.New(slog.NewTextHandler(log, nil))}, Servers: []string{"http://127.0.0.1:1"}, Token: key, Capacity: 1,
		})
	}()
	defer func() { cancel(); <-ended }()
	s := &server{T: t}
	s.until("the worker to greet", func() bool {
		health := regexp.MustCompile(`Health +(\S+)/readyz`).FindStringSubmatch(out.String())
		metrics := regexp.MustCompile(`Metrics +(\S+)`).FindStringSubmatch(out.String())
		if health == nil || metrics == nil {
			return false
		}
		s.url, s.metrics = health[1], metrics[1]
		return true
	})
	for path, status := range map[string]int{"/healthz": 200, "/metrics": 404, "/api/v1/admin/log-level": 404, "/debug/pprof/": 404, "/api/v1/jobs": 404} {
		if code, text := s.ask("GET", path, ""); code != status {
			t.Errorf("GET %s: %d, want %d: %.200s", path, code, status, text)
		}
	}
	if s.scrape()["breakers_open"] != 0 || strings.Contains(log.String(), "a request failed") {
		t.Errorf("logged: %s", log)
	}
}

// TestScrapesInDevelopment asks for metrics by a name that leads to loopback, as a page of another site could.
func TestScrapesInDevelopment(t *testing.T) {
	s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) { o.Dev = true })
	for host, status := range map[string]int{"": 200, "localhost:9090": 200, "evil.example": 403} {
		r, err := http.NewRequest("GET", s.metrics, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if w.Body.Close(); w.StatusCode != status {
			t.Errorf("as %q: %d, want %d", host, w.StatusCode, status)
		}
	}
}

// sink is a target that notes which traces it is called in.
func sink(t *testing.T) (url string, parents func() []string) {
	var mu sync.Mutex
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("traceparent"))
		if len(seen) == 1 {
			w.WriteHeader(500)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}
