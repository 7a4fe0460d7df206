package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// ErrNoNode says that an execution is not a node of a workflow.
var ErrNoNode = errors.New("the execution is not a node of a workflow")

// NodeOf says which node of which run an execution is.
type NodeOf struct {
	Run  engine.WorkflowRun
	Node string
	Item int // -1: the node is no map
}

// Left is what a node left behind.
type Left struct {
	Status workflow.Status
	Result json.RawMessage // nil: none
	Error  *job.Error
}

// standing is a run as somebody reads it who changes nothing.
type standing struct {
	run   engine.WorkflowRun
	graph *workflow.Graph
	state *workflow.State
	key   string
	place engine.NodePlace
}

func (r *Runner) standing(ctx context.Context, t tenant.ID, id job.ExecutionID) (s standing, err error) {
	m, err := r.store.MemberOf(ctx, t, id)
	if errors.Is(err, engine.ErrNotFound) {
		return s, ErrNoNode
	} else if err != nil {
		return s, err
	}
	if s.run, err = r.store.WorkflowRun(ctx, t, m.Run); err != nil {
		return s, err
	}
	v, err := r.version(ctx, t, s.run.Workflow, s.run.Version)
	if err != nil {
		return s, err
	}
	s.graph, s.key, s.place = v.graph, v.key, m.Place
	if s.place.Node() >= s.graph.Len() {
		return s, ErrNoNode
	}
	s.state, err = workflow.DecodeState(v.graph, s.run.State)
	return s, err
}

// NodeOf finds the node that an execution is.
func (r *Runner) NodeOf(ctx context.Context, t tenant.ID, id job.ExecutionID) (NodeOf, error) {
	s, err := r.standing(ctx, t, id)
	if err != nil {
		return NodeOf{}, err
	}
	return NodeOf{Run: s.run, Node: s.graph.Node(s.place.Node()).Key, Item: s.place.Item()}, nil
}

// ItemOf returns the item that an execution runs for, as JSON; nil: its node is no map.
func (r *Runner) ItemOf(ctx context.Context, t tenant.ID, id job.ExecutionID) (json.RawMessage, error) {
	s, err := r.standing(ctx, t, id)
	if err != nil || s.place.Item() < 0 {
		return nil, err
	}
	var l *workflow.ItemList
	k, keep := keyOf(s.run.ID, s.graph, s.state, s.place.Node())
	if keep {
		l = r.lists.get(k)
	}
	if l == nil {
		read := &reader{ctx: ctx, store: r.store, standing: s}
		found, bad := workflow.PrepareItems(s.graph, s.state, s.place.Node(), workflow.Run{ID: s.run.ID.String(), Key: s.key, Input: s.run.Input, Scheduled: s.run.ScheduledAt}, read)
		if read.err != nil {
			return nil, read.err
		}
		if bad != nil {
			return nil, &workflow.Conflict{Act: "read the item of", Node: s.graph.Node(s.place.Node()).Key, Status: workflow.Status(s.run.Status), Want: "a map whose list can be made again: " + bad.Text}
		}
		if l = found; keep {
			r.lists.put(k, l)
		}
	}
	if s.place.Item() >= l.Len() {
		return nil, ErrNoNode
	}
	return l.Item(s.place.Item())
}

// ResultFor returns what an ancestor of an execution's node left behind.
func (r *Runner) ResultFor(ctx context.Context, t tenant.ID, id job.ExecutionID, key string) (Left, error) {
	s, err := r.standing(ctx, t, id)
	if err != nil {
		return Left{}, err
	}
	own := s.place.Node()
	n, ok := s.graph.Number(key)
	if !ok || !s.graph.MayRead(own, n) {
		return Left{}, job.Invalids{{Field: "node", Value: job.Show(key), Want: "the key of an ancestor of node " + s.graph.Node(own).Key}}
	}
	out := Left{}
	out.Status, _ = s.state.Node(n)
	if !out.Status.Final() {
		return out, nil
	}
	read := &reader{ctx: ctx, store: r.store, standing: s}
	out.Result, out.Error = read.Result(n), workflow.ErrorOf(s.graph, s.state, n, read.Error(n))
	return out, read.err
}

// reader gives what nodes of a run left behind, as the store has it.
type reader struct {
	standing
	ctx   context.Context
	store Store
	known map[int]map[int]engine.RunResult
	err   error // the first
}

// of returns the results of a node, by item.
func (v *reader) of(n int) map[int]engine.RunResult {
	if all, ok := v.known[n]; ok || v.err != nil {
		return all
	}
	rs, size, err := v.store.NodeResults(v.ctx, engine.ResultQuery{
		Tenant: v.run.Tenant, Run: v.run.ID, From: engine.PlaceOf(n, -1), Until: engine.PlaceOf(n+1, -1), Since: v.run.BegunAt,
	}, workflow.MaxValue)
	if err == nil && size > workflow.MaxValue {
		err = job.Invalids{{Field: "node", Value: v.graph.Node(n).Key, Want: fmt.Sprintf("a node whose results have at most %d bytes together, not %d: pass large results as artifacts", workflow.MaxValue, size)}}
	}
	if err != nil {
		v.err = err
		return nil
	}
	status, _ := v.state.Node(n)
	_, mapped := v.state.Map(n)
	all := map[int]engine.RunResult{}
	for _, r := range rs {
		// An earlier attempt of the run may have left results of what this one has not run.
		switch item := r.Place.Item(); {
		case status == workflow.Skipped || status == workflow.NotRun:
		case mapped && item >= 0 && v.state.Item(n, item) != workflow.Succeeded:
		default:
			all[item] = r
		}
	}
	if v.known == nil {
		v.known = map[int]map[int]engine.RunResult{}
	}
	v.known[n] = all
	return all
}

// Result returns the result of a node; of a map, the list of its items' results.
func (v *reader) Result(n int) json.RawMessage { return together(v.state, n, v.of(n)) }

// Error returns the error that a node left behind.
func (v *reader) Error(n int) *job.Error { return v.of(n)[-1].Error }

// listKey says of which map a list is, and of which time: it changes with everything that the map's templates read.
type listKey struct {
	run     job.ExecutionID
	attempt int
	node    int
	verdict workflow.Status // of the run, where templates may read it
	ends    string          // how the nodes ended that the map reads: one may be marked or skipped later
}

// keyOf makes the key of a map's list; false: it may not be kept, because a node that the map reads has not ended.
func keyOf(run job.ExecutionID, g *workflow.Graph, s *workflow.State, n int) (listKey, bool) {
	reads := g.Reads(n)
	ends := make([]byte, 0, 2*len(reads))
	for _, read := range reads {
		status, reason := s.Node(int(read))
		if !status.Final() {
			return listKey{}, false
		}
		ends = append(ends, byte(status), byte(reason))
	}
	return listKey{run, s.Attempt, n, s.Verdict(), string(ends)}, true
}

// maxLists bounds the lists of maps that are kept, for items that ask for themselves and for items that start. Each has at most 1 MiB as JSON.
const maxLists = 16

// lists keeps the lists of maps.
type lists struct {
	mu    sync.Mutex
	known map[listKey]*workflow.ItemList // guarded by mu
}

func (l *lists) get(k listKey) *workflow.ItemList {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[k]
}

func (l *lists) put(k listKey, x *workflow.ItemList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxLists {
		l.known = map[listKey]*workflow.ItemList{}
	}
	l.known[k] = x
}
