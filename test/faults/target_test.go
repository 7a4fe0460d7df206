//go:build unix

package faults

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/test/harness"
)

// asks is the payload of a job: what its target does, and whose it is.
type asks struct {
	Tenant string `json:"tenant"`
	MS     int    `json:"ms,omitempty"`    // the answer takes so long
	Fail   int    `json:"fail,omitempty"`  // the first so many attempts fail
	Group  string `json:"group,omitempty"` // what shares a limit
	Max    int    `json:"max,omitempty"`   // of the group run at once, at most
	Paused bool   `json:"paused,omitempty"`
}

// target receives the calls of a fleet's jobs. It keeps the calls of an execution, and of those in groups how long they took.
type target struct {
	*httptest.Server
	rec *harness.Recorder

	mu    sync.Mutex
	calls map[string][]called // guarded by mu: by execution
	last  map[string][]probed // guarded by mu: of probes, by job
	total int                 // guarded by mu
}

// called is one call, without what all calls of an execution share.
type called struct {
	at, until time.Duration
	token     int64
	attempt   int32
	key       string
	asks      *asks
	instant   time.Time
	job, id   string
	when      time.Time
}

// probed is an instant of a probe that has arrived.
type probed struct {
	instant time.Time
	at      time.Duration
}

func newTarget(t *testing.T, rec *harness.Recorder) *target {
	g := &target{rec: rec, calls: map[string][]called{}, last: map[string][]probed{}}
	g.Server = httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(func() { g.CloseClientConnections(); g.Close() })
	return g
}

func (g *target) serve(w http.ResponseWriter, r *http.Request) {
	c := called{at: g.rec.Now(), when: time.Now(), id: r.Header.Get("X-Execution-ID"), key: r.Header.Get("X-Idempotency-Key"), job: r.Header.Get("X-Job-ID"), asks: &asks{}}
	id := c.id
	c.token, _ = strconv.ParseInt(r.Header.Get("X-Fencing-Token"), 10, 64)
	n, _ := strconv.Atoi(r.Header.Get("X-Attempt-Number"))
	c.attempt = int32(n)
	c.instant, _ = time.Parse(time.RFC3339, r.Header.Get("X-Scheduled-Time"))
	b, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(b, c.asks)
	g.mu.Lock()
	g.total++
	i := len(g.calls[id])
	g.calls[id] = append(g.calls[id], c)
	if p, ok := g.last[c.job]; ok && i == 0 {
		g.last[c.job] = append(p, probed{c.instant, c.at})
	}
	g.mu.Unlock()
	if c.asks.MS > 0 {
		select {
		case <-time.After(time.Duration(c.asks.MS) * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	g.mu.Lock()
	g.calls[id][i].until = g.rec.Now()
	g.mu.Unlock()
	if n <= c.asks.Fail {
		w.WriteHeader(500)
	}
}

// follow notes the instants of a probe from now on.
func (g *target) follow(job string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last[job] = nil
}

// since are the instants of a probe that have arrived, but the first n.
func (g *target) since(job string, n int) []probed {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[job][n:]
}

// of are the calls of an execution.
func (g *target) of(execution string) []called {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[execution]
}
