package workflows

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// version is a compiled version of a workflow. It never changes.
type version struct {
	graph *workflow.Graph
	jobs  []job.ID // of each node; zero: it is a wait
	key   string
}

type versionKey struct {
	tenant   tenant.ID
	workflow job.ID
	version  int
}

// graphs keeps compiled versions, as compiling a large one takes a quarter of a second. All tenants share it: what one of them uses goes
// one by one as others need the room.
type graphs struct {
	mu     sync.Mutex
	known  recent[versionKey, *version] // guarded by mu
	inline recent[job.ID, *job.Job]     // guarded by mu: jobs of inline nodes, which never change
}

func newGraphs() graphs {
	return graphs{known: recent[versionKey, *version]{most: maxGraphs, budget: maxCost}, inline: recent[job.ID, *job.Job]{most: maxInline, budget: maxCost}}
}

// maxGraphs and maxInline bound what is kept.
const (
	maxGraphs = 1000
	maxInline = 20_000
	maxCost   = 64 << 20 // bytes, of each kind, about
)

// Graph returns the compiled version of a workflow.
func (r *Runner) Graph(ctx context.Context, t tenant.ID, w job.ID, n int) (*workflow.Graph, error) {
	v, err := r.version(ctx, t, w, n)
	if err != nil {
		return nil, err
	}
	return v.graph, nil
}

func (r *Runner) version(ctx context.Context, t tenant.ID, w job.ID, n int) (*version, error) {
	k := versionKey{t, w, n}
	r.graphs.mu.Lock()
	v := r.graphs.known.get(k)
	r.graphs.mu.Unlock()
	if v != nil {
		return v, nil
	}
	stored, err := r.store.WorkflowVersion(ctx, t, w, n)
	if err != nil {
		return nil, fmt.Errorf("version %d of workflow %v: %w", n, w, err)
	}
	d, err := workflow.Decode(stored.Definition)
	if err != nil {
		return nil, fmt.Errorf("version %d of workflow %v: %w", n, w, err)
	}
	g, err := workflow.Compile(d, r.cfg.Graphs) // what was stored under a higher tier stays valid
	if err != nil {
		return nil, fmt.Errorf("version %d of workflow %v: %w", n, w, err)
	}
	v = &version{graph: g, jobs: stored.Jobs}
	j, err := r.store.Job(ctx, t, engine.Ref{ID: w})
	if err != nil && !errors.Is(err, engine.ErrNotFound) { // what cannot be read now is not kept as having no key
		return nil, fmt.Errorf("workflow %v: %w", w, err)
	}
	v.key = j.Key // it never changes
	r.graphs.mu.Lock()
	defer r.graphs.mu.Unlock()
	r.graphs.known.put(k, v, g.Cost()+2*len(stored.Definition))
	return v, nil
}

// job finds the job of a node.
func (r *Runner) job(ctx context.Context, t tenant.ID, id job.ID) (*job.Job, error) {
	r.graphs.mu.Lock()
	j := r.graphs.inline.get(id)
	r.graphs.mu.Unlock()
	if j != nil {
		return j, nil
	}
	found, err := r.store.Job(ctx, t, engine.Ref{ID: id})
	if err != nil {
		return nil, err
	}
	if found.State != job.Inline {
		return &found, nil
	}
	r.graphs.mu.Lock()
	defer r.graphs.mu.Unlock()
	r.graphs.inline.put(id, &found, 1024+len(found.Payload))
	return &found, nil
}
