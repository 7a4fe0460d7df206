package workflow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawn is a random workflow, and how its executions end.
type drawn struct {
	def      Definition
	graph    *Graph
	outcomes map[string]json.RawMessage
	room     int
}

// draw makes a random workflow; policies are those its failures may have.
func draw(t *rapid.T, policies ...OnFailure) drawn {
	d := drawn{outcomes: map[string]json.RawMessage{}}
	count := rapid.IntRange(1, 12).Draw(t, "nodes")
	ends := rapid.SampledFrom([]string{"S", "S", "S", "S", "F", "T", "E", "C", "K"})
	for i := range count {
		n := Node{Key: fmt.Sprintf("n%d", i), Execution: json.RawMessage(`{}`), OnFailure: rapid.SampledFrom(policies).Draw(t, "policy")}
		n.Finally = i > 0 && rapid.IntRange(0, 6).Draw(t, "finally") == 0
		for p := range i {
			if d.def.Nodes[p].Finally == n.Finally && rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				n.DependsOn = append(n.DependsOn, fmt.Sprintf("n%d", p))
			}
		}
		if trigger := rapid.SampledFrom(triggerNames[:]).Draw(t, "trigger"); len(n.DependsOn) > 0 {
			n.Trigger = trigger
		}
		n.If = rapid.SampledFrom([]string{"", "", "", "", "true", "run.input.no", "1"}).Draw(t, "if")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			n.Map = json.RawMessage(fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "width")))
			n.MaxParallel = rapid.IntRange(0, 3).Draw(t, "parallel")
			n.Tolerate = json.RawMessage(fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "tolerate")))
			for item := range 4 {
				d.outcomes[fmt.Sprintf("n%d[%d]", i, item)] = json.RawMessage(`"` + ends.Draw(t, "item") + `"`)
			}
		default:
			d.outcomes[n.Key] = json.RawMessage(`"` + ends.Draw(t, "end") + `"`)
		}
		d.def.Nodes = append(d.def.Nodes, n)
	}
	limits := DefaultLimits()
	limits.FanOut = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "items of a decision")
	limits.Live = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "items of a map at once")
	g, err := Compile(d.def, limits)
	if err != nil {
		t.Fatalf("%v", err)
	}
	d.graph, d.room = g, rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(t, "room")
	return d
}

// player begins a run of it that is checked at each step.
func (d drawn) player(t *rapid.T) *player {
	p := newPlayer(t, d.graph, Run{Input: json.RawMessage(`{"no": false}`)})
	p.outcomes, p.room = d.outcomes, d.room
	p.rand = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
	p.after = func(before *State, e Event, made Decisions) { check(t, d.graph, before, p.s, e, made) }
	p.settled = func(before *State) {
		counted(t, d.graph, p.s)
		for i := range before.cells {
			if before.cells[i].status == Waiting && p.s.cells[i].live() && !triggered(d.graph, p.s, i) {
				t.Fatalf("%s started before its trigger %s held", d.graph.nodes[i].key, d.graph.nodes[i].trigger)
			}
		}
	}
	p.begin()
	counted(t, d.graph, p.s)
	return p
}

var all = []OnFailure{Continue, Stop, Handle, Ignore}

// check holds one step of a run against the rules.
func check(t *rapid.T, g *Graph, before, s *State, e Event, made Decisions) {
	counted(t, g, s)
	if made.Ignored && !before.Equal(s) {
		t.Fatalf("%+v was ignored and changed the state", e)
	}
	twice := s.Clone()
	if again := Advance(g, twice, e); e.Kind != MoreItems && (!again.Ignored || !twice.Equal(s)) {
		t.Fatalf("%+v for a second time made %+v", e, again)
	}
	for i := range before.cells {
		if was := before.cells[i].status; was.Final() && was != s.cells[i].status {
			t.Fatalf("%s was %s and became %s", g.nodes[i].key, was, s.cells[i].status)
		}
	}
}

// counted holds the counters of a state, and its encoded form, against a recount from nothing.
func counted(t *rapid.T, g *Graph, s *State) {
	c := s.Clone()
	c.recount(g)
	if !c.Equal(s) {
		t.Fatalf("the counters are\n%+v; a recount gives\n%+v", s, c)
	}
	for n, m := range s.maps {
		var good, failed, skipped, live int
		for i := range m.width {
			switch m.code(i) {
			case itemGood:
				good++
			case itemFailed:
				failed++
			case itemSkipped:
				skipped++
			default:
				if i < m.cursor {
					live++
				}
			}
		}
		if good != m.good || failed != m.failed || skipped != m.skipped || live != m.live && !s.cells[n].status.Final() || live > m.window(g.limits) {
			t.Fatalf("the map counts %+v; a recount gives %d good, %d failed, %d skipped, %d live", m, good, failed, skipped, live)
		}
	}
	if s.room > 0 && s.busy(g) > s.room {
		t.Fatalf("%d executions are live in a room of %d", s.busy(g), s.room)
	}
	decoded, err := DecodeState(g, s.Encode())
	if err != nil || !decoded.Equal(s) {
		t.Fatalf("decoded: %+v, %v; want %+v", decoded, err, s)
	}
}

// triggered says by the contract's table alone, from the parents' states, whether a node may run.
func triggered(g *Graph, s *State, n int) bool {
	var goods, skips, stops, bads, open int
	for _, p := range g.nodes[n].parents {
		switch c := s.cells[p]; {
		case !c.status.Final():
			open++
		case c.status == Succeeded, c.status.Failed() && g.nodes[p].policy == Ignore:
			goods++
		case c.status == Skipped:
			skips++
		case c.status == NotRun && c.reason == ByStop:
			stops++
		default:
			bads++
		}
	}
	switch g.nodes[n].trigger {
	case OneSuccess:
		return goods > 0
	case OneDone:
		return goods+bads > 0
	case OneFailed:
		return bads > 0
	case AllSuccess:
		return open+skips+stops+bads == 0
	case NoneFailed:
		return open+stops+bads == 0
	case NoneFailedMinOneSuccess:
		return open+stops+bads == 0 && goods > 0
	case AnySuccess:
		return open == 0 && goods > 0
	case AllDone:
		return open == 0
	case AllFailed:
		return open+goods+skips+stops == 0
	}
	return false
}

// statuses are how the nodes ended, in a line.
func (p *player) statuses() string {
	var b strings.Builder
	for i := range p.s.cells {
		fmt.Fprintf(&b, "%s=%s ", p.g.nodes[i].key, p.s.cells[i].status)
	}
	return b.String() + p.s.Status.String()
}

// ended fails unless the run and all its nodes have ended, as the rules say.
func (p *player) hasEnded(t *rapid.T) {
	failed := false
	for i := range p.s.cells {
		status := p.s.cells[i].status
		if !status.Final() {
			t.Fatalf("the run waits for ever:\n%s", p)
		}
		failed = failed || status.Failed() && (p.g.nodes[i].policy == Continue || p.g.nodes[i].policy == Stop)
	}
	want := Succeeded
	switch {
	case p.s.ending != 0:
		want = p.s.ending
	case failed:
		want = Failed
	}
	if p.s.Status != want {
		t.Fatalf("the run is %s; want %s\n%s", p.s.Status, want, p)
	}
}

func TestEveryRunEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, all...).player(t)
		p.play()
		p.hasEnded(t)
		for i := range p.s.cells {
			_ = Explain(p.g, p.s, i)
		}
	})
}

// Under continue the end does not depend on the order in which nodes finish.
func TestTheOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t, Continue, Handle, Ignore)
		one, other := d.player(t), d.player(t)
		one.play()
		other.play()
		if one.statuses() != other.statuses() {
			t.Fatalf("in one order:\n%s\nin another:\n%s", one.statuses(), other.statuses())
		}
	})
}

// Under continue a pause that ends changes nothing about the end.
func TestPauseAndUnpauseAreNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t, Continue, Handle, Ignore)
		one, other := d.player(t), d.player(t)
		one.play()
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			if len(other.live) > 0 {
				other.finish(other.live[0])
			}
		}
		if other.s.Status == Running {
			other.act("pause", nil)
			counted(t, d.graph, other.s)
			held := len(other.live)
			other.play()
			if other.s.Status != Paused && !other.s.Status.Final() {
				t.Fatalf("paused, with %d live, the run is %s", held, other.s.Status)
			}
			if other.s.Status == Paused {
				other.act("unpause", nil)
			}
		}
		other.play()
		if one.statuses() != other.statuses() {
			t.Fatalf("without a pause:\n%s\nwith one:\n%s", one.statuses(), other.statuses())
		}
	})
}

// However a run is ended, what runs is cancelled, the rest is not run, and finally nodes start unless it was forced.
func TestCancelEndsARun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := draw(t, all...).player(t)
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			if len(p.live) > 0 {
				p.finish(p.live[0])
			}
		}
		if p.s.Status.Final() {
			return
		}
		if rapid.Bool().Draw(t, "paused") {
			p.act("pause", nil)
			for range rapid.IntRange(0, 5).Draw(t, "steps while it is paused") {
				if len(p.live) > 0 {
					p.finish(p.live[0])
				}
			}
		}
		if p.s.Status.Final() {
			return
		}
		how := rapid.SampledFrom([]string{"cancel", "run_timeout"}).Draw(t, "how")
		p.act(how, nil)
		counted(t, p.g, p.s)
		if !p.s.Status.Final() && rapid.Bool().Draw(t, "forced") {
			p.act("force_cancel", nil)
			counted(t, p.g, p.s)
		}
		p.play()
		p.hasEnded(t)
		for _, n := range p.g.finally {
			if len(p.g.nodes[n].parents) == 0 && !p.s.forced && p.s.cells[n].status == NotRun {
				t.Fatalf("%s, a finally node, was not run", p.g.nodes[n].key)
			}
		}
	})
}

// A retry runs what failed, what follows from it, what was not run and finally nodes, and nothing else.
func TestARetryTouchesItsClosure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t, all...)
		p := d.player(t)
		p.play()
		var nodes []string
		if rapid.Bool().Draw(t, "given") {
			nodes = []string{d.def.Nodes[rapid.IntRange(0, len(d.def.Nodes)-1).Draw(t, "from")].Key}
		}
		r := Retry{Nodes: nodes, Only: nodes != nil && rapid.Bool().Draw(t, "only")}
		before := p.s
		s, made, err := r.Apply(p.g, before)
		if err != nil {
			if nodes != nil || slices.ContainsFunc(before.cells, func(c cell) bool { return c.status == NotRun }) {
				t.Fatal(err)
			}
			for i := range before.cells {
				if before.cells[i].status.Failed() && p.g.nodes[i].policy != Ignore {
					t.Fatalf("%s failed, and %v", p.g.nodes[i].key, err)
				}
			}
			return
		}
		counted(t, p.g, s)
		may := closure(p.g, before, r)
		for i := range s.cells {
			if !may[i] && (s.cells[i].status != before.cells[i].status || slices.Contains(made.Start, i)) {
				t.Fatalf("%s was %s and is %s; it is no part of the retry", p.g.nodes[i].key, before.cells[i].status, s.cells[i].status)
			}
		}
		items := map[string]int{}
		for key, n := range p.started {
			items[key] = n
		}
		p.s, p.outcomes = s, nil // all that runs now succeeds
		p.obey(made)
		p.play()
		p.hasEnded(t)
		for key, n := range p.started {
			name, _, _ := strings.Cut(key, "[")
			i, _ := p.g.Number(name)
			if n > items[key] && !may[i] {
				t.Fatalf("%s ran again; it is no part of the retry", key)
			}
		}
		for i := range s.cells {
			bad := p.s.cells[i].status == Failed && p.s.cells[i].reason == BadExpression
			if nodes == nil && p.s.cells[i].status.Failed() && p.g.nodes[i].policy != Ignore && !bad {
				t.Fatalf("%s stays %s although all succeed now", p.g.nodes[i].key, p.s.cells[i].status)
			}
		}
	})
}

// closure says by the contract alone which nodes a retry may touch: where it starts and all descendants of that, what was
// not run and the skipped nodes below it, finally nodes.
func closure(g *Graph, s *State, r Retry) []bool {
	may := make([]bool, len(g.nodes))
	from := make([]bool, len(g.nodes))  // it starts here, or above
	below := make([]bool, len(g.nodes)) // it is, or is below, what was not run
	for _, i := range g.order {
		c, n := s.cells[i], &g.nodes[i]
		from[i] = slices.Contains(r.Nodes, n.key) || r.Nodes == nil && c.status.Failed() && n.policy != Ignore
		below[i] = c.status == NotRun
		for _, p := range n.parents {
			from[i] = from[i] || from[p] && !r.Only
			below[i] = below[i] || below[p]
		}
		may[i] = n.finally || from[i] || !r.Only && below[i] && (c.status == NotRun || c.status == Skipped)
	}
	return may
}

// A node that was skipped or marked by hand stays so, and the run ends again.
func TestSkipAndMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t, all...)
		p := d.player(t)
		if rapid.Bool().Draw(t, "early") {
			for range rapid.IntRange(0, 3).Draw(t, "steps") {
				if len(p.live) > 0 {
					p.finish(p.live[0])
				}
			}
		} else {
			p.play()
		}
		n := rapid.IntRange(0, len(d.def.Nodes)-1).Draw(t, "node")
		before := p.s.Clone()
		act, want := Skip, Skipped
		if rapid.Bool().Draw(t, "mark") {
			act, want = Mark, Succeeded
		}
		made, err := act(p.g, p.s, n)
		if err != nil {
			if !before.Equal(p.s) {
				t.Fatalf("%v, and the state changed", err)
			}
			return
		}
		counted(t, p.g, p.s)
		p.obey(made)
		p.play()
		p.hasEnded(t)
		if status, reason := p.s.Node(n); status != want || reason != ByHand {
			t.Fatalf("%s is %s (%s); want %s by hand", p.g.nodes[n].key, status, reason, want)
		}
	})
}
