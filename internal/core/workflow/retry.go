package workflow

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Retry describes which parts of a run to run again.
type Retry struct {
	Nodes    []string // start from these, even if they are good; none: from what failed
	Only     bool     // leave the descendants of Nodes as they are
	Items    bool     // of maps among Nodes run only items that did not succeed, also if enough did
	NewInput bool     // the input is another, so maps are evaluated and approvals asked again
	Graph    *Graph   // another version of the workflow, matched by key; nil: the run's own
}

// Apply begins the next attempt of a finished run. The old state is unchanged; the new one belongs to r.Graph, if
// there is one. An error is a *Conflict or job.Invalids.
func (r Retry) Apply(g *Graph, s *State) (*State, Decisions, error) {
	if !s.Status.Final() {
		return nil, Decisions{}, conflict("retry", "", s.Status, "a run that has ended: cancel it first, or wait")
	}
	to := r.Graph
	if to == nil {
		to = g
	}
	p := &retryPlan{r: r, from: g, old: s, to: to, again: make([]bool, len(to.nodes)), was: make([]int32, len(to.nodes))}
	if err := p.choose(); err != nil {
		return nil, Decisions{}, err
	}
	t := p.state()
	a := &advance{g: to, s: t}
	a.judgeAll()
	return t, a.settle(), nil
}

type retryPlan struct {
	r        Retry
	from, to *Graph
	old      *State
	again    []bool  // nodes of to that run again
	was      []int32 // of each node of to: its number in from; -1: it is new
}

// cell returns the old state of a node of the new graph; a new node has not run.
func (p *retryPlan) cell(n int32) cell {
	if p.was[n] < 0 {
		return cell{status: NotRun}
	}
	return p.old.cells[p.was[n]]
}

// choose decides which nodes run again.
func (p *retryPlan) choose() error {
	for i := range p.to.nodes {
		p.was[i] = -1
		if old, ok := p.from.index[p.to.nodes[i].key]; ok && (p.from.asks(old) || !p.to.asks(int32(i))) { // nobody has answered an approval whose node was something else
			p.was[i] = old
		}
	}
	given := len(p.r.Nodes) > 0
	if p.r.Only && !given {
		return job.Invalids{{Field: "only", Value: "true", Want: "nodes beside it: the keys of those that run again"}}
	}
	starts := make([]bool, len(p.to.nodes))
	for k, key := range p.r.Nodes {
		n, ok := p.to.index[key]
		if !ok {
			return job.Invalids{{Field: fmt.Sprintf("nodes[%d]", k), Value: job.Show(key), Want: "the key of a node of this run"}}
		}
		starts[n] = true
	}
	for i := range p.to.nodes {
		c := p.cell(int32(i))
		starts[i] = starts[i] || !given && c.status.Failed() && p.to.nodes[i].policy != Ignore || !p.r.Only && p.was[i] < 0
	}
	any := false
	for _, i := range p.to.order {
		p.again[i] = starts[i]
		for _, parent := range p.to.nodes[i].parents {
			p.again[i] = p.again[i] || p.again[parent] && !p.r.Only
		}
		any = any || p.again[i]
	}
	for more := true; more; {
		if !p.r.Only {
			any = p.unrun() || any
		}
		more = p.askAgain()
	}
	if !any {
		return conflict("retry", "", p.old.Status, "a run in which something failed; name nodes to run good ones again")
	}
	for _, n := range p.to.finally {
		p.again[n] = true
	}
	return nil
}

// askAgain adds the approvals above what runs again, if those who gave them knew another input or another version,
// with all that descends from them; under only, just what leads from them to a node that runs again.
func (p *retryPlan) askAgain() (more bool) {
	if !p.r.NewInput && p.to == p.from {
		return false
	}
	above := make([]bool, len(p.to.nodes)) // something below it runs again
	for _, i := range slices.Backward(p.to.order) {
		for _, parent := range p.to.nodes[i].parents {
			above[parent] = above[parent] || above[i] || p.again[i]
		}
	}
	below := make([]bool, len(p.to.nodes)) // it is such an approval, or descends from one
	for _, i := range p.to.order {
		below[i] = above[i] && p.to.asks(i)
		for _, parent := range p.to.nodes[i].parents {
			below[i] = below[i] || below[parent]
		}
		if below[i] && !p.again[i] && (above[i] || !p.r.Only) {
			p.again[i], more = true, true
		}
	}
	return more
}

// unrun adds nodes that were not run, unless a failure that stays is the reason, and the skipped nodes below them.
func (p *retryPlan) unrun() (any bool) {
	stays := false // a failure that stops the run
	held := make([]bool, len(p.to.nodes))
	for i := range p.to.nodes {
		if c := p.cell(int32(i)); !p.again[i] && c.status.Failed() && p.to.nodes[i].policy == Stop {
			stays = true
		}
	}
	below := make([]bool, len(p.to.nodes))
	for _, i := range p.to.order {
		c, n := p.cell(i), &p.to.nodes[i]
		for _, parent := range n.parents {
			below[i] = below[i] || below[parent]
			held[i] = held[i] || held[parent] || !p.again[parent] && p.cell(parent).status.Failed() && p.to.nodes[parent].policy != Ignore
		}
		switch {
		case p.again[i] || n.finally:
		case c.status == NotRun && !held[i] && (!stays || n.goesOn):
			p.again[i], below[i], any = true, true, true
		case c.status == Skipped && below[i] && c.reason != ByHand:
			p.again[i] = true
		}
	}
	return any
}

// state is the run's before anything of it starts again.
func (p *retryPlan) state() *State {
	t := &State{Status: Running, Attempt: p.old.Attempt + 1, room: p.old.room, cells: make([]cell, len(p.to.nodes)), maps: map[int32]*mapState{}}
	for i := range t.cells {
		n := int32(i)
		if p.again[i] {
			t.cells[i].status = Waiting
			if m := p.goesOn(n); m != nil {
				t.maps[n] = m
			}
			continue
		}
		c := p.cell(n)
		t.cells[i] = cell{status: c.status, reason: c.reason}
		if m := p.old.maps[max(p.was[i], 0)]; m != nil && p.was[i] >= 0 {
			x := *m
			x.codes = slices.Clone(m.codes)
			t.maps[n] = &x
		}
	}
	t.recount(p.to)
	return t
}

// goesOn is the state of a map that keeps its good items: one that failed or is asked to keep them, with nothing above it that runs again. It is nil
// if the map is to be evaluated again.
func (p *retryPlan) goesOn(n int32) *mapState {
	if p.was[n] < 0 || p.r.NewInput || !p.cell(n).status.Failed() && !p.r.Items {
		return nil
	}
	m, x := p.old.maps[p.was[n]], &p.to.nodes[n]
	if m == nil || !x.mapped || !bytes.Equal(p.to.def.Nodes[n].Map, p.from.def.Nodes[p.was[n]].Map) {
		return nil
	}
	for _, parent := range x.parents { // it follows from what runs again
		if p.again[parent] {
			return nil
		}
	}
	kept := newMap(x, m.width)
	for i := range m.width {
		switch code := m.code(i); code {
		case itemGood:
			kept.set(i, code)
			kept.good++
		case itemSkipped:
			kept.set(i, code)
			kept.skipped++
		}
	}
	return kept
}
