package workflows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/core/workflow"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Act is what a person does to a run.
type Act struct {
	Tenant tenant.ID
	Run    job.ExecutionID // of any of its attempts
	DryRun bool            // say what would change, and change nothing
	// Do applies the act to a turn, in which all that has happened is applied already. Its error is that of the whole.
	Do func(*Turn) error
	// Entry makes the audit entry out of what changed; nil: there is none.
	Entry func([]workflow.Change) *audit.Entry
	// Once makes the request safe to repeat, with the answer that what changes gives; nil: it is not.
	Once Once
}

// Once claims an idempotency key for what changes in a run and its nodes.
type Once func(*engine.RunChange, []workflow.Change) engine.Idempotency

// Acted tells what an act changed.
type Acted struct {
	Run     engine.WorkflowRun // before it
	Changes []workflow.Change
}

// errDry ends the change of a dry run.
var errDry = errors.New("a dry run")

// settleRounds bounds how often the consequences of an act are looked for before it is answered.
const settleRounds = 100

// Do does something to a run, and answers when the run has taken in what follows from it.
func (r *Runner) Do(ctx context.Context, a Act) (out Acted, err error) {
	run, err := r.store.WorkflowRun(ctx, a.Tenant, a.Run)
	if err != nil {
		return out, err
	}
	over := false
	var then follow
	outs, err := r.store.ChangeRuns(ctx, []job.ExecutionID{run.ID}, func(v engine.RunView) (*engine.RunChange, error) {
		t, err := r.open(ctx, v)
		if err != nil {
			return nil, err
		}
		defer func() { then = t.follow() }()
		t.happened()
		if over = !a.DryRun && t.State.Status.Final() && v.Run.EndedAt.IsZero(); over {
			return t.done() // what ended the run is committed first, since the act may begin another attempt
		}
		graph, before := t.Graph, t.State.Clone()
		if err := a.Do(t); err != nil {
			return nil, err
		}
		out = Acted{Run: v.Run, Changes: workflow.Changes(graph, before, t.Graph, t.State)}
		if a.DryRun {
			return nil, errDry
		}
		if a.Entry != nil {
			t.Entry = a.Entry(out.Changes)
		}
		return t.once(a.Once, out.Changes)
	})
	if err != nil {
		return Acted{}, err
	}
	if len(outs) == 0 {
		return Acted{}, engine.ErrNotFound
	}
	if err := outs[0].Err; errors.Is(err, errDry) {
		return out, nil
	} else if err != nil {
		return Acted{}, err
	}
	r.tell(outs[0], then)
	if over {
		return r.Do(ctx, a)
	}
	again := len(outs[0].Ended) > 0 || outs[0].More
	for range settleRounds { // executions that an act cancelled at once have left marks
		if !again {
			break
		}
		then = follow{}
		outs, err := r.store.ChangeRuns(ctx, []job.ExecutionID{run.ID}, func(v engine.RunView) (*engine.RunChange, error) {
			if len(v.Marks) == 0 && !slices.ContainsFunc(v.Waits, func(w engine.RunWait) bool { return w.Kind == engine.WaitStop }) {
				return nil, nil
			}
			t, err := r.open(ctx, v)
			if err != nil {
				return nil, err
			}
			defer func() { then = t.follow() }()
			return t.fold()
		})
		if err != nil || len(outs) == 0 || outs[0].Err != nil {
			break // the sweep goes on with it
		}
		r.tell(outs[0], then)
		again = len(outs[0].Ended) > 0 || outs[0].More
	}
	return out, nil
}

// Settle has a run take in all that has happened to it.
func (r *Runner) Settle(ctx context.Context, t tenant.ID, run job.ExecutionID) error {
	_, err := r.Do(ctx, Act{Tenant: t, Run: run, Do: func(*Turn) error { return nil }})
	return err
}

// Pause keeps nodes and items from starting.
func Pause(t *Turn) error { return t.act(workflow.Pause(t.Graph, t.State)) }

// Unpause starts what a pause held back.
func Unpause(t *Turn) error { return t.act(workflow.Unpause(t.Graph, t.State)) }

// Cancel cancels a run; with force also what its finally nodes do.
func Cancel(force bool, reason string) func(*Turn) error {
	return func(t *Turn) error {
		t.Reason = reason
		return t.act(workflow.Cancel(t.Graph, t.State, force))
	}
}

// Skip makes a node SKIPPED.
func Skip(key string) func(*Turn) error {
	return func(t *Turn) error {
		n, err := t.node(key)
		if err != nil {
			return err
		}
		return t.again(func() (workflow.Decisions, error) { return workflow.Skip(t.Graph, t.State, n) }, n)
	}
}

// Mark makes a node SUCCEEDED, with a result.
func Mark(key string, result json.RawMessage) func(*Turn) error {
	return func(t *Turn) error {
		n, err := t.node(key)
		if err != nil {
			return err
		}
		if f := workflow.CheckResult(result); f != nil {
			return job.Invalids{{Field: "result", Value: "(too large)", Want: f.Text}}
		}
		t.values.forget(n)
		t.next.Forget = append(t.next.Forget, n)
		t.keep(engine.RunResult{Place: engine.PlaceOf(n, -1), Result: result})
		return t.again(func() (workflow.Decisions, error) { return workflow.Mark(t.Graph, t.State, n) })
	}
}

// Resize changes max_parallel and tolerate of a map that runs.
func Resize(key string, parallel *int, tolerate *workflow.Tolerance) func(*Turn) error {
	return func(t *Turn) error {
		n, err := t.node(key)
		if err != nil {
			return err
		}
		return t.act(workflow.Resize(t.Graph, t.State, n, parallel, tolerate))
	}
}

// Vote says yes or no to an approval.
func Vote(key string, v workflow.Vote) func(*Turn) error {
	return func(t *Turn) error {
		n, err := t.node(key)
		if err != nil {
			return err
		}
		for _, w := range t.View.Waits {
			// One that was due has just ended the node.
			if s, _ := t.State.Node(n); w.Node == n && w.Kind == engine.WaitApproval && !s.Final() {
				return t.vote(n, w, v)
			}
		}
		return t.noVote(n, key, v.Act())
	}
}

func (t *Turn) vote(n int, w engine.RunWait, v workflow.Vote) error {
	v.At = t.View.Now
	var votes []workflow.Vote
	if w.Votes != nil {
		if err := json.Unmarshal(w.Votes, &votes); err != nil {
			return err
		}
	}
	event, err := workflow.CastVote(t.Graph, n, votes, v)
	if err != nil {
		return err
	}
	if event == nil {
		votes = append(votes, v)
		who := make([]string, len(votes))
		for i := range votes {
			who[i] = votes[i].Who
		}
		w.Voters, _ = json.Marshal(who) // texts always encode
		w.Votes, err = json.Marshal(votes)
		t.next.Waits = append(t.next.Waits, w)
		return err
	}
	v.Who = ""
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	t.keep(engine.RunResult{Place: engine.PlaceOf(n, -1), Result: doc})
	t.Advance(*event)
	return nil
}

// noVote says why a node takes no votes: it has been decided, by whom and when, or it does not wait.
func (t *Turn) noVote(n int, key, act string) error {
	s, why := t.State.Node(n)
	no := &workflow.Conflict{Act: act, Node: key, Status: s, Want: "a node that waits for an approval"}
	if why == workflow.ByHand { // its result is no vote
		no.Want += "; this one was skipped or marked by hand"
		return no
	}
	var v workflow.Vote
	if doc := t.values.Result(n); doc != nil && json.Unmarshal(doc, &v) == nil && v.By != "" {
		return &workflow.Decided{Vote: v}
	}
	return no
}

// Again runs parts of a run that has ended once more.
type Again struct {
	workflow.Retry
	Input  json.RawMessage // nil: the same
	Latest int             // the version to go on with; 0: the run's own
}

// Do begins the next attempt of a run.
func (g Again) Do(t *Turn) error {
	from := t.Graph
	if g.Latest != 0 && g.Latest != t.View.Run.Version {
		v, err := t.runner.version(t.ctx, t.View.Run.Tenant, t.View.Run.Workflow, g.Latest)
		if err != nil {
			return err
		}
		t.version, g.Graph = v, v.graph
	}
	if g.Input != nil {
		t.next.Input, g.NewInput = g.Input, true
	}
	if g.Graph != nil || g.NewInput {
		if err := cmp.Or(g.Graph, from).CheckInput(t.next.Input); err != nil {
			return err
		}
	}
	state, d, err := g.Apply(from, t.State)
	if err != nil {
		return err
	}
	if g.Graph != nil {
		if err := t.renumber(from, g.Graph); err != nil {
			return err
		}
		t.Graph, t.next.Version = g.Graph, g.Latest
	}
	t.State = state
	for n := range t.Graph.Len() {
		if s, _ := state.Node(n); !s.Final() {
			t.values.forget(n)
			if m, mapped := state.Map(n); !mapped || m.Succeeded == 0 {
				t.next.Forget = append(t.next.Forget, n)
			}
		}
	}
	return t.attempt(d)
}

// again does something that begins a new attempt if the run has ended.
func (t *Turn) again(do func() (workflow.Decisions, error), forget ...int) error {
	over := t.State.Status.Final()
	d, err := do()
	if err != nil {
		return err
	}
	for _, n := range forget {
		t.values.forget(n)
		t.next.Forget = append(t.next.Forget, n)
	}
	if over {
		return t.attempt(d)
	}
	t.Apply(d)
	return nil
}

// attempt begins the next attempt of a run: with an execution of its own, since one that has finished never changes.
func (t *Turn) attempt(d workflow.Decisions) error {
	run := t.View.Run
	j, err := t.runner.store.Job(t.ctx, run.Tenant, engine.Ref{ID: run.Workflow})
	if err != nil {
		return err
	}
	e := j.Fire(newID(), t.View.Now, t.View.Now)
	// It counts against no limit: it is held from the start, and what it waits for has waited before.
	e.Trigger, e.Payload, e.RetryOf, e.UniqueKey, e.Group, e.Partition = job.ByRetry, t.next.Input, run.Execution, "", job.Group{}, job.PartitionOf(j.ID)
	t.next.Next = &e
	t.next.Output, t.next.Error = nil, nil
	if d := t.Graph.Timeout(); d > 0 {
		t.next.Waits = append(t.next.Waits, engine.RunWait{Node: engine.RunDeadline, Kind: engine.WaitDeadline, BegunAt: t.View.Now, WakeAt: t.View.Now.Add(d)})
	}
	t.solver()
	t.Apply(d)
	return nil
}

// renumber moves what is kept of nodes to the numbers they have in another version.
func (t *Turn) renumber(from, to *workflow.Graph) error {
	t.next.Renumber = map[int]int{}
	for n := range from.Len() {
		if m, ok := to.Number(from.Node(n).Key); ok {
			t.next.Renumber[n] = m
		} else {
			t.next.Renumber[n] = -1
		}
	}
	moved := map[int]map[int]engine.RunResult{}
	for n, m := range t.next.Renumber {
		for item, r := range t.values.of(n) {
			if m < 0 {
				continue
			}
			if moved[m] == nil {
				moved[m] = map[int]engine.RunResult{}
			}
			r.Place = engine.PlaceOf(m, item)
			moved[m][item] = r
		}
	}
	t.values.results, t.values.read = moved, map[int]bool{}
	for n := range max(from.Len(), to.Len()) {
		t.values.read[n] = true
	}
	return t.err
}

func (t *Turn) act(d workflow.Decisions, err error) error {
	if err != nil {
		return err
	}
	t.Apply(d)
	return nil
}

func (t *Turn) node(key string) (int, error) {
	n, ok := t.Graph.Number(key)
	if !ok {
		return 0, job.Invalids{{Field: "node", Value: job.Show(key), Want: "the key of a node of this run"}}
	}
	return n, nil
}
