package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// runs tracks the outcomes of workflow runs, and when their nodes began.
type runs struct {
	watching atomic.Bool
	stars    atomic.Int64 // numbers workflows that are measured once

	mu    sync.Mutex
	ended map[job.ExecutionID]time.Time // guarded by mu
	want  []ranNodes                    // guarded by mu
	names map[string]bool               // guarded by mu: of the watched jobs
	began []beginning                   // guarded by mu
	news  chan struct{}                 // a run has ended
}

// ranNodes is a run and how many executions its nodes have.
type ranNodes struct {
	run   job.ExecutionID
	nodes int
}

// beginning is when the handler of a watched job began.
type beginning struct {
	name string
	at   time.Time
}

func newRuns() *runs {
	return &runs{ended: map[job.ExecutionID]time.Time{}, news: make(chan struct{}, 1)}
}

// settled records that the executions of runs have ended.
func (r *runs) settled(ls []job.Lease) {
	at := time.Now()
	r.mu.Lock()
	for _, l := range ls {
		r.ended[l.Execution] = at
	}
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// watch begins to record when the handlers of jobs begin, and drops earlier records.
func (r *runs) watch(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching.Store(true)
	r.names, r.began = map[string]bool{}, nil
	for _, n := range names {
		r.names[n] = true
	}
}

func (r *runs) begin(name string, at time.Time) {
	if !r.watching.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] {
		r.began = append(r.began, beginning{name, at})
	}
}

// seen returns what was recorded since watch.
func (r *runs) seen() []beginning {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]beginning(nil), r.began...)
}

// owe records that a run was begun whose nodes have n executions.
func (r *runs) owe(id job.ExecutionID, nodes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = append(r.want, ranNodes{id, nodes})
}

// left returns how many of the begun runs have not ended, and when the last one that did ended.
func (r *runs) left() (n int, last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.want {
		at, ok := r.ended[w.run]
		if !ok {
			n++
		}
		if at.After(last) {
			last = at
		}
	}
	return n, last
}

// waitRuns returns when all runs have ended, or no execution and no run has ended for patience; the check reports
// which are lost.
func (r *Rig) waitRuns(ctx context.Context) (last time.Time, err error) {
	stalled := time.NewTimer(r.load.Patience)
	defer stalled.Stop()
	left, last := r.runs.left()
	ended := r.Ended()
	for left > 0 {
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-r.runs.news:
			left, last = r.runs.left()
			stalled.Reset(r.load.Patience)
		case <-stalled.C:
			if now := r.Ended(); now > ended {
				ended = now
				stalled.Reset(r.load.Patience)
				continue
			}
			return last, nil
		}
	}
	return last, nil
}

// RunFlows begins and advances runs until stop is called.
func (r *Rig) RunFlows() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.flows.Run(ctx) })
	wg.Go(func() { r.flows.Begin(ctx, r.Dispatch, "bench", "bench") })
	return sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// step returns a node that does nothing; after are its parents, and each is its number of items if it is a map.
func step(key, each string, after ...string) workflow.Node {
	n := workflow.Node{Key: key, DependsOn: after, Execution: json.RawMessage(`{"target":"simulate","work_kind":"noop"}`)}
	if each != "" {
		n.Map = json.RawMessage(each)
	}
	return n
}

// chainOf returns nodes that each wait for the one before.
func chainOf(n int) []workflow.Node {
	nodes := []workflow.Node{step("n1", "")}
	for i := 2; i <= n; i++ {
		nodes = append(nodes, step(fmt.Sprintf("n%d", i), "", fmt.Sprintf("n%d", i-1)))
	}
	return nodes
}

// starOf returns a node, a map of n items, and a node that waits for all of them.
func starOf(items int) []workflow.Node {
	m := step("item", fmt.Sprint(items), "first")
	m.MaxParallel = items
	return []workflow.Node{step("first", ""), m, step("join", "", "item")}
}

// workflow creates a workflow.
func (r *Rig) workflow(ctx context.Context, name string, nodes []workflow.Node) (engine.Ref, error) {
	w := service.Workflow{Definition: r.def, Graph: workflow.Definition{Nodes: nodes}}
	w.Name, w.Schedule, w.Payload = name, job.Schedule{Type: job.Manual}, nil
	w.Retry = job.RetryPolicy{Backoff: job.Exponential}
	for range nodes {
		w.Inline = append(w.Inline, &service.Inline{Target: r.def.Target, Retry: r.def.Retry, Sample: r.def.Target})
	}
	f, _, err := r.Service.CreateWorkflow(ctx, everybody, w, service.Once[service.Flow]{})
	return engine.Ref{ID: f.Job.ID}, err
}

// triggerRun begins a run whose nodes have n executions.
func (r *Rig) triggerRun(ctx context.Context, ref engine.Ref, nodes int) (job.ExecutionID, error) {
	t, _, err := r.Service.TriggerWorkflow(ctx, everybody, ref, nil, "", service.Once[job.Execution]{})
	if err != nil {
		return job.ExecutionID{}, err
	}
	r.runs.owe(t.Execution.ID, nodes)
	return t.Execution.ID, nil
}

// membersAtOnce limits how much of a run the check reads at once.
const membersAtOnce = 10_000

// checkRuns compares the begun runs with the store and with what handlers received: each run has succeeded, and each
// of its nodes and items ran exactly once.
func (r *Rig) checkRuns(ctx context.Context) (t Tally, err error) {
	r.runs.mu.Lock()
	all := r.runs.want
	r.runs.mu.Unlock()
	known := 0
	for _, w := range all {
		t.Accepted += w.nodes
		run, err := r.store.WorkflowRun(ctx, everybody.Tenant, w.run)
		if err != nil {
			return t, fmt.Errorf("check that nothing was lost: %w", err)
		}
		good := 0
		for from := engine.NodePlace(0); ; {
			ms, err := r.store.Members(ctx, everybody.Tenant, w.run, from, 1<<62, membersAtOnce)
			if err != nil {
				return t, fmt.Errorf("check that nothing was lost: %w", err)
			}
			for _, m := range ms {
				known++
				from = m.Place + 1
				seen := r.ledger.record(m.Execution)
				if m.Status == job.Succeeded && seen.runs > 0 {
					good++
				}
				if seen.runs > 1 {
					if doubled, err := unjustified(ctx, r.store, everybody.Tenant, m.Execution, int(seen.runs)); err != nil {
						return t, err
					} else if doubled {
						t.Doubled++
					}
				}
			}
			if len(ms) < membersAtOnce {
				break
			}
		}
		if workflow.Status(run.Status) != workflow.Succeeded {
			good = min(good, w.nodes-1)
		}
		t.Lost += max(0, w.nodes-good)
		t.Doubled += max(0, good-w.nodes)
	}
	t.Doubled += max(0, r.ledger.size()-known)
	return t, nil
}
