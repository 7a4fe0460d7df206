package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

var (
	corpusSize = flag.Int("corpus.n", 20_000, "how many requests TestCorpus makes up")
	corpusSeed = flag.Uint64("corpus.seed", 1, "what TestCorpus makes them of")
	corpusOnly = flag.Int("corpus.only", -1, "the number of the only one to send")
)

// corpus sends requests that were made up to a server that has something of everything.
type corpus struct {
	*matrix
	mu   sync.Mutex
	pool map[string][]string // guarded by mu: ids of things, by the beginning of their paths

	good map[string]int // guarded by mu: how often each route did what it was asked for

	codes [600]atomic.Int64
	late  atomic.Int64 // answers that the store was away
}

// mayBeLate limits the answers that say that the store is away. The store gives up on a statement after seconds, and on a machine that is
// busy with other tests one in thousands takes that long.
const mayBeLate = 5

// known remembers something that can be asked for.
func (c *corpus) known(kind, id string) {
	if id == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if all := c.pool[kind]; len(all) < 50 {
		c.pool[kind] = append(all, id)
	} else {
		all[len(id)*7%50] = all[49]
		all[49] = id
	}
}

func (c *corpus) id(r *rand.Rand, kind string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.pool[kind]
	if len(all) == 0 {
		return "things"
	}
	return all[r.IntN(len(all))]
}

// learn takes from an answer what others can ask for.
func (c *corpus) learn(answer []byte) {
	var got struct {
		JobID       string `json:"job_id"`
		ExecutionID string `json:"execution_id"`
		OperationID string `json:"operation_id"`
		ArtifactID  string `json:"artifact_id"`
		Pagination  struct {
			Next string `json:"next_cursor"`
		} `json:"pagination"`
	}
	if json.Unmarshal(answer, &got) != nil {
		return
	}
	c.known("/api/v1/jobs/", got.JobID)
	c.known("/api/v1/executions/", got.ExecutionID)
	c.known("/api/v1/dead-letters/", got.ExecutionID)
	c.known("/api/v1/operations/", got.OperationID)
	c.known("/api/v1/artifacts/", got.ArtifactID)
	c.known("cursor", got.Pagination.Next)
}

func newCorpus(t testing.TB) *corpus { return newCorpusOver(newMatrix(t)) }

func newCorpusOver(m *matrix) *corpus {
	c := &corpus{matrix: m, pool: map[string][]string{}, good: map[string]int{}}
	want[client.Tenant](c.face, 201, "POST", "/api/v1/tenants", `{"name": "spare"}`, "Authorization", c.system)
	for _, of := range []string{"mine", "other"} { // that it is too much is another test's
		want[client.Tenant](c.face, 200, "PATCH", "/api/v1/tenants/"+of, `{"tier": "enterprise", "quotas": {"requests_per_second": -1, "executions_per_minute": -1, "active_jobs": -1, "payload_bytes": -1}}`,
			"Authorization", c.system)
	}
	for kind, id := range c.things {
		c.known(kind, id)
	}
	c.pool["/api/v1/tenants/"] = []string{"spare"}
	for i := range 20 {
		j := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name": "j%d", "key": "k%d", "schedule": {"type": "CRON", "cron_expression": "*/5 * * * *"}, "execution": {"target": "simulate", "work_kind": "noop"}}`, i, i),
			"Authorization", c.keys[mine][tenant.Admin])
		c.known("/api/v1/jobs/", j.JobID)
		if i < 5 {
			b := want[client.Badge](c.face, 201, "POST", "/api/v1/badges", fmt.Sprintf(`{"job_id": %q}`, j.JobID), "Authorization", c.keys[mine][tenant.Admin])
			c.known("/badges/", path.Base(*b.SVG))
			c.known("/badges/", path.Base(*b.JSON))
		}
	}
	foreign := want[client.Job](c.face, 201, "POST", "/api/v1/jobs", noop, "Authorization", c.keys[other][tenant.Admin])
	c.known("/api/v1/jobs/", foreign.JobID)
	c.known("/api/v1/executions/", foreign.ExecutionID)
	page := want[client.Jobs](c.face, 200, "GET", "/api/v1/jobs?limit=5", "", "Authorization", c.keys[mine][tenant.Admin])
	c.known("cursor", *page.Pagination.NextCursor)
	return c
}

// hire registers another worker, after the one before was told to leave.
func (c *corpus) hire() {
	w := c.ask("POST", "/api/v1/workers", `{"kinds": ["send-email"], "targets": ["worker", "simulate", "http"], "capacity": 1000}`, "Authorization", c.keys[mine][tenant.Worker])
	var s client.Session
	if json.Unmarshal(w.Body.Bytes(), &s) != nil || s.WorkerID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worker = s
	c.pool["/api/v1/workers/"] = []string{s.WorkerID}
}

// session is the worker's.
func (c *corpus) session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worker.Session
}

// credential chooses one for a request: mostly one that may.
func (c *corpus) credential(m *maker, q *made) {
	of := mine
	if m.chance(20) {
		of = other
	}
	role := tenant.Admin
	switch q.route.Needs {
	case tenant.Work:
		role = tenant.Worker
	case tenant.Run, tenant.Scale:
		role = tenant.System
	}
	if m.chance(20) {
		role = oneOf(m.Rand, tenant.Roles()...)
	}
	key := c.keys[of][role]
	switch m.IntN(30) {
	case 0:
	case 1:
		q.headers["Authorization"] = oneOf(m.Rand, "Bearer", "Bearer x", "Basic eDp5", key+"x", strings.ToLower(key), "Bearer "+strings.Repeat("x", 9000), "Bearer eyJhbGciOiJub25lIn0.e30.", "\x00", "Bearer \x00")
	case 2:
		q.headers["Cookie"] = oneOf(m.Rand, "carillon=x", "carillon=cas_"+strings.Repeat("a", 52), "carillon", ";;;=", "__Host-carillon="+strings.Repeat("x", 5000))
	default:
		q.headers["Authorization"] = key
	}
	if strings.HasPrefix(q.route.Path, "/api/v1/workers/{id}") && !m.chance(10) {
		q.headers["X-Worker-Session"] = c.session()
	}
}

// send has the request answered. What waits for something to happen is given up after a moment.
func (c *corpus) send(q made) (w *httptest.ResponseRecorder, waited bool) {
	where, query, _ := strings.Cut(q.target, "?")
	u := &url.URL{RawQuery: query}
	if plain, err := url.PathUnescape(where); err == nil {
		u.Path, u.RawPath = plain, where
	} else {
		u.Path = where
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if strings.HasSuffix(where, "/claim") || strings.Contains(where, "/stream") || strings.HasSuffix(where, "/logs") {
		stop := time.AfterFunc(30*time.Millisecond, cancel)
		defer func() { waited = !stop.Stop() }()
	}
	r := (&http.Request{
		Method: q.method, URL: u, Host: "localhost:8080", RemoteAddr: "192.0.2.1:1234", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RequestURI: q.target,
		Header: http.Header{}, Body: http.NoBody, ContentLength: int64(len(q.body)),
	}).WithContext(ctx)
	if q.body != "" {
		r.Body = readCloser{strings.NewReader(q.body)}
	}
	for name, value := range q.headers {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w = httptest.NewRecorder()
	c.http.ServeHTTP(w, r)
	return w, waited
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// judge says what is wrong with an answer.
func (c *corpus) judge(q made, w *httptest.ResponseRecorder) string {
	kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	switch body := w.Body.Bytes(); {
	case w.Code == 503 && w.Header().Get("Retry-After") != "" && c.late.Add(1) <= mayBeLate:
	case w.Code >= 500:
		return "it is our fault"
	case w.Code == 404 && kind == "text/html" && strings.Contains(q.headers["Accept"], "text/html") && !strings.HasPrefix(q.target, "/api/"):
		// A browser asked for a screen that does not exist: the dashboard says so.
	case w.Code >= 400:
		var p client.Problem
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil && q.method != "HEAD" || kind != "application/problem+json" {
			return fmt.Sprintf("it is no problem document: %v, %q", err, kind)
		}
		if q.method != "HEAD" && (p.Status != w.Code || p.Detail == "" || p.Code == "" || p.Title == "" || p.RequestID == "") {
			return "it leaves out what is wrong"
		}
		for _, e := range p.Errors {
			if e.Want == "" {
				return "it leaves out what would be right"
			}
		}
	case w.Code >= 300:
		to := w.Header().Get("Location") // a call without its prefix is told where it belongs
		if q.target != "/" && !strings.HasPrefix(q.target, "/?") && (w.Code != 308 || !strings.HasPrefix(to, "/api/v1/")) {
			return "it sends the caller elsewhere"
		}
	case kind == "application/json" && !json.Valid(body):
		return "it is no JSON"
	}
	return ""
}

// TestCorpus sends requests over every route, good, nearly good and senseless: none is answered with a 5xx, all that are
// refused are told why. One that fails is sent alone with -corpus.seed and -corpus.only.
func TestCorpus(t *testing.T) {
	n := *corpusSize
	if testing.Short() {
		n = min(n, 5000)
	}
	if _, err := os.Stat("/dev/shm"); err == nil { // what is lost with the power does not matter here
		t.Setenv("TMPDIR", "/dev/shm")
	}
	newCorpus(t).play(t, n)
}

// On PostgreSQL requests are also held to what a tenant's role may do there.
func TestCorpusOnPostgres(t *testing.T) {
	newCorpusOver(newMatrixBehind(t, func(change func(*api.Config, engine.Store)) face {
		return faceOver(t, storetest.Postgres(t), change)
	})).play(t, min(*corpusSize, 5000))
}

// play sends n requests.
func (c *corpus) play(t *testing.T, n int) {
	var next, wrong atomic.Int64
	var wg sync.WaitGroup
	one := func(i int) {
		m := &maker{Rand: rand.New(rand.NewPCG(*corpusSeed, uint64(i))), table: c.table, ids: c.id}
		q := m.request()
		c.credential(m, &q)
		began := time.Now()
		w, waited := c.send(q)
		c.codes[w.Code%600].Add(1)
		if waited && w.Code == 200 && w.Body.Len() == 0 { // it was given up, and not answered
			return
		}
		if w.Code < 400 && w.Body.Len() > 0 && q.method == q.route.Method {
			c.mu.Lock()
			c.good[q.route.Method+" "+q.route.Path]++
			c.mu.Unlock()
			c.learn(w.Body.Bytes())
		}
		if w.Code == 409 && strings.Contains(w.Body.String(), `"session_ended"`) || w.Code < 300 && q.method == "DELETE" && strings.Contains(q.target, "/workers/") {
			c.hire()
		}
		bad := c.judge(q, w)
		if d := time.Since(began); bad == "" && d > time.Minute {
			bad = fmt.Sprintf("it took %v", d)
		}
		if bad != "" && wrong.Add(1) <= 10 {
			t.Errorf("-corpus.seed=%d -corpus.only=%d: %s\n%s\n\n%d %v\n%s", *corpusSeed, i, bad, q, w.Code, w.Header(), w.Body)
		}
	}
	if *corpusOnly >= 0 {
		one(*corpusOnly)
		return
	}
	for range 24 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				one(i)
			}
		})
	}
	wg.Wait()
	var told []string
	good := int64(0)
	for code := range c.codes {
		if got := c.codes[code].Load(); got > 0 {
			told = append(told, fmt.Sprintf("%d×%d", got, code))
			if code < 300 {
				good += got
			}
		}
	}
	t.Logf("%d requests: %s", n, strings.Join(told, " "))
	if good < int64(n)/10 {
		t.Errorf("only %d of %d requests were good ones: nothing much is tested", good, n)
	}
	// What needs a token, a lease or a dead letter of its own comes about only by chance; TestExamples asks for it.
	rare := []string{"POST /api/v1/executions/{id}/complete", "POST /api/v1/sign-in", "POST /api/v1/sign-out", "POST /api/v1/workers/{id}/logs", "POST /api/v1/workers/{id}/node", "POST /api/v1/workers/{id}/result", "POST /api/v1/dead-letters/{id}/redrive"}
	for _, r := range c.table {
		if name := r.Method + " " + r.Path; n >= 100_000 && c.good[name] == 0 && !slices.Contains(rare, name) {
			t.Errorf("none of the requests for %s was a good one", name)
		}
	}
}
