package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/test/harness"
	"github.com/carillon-jobs/carillon/worker"
)

// vector is a line of the contract's tests: a graph, how its nodes end, what people do to the run, and where it must stand then.
type vector struct {
	ID        string
	What      string
	OnFailure string `json:"on_failure"`
	Input     json.RawMessage
	Nodes     map[string]struct {
		After       []string
		Trigger     string
		If          string
		OnFailure   string `json:"on_failure"`
		Map         json.RawMessage
		MaxParallel int `json:"max_parallel"`
		Tolerate    json.RawMessage
		Finally     bool
	}
	Outcomes map[string]json.RawMessage
	Order    []string
	Until    []string
	Ops      []struct {
		Op       string
		Nodes    []string
		Outcomes map[string]json.RawMessage
	}
	Expect struct {
		Run     string
		Nodes   map[string]string
		Results map[string]json.RawMessage
		Items   map[string]string
	}
}

func vectors(t *testing.T) (out []vector) {
	f, err := os.Open("../../internal/core/workflow/testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var v vector
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if len(out) < 29 {
		t.Fatalf("%d vectors", len(out))
	}
	return out
}

// timesOut is the timeout of runs whose vector has one.
const timesOut = 3 * time.Second

func (v vector) request() client.WorkflowRequest {
	r := client.WorkflowRequest{Name: v.ID, OnFailure: v.OnFailure}
	for _, key := range slices.Sorted(maps.Keys(v.Nodes)) {
		n := v.Nodes[key]
		never := 0
		r.Nodes = append(r.Nodes, client.WorkflowNode{
			Key: key, DependsOn: n.After, Trigger: n.Trigger, If: n.If, OnFailure: n.OnFailure, Finally: n.Finally, Map: n.Map, MaxParallel: n.MaxParallel, Tolerate: n.Tolerate,
			Execution: &client.Target{Target: "worker", Kind: "vector"}, RetryPolicy: &client.RetryPolicy{MaxRetries: &never},
		})
		if string(v.Outcomes[key]) == `"T"` {
			second := int64(1)
			r.Nodes[len(r.Nodes)-1].Execution.TimeoutSeconds = &second
		}
	}
	for key := range v.Expect.Results { // of one node at most
		r.Output = "nodes." + key + ".result"
	}
	for _, op := range v.Ops {
		if op.Op == "run_timeout" {
			r.Timeout = timesOut.String()
		}
	}
	return r
}

// script says how the executions of a vector's run end. The worker follows it.
type script struct {
	turn map[string]chan struct{} // closed when a node or an item may end
	free chan struct{}            // closed when all may end

	mu       sync.Mutex
	outcomes map[string]json.RawMessage // guarded by mu
	ran      map[string]int             // guarded by mu: how often each node or item ran
}

func newScript(v vector) *script {
	s := &script{turn: map[string]chan struct{}{}, free: make(chan struct{}), outcomes: v.Outcomes, ran: map[string]int{}}
	for _, key := range v.Order {
		s.turn[key] = make(chan struct{})
	}
	if len(v.Order) == 0 && v.Until == nil {
		close(s.free)
	}
	return s
}

// play ends an attempt as the vector says, once it may end.
func (s *script) play(ctx context.Context, name string) (any, error) {
	s.mu.Lock()
	s.ran[name]++
	s.mu.Unlock()
	select {
	case <-s.free:
	case <-s.turn[name]: // of a node without a turn: never
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var letter string
	_ = json.Unmarshal(s.outcomes[name], &letter) // it may have none
	switch letter {
	case "F":
		return nil, errors.New("as the vector says")
	case "T":
		<-ctx.Done()
		return nil, ctx.Err()
	case "K":
		return nil, worker.Skip("as the vector says")
	}
	if result := s.outcomes[name+".result"]; result != nil {
		return result, nil
	}
	if _, item, mapped := strings.Cut(strings.TrimSuffix(name, "]"), "["); mapped {
		return json.RawMessage(item), nil
	}
	return nil, nil
}

// scripted returns the handler of all vectors. The name of an inline node's job is that of its workflow, a slash and its key.
func scripted(scripts map[string]*script) worker.Handler {
	return func(ctx context.Context, a client.Attempt) (any, error) {
		id, name, _ := strings.Cut(a.JobName, "/")
		n, err := worker.NodeOf(ctx)
		if err != nil {
			return nil, err
		}
		if n.Node != name {
			return nil, worker.Never(fmt.Errorf("%s is run as the node %s", a.JobName, n.Node))
		}
		if n.Index != nil {
			name = fmt.Sprintf("%s[%d]", name, *n.Index)
		}
		return scripts[id].play(ctx, name)
	}
}

// TestVectors plays the contract's vectors as users do: requests to a server's process create the workflows, trigger them and act on
// their runs, and a worker of this process runs the nodes. What the API says of the runs must be what the vectors say.
func TestVectors(t *testing.T) {
	t.Parallel()
	harness.Stores(t, func(t *testing.T, where string) {
		p := harness.Serve(t, where, "--roles", "api,scheduler")
		scripts := map[string]*script{}
		for _, v := range vectors(t) {
			scripts[v.ID] = newScript(v)
		}
		w := worker.Dial([]string{p.Base}, harness.Key, worker.Options{Slots: 200, Logger: slog.New(slog.DiscardHandler)})
		w.Register("vector", scripted(scripts))
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.Run(ctx) }) // what it cannot do, the runs show
		t.Cleanup(func() { stop(); wg.Wait() })
		for _, v := range vectors(t) {
			t.Run(v.ID, func(t *testing.T) {
				t.Parallel()
				r := performance{t, client.New([]string{p.Base}, harness.Key), v, scripts[v.ID], "", client.WorkflowRun{}}
				r.perform()
				r.judge()
			})
		}
	})
}

// performance is a vector as it is played.
type performance struct {
	*testing.T
	api    *client.Client
	vector vector
	script *script
	id     string
	run    client.WorkflowRun // as it was read last
}

func (r *performance) perform() {
	w, err := r.api.CreateWorkflow(r.Context(), r.vector.request())
	if err != nil {
		r.Fatal(err)
	}
	r.sameTriggers(w)
	run, err := r.api.TriggerWorkflow(r.Context(), w.WorkflowID, client.WorkflowTrigger{Input: r.vector.Input})
	if err != nil {
		r.Fatal(err)
	}
	r.id = run.WorkflowRunID
	for _, key := range r.vector.Order {
		close(r.script.turn[key])
		r.until(key+" to end", func() bool { return final(r.statusOf(key)) })
	}
	for _, key := range r.vector.Until {
		r.until(key+" to run", func() bool { return r.statusOf(key) == "RUNNING" })
	}
	if r.vector.Until == nil {
		r.release()
		r.until("the run to end", func() bool { return r.run.FinishedAt != nil })
	}
	for _, op := range r.vector.Ops {
		if op.Outcomes != nil {
			r.script.mu.Lock()
			r.script.outcomes = op.Outcomes
			r.script.mu.Unlock()
		}
		r.act(op.Op, op.Nodes)
	}
}

// release lets all that has no turn of its own end.
func (r *performance) release() {
	select {
	case <-r.script.free:
	default:
		close(r.script.free)
	}
}

// act does what a person does, waits until the run stands still, and lets everything end.
func (r *performance) act(op string, nodes []string) {
	r.Helper()
	var err error
	switch op {
	case "pause":
		_, err = r.api.PauseWorkflowRun(r.Context(), r.id, client.WorkflowRunPause{})
	case "cancel":
		_, err = r.api.CancelWorkflowRun(r.Context(), r.id, client.WorkflowRunCancel{})
	case "retry":
		_, err = r.api.RetryWorkflowRun(r.Context(), r.id, client.WorkflowRunRetry{Nodes: nodes})
	case "skip":
		_, err = r.api.SkipWorkflowNode(r.Context(), r.id, nodes[0], client.WorkflowNodeSkip{})
	case "run_timeout":
		r.until("the time of the run to be up", func() bool { return r.run.Status != "RUNNING" })
	default:
		r.Fatalf("what is %q?", op)
	}
	if err != nil {
		r.Fatalf("%s: %v", op, err)
	}
	if op == "pause" {
		r.release()
		return
	}
	if r.vector.Until != nil { // what runs was asked to stop, and does when it hears of it
		for _, key := range r.vector.Until {
			r.until(key+" to stop", func() bool { return final(r.statusOf(key)) })
		}
		r.release()
	}
	r.until("the run to end", func() bool { return r.run.FinishedAt != nil })
}

func final(status string) bool {
	return slices.Contains([]string{"SUCCEEDED", "FAILED", "TIMED_OUT", "EXPIRED", "CANCELLED", "SKIPPED", "NOT_RUN"}, status)
}

// until reads the run until a condition holds for it.
func (r *performance) until(what string, ok func() bool) {
	r.Helper()
	if !harness.Within(30*time.Second, func() bool { r.read(); return ok() }) {
		r.Fatalf("%s: waited in vain for %s: %s", r.vector.What, what, r.shown())
	}
}

func (r *performance) read() {
	r.Helper()
	var err error
	if r.run, err = r.api.WorkflowRun(r.Context(), r.id); err != nil {
		r.Fatal(err)
	}
}

func (r *performance) shown() string {
	doc, err := json.MarshalIndent(r.run, "", "  ")
	if err != nil {
		r.Fatal(err)
	}
	return string(doc)
}

// statusOf is the status of a node, or of an item such as m[2].
func (r *performance) statusOf(name string) string {
	r.Helper()
	key, item, mapped := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	if mapped {
		for _, it := range r.items(key) {
			if fmt.Sprint(it.Index) == item {
				return it.Status
			}
		}
		return ""
	}
	return r.node(key).Status
}

func (r *performance) node(key string) client.WorkflowRunNode {
	for _, n := range r.run.Nodes {
		if n.Key == key {
			return n
		}
	}
	return client.WorkflowRunNode{}
}

func (r *performance) items(key string) []client.WorkflowRunItem {
	r.Helper()
	got, err := r.api.ListWorkflowRunItems(r.Context(), r.id, key, nil, client.Page{})
	if err != nil {
		r.Fatal(err)
	}
	return got.Items
}

// sameTriggers checks that a workflow is as it was asked for.
func (r *performance) sameTriggers(w client.Workflow) {
	r.Helper()
	if len(w.Nodes) != len(r.vector.Nodes) || w.OnFailure != r.vector.OnFailure {
		r.Errorf("%d nodes, on_failure %q", len(w.Nodes), w.OnFailure)
	}
	for _, got := range w.Nodes {
		want := r.vector.Nodes[got.Key]
		if got.Trigger != want.Trigger || got.If != want.If || got.Finally != want.Finally || got.OnFailure != want.OnFailure || !slices.Equal(got.DependsOn, want.After) && len(want.After) > 0 {
			r.Errorf("the node is stored as %+v", got)
		}
	}
}

// judge compares the run with what the vector expects.
func (r *performance) judge() {
	v := r.vector
	stands := func() bool {
		return r.run.Status == v.Expect.Run && !slices.ContainsFunc(slices.Collect(maps.Keys(v.Expect.Nodes)), func(key string) bool { return r.node(key).Status != v.Expect.Nodes[key] })
	}
	if v.Expect.Run == "PAUSED" { // it has no end that could be waited for
		r.until("it to stand as it must", stands)
	}
	if r.read(); !stands() {
		r.Errorf("%s: want %+v, got %s", v.What, v.Expect, r.shown())
	}
	for key, want := range v.Expect.Items {
		got := ""
		for _, it := range r.items(key) {
			got += it.Status[:1]
		}
		if got != want {
			r.Errorf("%s: the items of %s are %s; want %s", v.What, key, got, want)
		}
	}
	for key, want := range v.Expect.Results {
		if string(r.run.Output) != string(want) {
			r.Errorf("%s: the result of %s is %s; want %s", v.What, key, r.run.Output, want)
		}
	}
	r.ranRightly()
}

// ranRightly checks that what the run says that ran has run, and nothing else: each once, or once in each attempt that had to run it.
func (r *performance) ranRightly() {
	r.script.mu.Lock()
	defer r.script.mu.Unlock()
	for name, n := range r.script.ran {
		if n > r.run.Attempt {
			r.Errorf("%s: %s ran %d times in %d attempts", r.vector.What, name, n, r.run.Attempt)
		}
	}
	for _, n := range r.run.Nodes {
		switch {
		case n.Status == "SUCCEEDED" && n.Map == nil && r.script.ran[n.Key] == 0:
			r.Errorf("%s: %s SUCCEEDED and never ran", r.vector.What, n.Key)
		case (n.Status == "NOT_RUN" || n.Status == "WAITING" || n.Status == "SKIPPED" && n.ExecutionID == nil) && r.script.ran[n.Key] > 0:
			r.Errorf("%s: %s is %s and ran", r.vector.What, n.Key, n.Status)
		}
	}
	for _, op := range r.vector.Ops {
		for name, n := range r.script.ran {
			var letter string
			_ = json.Unmarshal(r.vector.Outcomes[name], &letter)
			if op.Op == "retry" && op.Nodes == nil && letter != "F" && n > 1 {
				r.Errorf("%s: %s was good and ran %d times", r.vector.What, name, n)
			}
		}
	}
}
