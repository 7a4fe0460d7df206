package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

// crowd counts how many calls of each key a sink has at once.
type crowd struct {
	mu   sync.Mutex
	now  map[string]int // guarded by mu
	most map[string]int // guarded by mu
	all  int            // guarded by mu: calls so far
}

// each is a sink's answer: it notes the payload's key while the call lasts.
func (c *crowd) each(takes time.Duration, bodies func(*http.Request) string) func(http.ResponseWriter, *http.Request) {
	return func(_ http.ResponseWriter, r *http.Request) {
		k := bodies(r)
		c.mu.Lock()
		c.now[k]++
		c.all++
		c.most[k] = max(c.most[k], c.now[k])
		c.mu.Unlock()
		<-time.After(takes)
		c.mu.Lock()
		c.now[k]--
		c.mu.Unlock()
	}
}

func newCrowd() *crowd { return &crowd{now: map[string]int{}, most: map[string]int{}} }

// keyedJobs is a batch of jobs that call the sink, of so many customers and so many each.
func keyedJobs(s *sink, customers, each int, more string) string {
	var bodies []string
	for n := range customers * each {
		bodies = append(bodies, fmt.Sprintf(`{"name": "keyed", "execution": {"callback_url": "%s/?c=%d", "payload": {"customer": %d}}%s}`, s.URL, n%customers, n%customers, more))
	}
	return "[" + strings.Join(bodies, ",") + "]"
}

func customer(r *http.Request) string { return r.URL.Query().Get("c") }

func checkCrowd(t *testing.T, s *sink, c *crowd, ps []*process, customers, each, most int) {
	t.Helper()
	made := want[client.CreatedJobs](ps[0], 201, "POST", "/api/v1/jobs:batch", keyedJobs(s, customers, each, fmt.Sprintf(`, "concurrency_key": "payload.customer", "max_concurrent": %d`, most)))
	for _, j := range made.Jobs {
		ps[0].ends(j.ExecutionID, "SUCCEEDED")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all != customers*each || len(c.most) != customers {
		t.Errorf("%d calls of %d customers", c.all, len(c.most))
	}
	for k, n := range c.most {
		if n != most {
			t.Errorf("of customer %s %d ran at once, want %d", k, n, most)
		}
	}
}

// wide is a server with more slots than the limits let run.
func wide(t *testing.T, where string) *process {
	t.Helper()
	return start(t, append(settings, "CARILLON_WORKERS_DEFAULT_COUNT=32", "CARILLON_WORKERS_MAX_COUNT=32"), "serve", "--database", where)
}

func TestMaxConcurrentOfAKey(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s, c := newSink(t), newCrowd()
		s.set(c.each(150*time.Millisecond, customer))
		checkCrowd(t, s, c, []*process{wide(t, where)}, 4, 8, 2)
	})
}

func TestMaxConcurrentOfAKeyOverSeveralServers(t *testing.T) {
	t.Parallel()
	where := postgrestest.URL(t)
	s, c := newSink(t), newCrowd()
	s.set(c.each(150*time.Millisecond, customer))
	checkCrowd(t, s, c, []*process{wide(t, where), wide(t, where)}, 6, 8, 2)
}

func TestLimitsOfAQueueAndATenant(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s, c := newSink(t), newCrowd()
		s.set(c.each(100*time.Millisecond, customer))
		p := wide(t, where)
		want[client.Limit](p, 200, "PUT", "/api/v1/limits/queues/slow", `{"max_concurrent": 2}`)
		want[client.Limit](p, 200, "PUT", "/api/v1/limits/tenant", `{"max_concurrent": 5}`)
		<-time.After(2 * time.Second) // other servers would have heard of it by now
		slow := want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch", keyedJobs(s, 1, 12, `, "queue": "slow"`))
		fast := want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch", strings.ReplaceAll(keyedJobs(s, 1, 20, ""), "/?c=0", "/?c=fast"))
		for _, j := range append(slow.Jobs, fast.Jobs...) {
			p.ends(j.ExecutionID, "SUCCEEDED")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.most["0"] > 2 || c.most["fast"] > 5 || c.most["0"]+c.most["fast"] < 4 {
			t.Errorf("at once: %v", c.most)
		}
	})
}

func TestRateLimitOfAJob(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		p := serve(t, where)
		made := want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch",
			keyedJobs(s, 1, 11, `, "concurrency_key": "payload.customer", "rate_limit": {"count": 5, "per": "1s", "burst": 1}`))
		for _, j := range made.Jobs {
			p.ends(j.ExecutionID, "SUCCEEDED")
		}
		seen := s.seen()
		slices.SortFunc(seen, func(a, b arrival) int { return a.at.Compare(b.at) })
		if took := seen[len(seen)-1].at.Sub(seen[0].at); took < 1800*time.Millisecond {
			t.Errorf("eleven at five a second took %v", took)
		}
	})
}

func TestUniqueKey(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		s := newSink(t)
		block := make(chan struct{})
		s.set(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		})
		p := serve(t, where)
		first := p.create(s.call(`, "unique_key": "one at a time"`))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				code, text, err := p.ask("POST", "/api/v1/jobs", s.call(`, "unique_key": "one at a time"`))
				var j client.Job
				if err == nil {
					err = json.Unmarshal([]byte(text), &j)
				}
				if err != nil || code != 201 || j.ExecutionID != first.ExecutionID || j.JobID != first.JobID {
					t.Errorf("got %d, %v: %s", code, err, text)
				}
			})
		}
		wg.Wait()
		close(block)
		p.ends(first.ExecutionID, "SUCCEEDED")
		if again := p.create(s.call(`, "unique_key": "one at a time"`)); again.ExecutionID == first.ExecutionID {
			t.Error("the key is not free after the end")
		} else {
			p.ends(again.ExecutionID, "SUCCEEDED")
		}
		if n := len(s.seen()); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestExpiry(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where, "--roles", "api,scheduler") // nobody runs anything
		j := p.create(`{"name": "soon or never", "expires_after": "500ms", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		e := p.ends(j.ExecutionID, "EXPIRED")
		if e.StartedAt != nil || e.AttemptNumber != 0 || e.Error == nil {
			t.Errorf("got %+v", e)
		}
		if dead := want[client.DeadLetters](p, 200, "GET", "/api/v1/dead-letters", "").DeadLetters; len(dead) != 0 {
			t.Errorf("dead letters: %+v", dead)
		}
	})
}

// hand is a worker of one kind, spoken for by the test.
type hand struct {
	*process
	client  *client.Client
	session client.Session
}

func newHand(p *process, kind string) hand {
	p.Helper()
	c := client.New([]string{p.base}, p.key)
	s, err := c.Register(p.Context(), client.Registration{Host: "hand", Kinds: []string{kind}, Capacity: 5})
	if err != nil {
		p.Fatal(err)
	}
	return hand{p, c, s}
}

func (h hand) claim() client.Attempt {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 20*time.Second)
	defer cancel()
	as, err := h.client.Claim(ctx, h.session, 1)
	if err != nil || len(as) != 1 {
		h.Fatalf("claimed %v, %v", as, err)
	}
	return as[0]
}

func (h hand) beat(a client.Attempt, p *client.Progress) client.Orders {
	h.Helper()
	o, err := h.client.Beat(h.Context(), h.session, client.Beat{Executions: []client.Held{{ExecutionID: a.ExecutionID, FencingToken: a.FencingToken, Progress: p}}})
	if err != nil {
		h.Fatal(err)
	}
	return o
}

func (h hand) report(a client.Attempt, o client.Outcome) client.Verdict {
	h.Helper()
	o.ExecutionID, o.FencingToken = a.ExecutionID, a.FencingToken
	vs, err := h.client.Report(h.Context(), h.session, []client.Outcome{o})
	if err != nil || len(vs) != 1 {
		h.Fatalf("verdicts %v, %v", vs, err)
	}
	return vs[0]
}

func TestAStalledWorker(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		h := newHand(serve(t, where), "grind")
		j := h.create(`{"name": "grinds", "execution": {"target": "worker", "kind": "grind", "stall_timeout_seconds": 2}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1, "max_delay_ms": 1}}`)
		still := h.claim()
		eventually(t, 20*time.Second, "the stalled attempt to be lost", func() bool {
			return slices.Contains(h.beat(still, nil).Lost, still.ExecutionID)
		})
		if v := h.report(still, client.Outcome{Status: client.Succeeded}); v.Verdict != client.Refused {
			t.Errorf("a late result: %+v", v)
		}
		moves := h.claim()
		if moves.AttemptNumber != 2 {
			t.Errorf("attempt %d", moves.AttemptNumber)
		}
		until := time.Now().Add(5 * time.Second)
		for n := 0; time.Now().Before(until); n++ {
			if o := h.beat(moves, &client.Progress{Percent: n % 100, Message: "grinding"}); len(o.Lost) != 0 {
				t.Fatalf("what makes progress was ended: %+v", h.execution(j.ExecutionID))
			}
			<-time.After(500 * time.Millisecond)
		}
		if e := h.execution(j.ExecutionID); e.Status != "RUNNING" || e.Progress == nil || e.Progress.Message != "grinding" || e.Error == nil || e.Error.Type != "STALLED" {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
		if v := h.report(moves, client.Outcome{Status: client.Succeeded}); v.Verdict != client.Accepted {
			t.Errorf("verdict %+v", v)
		}
		h.ends(j.ExecutionID, "SUCCEEDED")
		var kinds []string
		for _, e := range want[client.Events](h.process, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/events", "").Events {
			kinds = append(kinds, e.Type)
		}
		if !slices.Contains(kinds, "attempt_failed") || !slices.Contains(kinds, "result_refused") {
			t.Errorf("events: %v", kinds)
		}
	})
}

// The same pool is given the execution again while the attempt that hangs still has its slot.
func TestAStallInThePool(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where)
		j := p.create(`{"name": "hangs", "execution": {"target": "simulate", "work_kind": "hang", "stall_timeout_seconds": 1}, "retry_policy": {"max_retries": 2, "initial_delay_ms": 1, "max_delay_ms": 1}}`)
		e := p.ends(j.ExecutionID, "FAILED")
		if e.Error == nil || e.Error.Type != "STALLED" || e.AttemptNumber != 3 || e.LostAttempts != 0 {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
		next := p.create(`{"name": "after it", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		p.ends(next.ExecutionID, "SUCCEEDED")
	})
}

func TestASnooze(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		h := newHand(serve(t, where), "wait")
		j := h.create(`{"name": "waits", "execution": {"target": "worker", "kind": "wait"}, "retry_policy": {"max_retries": 0}}`)
		h.report(h.claim(), client.Outcome{Status: client.Snoozed, RetryAfterMS: 500})
		if v := h.report(h.claim(), client.Outcome{Status: client.Succeeded}); v.Verdict != client.Accepted {
			t.Errorf("verdict %+v", v)
		}
		if e := h.ends(j.ExecutionID, "SUCCEEDED"); e.FinishedAt.Sub(*e.StartedAt) < 500*time.Millisecond {
			t.Errorf("it came again too soon: %v to %v", e.StartedAt, e.FinishedAt)
		}
	})
}

func TestTotalTimeout(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where)
		hangs := p.create(`{"name": "hangs", "execution": {"target": "simulate", "work_kind": "hang", "total_timeout_seconds": 2}, "retry_policy": {"max_retries": 9, "initial_delay_ms": 1, "max_delay_ms": 1}}`)
		fails := p.create(`{"name": "fails", "execution": {"target": "simulate", "work_kind": "fail", "total_timeout_seconds": 2}, "retry_policy": {"max_retries": 100, "backoff": "FIXED", "initial_delay_ms": 300, "max_delay_ms": 300}}`)
		for _, j := range []client.Job{hangs, fails} {
			e := p.ends(j.ExecutionID, "TIMED_OUT")
			if took := e.FinishedAt.Sub(*e.StartedAt); took < 1500*time.Millisecond || took > 8*time.Second {
				t.Errorf("%s took %v", j.Name, took)
			}
		}
	})
}

func TestRedriveOfMany(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where)
		const body = `{"name": "dies", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`
		want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch", "["+strings.Repeat(body+",", 39)+body+"]")
		dead := func() int64 {
			return want[client.DeadLetters](p, 200, "GET", "/api/v1/dead-letters?limit=1", "").Pagination.Total
		}
		eventually(t, 20*time.Second, "all to die", func() bool { return dead() == 40 })
		operation := func(id string) client.Operation {
			return want[client.Operation](p, 200, "GET", "/api/v1/operations/"+id, "")
		}
		slow := want[client.Begun](p, 202, "POST", "/api/v1/dead-letters:redrive", `{"filter": {"reason": "NOT_RETRYABLE"}, "rate_per_s": 4}`)
		if slow.Count != 40 {
			t.Errorf("it goes over %d", slow.Count)
		}
		began := time.Now()
		eventually(t, 20*time.Second, "some to be redriven", func() bool { return operation(slow.OperationID).Done >= 8 })
		if took := time.Since(began); took < 1200*time.Millisecond {
			t.Errorf("eight at four a second took %v", took)
		}
		want[client.Operation](p, 202, "POST", "/api/v1/operations/"+slow.OperationID+"/cancel", "")
		<-time.After(time.Second)
		stopped := operation(slow.OperationID)
		<-time.After(time.Second)
		if o := operation(slow.OperationID); o.State != "CANCELLED" || o.Done != stopped.Done || o.Done >= 40 {
			t.Errorf("after the cancel: %+v, then %+v", stopped, o)
		}
		eventually(t, 20*time.Second, "all to be dead again", func() bool { return dead() == 40 })
		all := want[client.Begun](p, 202, "POST", "/api/v1/dead-letters:redrive", `{"filter": {}}`)
		eventually(t, 20*time.Second, "the operation to end", func() bool { return operation(all.OperationID).State != "RUNNING" })
		if o := operation(all.OperationID); o.State != "SUCCEEDED" || o.Done != 40 || o.Passed != 0 {
			t.Errorf("ended: %+v", o)
		}
		eventually(t, 20*time.Second, "all to be dead once more", func() bool { return dead() == 40 })
		gone := want[client.Begun](p, 202, "POST", "/api/v1/dead-letters:discard", `{"filter": {}}`)
		eventually(t, 20*time.Second, "all to be discarded", func() bool { return operation(gone.OperationID).Done == 40 && dead() == 0 })
	})
}

func TestAutoRedrive(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where)
		j := p.create(`{"name": "dies", "auto_redrive_after": "1s", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`)
		list := func() []client.Execution {
			return want[client.Executions](p, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions?status=FAILED", "").Executions
		}
		eventually(t, 20*time.Second, "it to be run again by itself", func() bool { return len(list()) == 2 })
		all := list()
		if all[0].Trigger != "redrive" || *all[0].RetryOf != j.ExecutionID {
			t.Errorf("got %+v", all)
		}
		<-time.After(3 * time.Second)
		if n := len(list()); n != 2 { // once; then it waits for a person
			t.Errorf("%d executions", n)
		}
	})
}

func TestDrain(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		p := serve(t, where, "--roles", "api,scheduler")
		env := append(settings, "CARILLON_TOKEN="+key)
		start(t, env, "worker", "--server", p.base, "--capacity", "2")
		first := p.create(`{"name": "takes a while", "execution": {"target": "simulate", "work_kind": "sleep", "duration_ms": 4000}}`)
		p.ends(first.ExecutionID, "RUNNING")
		worker := want[client.Workers](p, 200, "GET", "/api/v1/workers", "").Workers[0]
		want[client.Draining](p, 202, "POST", "/api/v1/workers/"+worker.WorkerID+"/drain", "")
		eventually(t, 20*time.Second, "the worker to drain", func() bool {
			return want[client.Workers](p, 200, "GET", "/api/v1/workers", "").Workers[0].Status == "DRAINING"
		})
		second := p.create(`{"name": "for another", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		if e := p.ends(first.ExecutionID, "SUCCEEDED"); e.AttemptNumber != 1 {
			t.Errorf("what ran was disturbed: %+v", e)
		}
		<-time.After(2 * time.Second)
		if e := p.execution(second.ExecutionID); e.Status != "PENDING" {
			t.Errorf("the drained worker took more: %+v", e)
		}
		start(t, env, "worker", "--server", p.base, "--capacity", "2")
		p.ends(second.ExecutionID, "SUCCEEDED")
	})
}

func TestProgressOfSimulatedSleep(t *testing.T) {
	t.Parallel()
	p := serve(t, "sqlite:"+t.TempDir()+"/c.db")
	j := p.create(`{"name": "sleeps", "execution": {"target": "simulate", "work_kind": "sleep", "duration_ms": 6000}}`)
	eventually(t, 20*time.Second, "progress", func() bool {
		e := p.execution(j.ExecutionID)
		return e.Progress != nil && e.Progress.Percent >= 10
	})
	p.ends(j.ExecutionID, "SUCCEEDED")
	r := want[client.Report](p, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/report", "")
	if r.RunningMS < 5900 || len(r.Attempts) != 1 || r.Attempts[0].Outcome != "SUCCEEDED" {
		t.Errorf("report: %+v", r)
	}
}
