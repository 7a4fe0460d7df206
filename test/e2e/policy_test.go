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
	"github.com/carillon-jobs/carillon/test/harness"
)

// crowd counts how many calls of each key a sink has at once.
type crowd struct {
	mu   sync.Mutex
	now  map[string]int           // guarded by mu
	most map[string]int           // guarded by mu
	all  int                      // guarded by mu: calls so far
	two  map[string]chan struct{} // guarded by mu: closed when a key has had two at once
}

// each is a sink's answer: it notes the payload's key while the call lasts. The first calls of a key last until there are two,
// however slowly the second comes.
func (c *crowd) each(takes time.Duration, bodies func(*http.Request) string) func(http.ResponseWriter, *http.Request) {
	return func(_ http.ResponseWriter, r *http.Request) {
		k := bodies(r)
		c.mu.Lock()
		c.now[k]++
		c.all++
		if c.two[k] == nil {
			c.two[k] = make(chan struct{})
		}
		if c.most[k] < 2 && c.now[k] == 2 {
			close(c.two[k])
		}
		c.most[k] = max(c.most[k], c.now[k])
		two := c.two[k]
		c.mu.Unlock()
		select {
		case <-two:
		case <-time.After(time.Minute): // it never comes
		}
		<-time.After(takes)
		c.mu.Lock()
		c.now[k]--
		c.mu.Unlock()
	}
}

func newCrowd() *crowd {
	return &crowd{now: map[string]int{}, most: map[string]int{}, two: map[string]chan struct{}{}}
}

// keyedJobs is a batch of jobs that call the sink, of so many customers and so many each.
func keyedJobs(s *harness.Sink, customers, each int, more string) string {
	var bodies []string
	for n := range customers * each {
		bodies = append(bodies, fmt.Sprintf(`{"name": "keyed", "execution": {"callback_url": "%s/?c=%d", "payload": {"customer": %d}}%s}`, s.URL, n%customers, n%customers, more))
	}
	return "[" + strings.Join(bodies, ",") + "]"
}

func customer(r *http.Request) string { return r.URL.Query().Get("c") }

func checkCrowd(t *testing.T, s *harness.Sink, c *crowd, ps []*harness.Process, customers, each, most int) {
	t.Helper()
	made := harness.Want[client.CreatedJobs](ps[0], 201, "POST", "/api/v1/jobs:batch", keyedJobs(s, customers, each, fmt.Sprintf(`, "concurrency_key": "payload.customer", "max_concurrent": %d`, most)))
	for _, j := range made.Jobs {
		ps[0].Ends(j.ExecutionID, "SUCCEEDED")
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
func wide(t *testing.T, where string) *harness.Process {
	t.Helper()
	return harness.Start(t, harness.Settings("CARILLON_WORKERS_DEFAULT_COUNT=32", "CARILLON_WORKERS_MAX_COUNT=32"), "serve", "--database", where)
}

func TestMaxConcurrentOfAKey(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s, c := harness.NewSink(t), newCrowd()
		s.Answer(c.each(150*time.Millisecond, customer))
		checkCrowd(t, s, c, []*harness.Process{wide(t, where)}, 4, 8, 2)
	})
}

func TestMaxConcurrentOfAKeyOverSeveralServers(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	s, c := harness.NewSink(t), newCrowd()
	s.Answer(c.each(150*time.Millisecond, customer))
	checkCrowd(t, s, c, []*harness.Process{wide(t, where), wide(t, where)}, 6, 8, 2)
}

func TestLimitsOfAQueueAndATenant(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s, c := harness.NewSink(t), newCrowd()
		s.Answer(c.each(100*time.Millisecond, customer))
		p := wide(t, where)
		harness.Want[client.Limit](p, 200, "PUT", "/api/v1/limits/queues/slow", `{"max_concurrent": 2}`)
		harness.Want[client.Limit](p, 200, "PUT", "/api/v1/limits/tenant", `{"max_concurrent": 5}`)
		<-time.After(4 * time.Second) // other servers would have heard of it by now
		slow := harness.Want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch", keyedJobs(s, 1, 12, `, "queue": "slow"`))
		fast := harness.Want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch", strings.ReplaceAll(keyedJobs(s, 1, 20, ""), "/?c=0", "/?c=fast"))
		for _, j := range append(slow.Jobs, fast.Jobs...) {
			p.Ends(j.ExecutionID, "SUCCEEDED")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.most["0"] > 2 || c.most["fast"] > 5 || c.most["0"]+c.most["fast"] < 4 {
			t.Errorf("at once: %v", c.most)
		}
	})
}

// checkPause pauses a queue at the first server, has jobs of it and of another made, sees that only the others run, and that
// all run once, wherever they do, when it is resumed at the last.
func checkPause(t *testing.T, s *harness.Sink, ps []*harness.Process, restart func() *harness.Process) {
	t.Helper()
	last := ps[len(ps)-1]
	q := harness.Want[client.Queue](ps[0], 200, "POST", "/api/v1/queues/held/pause", `{"reason": "maintenance"}`)
	if q.Pause == nil || *q.Pause.Reason != "maintenance" {
		t.Fatalf("%+v", q)
	}
	<-time.After(4 * time.Second) // other servers have heard of it by now
	held := harness.Want[client.CreatedJobs](last, 201, "POST", "/api/v1/jobs:batch", keyedJobs(s, 5, 8, `, "queue": "held"`))
	free := harness.Want[client.CreatedJobs](last, 201, "POST", "/api/v1/jobs:batch", strings.ReplaceAll(keyedJobs(s, 1, 20, ""), "/?c=0", "/?c=free"))
	for _, j := range free.Jobs {
		last.Ends(j.ExecutionID, "SUCCEEDED")
	}
	if restart != nil {
		last = restart()
	}
	<-time.After(3 * time.Second)
	if n := len(s.Seen()); n != len(free.Jobs) {
		t.Fatalf("%d calls, want those of the other queue alone", n)
	}
	x := harness.Want[client.Explanation](last, 200, "GET", "/api/v1/executions/"+held.Jobs[0].ExecutionID+"/explain", "")
	if x.Code != "QUEUE_PAUSED" || !strings.Contains(x.Summary, "because: maintenance.") {
		t.Errorf("explained: %+v", x)
	}
	harness.Eventually(t, 20*time.Second, "the numbers for scaling", func() bool {
		l := harness.Want[client.Scaling](last, 200, "GET", "/api/v1/admin/scaling", "")
		return l.Waiting == 0 && l.Paused == len(held.Jobs) && l.DesiredWorkers == 0
	})
	harness.Want[client.Queue](last, 200, "POST", "/api/v1/queues/held/resume", "")
	for _, j := range held.Jobs {
		last.Ends(j.ExecutionID, "SUCCEEDED")
	}
	if n := len(s.Seen()); n != len(free.Jobs)+len(held.Jobs) {
		t.Errorf("%d calls in the end, want %d", n, len(free.Jobs)+len(held.Jobs))
	}
}

func TestAPausedQueue(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		p := harness.Serve(t, where)
		checkPause(t, s, []*harness.Process{p}, func() *harness.Process {
			p.Kill()
			return harness.Serve(t, where)
		})
	})
}

func TestAQueueThatAnotherServerPaused(t *testing.T) {
	t.Parallel()
	where := harness.Postgres(t)
	checkPause(t, harness.NewSink(t), []*harness.Process{wide(t, where), wide(t, where)}, nil)
}

func TestRateLimitOfAJob(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		p := harness.Serve(t, where)
		made := harness.Want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch",
			keyedJobs(s, 1, 16, `, "concurrency_key": "payload.customer", "rate_limit": {"count": 5, "per": "1s", "burst": 1}`))
		for _, j := range made.Jobs {
			p.Ends(j.ExecutionID, "SUCCEEDED")
		}
		seen := s.Seen()
		slices.SortFunc(seen, func(a, b harness.Arrival) int { return a.At.Compare(b.At) })
		if took := seen[len(seen)-1].At.Sub(seen[0].At); took < 2*time.Second { // three, but the first call may have come late
			t.Errorf("sixteen at five a second took %v", took)
		}
	})
}

func TestUniqueKey(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		s := harness.NewSink(t)
		block := make(chan struct{})
		s.Answer(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		})
		p := harness.Serve(t, where)
		first := p.Create(s.Call(`, "unique_key": "one at a time"`))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				code, text, err := p.Ask("POST", "/api/v1/jobs", s.Call(`, "unique_key": "one at a time"`))
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
		p.Ends(first.ExecutionID, "SUCCEEDED")
		if again := p.Create(s.Call(`, "unique_key": "one at a time"`)); again.ExecutionID == first.ExecutionID {
			t.Error("the key is not free after the end")
		} else {
			p.Ends(again.ExecutionID, "SUCCEEDED")
		}
		if n := len(s.Seen()); n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where, "--roles", "api,scheduler") // nobody runs anything
		j := p.Create(`{"name": "soon or never", "expires_after": "500ms", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		e := p.Ends(j.ExecutionID, "EXPIRED")
		if e.StartedAt != nil || e.AttemptNumber != 0 || e.Error == nil {
			t.Errorf("got %+v", e)
		}
		if dead := harness.Want[client.DeadLetters](p, 200, "GET", "/api/v1/dead-letters", "").DeadLetters; len(dead) != 0 {
			t.Errorf("dead letters: %+v", dead)
		}
	})
}

// hand is a worker of one kind, spoken for by the test.
type hand struct {
	*harness.Process
	client  *client.Client
	session client.Session
}

func newHand(p *harness.Process, kind string) hand {
	p.Helper()
	c := client.New([]string{p.Base}, p.Key)
	s, err := c.Register(p.Context(), client.Registration{Host: "hand", Kinds: []string{kind}, Capacity: 5})
	if err != nil {
		p.Fatal(err)
	}
	return hand{p, c, s}
}

func (h hand) claim() client.Attempt {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), harness.Slack*20*time.Second)
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
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		h := newHand(harness.Serve(t, where), "grind")
		j := h.Create(`{"name": "grinds", "execution": {"target": "worker", "kind": "grind", "stall_timeout_seconds": 5}, "retry_policy": {"max_retries": 1, "initial_delay_ms": 1, "max_delay_ms": 1}}`)
		still := h.claim()
		harness.Eventually(t, 20*time.Second, "the stalled attempt to be lost", func() bool {
			return slices.Contains(h.beat(still, nil).Lost, still.ExecutionID)
		})
		if v := h.report(still, client.Outcome{Status: client.Succeeded}); v.Verdict != client.Refused {
			t.Errorf("a late result: %+v", v)
		}
		moves := h.claim()
		if moves.AttemptNumber != 2 {
			t.Errorf("attempt %d", moves.AttemptNumber)
		}
		until := time.Now().Add(8 * time.Second)
		for n := 0; time.Now().Before(until); n++ {
			if o := h.beat(moves, &client.Progress{Percent: n % 100, Message: "grinding"}); len(o.Lost) != 0 {
				t.Fatalf("what makes progress was ended: %+v", h.Execution(j.ExecutionID))
			}
			<-time.After(500 * time.Millisecond)
		}
		if e := h.Execution(j.ExecutionID); e.Status != "RUNNING" || e.Progress == nil || e.Progress.Message != "grinding" || e.Error == nil || e.Error.Type != "STALLED" {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
		if v := h.report(moves, client.Outcome{Status: client.Succeeded}); v.Verdict != client.Accepted {
			t.Errorf("verdict %+v", v)
		}
		h.Ends(j.ExecutionID, "SUCCEEDED")
		var kinds []string
		for _, e := range harness.Want[client.Events](h.Process, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/events", "").Events {
			kinds = append(kinds, e.Type)
		}
		if !slices.Contains(kinds, "attempt_failed") || !slices.Contains(kinds, "result_refused") {
			t.Errorf("events: %v", kinds)
		}
	})
}

// The same pool is given the execution again while the attempt that hangs still has its slot.
func TestAStallInThePool(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where)
		j := p.Create(`{"name": "hangs", "execution": {"target": "simulate", "work_kind": "hang", "stall_timeout_seconds": 1}, "retry_policy": {"max_retries": 2, "initial_delay_ms": 1, "max_delay_ms": 1}}`)
		e := p.Ends(j.ExecutionID, "FAILED")
		if e.Error == nil || e.Error.Type != "STALLED" || e.AttemptNumber != 3 || e.LostAttempts != 0 {
			t.Errorf("got %+v, %+v", e, e.Error)
		}
		next := p.Create(`{"name": "after it", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		p.Ends(next.ExecutionID, "SUCCEEDED")
	})
}

func TestASnooze(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		h := newHand(harness.Serve(t, where), "wait")
		j := h.Create(`{"name": "waits", "execution": {"target": "worker", "kind": "wait"}, "retry_policy": {"max_retries": 0}}`)
		h.report(h.claim(), client.Outcome{Status: client.Snoozed, RetryAfterMS: 500})
		if v := h.report(h.claim(), client.Outcome{Status: client.Succeeded}); v.Verdict != client.Accepted {
			t.Errorf("verdict %+v", v)
		}
		if e := h.Ends(j.ExecutionID, "SUCCEEDED"); e.FinishedAt.Sub(*e.StartedAt) < 500*time.Millisecond {
			t.Errorf("it came again too soon: %v to %v", e.StartedAt, e.FinishedAt)
		}
	})
}

func TestTotalTimeout(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where)
		hangs := p.Create(`{"name": "hangs", "execution": {"target": "simulate", "work_kind": "hang", "total_timeout_seconds": 2}, "retry_policy": {"max_retries": 9, "initial_delay_ms": 1, "max_delay_ms": 1}}`)
		fails := p.Create(`{"name": "fails", "execution": {"target": "simulate", "work_kind": "fail", "total_timeout_seconds": 2}, "retry_policy": {"max_retries": 100, "backoff": "FIXED", "initial_delay_ms": 300, "max_delay_ms": 300}}`)
		for _, j := range []client.Job{hangs, fails} {
			e := p.Ends(j.ExecutionID, "TIMED_OUT")
			if took := e.FinishedAt.Sub(*e.StartedAt); took < 1500*time.Millisecond || took > harness.Slack*8*time.Second {
				t.Errorf("%s took %v", j.Name, took)
			}
		}
	})
}

func TestRedriveOfMany(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where)
		const body = `{"name": "dies", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`
		harness.Want[client.CreatedJobs](p, 201, "POST", "/api/v1/jobs:batch", "["+strings.Repeat(body+",", 39)+body+"]")
		dead := func() int64 {
			return harness.Want[client.DeadLetters](p, 200, "GET", "/api/v1/dead-letters?limit=1", "").Pagination.Total
		}
		harness.Eventually(t, 20*time.Second, "all to die", func() bool { return dead() == 40 })
		operation := func(id string) client.Operation {
			return harness.Want[client.Operation](p, 200, "GET", "/api/v1/operations/"+id, "")
		}
		began := time.Now()
		slow := harness.Want[client.Begun](p, 202, "POST", "/api/v1/dead-letters:redrive", `{"filter": {"reason": "NOT_RETRYABLE"}, "rate_per_s": 4}`)
		if slow.Count != 40 {
			t.Errorf("it goes over %d", slow.Count)
		}
		harness.Eventually(t, 20*time.Second, "some to be redriven", func() bool { return operation(slow.OperationID).Done >= 8 })
		if took := time.Since(began); took < 1200*time.Millisecond {
			t.Errorf("eight at four a second took %v", took)
		}
		harness.Want[client.Operation](p, 202, "POST", "/api/v1/operations/"+slow.OperationID+"/cancel", "")
		var stopped client.Operation
		harness.Eventually(t, 20*time.Second, "a second in which nothing is redriven", func() bool {
			before := operation(slow.OperationID)
			<-time.After(time.Second)
			stopped = operation(slow.OperationID)
			return stopped.Done == before.Done
		})
		if stopped.State != "CANCELLED" || stopped.Done >= 40 {
			t.Errorf("after the cancel: %+v", stopped)
		}
		harness.Eventually(t, 20*time.Second, "all to be dead again", func() bool { return dead() == 40 })
		all := harness.Want[client.Begun](p, 202, "POST", "/api/v1/dead-letters:redrive", `{"filter": {}}`)
		harness.Eventually(t, 20*time.Second, "the operation to end", func() bool { return operation(all.OperationID).State != "RUNNING" })
		if o := operation(all.OperationID); o.State != "SUCCEEDED" || o.Done != 40 || o.Passed != 0 {
			t.Errorf("ended: %+v", o)
		}
		harness.Eventually(t, 20*time.Second, "all to be dead once more", func() bool { return dead() == 40 })
		gone := harness.Want[client.Begun](p, 202, "POST", "/api/v1/dead-letters:discard", `{"filter": {}}`)
		harness.Eventually(t, 20*time.Second, "all to be discarded", func() bool { return operation(gone.OperationID).Done == 40 && dead() == 0 })
	})
}

func TestAutoRedrive(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where)
		j := p.Create(`{"name": "dies", "auto_redrive_after": "1s", "execution": {"target": "simulate", "work_kind": "fail_permanent"}}`)
		list := func() []client.Execution {
			return harness.Want[client.Executions](p, 200, "GET", "/api/v1/jobs/"+j.JobID+"/executions?status=FAILED", "").Executions
		}
		harness.Eventually(t, 20*time.Second, "it to be run again by itself", func() bool { return len(list()) == 2 })
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
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where, "--roles", "api,scheduler")
		env := harness.Settings()
		harness.Start(t, env, "worker", "--server", p.Base, "--capacity", "2")
		first := p.Create(`{"name": "takes a while", "execution": {"target": "simulate", "work_kind": "sleep", "duration_ms": 8000}}`)
		p.Ends(first.ExecutionID, "RUNNING")
		worker := harness.Want[client.Workers](p, 200, "GET", "/api/v1/workers", "").Workers[0]
		harness.Want[client.Draining](p, 202, "POST", "/api/v1/workers/"+worker.WorkerID+"/drain", "")
		harness.Eventually(t, 20*time.Second, "the worker to drain", func() bool {
			return harness.Want[client.Workers](p, 200, "GET", "/api/v1/workers", "").Workers[0].Status == "DRAINING"
		})
		second := p.Create(`{"name": "for another", "execution": {"target": "simulate", "work_kind": "noop"}}`)
		if e := p.Ends(first.ExecutionID, "SUCCEEDED"); e.AttemptNumber != 1 {
			t.Errorf("what ran was disturbed: %+v", e)
		}
		<-time.After(2 * time.Second)
		if e := p.Execution(second.ExecutionID); e.Status != "PENDING" {
			t.Errorf("the drained worker took more: %+v", e)
		}
		harness.Start(t, env, "worker", "--server", p.Base, "--capacity", "2")
		p.Ends(second.ExecutionID, "SUCCEEDED")
	})
}

func TestProgressOfSimulatedSleep(t *testing.T) {
	t.Parallel()
	p := harness.Serve(t, "sqlite:"+t.TempDir()+"/c.db")
	j := p.Create(`{"name": "sleeps", "execution": {"target": "simulate", "work_kind": "sleep", "duration_ms": 12000}}`)
	harness.Eventually(t, 20*time.Second, "progress", func() bool {
		e := p.Execution(j.ExecutionID)
		return e.Progress != nil && e.Progress.Percent >= 10
	})
	p.Ends(j.ExecutionID, "SUCCEEDED")
	r := harness.Want[client.Report](p, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/report", "")
	if r.RunningMS < 11900 || len(r.Attempts) != 1 || r.Attempts[0].Status != "SUCCEEDED" {
		t.Errorf("report: %+v", r)
	}
}
