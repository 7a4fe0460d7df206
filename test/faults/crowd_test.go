//go:build unix

package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/client"
	judge "github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/test/harness"
)

// crowd is the users of a fleet: what they want follows from the seed.
type crowd struct {
	*fleet
	rng  *rand.Rand // of the one goroutine that decides
	tag  int
	busy atomic.Int64
	wg   sync.WaitGroup
}

// ledger records what the users were told.
type ledger struct {
	mu      sync.Mutex
	kept    map[string]*promised // guarded by mu: by the id of the job
	recent  []ref                // guarded by mu: executions of the last jobs
	flows   map[string]*promised // guarded by mu: by the id of the run
	cancels map[string]bool      // guarded by mu: executions that somebody asked to stop
	pauses  []pause              // guarded by mu
	pausing map[int]bool         // guarded by mu: tenants whose queue is paused now
	tries   int                  // guarded by mu: requests to create, with those sent again
	lost    int                  // guarded by mu: of these, without an answer that tells
	wrong   []string             // guarded by mu
	held    int                  // guarded by mu: jobs that were not asked for, since too many requests were under way
}

// promised is a job that was acknowledged.
type promised struct {
	tag    string
	tenant int
	first  time.Duration // when it was first asked for
	told   time.Duration
	later  bool // it is due some seconds after it was asked for, and has no execution before
}

type ref struct {
	id     string
	tenant int
}

// pause is a time in which a queue was paused, from the answer to the question to continue.
type pause struct {
	tenant   int
	from, to time.Duration
}

func newLedger() *ledger {
	return &ledger{kept: map[string]*promised{}, flows: map[string]*promised{}, cancels: map[string]bool{}, pausing: map[int]bool{}}
}

func (l *ledger) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) < 100 {
		l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
	}
}

// impatient is a caller that gives up soon.
var impatient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// ask sends a request to one of the servers.
func (f *fleet) ask(tenant int, method, path, body string, headers ...string) (int, string, error) {
	s := f.servers[rand.IntN(len(f.servers))] // not of the seed: it depends on how many calls fail
	q, err := http.NewRequest(method, s.at()+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	q.Header.Set("Authorization", "Bearer "+harness.Key)
	q.Header.Set("Content-Type", "application/json")
	if tenant >= 0 && tenant < len(f.tenants) {
		q.Header.Set("X-Tenant-ID", f.tenants[tenant])
	}
	for i := 0; i+1 < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	a, err := impatient.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

// insist asks until there is an answer that tells, and reads it.
func (f *fleet) insist(into any, status int, tenant int, method, path, body string, headers ...string) error {
	late := time.Now().Add(patience)
	for {
		code, text, err := f.ask(tenant, method, path, body, headers...)
		switch {
		case err == nil && code == status:
			if into == nil {
				return nil
			}
			return json.Unmarshal([]byte(text), into)
		case err == nil && code < 500 && code != 429:
			return fmt.Errorf("%s %s: %d %s", method, path, code, text)
		case time.Now().After(late):
			return fmt.Errorf("%s %s: no answer that tells within %v; the last: %d %s %v", method, path, patience, code, text, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// must is insist for what the run cannot do without.
func (f *fleet) must(into any, status int, tenant int, method, path, body string) {
	f.Helper()
	if err := f.insist(into, status, tenant, method, path, body); err != nil {
		f.Fatal(err)
	}
}

const policy = `"retry_policy": {"max_retries": 10, "initial_delay_ms": 20, "max_delay_ms": 200}`

// settleIn makes the tenants, their limits and their recurring jobs.
func (f *fleet) settleIn() {
	f.Helper()
	f.tenants = []string{"default"}
	for _, name := range []string{"narrow", "wide"} {
		var t client.Tenant
		f.must(&t, 201, 0, "POST", "/api/v1/tenants", fmt.Sprintf(`{"name": %q, "tier": "enterprise"}`, name))
		f.tenants = append(f.tenants, t.TenantID)
	}
	f.must(nil, 200, 1, "PUT", "/api/v1/limits/tenant", fmt.Sprintf(`{"max_concurrent": %d}`, f.atOnce))
	for i := range f.tenants {
		f.must(nil, 200, i, "PUT", "/api/v1/limits/queues/narrow", `{"max_concurrent": 2}`)
	}
	f.recur(0, f.plan.probes, []kind{interval(1, `, "catch_up": "all"`)}, &f.probes)
	for i := range f.tenants {
		f.recur(i, 4, kinds, &f.others)
	}
	f.flowing()
	for _, j := range f.probes {
		f.target.follow(j.id)
	}
}

// recur creates recurring jobs of a tenant.
func (f *fleet) recur(tenant, n int, kinds []kind, into *[]*recurring) {
	f.Helper()
	var bodies []string
	for i := range n {
		k := kinds[(i+tenant)%len(kinds)]
		bodies = append(bodies, fmt.Sprintf(`{"name": "again", "execution": {"callback_url": %q, "payload": {"tenant": %q}}, %s, %s}`, f.target.URL, f.tenants[tenant], policy, k.body))
	}
	var made client.CreatedJobs
	f.must(&made, 201, tenant, "POST", "/api/v1/jobs:batch", "["+strings.Join(bodies, ",")+"]")
	for i, j := range made.Jobs {
		var kept client.Job
		f.must(&kept, 200, tenant, "GET", "/api/v1/jobs/"+j.JobID, "")
		*into = append(*into, &recurring{kind: kinds[(i+tenant)%len(kinds)], id: j.JobID, created: kept.CreatedAt, tenant: tenant})
	}
}

// wish is the content of one request.
type wish struct {
	tenant int
	n      int // jobs
	tag    string
	body   string
	flow   bool // a run of a workflow
	later  bool // a job for later
}

// next returns the next request, by the seed. Without faults to wait out, most of it comes in batches.
func (c *crowd) next(many int) wish {
	c.tag++
	r := c.rng
	w := wish{tenant: r.IntN(len(c.tenants)), n: 1, tag: fmt.Sprintf("j%d", c.tag)}
	a := asks{Tenant: c.tenants[w.tenant], MS: r.IntN(30)}
	more := ""
	switch d := r.IntN(100); {
	case d < 10:
		a.Fail = 1 + r.IntN(2)
	case d < 20:
		w.later = true
		more = fmt.Sprintf(`, "schedule": {"type": "ONE_TIME", "scheduled_time": %q}`, time.Now().Add(time.Duration(1000+r.IntN(2000))*time.Millisecond).UTC().Format(time.RFC3339Nano))
	case d < 32:
		a.Max = 1 + r.IntN(2)
		a.Group, a.MS = fmt.Sprintf("g%d-%d", a.Max, r.IntN(2)), 50+r.IntN(150)
		more = fmt.Sprintf(`, "concurrency_key": "payload.group", "max_concurrent": %d`, a.Max)
	case d < 40:
		a.Paused, a.MS = true, 50+r.IntN(150)
		more = `, "queue": "narrow"`
	case d < 42:
		a.MS = int(min(c.lease*3/2, 6*time.Second) / time.Millisecond) // longer than a short lease
	case d < 45:
		w.flow = true
		return w
	default:
		w.n = 1 + r.IntN(2*many)
	}
	p, _ := json.Marshal(a)
	w.body = fmt.Sprintf(`{"name": "once", "execution": {"callback_url": %q, "payload": %s}, %s%s}`, c.target.URL, p, policy, more)
	return w
}

// plain is a request for many jobs without limits.
func (c *crowd) plain(n int) wish {
	c.tag++
	w := wish{tenant: c.rng.IntN(len(c.tenants)), n: n, tag: fmt.Sprintf("j%d", c.tag)}
	w.body = fmt.Sprintf(`{"name": "once", "execution": {"callback_url": %q, "payload": {"tenant": %q, "ms": %d}}, %s}`, c.target.URL, c.tenants[w.tenant], c.rng.IntN(30), policy)
	return w
}

// load asks for jobs at a rate until told to stop.
func (c *crowd) load(rate float64, stop <-chan struct{}) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	owed := 0.0
	last := time.Now()
	for {
		select {
		case <-stop:
			c.wg.Wait()
			return
		case now := <-tick.C:
			owed += rate * now.Sub(last).Seconds()
			last = now
		}
		for owed >= 1 {
			w := c.next(max(1, int(rate/40)))
			owed -= float64(w.n)
			if c.busy.Load() > 400 { // as many callers as there are wait for answers
				c.jobs.mu.Lock()
				c.jobs.held += w.n
				c.jobs.mu.Unlock()
				continue
			}
			c.busy.Add(1)
			c.wg.Go(func() {
				defer c.busy.Add(-1)
				if w.flow {
					c.flow(w)
					return
				}
				c.create(w)
			})
		}
	}
}

// create sends a request under its key until it is told its outcome.
func (c *crowd) create(w wish) {
	path, body := "/api/v1/jobs", w.body
	if w.n > 1 {
		path, body = "/api/v1/jobs:batch", "["+strings.Repeat(w.body+",", w.n-1)+w.body+"]"
	}
	first := c.now()
	late := time.Now().Add(patience)
	for {
		code, text, err := c.ask(w.tenant, "POST", path, body, "X-Idempotency-Key", fmt.Sprintf("seed-%d-%s", c.seed, w.tag))
		c.jobs.mu.Lock()
		c.jobs.tries++
		if err != nil || code != 201 {
			c.jobs.lost++
		}
		c.jobs.mu.Unlock()
		switch {
		case err == nil && code == 201:
			c.told(w, first, text)
			return
		case err == nil && code < 500 && code != 429:
			c.jobs.say("I1: a request was refused: %d %s", code, text)
			return
		case time.Now().After(late):
			c.jobs.say("I1: nobody knows what became of %s: %d %s %v", w.tag, code, text, err)
			return
		}
		<-time.After(time.Duration(50+rand.IntN(200)) * time.Millisecond)
	}
}

// told notes the jobs that an answer names.
func (c *crowd) told(w wish, first time.Duration, text string) {
	var made client.CreatedJobs
	var one client.CreatedJob
	err := json.Unmarshal([]byte(text), &made)
	if w.n == 1 {
		err = json.Unmarshal([]byte(text), &one)
		made.Jobs = []client.CreatedJob{one}
	}
	if err != nil || len(made.Jobs) != w.n || made.Jobs[0].JobID == "" {
		c.jobs.say("I1: an answer names %d jobs, want %d: %v", len(made.Jobs), w.n, err)
		return
	}
	l := c.jobs
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, j := range made.Jobs {
		if was, twice := l.kept[j.JobID]; twice {
			l.wrong = append(l.wrong, fmt.Sprintf("I1: job %s is the answer to %s and to %s", j.JobID, was.tag, w.tag))
		}
		l.kept[j.JobID] = &promised{tag: fmt.Sprintf("%s/%d", w.tag, i), tenant: w.tenant, first: first, told: c.now(), later: w.later}
		if i == 0 && j.ExecutionID != "" {
			l.recent = append(l.recent, ref{j.ExecutionID, w.tenant})
			if len(l.recent) > 60 {
				l.recent = slices.Clone(l.recent[20:])
			}
		}
	}
}

// meddle looks at executions, cancels some, and pauses and resumes jobs and queues, until told to stop.
func (c *crowd) meddle(stop <-chan struct{}) {
	r := rand.New(rand.NewPCG(c.seed, 3))
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := 1; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		c.jobs.mu.Lock()
		var x ref
		if k := len(c.jobs.recent); k > 0 {
			x = c.jobs.recent[r.IntN(k)]
		}
		c.jobs.mu.Unlock()
		switch {
		case n%100 == 50 && len(c.others) > 0:
			j, d := c.others[r.IntN(len(c.others))], time.Duration(1000+r.IntN(4000))*time.Millisecond
			wg.Go(func() { c.pauseJob(j, d, stop) })
		case n%150 == 75:
			tenant, d := r.IntN(len(c.tenants)), time.Duration(2000+r.IntN(18000))*time.Millisecond
			wg.Go(func() { c.pauseQueue(tenant, d, stop) })
		case x.id == "":
		case n%5 == 0:
			wg.Go(func() { c.cancel(x) })
		default:
			wg.Go(func() { c.look(x) })
		}
	}
}

// look notes how an execution stands.
func (c *crowd) look(x ref) {
	e := judge.Event{At: c.now(), Proc: "user", Kind: judge.Invoke, Op: judge.Look, Call: c.rec.Call(), Execution: x.id}
	code, text, err := c.ask(x.tenant, "GET", "/api/v1/executions/"+x.id, "")
	var got client.Execution
	if err != nil || code != 200 || json.Unmarshal([]byte(text), &got) != nil {
		if err == nil && code == 404 {
			c.jobs.say("I2: execution %s was acknowledged and is not there: %s", x.id, text)
		}
		return
	}
	c.trails.add(e)
	e.At, e.Kind, e.Result = c.now(), judge.OK, got.Status
	c.trails.add(e)
}

// cancel asks an execution to stop, once.
func (c *crowd) cancel(x ref) {
	c.jobs.mu.Lock()
	c.jobs.cancels[x.id] = true
	c.jobs.mu.Unlock()
	e := judge.Event{At: c.now(), Proc: "user", Kind: judge.Invoke, Op: judge.Cancel, Call: c.rec.Call(), Execution: x.id}
	c.trails.add(e)
	began := e.At
	code, text, err := c.ask(x.tenant, "POST", "/api/v1/executions/"+x.id+"/cancel", `{"reason": "for the test"}`)
	var got client.Execution
	e.At, e.Kind = c.now(), judge.Unknown
	switch {
	case err == nil && code == 202 && json.Unmarshal([]byte(text), &got) == nil:
		e.Kind = judge.OK
		seen := e // the answer shows how it stood a moment later
		seen.Op, seen.Kind, seen.At = judge.Look, judge.Invoke, began
		c.trails.add(seen)
		seen.Kind, seen.At, seen.Result = judge.OK, e.At, got.Status
		c.trails.add(seen)
	case err == nil && code == 409:
		e.Kind = judge.Fail
	case err == nil && code < 500 && code != 429:
		c.jobs.say("a cancel of %s: %d %s", x.id, code, text)
	}
	c.trails.add(e)
}

// pauseJob pauses a recurring job for a while.
func (c *crowd) pauseJob(j *recurring, d time.Duration, stop <-chan struct{}) {
	if err := c.insist(nil, 200, j.tenant, "POST", "/api/v1/jobs/"+j.id+"/pause", `{}`); err != nil {
		return // another pause is on its way
	}
	select {
	case <-stop:
	case <-time.After(d):
	}
	if err := c.insist(nil, 200, j.tenant, "POST", "/api/v1/jobs/"+j.id+"/resume", ``); err != nil && !strings.Contains(err.Error(), ": 409") {
		c.jobs.say("a resume: %v", err)
	}
}

// pauseQueue pauses the narrow queue of a tenant for a while, unless somebody does already.
func (c *crowd) pauseQueue(tenant int, d time.Duration, stop <-chan struct{}) {
	c.jobs.mu.Lock()
	busy := c.jobs.pausing[tenant]
	c.jobs.pausing[tenant] = true
	c.jobs.mu.Unlock()
	if busy {
		return
	}
	defer func() {
		c.jobs.mu.Lock()
		defer c.jobs.mu.Unlock()
		delete(c.jobs.pausing, tenant)
	}()
	if err := c.insist(nil, 200, tenant, "POST", "/api/v1/queues/narrow/pause", `{}`); err != nil {
		c.jobs.say("a pause: %v", err)
		return
	}
	p := pause{tenant: tenant, from: c.now()}
	select {
	case <-stop:
	case <-time.After(d):
	}
	p.to = c.now()
	if err := c.insist(nil, 200, tenant, "POST", "/api/v1/queues/narrow/resume", ``); err != nil {
		c.jobs.say("a resume: %v", err)
		return
	}
	c.jobs.mu.Lock()
	defer c.jobs.mu.Unlock()
	c.jobs.pauses = append(c.jobs.pauses, p)
}
