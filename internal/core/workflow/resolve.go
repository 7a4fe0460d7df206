package workflow

import "encoding/json"

// Resolver turns decisions about one run into what a store writes: it prepares what starts, tells the state the
// outcome, and continues until nothing more follows. It caches the lists of maps, so keep it as long as the run's
// state. It is not safe for concurrent use.
type Resolver struct {
	Graph  *Graph
	State  *State
	Run    Run
	Values Values  // of every ended node, including those whose end is being decided on
	Budget *Budget // of the commit; nil: the resolver makes its own
	Lists  Lists   // of maps that began earlier; nil: each is made again

	lists map[int]*ItemList
}

// Lists keeps the lists of maps between decisions, since making one takes the longer the wider its map is. It may
// forget any, and refuse to keep one.
type Lists interface {
	List(node int) *ItemList
	KeepList(node int, l *ItemList)
}

// Effects are the consequences of decisions. A store commits them together with the State and with their cause.
type Effects struct {
	Executions []Execution
	Waits      []NodeWait
	Maps       []int // maps that begin
	Cancel     []int // nodes whose execution, or whose live items, are to be cancelled
	Closed     []int // waits that ended without being released
	Ended      []int // nodes that have ended; State says how
	Failures   []NodeFailure
	More       []int  // nodes that start more than one commit should: advance with MoreItems in the next one
	Status     Status // how the run ended; 0: it continues
}

// Execution is an execution that starts.
type Execution struct {
	Node      int
	Item      int             // of a map; -1: the node is not one
	Execution json.RawMessage // of an inline node: what it runs
	Payload   json.RawMessage // of an existing job: replaces its payload; nil: it keeps that
}

// NodeWait is a wait that begins.
type NodeWait struct {
	Node int
	Wait OpenWait
}

// NodeFailure is the error of a node, or of an item of a map, that failed before it started.
type NodeFailure struct {
	Node    int
	Item    int // -1: the node itself
	Failure Failure
}

// Advance applies events and resolves their consequences. It counts the events that changed nothing.
func (r *Resolver) Advance(events ...Event) (e Effects, ignored int) {
	for _, event := range events {
		d := Advance(r.Graph, r.State, event)
		if d.Ignored {
			ignored++
			continue
		}
		r.resolve(d, &e)
	}
	return e, ignored
}

// Resolve resolves the decisions of Begin or of an action.
func (r *Resolver) Resolve(d Decisions) (e Effects) {
	r.resolve(d, &e)
	return e
}

func (r *Resolver) resolve(d Decisions, e *Effects) {
	if r.Budget == nil {
		r.Budget = &Budget{}
	}
	for todo := []Decisions{d}; len(todo) > 0; todo = todo[1:] {
		d := todo[0]
		e.Cancel = append(e.Cancel, d.Cancel...)
		e.Closed = append(e.Closed, d.Closed...)
		e.Ended = append(e.Ended, d.Ended...)
		e.More = append(e.More, d.More...)
		if d.Run != 0 {
			e.Status = d.Run
		}
		for _, n := range d.Start {
			if event := r.start(n, e); event != nil {
				todo = append(todo, Advance(r.Graph, r.State, *event))
			}
		}
		for _, items := range d.Items {
			events, rest := r.startItems(items, e)
			if len(rest) > 0 {
				todo = append(todo, putOffItems(r.Graph, r.State, items.Node, rest))
			}
			for _, event := range events {
				todo = append(todo, Advance(r.Graph, r.State, event))
			}
		}
	}
}

// start prepares a node. The event, unless nil, is to be applied to the state.
func (r *Resolver) start(n int, e *Effects) *Event {
	if r.Budget.full() {
		r.State.putOff(n)
		e.More = append(e.More, n)
		return nil
	}
	p := Prepare(r.Graph, r.State, n, r.Run, r.Values)
	switch {
	case p.Failure != nil:
		e.Failures = append(e.Failures, NodeFailure{Node: n, Item: -1, Failure: *p.Failure})
	case p.Items != nil:
		r.keep(n, p.Items)
		e.Maps = append(e.Maps, n)
	case p.Event != nil: // it is skipped
	case p.Wait != nil:
		r.Budget.bytes += len(p.Wait.Match)
		e.Waits = append(e.Waits, NodeWait{Node: n, Wait: *p.Wait})
	default:
		r.Budget.bytes += len(p.Execution) + len(p.Payload) + r.passedOn(n)
		e.Executions = append(e.Executions, Execution{Node: n, Item: -1, Execution: p.Execution, Payload: p.Payload})
	}
	return p.Event
}

// passedOn returns how many bytes of the run's input an execution of a node carries.
func (r *Resolver) passedOn(n int) int {
	if r.Graph.nodes[n].hasInput {
		return len(r.Run.Input)
	}
	return 0
}

// keptLists limits how many lists are cached; any other is evaluated again.
const keptLists = 16

func (r *Resolver) keep(n int, l *ItemList) {
	if r.lists == nil || len(r.lists) >= keptLists {
		r.lists = map[int]*ItemList{}
	}
	r.lists[n] = l
}

// list finds the list of a map, or makes it again.
func (r *Resolver) list(n int) (l *ItemList, bad *Failure) {
	if l = r.lists[n]; l != nil {
		return l, nil
	}
	if r.Lists != nil {
		l = r.Lists.List(n)
	}
	if l == nil {
		if l, bad = PrepareItems(r.Graph, r.State, n, r.Run, r.Values); bad != nil {
			return nil, bad
		}
		if r.Lists != nil {
			r.Lists.KeepList(n, l)
		}
	}
	r.keep(n, l)
	return l, nil
}

// startItems prepares items of a map. The events are those of items that failed before they started; rest holds items
// for which this commit has no room.
func (r *Resolver) startItems(items Items, e *Effects) (failed []Event, rest []int) {
	if r.Budget.full() || r.Budget.items >= r.Graph.limits.fanOut() {
		return nil, items.Items
	}
	fail := func(item int, f *Failure) {
		e.Failures = append(e.Failures, NodeFailure{Node: items.Node, Item: item, Failure: *f})
		failed = append(failed, Event{Kind: ItemEnded, Node: items.Node, Item: item, Status: Failed})
	}
	l, bad := r.list(items.Node)
	existing := r.Graph.def.Nodes[items.Node].JobID != ""
	passedOn := r.passedOn(items.Node)
	for i, item := range items.Items {
		if r.Budget.full() || r.Budget.items >= r.Graph.limits.fanOut() {
			return failed, items.Items[i:]
		}
		r.Budget.items++
		if bad == nil && item >= l.Len() {
			bad = &Failure{BadExpression, "map: the list is shorter than it was when the node started"}
		}
		if bad != nil {
			fail(item, bad)
			continue
		}
		doc, f := l.Prepare(item)
		r.Budget.bytes += len(doc) + passedOn
		switch x := (Execution{Node: items.Node, Item: item}); {
		case f != nil:
			fail(item, f)
		case existing:
			x.Payload = doc
			e.Executions = append(e.Executions, x)
		default:
			x.Execution = doc
			e.Executions = append(e.Executions, x)
		}
	}
	return failed, nil
}
