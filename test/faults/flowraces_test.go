//go:build unix

package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
)

// answered is the answer to an act on a run.
type answered struct {
	act, who string
	code     int
	body     string
}

// race is one round: a run, and the answers to those who acted on it at once.
type race struct {
	*flowRaces
	name    string
	rng     *rand.Rand
	run     string
	mu      sync.Mutex
	answers []answered // guarded by mu
}

// flowRaces has people act on runs at the moment when something else decides about them.
type flowRaces struct {
	*installation
	people map[string]string // their keys
	end    sync.Map          // what the target answers with, by round and attempt: func() int
}

const raceSeed = 21

// Runs on which several act at once, each round by its seed: one wins, the others are told so, and the history agrees (row 45).
func TestRunsThatSeveralActOn(t *testing.T) {
	stores(t, func(t *testing.T, where string) {
		rounds := 16
		if all {
			rounds = 200
		}
		in := install(t, where, "api,scheduler")
		in.bulk = true
		s := in.serve("", "CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=10") // no lease is to be lost
		in.work("")
		x := &flowRaces{installation: in, people: map[string]string{}}
		for _, name := range []string{"ann", "ben", "cyd"} {
			x.people[name] = *harness.Want[client.APIKey](s, 201, "POST", "/api/v1/api-keys", fmt.Sprintf(`{"name": %q, "role": "operator"}`, name)).Key
		}
		in.target.Answer(x.answer)
		call := fmt.Sprintf(`"execution": {"callback_url": %q, "payload": {"round": "{{ run.input }}", "attempt": "{{ run.attempt }}"}}, "retry_policy": {"max_retries": 0}`, in.target.URL)
		for key, nodes := range map[string]string{
			"approval": `{"key": "ok", "wait": {"approval": {}}, "timeout": "1s"}`,
			"retry":    `{"key": "x", ` + call + `}`,
			"last":     `{"key": "first", "execution": {"target": "simulate", "work_kind": "noop"}}, {"key": "x", "depends_on": ["first"], ` + call + `}`,
		} {
			harness.Want[client.Workflow](s, 201, "POST", "/api/v1/workflows", fmt.Sprintf(`{"key": %q, "name": %q, "nodes": [%s]}`, key, key, nodes))
		}
		var wg sync.WaitGroup
		slots := make(chan struct{}, 8)
		for i := range rounds {
			for key, round := range map[string]func(*race) error{"approval": (*race).approval, "retry": (*race).retry, "last": (*race).last} {
				wg.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					r := &race{flowRaces: x, name: fmt.Sprint(key, i), rng: rand.New(rand.NewPCG(raceSeed, uint64(i)))}
					if err := round(r); err != nil {
						t.Errorf("%s, run %s: %v; answers: %+v", r.name, r.run, err, r.answers)
					}
				})
			}
		}
		wg.Wait()
	})
}

// answer lets a run's test say how the call of a node ends.
func (x *flowRaces) answer(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Execution-ID")
	for _, a := range x.target.Seen() {
		if a.Execution != id {
			continue
		}
		var of struct {
			Round   string
			Attempt int
		}
		if json.Unmarshal([]byte(a.Body), &of) != nil {
			break
		}
		if end, ok := x.end.Load(of.Round + fmt.Sprint("/", of.Attempt)); ok {
			w.WriteHeader(end.(func() int)())
			return
		}
		break
	}
	w.WriteHeader(500)
}

// does sends an act, in the name of a person.
func (r *race) does(who, act string) answered {
	c := harness.Client{T: r.T, Base: r.base(), Key: r.people[who]}
	got, err := c.Do("POST", "/api/v1/workflow-runs/"+r.run+act, `{}`)
	out := answered{act, who, got.Code, got.Body}
	if err != nil {
		out.body = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, out)
	return out
}

// atOnce has people act, each after a moment of the seed.
func (r *race) atOnce(within time.Duration, acts map[string]string) {
	var wg sync.WaitGroup
	for _, who := range []string{"ann", "ben", "cyd"} {
		if after := time.Duration(r.rng.Int64N(int64(within) + 1)); acts[who] != "" {
			wg.Go(func() { <-time.After(after); r.does(who, acts[who]) })
		}
	}
	wg.Wait()
}

// accepted are the answers to acts of a name that say that the act was done. Every other answer must be a refusal.
func (r *race) accepted(act string) (out []answered, err error) {
	for _, a := range r.answers {
		switch {
		case a.code != 200 && a.code != 409:
			err = errors.Join(err, fmt.Errorf("%s of %s: %d %s", a.act, a.who, a.code, a.body))
		case a.code == 200 && strings.HasSuffix(a.act, act):
			out = append(out, a)
		}
	}
	return out, err
}

// until reads the run until something holds for it.
func (r *race) until(what string, ok func(client.WorkflowRun) bool) (run client.WorkflowRun, err error) {
	if !harness.Within(40*time.Second, func() bool {
		code, text, err := harness.At(r.T, r.base()).Ask("GET", "/api/v1/workflow-runs/"+r.run, "")
		return err == nil && code == 200 && json.Unmarshal([]byte(text), &run) == nil && ok(run)
	}) {
		err = fmt.Errorf("waited in vain for %s: %+v", what, run)
	}
	return run, err
}

func over(run client.WorkflowRun) bool { return run.FinishedAt != nil }

func (r *race) begin(workflow string) error {
	code, text, err := harness.At(r.T, r.base()).Ask("POST", "/api/v1/workflows/key:"+workflow+"/trigger", fmt.Sprintf(`{"input": %q}`, r.name))
	var got client.WorkflowTriggered
	if err != nil || code != 202 || json.Unmarshal([]byte(text), &got) != nil {
		return fmt.Errorf("trigger: %d %s %w", code, text, err)
	}
	r.run = got.WorkflowRunID
	return nil
}

// approval: two people decide about the time when the timeout does. One decision counts.
func (r *race) approval() error {
	if err := r.begin("approval"); err != nil {
		return err
	}
	run, err := r.until("the approval", func(run client.WorkflowRun) bool {
		return len(run.Nodes) == 1 && run.Nodes[0].Wait != nil && run.Nodes[0].Wait.Until != nil
	})
	if err != nil {
		return err
	}
	<-time.After(time.Until(*run.Nodes[0].Wait.Until) - time.Duration(r.rng.IntN(60))*time.Millisecond)
	r.atOnce(60*time.Millisecond, map[string]string{"ann": "/nodes/ok/approve", "ben": "/nodes/ok/reject", "cyd": "/nodes/ok/approve"})
	if run, err = r.until("the end", over); err != nil {
		return err
	}
	yes, err := r.accepted("approve")
	no, _ := r.accepted("reject")
	won := slices.Concat(yes, no)
	node := run.Nodes[0]
	want := "TIMED_OUT"
	switch {
	case len(won) > 1:
		return errors.Join(err, fmt.Errorf("%d decisions were accepted", len(won)))
	case len(yes) == 1:
		want = "SUCCEEDED"
	case len(no) == 1:
		want = "FAILED"
	}
	if node.Status != want {
		err = errors.Join(err, fmt.Errorf("the node is %s (%s), want %s", node.Status, node.Reason, want))
	}
	for _, a := range r.answers {
		switch {
		case a.code != 409:
		case len(won) == 0 && !strings.Contains(a.body, "TIMED_OUT"):
			err = errors.Join(err, fmt.Errorf("%s is not told that the time was over", a.who))
		case len(won) == 1 && (!strings.Contains(a.body, won[0].who) || !strings.Contains(a.body, fmt.Sprint(time.Now().UTC().Year(), "-"))):
			err = errors.Join(err, fmt.Errorf("%s is not told who decided and when", a.who))
		}
	}
	return errors.Join(err, r.audited(won))
}

// retry: a failed run is retried twice and cancelled at once. Each retry that was accepted is an attempt, and no attempt began beside
// another.
func (r *race) retry() error {
	pause := time.Duration(r.rng.IntN(20)) * time.Millisecond
	for _, attempt := range []string{"/2", "/3"} {
		r.end.Store(r.name+attempt, func() int { <-time.After(pause); return 200 })
	}
	if err := r.begin("retry"); err != nil {
		return err
	}
	if _, err := r.until("the first attempt to fail", over); err != nil {
		return err
	}
	r.atOnce(40*time.Millisecond, map[string]string{"ann": "/retry", "ben": "/cancel", "cyd": "/retry"})
	retried, err := r.accepted("retry")
	cancelled, _ := r.accepted("cancel")
	won := slices.Concat(retried, cancelled)
	run, late := r.until("the end", over)
	if late != nil {
		return late
	}
	if run.Attempt != 1+len(retried) || len(retried) == 0 {
		err = errors.Join(err, fmt.Errorf("attempt %d after %d retries", run.Attempt, len(retried)))
	}
	switch {
	case len(cancelled) == 0 && run.Status != "SUCCEEDED",
		len(retried) == 1 && len(cancelled) == 1 && run.Status != "CANCELLED",
		run.Status != "SUCCEEDED" && run.Status != "CANCELLED":
		err = errors.Join(err, fmt.Errorf("the run is %s", run.Status))
	case len(retried) == 2 && run.Status == "SUCCEEDED" && run.Nodes[0].Status != "SUCCEEDED":
		err = errors.Join(err, fmt.Errorf("the run is SUCCEEDED and its node %s", run.Nodes[0].Status))
	}
	calls := map[string]int{}
	for _, a := range r.target.Seen() {
		if strings.Contains(a.Body, `"`+r.name+`"`) {
			calls[a.Execution]++
		}
	}
	for e, n := range calls {
		if n > 1 {
			err = errors.Join(err, fmt.Errorf("execution %s called %d times", e, n))
		}
	}
	if len(calls) > run.Attempt {
		err = errors.Join(err, fmt.Errorf("%d executions in %d attempts", len(calls), run.Attempt))
	}
	return errors.Join(err, r.audited(won))
}

// last: a run is cancelled while its last node reports. It is CANCELLED exactly if the cancel was accepted.
func (r *race) last() error {
	called := make(chan struct{})
	pause := time.Duration(r.rng.IntN(25)) * time.Millisecond
	r.end.Store(r.name+"/1", func() int { close(called); <-time.After(pause); return 200 })
	if err := r.begin("last"); err != nil {
		return err
	}
	select {
	case <-called:
	case <-time.After(harness.Hang):
		return errors.New("the last node does not run")
	}
	r.atOnce(40*time.Millisecond, map[string]string{"ann": "/cancel"})
	run, err := r.until("the end", over)
	if err != nil {
		return err
	}
	won, err := r.accepted("cancel")
	node := run.Nodes[1].Status
	switch {
	case len(won) == 0 && (run.Status != "SUCCEEDED" || node != "SUCCEEDED"), len(won) == 1 && (run.Status != "CANCELLED" || node != "CANCELLED" && node != "SUCCEEDED"):
		err = errors.Join(err, fmt.Errorf("the run is %s, its last node %s", run.Status, node))
	}
	return errors.Join(err, r.audited(won))
}

// audited compares what was accepted with the audit log.
func (r *race) audited(won []answered) error {
	code, text, err := harness.At(r.T, r.base()).Ask("GET", "/api/v1/audit?limit=100&action=workflow_run.&object="+r.run, "")
	var log client.AuditEntries
	if err != nil || code != 200 || json.Unmarshal([]byte(text), &log) != nil {
		return fmt.Errorf("the audit log: %d %s %w", code, text, err)
	}
	var told, kept []string
	for _, a := range won {
		told = append(told, a.who+" "+a.act[strings.LastIndex(a.act, "/")+1:])
	}
	for _, e := range log.Audit {
		kept = append(kept, e.Principal+" "+strings.TrimPrefix(e.Action, "workflow_run."))
	}
	slices.Sort(told)
	slices.Sort(kept)
	if !slices.Equal(told, kept) {
		return fmt.Errorf("the audit log has %v, and accepted were %v", kept, told)
	}
	return nil
}
