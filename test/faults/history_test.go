//go:build unix

package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// creation is a request to create a job, with all that was heard of it.
type creation struct {
	key     string
	unknown int    // times it was sent without an answer that tells
	refused int    // times it was refused with 503
	job     string // of the first answer that did tell
}

// clients create jobs and send each request again, under its key, until they are told its outcome.
type clients struct {
	t    *testing.T
	base func() string
	mu   sync.Mutex
	made []*creation // guarded by mu
	wg   sync.WaitGroup
}

// create begins to create a job of the body.
func (c *clients) create(body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := &creation{key: fmt.Sprintf("%s-%d", c.t.Name(), len(c.made))}
	c.made = append(c.made, x)
	c.wg.Go(func() { c.persist(x, body) })
}

// createMany begins to create jobs of the body by one call.
func (c *clients) createMany(body string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := &creation{key: fmt.Sprintf("%s-%d", c.t.Name(), len(c.made))}
	all := []*creation{first}
	for i := range n - 1 {
		all = append(all, &creation{key: fmt.Sprintf("%s/%d", first.key, i+1)})
	}
	c.made = append(c.made, all...)
	c.wg.Go(func() {
		c.send("/api/v1/jobs:batch", first, "["+strings.Repeat(body+",", n-1)+body+"]", func(answer string) error {
			var made client.CreatedJobs
			if err := json.Unmarshal([]byte(answer), &made); err != nil {
				return err
			}
			if len(made.Jobs) != n {
				return fmt.Errorf("%d jobs", len(made.Jobs))
			}
			for i := range all {
				all[i].job = made.Jobs[i].JobID
			}
			return nil
		})
	})
}

// patience sets how long a client keeps trying; whatever fails is over by then.
const patience = harness.Slack * 60 * time.Second

func (c *clients) persist(x *creation, body string) {
	c.send("/api/v1/jobs", x, body, func(answer string) error {
		var j client.Job
		err := json.Unmarshal([]byte(answer), &j)
		if x.job = j.JobID; err == nil && j.JobID == "" {
			err = errors.New("it has no id")
		}
		return err
	})
}

// send sends a request until it is answered with what created reads.
func (c *clients) send(path string, x *creation, body string, created func(answer string) error) {
	late := time.After(patience)
	for {
		answer, err := harness.At(c.t, c.base()).Do("POST", path, body, "X-Idempotency-Key", x.key)
		code := answer.Code
		c.mu.Lock()
		switch {
		case err == nil && code == 201:
			if err := created(answer.Body); err != nil {
				c.t.Errorf("create: 201 with %s: %v", answer.Body, err)
			}
			c.mu.Unlock()
			return
		case err == nil && code == 503:
			x.refused++
			if answer.Header.Get("Retry-After") == "" {
				c.t.Error("a 503 without Retry-After")
			}
		case err == nil && code < 500:
			c.t.Errorf("create: %d %s", code, answer.Body)
			c.mu.Unlock()
			return
		default:
			x.unknown++
		}
		c.mu.Unlock()
		select {
		case <-late:
			c.t.Errorf("create %s: no answer that tells within %v; the last: %d %s %v", x.key, patience, code, answer.Body, err)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// told waits until every request was answered.
func (c *clients) told() []*creation {
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

// ended is an execution as it stands in the end.
type ended struct {
	id, job, status string
	past            []client.ExecutionAttempt
}

// history is all that is known of a run.
type history struct {
	creations []*creation
	arrivals  []harness.Arrival
	jobs      []string
	ended     []ended
	// stale: a process was stopped between its last look at the clock and the call, which nothing but the
	// target can tell from a call in time. Then calls under older tokens may come late.
	stale bool
	// drained: a worker gave up what it ran when told to stop; that is handed back uncharged.
	drained bool
	// behind: the store has forgotten what came last, so that calls may have come of what it does not know.
	behind bool
}

// check says what is wrong with a history, by the invariants of docs/operations/faults.md.
func check(h history) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	jobs := map[string]int{}
	for _, id := range h.jobs {
		jobs[id]++
	}
	for _, c := range h.creations {
		switch n := jobs[c.job]; {
		case c.job == "":
			say("I1: nobody knows what became of %s", c.key)
		case n == 0:
			say("I1: job %s was accepted (%s) and is gone", c.job, c.key)
		case n > 1:
			say("I1: job %s is there %d times", c.job, n)
		}
		delete(jobs, c.job)
	}
	for id := range jobs {
		say("I1: job %s is there, and no request was answered with it", id)
	}
	runs := map[string]int{}
	known := map[string]ended{}
	for _, e := range h.ended {
		runs[e.job]++
		if _, twice := known[e.id]; twice {
			say("I3: execution %s is there twice", e.id)
		}
		known[e.id] = e
		if e.status != "SUCCEEDED" {
			say("I12: execution %s is %s", e.id, e.status)
		}
	}
	for _, id := range h.jobs {
		switch n := runs[id]; {
		case n == 0:
			say("I2: job %s has no execution", id)
		case n > 1:
			say("I3: job %s was fired %d times", id, n)
		}
	}
	calls := map[string][]harness.Arrival{}
	for _, a := range h.arrivals {
		calls[a.Execution] = append(calls[a.Execution], a)
		if _, ok := known[a.Execution]; !ok && !h.behind {
			say("I2: the target saw execution %s, which is not there", a.Execution)
		}
	}
	for id, e := range known {
		for _, w := range checkCalls(e, calls[id], h) {
			say("%s (execution %s, calls %s)", w, id, show(calls[id]))
		}
	}
	return wrong
}

// checkCalls looks at what the target saw of one execution.
func checkCalls(e ended, calls []harness.Arrival, h history) (wrong []string) {
	if len(calls) == 0 {
		return []string{"I2: it never arrived"}
	}
	excused := map[int64]bool{}
	var last int64
	for _, p := range e.past {
		if p.FencingToken <= last {
			wrong = append(wrong, fmt.Sprintf("I5: the attempt under token %d came after that under %d", p.FencingToken, last))
		}
		last = p.FencingToken
		excused[last] = p.Status != "SUCCEEDED"
	}
	seen := map[int64]bool{}
	winner := int64(0)
	unexcused := 0
	for i, a := range calls {
		if seen[a.Token] {
			wrong = append(wrong, fmt.Sprintf("I7: token %d arrived twice", a.Token))
		}
		seen[a.Token] = true
		if a.Key != calls[0].Key || a.Key == "" {
			wrong = append(wrong, fmt.Sprintf("I7: the keys differ: %q and %q", calls[0].Key, a.Key))
		}
		if i > 0 && a.Token < calls[i-1].Token && !h.stale {
			wrong = append(wrong, fmt.Sprintf("I5: token %d arrived after %d", a.Token, calls[i-1].Token))
		}
		if !excused[a.Token] {
			unexcused++
			winner = max(winner, a.Token)
		}
	}
	switch {
	case unexcused == 0:
		wrong = append(wrong, "I4: it succeeded, and every attempt that arrived is recorded as failed or lost")
	case unexcused > 1 && !h.drained && !h.behind:
		wrong = append(wrong, fmt.Sprintf("I7: %d arrivals have no recorded reason", unexcused))
	case winner < last:
		wrong = append(wrong, fmt.Sprintf("I4: token %d won although %d was given later", winner, last))
	}
	return wrong
}

func show(calls []harness.Arrival) (s string) {
	for _, a := range calls {
		s += fmt.Sprintf("[%d: token %d]", a.Attempt, a.Token)
	}
	return s
}
