package workflows

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/storetest"
)

// vector is a line of the contract's tests: a graph, how its nodes end, what people do to the run, and where it must stand then.
type vector struct {
	ID        string
	What      string
	OnFailure workflow.OnFailure `json:"on_failure"`
	Input     json.RawMessage
	Nodes     map[string]struct {
		After       []string
		Trigger     string
		If          string
		OnFailure   workflow.OnFailure `json:"on_failure"`
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

func (v vector) definition() workflow.Definition {
	d := workflow.Definition{OnFailure: v.OnFailure}
	for key, n := range v.Nodes {
		d.Nodes = append(d.Nodes, workflow.Node{
			Key: key, DependsOn: n.After, Trigger: n.Trigger, If: n.If, OnFailure: n.OnFailure, Finally: n.Finally,
			Map: n.Map, MaxParallel: n.MaxParallel, Tolerate: n.Tolerate, Execution: json.RawMessage(`{"target":"worker","kind":"x"}`),
		})
	}
	slices.SortFunc(d.Nodes, func(a, b workflow.Node) int { return strings.Compare(a.Key, b.Key) })
	return d
}

func vectors(t testing.TB) (out []vector) {
	f, err := os.Open("../core/workflow/testdata/vectors.jsonl")
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

// The contract's vectors hold when the runs go through a store: marks, members, waits and all.
func TestVectorsThroughTheStore(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, store engine.Store) {
		for _, v := range vectors(t) {
			t.Run(v.ID, func(t *testing.T) {
				for seed := range uint64(2) { // where the vector names no order, any must do
					playVector(t, store, v, seed)
				}
			})
		}
	})
}

func playVector(t *testing.T, store engine.Store, v vector, seed uint64) {
	p := newPlayer(t, store, v.definition())
	p.atOnce = seed == 1
	p.outcomes, p.rand = v.Outcomes, rand.New(rand.NewPCG(seed, 1))
	p.begin(v.Input)
	if v.Until != nil {
		p.lease()
		for _, key := range v.Until {
			if p.find(key) < 0 {
				t.Fatalf("%s: %s is not live; live are %v", v.What, key, p.live)
			}
		}
	} else {
		for _, key := range v.Order {
			p.lease()
			p.finish(key)
		}
		p.play()
	}
	for _, op := range v.Ops {
		if op.Outcomes != nil {
			p.outcomes = op.Outcomes
		}
		p.act(op.Op, op.Nodes)
		p.play()
	}
	s := p.state()
	if got := s.Status.String(); got != v.Expect.Run {
		t.Errorf("%s: the run is %s; want %s", v.What, got, v.Expect.Run)
	}
	for key, want := range v.Expect.Nodes {
		n, _ := p.graph.Number(key)
		if got, _ := s.Node(n); got.String() != want {
			t.Errorf("%s: %s is %s; want %s", v.What, key, got, want)
		}
	}
	for key, want := range v.Expect.Items {
		n, _ := p.graph.Number(key)
		got := ""
		for i := range len(want) {
			got += string(s.Item(n, i).String()[0])
		}
		if got != want {
			t.Errorf("%s: the items of %s are %s; want %s", v.What, key, got, want)
		}
	}
	if s.Status.Final() {
		p.over(s)
	}
}

// player plays a workflow against a store: it is the worker of all nodes.
type player struct {
	atOnce bool // what follows is decided in the commit that ends a node

	testing.TB
	store    engine.Store
	runner   *Runner
	graph    *workflow.Graph
	workflow job.Job
	jobs     map[job.ID]string // the key of each node
	run      job.ExecutionID
	worker   job.WorkerID
	outcomes map[string]json.RawMessage
	rand     *rand.Rand
	live     []attempt
	ready    []job.ExecutionID
	asked    map[job.ExecutionID]bool
}

// attempt is a node's execution that the player holds.
type attempt struct {
	job.Attempt
	key  string
	item int
}

func newPlayer(t testing.TB, store engine.Store, d workflow.Definition) *player {
	t.Helper()
	g, err := workflow.Compile(d, workflow.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	p := &player{TB: t, store: store, graph: g, jobs: map[job.ID]string{}, asked: map[job.ExecutionID]bool{}}
	p.runner = New(store, testClock{store}, Config{Hint: func(rs []job.Ready) {
		for _, r := range rs {
			p.ready = append(p.ready, r.ID)
		}
	}})
	now := p.now()
	doc, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	p.workflow = job.Job{ID: newID(), Tenant: tenant.Default, State: job.Active, Revision: 1, CreatedAt: now, UpdatedAt: now}
	p.workflow.Definition = job.Definition{Name: "w", Schedule: job.Schedule{Type: job.Manual}, Target: job.Target{Kind: job.Workflow, Version: 1}, Priority: 5, Queue: job.DefaultQueue}
	v := engine.WorkflowVersion{Tenant: tenant.Default, Workflow: p.workflow.ID, Version: 1, CreatedAt: now, Definition: doc}
	all := engine.Creation{Tenant: tenant.Default}
	for i := range d.Nodes {
		id := job.NodeID(newID())
		if d.Nodes[i].Wait != nil {
			id = job.ID{}
		} else {
			j := job.Job{ID: id, Tenant: tenant.Default, State: job.Inline, Revision: 1, CreatedAt: now, UpdatedAt: now}
			j.Definition = job.Definition{Name: "w/" + d.Nodes[i].Key, Schedule: job.Schedule{Type: job.Manual}, Target: job.Target{Kind: job.Handler, Handler: "x", Timeout: time.Hour}, Priority: 5, Queue: job.DefaultQueue}
			all.Jobs = append(all.Jobs, j)
		}
		v.Jobs = append(v.Jobs, id)
		p.jobs[id] = d.Nodes[i].Key
	}
	p.create(all)
	if err := store.AddWorkflow(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	p.create(engine.Creation{Tenant: tenant.Default, Jobs: []job.Job{p.workflow}})
	p.worker = newID()
	if err := store.Register(t.Context(), job.Worker{ID: p.worker, Host: "h", Targets: []string{"worker", "workflow"}, Kinds: []string{"x"}, Capacity: 10_000, StartedAt: now}, time.Hour); err != nil {
		t.Fatal(err)
	}
	return p
}

// testClock is the store's clock.
type testClock struct{ engine.Store }

func (c testClock) Now() time.Time {
	now, err := c.Store.Now(context.Background())
	if err != nil {
		panic(err)
	}
	return now
}

func (p *player) now() time.Time { return testClock{p.store}.Now().Truncate(time.Microsecond) }

func (p *player) create(c engine.Creation) {
	p.Helper()
	if _, err := p.store.CreateJobs(p.Context(), []engine.Creation{c}); err != nil {
		p.Fatal(err)
	}
}

// begin triggers the workflow and begins the run.
func (p *player) begin(input json.RawMessage) {
	p.Helper()
	now := p.now()
	e := p.workflow.Fire(newID(), now, now)
	e.Trigger, e.Payload = job.ByHand, input
	if _, err := p.store.Trigger(p.Context(), tenant.Default, e, engine.Idempotency{}, nil); err != nil {
		p.Fatal(err)
	}
	as, err := p.store.Lease(p.Context(), []engine.Grant{{Worker: p.worker, Executions: []job.ExecutionID{e.ID}}}, engine.Fence{})
	if err != nil || len(as) != 1 {
		p.Fatalf("%d leased, %v", len(as), err)
	}
	os, err := p.runner.begin(p.Context(), as)
	if err != nil {
		p.Fatal(err)
	}
	if os[0].Status != job.OutcomeParked {
		p.Fatalf("the run did not begin: %+v", os)
	}
	vs, err := p.store.Park(p.Context(), []engine.Parking{{Outcome: os[0], Worker: p.worker, Until: job.Forever}})
	if err != nil || !vs[0].Accepted {
		p.Fatalf("%+v, %v", vs, err)
	}
	p.run = e.ID
}

// lease takes all nodes that wait for a worker.
func (p *player) lease() {
	p.Helper()
	p.advance()
	ids := p.ready
	p.ready = nil
	if len(ids) == 0 {
		return
	}
	as, err := p.store.Lease(p.Context(), []engine.Grant{{Worker: p.worker, Executions: ids}}, engine.Fence{})
	if err != nil {
		p.Fatal(err)
	}
	for _, a := range as {
		m, err := p.store.MemberOf(p.Context(), tenant.Default, a.Execution)
		if err != nil {
			p.Fatal(err)
		}
		p.live = append(p.live, attempt{a, p.jobs[a.Job], m.Place.Item()})
	}
}

// advance has the runner do all that is to be done.
func (p *player) advance() {
	p.Helper()
	for {
		p.runner.Advance(p.run)
		woken, _, err := p.store.WakeRuns(p.Context(), 10)
		if err != nil {
			p.Fatal(err)
		}
		p.runner.Advance(woken...)
		before := p.seq()
		if err := p.runner.advance(p.Context(), p.runner.take()); err != nil {
			p.Fatal(err)
		}
		if p.seq() == before {
			return
		}
	}
}

func (p *player) seq() int64 {
	r, err := p.store.WorkflowRun(p.Context(), tenant.Default, p.run)
	if err != nil {
		p.Fatal(err)
	}
	return r.Seq
}

func (p *player) state() *workflow.State {
	p.Helper()
	p.advance()
	r, err := p.store.WorkflowRun(p.Context(), tenant.Default, p.run)
	if err != nil {
		p.Fatal(err)
	}
	s, err := workflow.DecodeState(p.graph, r.State)
	if err != nil {
		p.Fatal(err)
	}
	if workflow.Status(r.Status) != s.Status {
		p.Fatalf("the run says %v, its state %v", workflow.Status(r.Status), s.Status)
	}
	return s
}

// find returns the place of a node, or of an item such as m[2], among those that are live; -1: it is not.
func (p *player) find(key string) int {
	return slices.IndexFunc(p.live, func(a attempt) bool { return a.key == key && a.item < 0 || fmt.Sprintf("%s[%d]", a.key, a.item) == key })
}

var letters = map[string]job.Status{"S": job.Succeeded, "F": job.Failed, "T": job.TimedOut, "E": job.Expired, "C": job.Cancelled, "K": job.Skipped}

// finish ends a node that is live as the vector says.
func (p *player) finish(key string) {
	p.Helper()
	i := p.find(key)
	if i < 0 {
		p.Fatalf("%s is not live; live are %v", key, p.live)
	}
	a := p.live[i]
	p.live = slices.Delete(p.live, i, i+1)
	p.end(a)
}

func (p *player) end(a attempt) {
	p.Helper()
	name := a.key
	if a.item >= 0 {
		name = fmt.Sprintf("%s[%d]", a.key, a.item)
	}
	status := job.Succeeded
	var letter string
	for _, n := range []string{a.key, name} {
		if doc, ok := p.outcomes[n]; ok && json.Unmarshal(doc, &letter) == nil {
			status = letters[letter]
		}
	}
	f := job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeSucceeded}, Then: job.Transition{Status: status}, Worker: p.worker}
	switch status {
	case job.Succeeded:
		f.Outcome.Result, f.Then.Move = p.outcomes[name+".result"], job.Done
		if f.Outcome.Result == nil {
			f.Outcome.Result = p.outcomes[a.key+".result"]
		}
	case job.Cancelled, job.Skipped:
		f.Outcome.Status, f.Then.Move = job.OutcomeCancelled, job.Stopped
	default:
		f.Outcome.Status, f.Then.Move, f.Then.Tries = job.OutcomeFailed, job.Died, 1
		f.Outcome.Error = &job.Error{Type: job.HandlerError, Message: "as the vector says"}
	}
	finish, left := p.store.Finish, p.run
	if p.atOnce {
		finish, left = p.runner.Finish, job.ExecutionID{}
	}
	vs, err := finish(p.Context(), []job.Finish{f})
	if err != nil || !vs[0].Accepted {
		p.Fatalf("finish %s: %+v, %v", name, vs, err)
	}
	if vs[0].Run != left {
		p.Errorf("the end of %s names the run %v; want %v", name, vs[0].Run, left)
	}
}

// play ends nodes, in any order, until nothing is live.
func (p *player) play() {
	p.Helper()
	for {
		p.lease()
		if p.heed() {
			continue
		}
		if len(p.live) == 0 {
			return
		}
		i := p.rand.IntN(len(p.live))
		a := p.live[i]
		p.live = slices.Delete(p.live, i, i+1)
		p.end(a)
	}
}

// heed ends what was asked to stop, and says whether anything was.
func (p *player) heed() (any bool) {
	p.Helper()
	kept := p.live[:0]
	for _, a := range p.live {
		e, err := p.store.Execution(p.Context(), tenant.Default, a.Execution)
		if err != nil {
			p.Fatal(err)
		}
		switch {
		case e.Status == job.Cancelling:
			f := job.Finish{Outcome: job.Outcome{Lease: a.Lease, Status: job.OutcomeCancelled}, Then: job.Transition{Status: job.Cancelled, Move: job.Stopped}, Worker: p.worker}
			if vs, err := p.store.Finish(p.Context(), []job.Finish{f}); err != nil || !vs[0].Accepted {
				p.Fatalf("%+v, %v", vs, err)
			}
			any = true
		case !e.Status.Final():
			kept = append(kept, a)
		}
	}
	p.live = kept
	return any
}

func (p *player) act(op string, nodes []string) {
	p.Helper()
	do := map[string]func(*Turn) error{"pause": Pause, "unpause": Unpause, "cancel": Cancel(false, "test")}[op]
	switch {
	case op == "retry":
		do = Again{Retry: workflow.Retry{Nodes: nodes}}.Do
	case op == "run_timeout":
		do = func(t *Turn) error { t.Advance(workflow.Event{Kind: workflow.RunTimedOut}); return nil }
	case op == "skip":
		do = Skip(nodes[0])
	case op == "mark":
		do = Mark(nodes[0], nil)
	case do == nil:
		p.Fatalf("what is %q?", op)
	}
	a := Act{Tenant: tenant.Default, Run: p.run, Do: do, Entry: func([]workflow.Change) *audit.Entry { return nil }}
	a.DryRun = true
	before := p.seq()
	if _, err := p.runner.Do(p.Context(), a); err != nil {
		p.Fatal(err)
	}
	if p.seq() != before {
		p.Errorf("a dry run of %s changed the run", op)
	}
	a.DryRun = false
	if _, err := p.runner.Do(p.Context(), a); err != nil {
		p.Fatal(err)
	}
}

// over checks that a run that ended left nothing behind, and that its execution ended alike.
func (p *player) over(s *workflow.State) {
	p.Helper()
	r, err := p.store.WorkflowRun(p.Context(), tenant.Default, p.run)
	if err != nil {
		p.Fatal(err)
	}
	e, err := p.store.Execution(p.Context(), tenant.Default, r.Execution)
	if err != nil {
		p.Fatal(err)
	}
	if e.Status.String() != s.Status.String() || r.EndedAt.IsZero() {
		p.Errorf("the run is %v, its execution %v; it ended at %v", s.Status, e.Status, r.EndedAt)
	}
	ms, err := p.store.Members(p.Context(), tenant.Default, p.run, 0, engine.PlaceOf(p.graph.Len(), -1), 10_000)
	if err != nil {
		p.Fatal(err)
	}
	for _, m := range ms {
		if !m.Status.Final() || m.FinishedAt.IsZero() {
			p.Errorf("the run has ended, and node %d is %v", m.Place.Node(), m.Status)
		}
	}
	spans, err := p.store.NodeSpans(p.Context(), tenant.Default, p.run)
	if err != nil {
		p.Fatal(err)
	}
	told := map[int]bool{}
	for _, x := range spans {
		told[x.Node] = !x.FinishedAt.IsZero()
	}
	for n := range p.graph.Len() {
		status, _ := s.Node(n)
		m, mapped := s.Map(n)
		if status == workflow.Succeeded && (p.graph.Node(n).Wait != nil || mapped && m.Total > 0) && !told[n] {
			p.Errorf("nobody knows when node %s began and ended", p.graph.Node(n).Key)
		}
	}
	if ws, err := p.store.RunWaits(p.Context(), tenant.Default, p.run); err != nil || len(ws) > 0 {
		p.Errorf("the run has ended and waits for %+v, %v", ws, err)
	}
}
