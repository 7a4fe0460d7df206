package workflow

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// vector is a line of testdata/vectors.jsonl, the contract's tests: a graph, how its nodes end, what people do to the run,
// and where it must stand then.
type vector struct {
	ID        string
	What      string
	OnFailure OnFailure `json:"on_failure"`
	Input     json.RawMessage
	Nodes     map[string]struct {
		After       []string
		Trigger     string
		If          string
		OnFailure   OnFailure `json:"on_failure"`
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

// definition writes the vector's graph as its author would; keys are in order, so that numbers are the same each time.
func (v vector) definition() Definition {
	d := Definition{OnFailure: v.OnFailure}
	for key, n := range v.Nodes {
		d.Nodes = append(d.Nodes, Node{
			Key: key, DependsOn: n.After, Trigger: n.Trigger, If: n.If, OnFailure: n.OnFailure, Finally: n.Finally,
			Map: n.Map, MaxParallel: n.MaxParallel, Tolerate: n.Tolerate, Execution: json.RawMessage(`{"target":"worker","kind":"x"}`),
		})
	}
	slices.SortFunc(d.Nodes, func(a, b Node) int { return strings.Compare(a.Key, b.Key) })
	return d
}

func vectors(t testing.TB) (out []vector) {
	f, err := os.Open("testdata/vectors.jsonl")
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

var outcomes = map[string]Status{"S": Succeeded, "F": Failed, "T": TimedOut, "E": Expired, "C": Cancelled, "K": Skipped}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			for seed := range uint64(20) { // where the vector names no order, any must do
				runVector(t, v, seed)
			}
		})
	}
}

func runVector(t *testing.T, v vector, seed uint64) {
	g, err := Compile(v.definition(), DefaultLimits())
	if err != nil {
		t.Fatalf("%s: %v", v.What, err)
	}
	p := newPlayer(t, g, Run{ID: "run", Key: v.ID, Input: v.Input})
	p.outcomes = v.Outcomes
	p.rand = rand.New(rand.NewPCG(seed, 1))
	p.begin()
	if v.Until != nil { // these are live, and nothing has ended, when people act
		for _, key := range v.Until {
			if !slices.Contains(p.live, key) {
				t.Fatalf("%s: %s is not live; live are %v", v.What, key, p.live)
			}
		}
	} else {
		for _, key := range v.Order {
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
	if got := p.s.Status.String(); got != v.Expect.Run {
		t.Errorf("%s: the run is %s; want %s\n%s", v.What, got, v.Expect.Run, p)
	}
	for key, want := range v.Expect.Nodes {
		n, _ := g.Number(key)
		if got, _ := p.s.Node(n); got.String() != want {
			t.Errorf("%s: %s is %s; want %s\n%s", v.What, key, got, want, p)
		}
	}
	for key, want := range v.Expect.Results {
		n, _ := g.Number(key)
		if got := string(p.Result(n)); got != string(want) {
			t.Errorf("%s: the result of %s is %s; want %s", v.What, key, got, want)
		}
	}
	for key, want := range v.Expect.Items {
		n, _ := g.Number(key)
		got := ""
		for i := range len(want) {
			got += string(p.s.Item(n, i).String()[0])
		}
		if got != want {
			t.Errorf("%s: the items of %s are %s; want %s", v.What, key, got, want)
		}
	}
}

// failer is a test, or a check of rapid.
type failer interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// player does what the decisions of a run say, as a server would, and ends what runs as it is told.
type player struct {
	t        failer
	g        *Graph
	s        *State
	room     int // of its run
	outcomes map[string]json.RawMessage
	rand     *rand.Rand
	live     []string // executions: node, or node[item]
	cancel   map[string]bool
	results  map[string]json.RawMessage
	started  map[string]int // how often each execution started, over all attempts
	r        *Resolver
	waits    []NodeWait
	failures []NodeFailure
	after    func(before *State, e Event, d Decisions) // looks at each step
	settled  func(before *State)                       // looks at what came of it
}

func newPlayer(t failer, g *Graph, r Run) *player {
	p := &player{t: t, g: g, rand: rand.New(rand.NewPCG(1, 1)), cancel: map[string]bool{}, results: map[string]json.RawMessage{}, started: map[string]int{}}
	p.r = &Resolver{Graph: g, Run: r, Values: p}
	return p
}

func (p *player) String() string {
	var b strings.Builder
	for i := range p.g.nodes {
		status, reason := p.s.Node(i)
		fmt.Fprintf(&b, "  %s: %s %s %q\n", p.g.nodes[i].key, status, reason, Explain(p.g, p.s, i))
	}
	return b.String()
}

// Result is a map's list of results, or a node's own.
func (p *player) Result(n int) json.RawMessage {
	key := p.g.nodes[n].key
	m, ok := p.s.Map(n)
	if !ok {
		return p.results[key]
	}
	list := make([]json.RawMessage, m.Total)
	for i := range list {
		if list[i] = json.RawMessage("null"); p.s.Item(n, i) == Succeeded {
			list[i] = p.results[fmt.Sprintf("%s[%d]", key, i)]
		}
	}
	doc, err := json.Marshal(list)
	if err != nil {
		p.t.Fatal(err)
	}
	return doc
}

func (p *player) Error(n int) *job.Error {
	if status, _ := p.s.Node(n); status.Failed() {
		return &job.Error{Type: "X"}
	}
	return nil
}

func (p *player) begin() {
	var d Decisions
	p.s, d = BeginWith(p.g, false, p.room)
	p.obey(d)
}

func (p *player) advance(e Event) {
	before := p.s
	if p.after != nil {
		before = p.s.Clone()
	}
	d := Advance(p.g, p.s, e)
	if p.after != nil {
		p.after(before, e, d)
	}
	p.obey(d)
	if p.settled != nil {
		p.settled(before)
	}
}

// obey does what decisions say.
func (p *player) obey(d Decisions) {
	p.r.State, p.r.Budget = p.s, &Budget{} // each is a commit
	p.apply(p.r.Resolve(d))
}

// apply makes true what follows from decisions, as a server would.
func (p *player) apply(e Effects) {
	for _, x := range e.Executions {
		key := p.g.nodes[x.Node].key
		if x.Item >= 0 {
			key = fmt.Sprintf("%s[%d]", key, x.Item)
		}
		p.start(key)
	}
	p.waits = append(p.waits, e.Waits...)
	p.failures = append(p.failures, e.Failures...)
	for _, n := range e.Cancel {
		key := p.g.nodes[n].key
		for _, l := range p.live {
			if l == key || strings.HasPrefix(l, key+"[") {
				p.cancel[l] = true
			}
		}
	}
	for _, n := range e.More {
		p.advance(Event{Kind: MoreItems, Node: n})
	}
}

func (p *player) start(key string) {
	if slices.Contains(p.live, key) {
		p.t.Fatalf("%s starts while it runs", key)
	}
	p.live = append(p.live, key)
	p.started[key]++
}

// finish ends an execution as the outcomes say.
func (p *player) finish(key string) {
	i := slices.Index(p.live, key)
	if i < 0 {
		p.t.Fatalf("%s is not live; live are %v", key, p.live)
	}
	p.live = slices.Delete(p.live, i, i+1)
	status := Succeeded
	var code string
	if json.Unmarshal(p.outcomes[key], &code) == nil && code != "" {
		status = outcomes[code]
	}
	if p.cancel[key] {
		status = Cancelled
		delete(p.cancel, key)
	}
	p.advance(p.ended(key, status))
}

// ended is the event that an execution ended, with its result kept: by default that of an item is its index.
func (p *player) ended(key string, status Status) Event {
	name, item, mapped := strings.Cut(strings.TrimSuffix(key, "]"), "[")
	n, _ := p.g.Number(name)
	if status == Succeeded {
		switch result, ok := p.outcomes[key+".result"]; {
		case ok:
			p.results[key] = result
		case mapped:
			p.results[key] = json.RawMessage(item)
		default:
			p.results[key] = json.RawMessage("null")
		}
	}
	if !mapped {
		return Event{Kind: NodeEnded, Node: n, Status: status}
	}
	var i int
	if _, err := fmt.Sscan(item, &i); err != nil {
		p.t.Fatal(err)
	}
	return Event{Kind: ItemEnded, Node: n, Item: i, Status: status}
}

// play ends what is live, in any order, until nothing is.
func (p *player) play() {
	for len(p.live) > 0 {
		p.finish(p.live[p.rand.IntN(len(p.live))])
	}
}

func (p *player) act(op string, nodes []string) {
	var d Decisions
	var err error
	switch op {
	case "pause":
		d, err = Pause(p.g, p.s)
	case "resume", "unpause":
		d, err = Unpause(p.g, p.s)
	case "cancel":
		d, err = Cancel(p.g, p.s, false)
	case "force_cancel":
		d, err = Cancel(p.g, p.s, true)
	case "run_timeout":
		d = Advance(p.g, p.s, Event{Kind: RunTimedOut})
	case "retry":
		p.s, d, err = Retry{Nodes: nodes}.Apply(p.g, p.s)
	case "skip", "mark":
		n, _ := p.g.Number(nodes[0])
		if op == "skip" {
			d, err = Skip(p.g, p.s, n)
		} else {
			d, err = Mark(p.g, p.s, n)
		}
	default:
		p.t.Fatalf("no such act: %s", op)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.obey(d)
}
