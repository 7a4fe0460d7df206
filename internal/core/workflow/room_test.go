package workflow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// tree plays a run, and the runs below it: each execution of a node with a job is a run of the next workflow.
type tree struct {
	*testing.T
	graphs []*Graph // by depth
	rand   *rand.Rand
	leaves []*leaf
	live   []int // by depth
	most   []int
	ended  int // leaves
}

// leaf is a run, or an execution that is none.
type leaf struct {
	above *leaf
	place Execution // in the run above
	depth int
	run   *player
}

func (t *tree) begin(above *leaf, place Execution, depth, room int) {
	l := &leaf{above: above, place: place, depth: depth}
	if depth > 0 {
		t.live[depth-1]++
		t.most[depth-1] = max(t.most[depth-1], t.live[depth-1])
	}
	if depth == len(t.graphs) {
		t.leaves = append(t.leaves, l)
		return
	}
	l.run = newPlayer(t, t.graphs[depth], Run{})
	l.run.r.Graph = t.graphs[depth]
	s, d := BeginWith(t.graphs[depth], false, room)
	l.run.s = s
	t.obey(l, d)
}

// obey begins what starts, and ends the run if it has ended.
func (t *tree) obey(l *leaf, d Decisions) {
	p := l.run
	p.r.State, p.r.Budget = p.s, &Budget{}
	e := p.r.Resolve(d)
	for _, x := range e.Executions {
		t.begin(l, x, l.depth+1, RoomBelow(p.g, p.s))
	}
	for _, n := range e.More {
		t.obey(l, Advance(p.g, p.s, Event{Kind: MoreItems, Node: n}))
	}
}

// end ends a leaf, and all above that thereby end.
func (t *tree) end(l *leaf) {
	for ; l.above != nil; l = l.above {
		if l.run != nil && !l.run.s.Status.Final() {
			return
		}
		t.live[l.depth-1]--
		e := Event{Kind: NodeEnded, Node: l.place.Node, Status: Succeeded}
		if l.place.Item >= 0 {
			e.Kind, e.Item = ItemEnded, l.place.Item
		}
		t.obey(l.above, Advance(l.above.run.g, l.above.run.s, e))
	}
}

// Maps of workflows of maps never have more live than their room at each depth, and all of them end.
func TestNestedMapsKeepToTheRoom(t *testing.T) {
	const room = 7
	d := Definition{}
	for _, n := range []Node{{Map: json.RawMessage("5")}, {}, {Map: json.RawMessage("3"), MaxParallel: 2}, {DependsOn: []string{"n0"}}} {
		n.Key, n.JobID = fmt.Sprintf("n%d", len(d.Nodes)), "key:below"
		d.Nodes = append(d.Nodes, n)
	}
	g, err := Compile(d, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	const depth = 4
	want := 1
	x := &tree{T: t, rand: rand.New(rand.NewPCG(1, 2)), live: make([]int, depth), most: make([]int, depth)}
	for range depth {
		x.graphs = append(x.graphs, g)
		want *= 5 + 1 + 3 + 1
	}
	x.begin(nil, Execution{}, 0, room)
	for len(x.leaves) > 0 {
		i := x.rand.IntN(len(x.leaves))
		l := x.leaves[i]
		x.leaves[i] = x.leaves[len(x.leaves)-1]
		x.leaves = x.leaves[:len(x.leaves)-1]
		x.ended++
		x.end(l)
	}
	if x.ended != want {
		t.Errorf("%d leaves ended; want %d", x.ended, want)
	}
	for i, n := range x.most {
		if n > room || n == 0 {
			t.Errorf("%d were live at depth %d; want at most %d, and some", n, i+1, room)
		}
	}
}

// What waits for room says so.
func TestWaitingForRoomIsExplained(t *testing.T) {
	g, err := Compile(Definition{Nodes: []Node{
		{Key: "a", Execution: json.RawMessage("{}")}, {Key: "b", Execution: json.RawMessage("{}")}, {Key: "m", Map: json.RawMessage("3"), Execution: json.RawMessage("{}")},
	}}, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	p := newPlayer(t, g, Run{})
	p.room = 1
	p.begin()
	if len(p.live) != 1 {
		t.Fatalf("live are %v", p.live)
	}
	for n, want := range map[int]string{1: "waits until one of the run's executions ends: at most 1 ", 2: "; the next one waits until one of"} {
		if got := Explain(g, p.s, n); !strings.Contains(got, want) {
			t.Errorf("node %d: %s", n, got)
		}
	}
	p.play()
	if p.s.Status != Succeeded {
		t.Errorf("the run is %v:\n%s", p.s.Status, p)
	}
}
