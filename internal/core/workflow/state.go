package workflow

import (
	"maps"
	"slices"
)

// State is the state of one run. Advance and the actions change it in place; Clone it first to keep the old one.
type State struct {
	Status  Status // of the run
	Attempt int    // the attempt of the run, from 1

	ending  Status // Cancelled or TimedOut: the run was cancelled, or has timed out
	forced  bool   // it skips finally nodes, too
	paused  bool
	cleanup bool // finally nodes may start

	room int // how many executions may be live at once; 0: any number

	open     int // nodes that have not ended, except finally ones
	openLast int // finally nodes that have not ended
	failures int // nodes by which the run fails
	stops    int // of those, the ones that stop the run

	cells []cell
	maps  map[int32]*mapState // of map nodes whose width is known
}

// cell is the state of one node, and what it knows of its parents.
type cell struct {
	status Status
	reason Reason
	seen   class // how parents ended
	held   bool  // its trigger holds, but a pause or a lack of room keeps it from starting
	unmet  uint16
}

// Begin makes the state of a new run and starts it.
func Begin(g *Graph) (*State, Decisions) { return BeginWith(g, false, 0) }

// BeginWith begins a run that may be paused from the start, as the run above it is, and has at most so many executions
// live at once; 0: any number.
func BeginWith(g *Graph, paused bool, room int) (*State, Decisions) {
	s := &State{Status: Running, Attempt: 1, paused: paused, room: room, cells: make([]cell, len(g.nodes)), maps: map[int32]*mapState{}}
	for i := range s.cells {
		s.cells[i].status = Waiting
	}
	s.recount(g)
	a := &advance{g: g, s: s}
	a.judgeAll()
	return s, a.settle()
}

// Clone copies a state.
func (s *State) Clone() *State {
	c := *s
	c.cells = slices.Clone(s.cells)
	c.maps = make(map[int32]*mapState, len(s.maps))
	for n, m := range s.maps {
		x := *m
		x.codes = slices.Clone(m.codes)
		c.maps[n] = &x
	}
	return &c
}

// Equal reports whether two states are the same.
func (s *State) Equal(o *State) bool {
	return s.Status == o.Status && s.Attempt == o.Attempt && s.ending == o.ending && s.forced == o.forced && s.paused == o.paused && s.cleanup == o.cleanup && s.room == o.room &&
		s.open == o.open && s.openLast == o.openLast && s.failures == o.failures && s.stops == o.stops && slices.Equal(s.cells, o.cells) &&
		maps.EqualFunc(s.maps, o.maps, func(a, b *mapState) bool {
			return a.width == b.width && a.cursor == b.cursor && a.live == b.live && a.good == b.good && a.failed == b.failed && a.skipped == b.skipped &&
				a.parallel == b.parallel && a.tolerate == b.tolerate && slices.Equal(a.codes, b.codes)
		})
}

// Node returns the status of a node and the reason for it.
func (s *State) Node(n int) (Status, Reason) { return s.cells[n].status, s.cells[n].reason }

// Paused reports whether nodes and items are kept from starting.
func (s *State) Paused() bool { return s.paused }

// Forced reports whether the run was cancelled with force.
func (s *State) Forced() bool { return s.forced }

// Held reports whether a node would have started, were the run not paused, or had it more room.
func (s *State) Held(n int) bool { return s.cells[n].held }

// Verdict returns how the run ends as far as is known: the run.status that finally nodes see.
func (s *State) Verdict() Status {
	switch {
	case s.ending != 0:
		return s.ending
	case s.failures > 0:
		return Failed
	}
	return Succeeded
}

// classOf returns how triggers see the end of a node.
func (g *Graph) classOf(n int32, c *cell) class {
	switch c.status {
	case Succeeded:
		return good
	case Skipped:
		return skipped
	case NotRun:
		if c.reason == ByStop {
			return stopped
		}
		return bad
	}
	if g.nodes[n].policy == Ignore {
		return good
	}
	return bad
}

// recount recomputes all counters from the statuses of the nodes.
func (s *State) recount(g *Graph) {
	s.open, s.openLast, s.failures, s.stops = 0, 0, 0, 0
	for i := range s.cells {
		s.cells[i].seen, s.cells[i].unmet = 0, uint16(len(g.nodes[i].parents))
	}
	for i := range s.cells {
		c, n := &s.cells[i], &g.nodes[i]
		if !c.status.Final() {
			s.count(n, 1)
			continue
		}
		s.blame(n, c.status, 1)
		for _, child := range n.children {
			s.cells[child].unmet--
			s.cells[child].seen |= g.classOf(int32(i), c)
		}
	}
}

// count adds to the number of unfinished nodes.
func (s *State) count(n *node, by int) {
	if n.finally {
		s.openLast += by
	} else {
		s.open += by
	}
}

// Fails reports whether a node with this end makes its run fail.
func Fails(g *Graph, n int, status Status) bool {
	p := g.nodes[n].policy
	return status.Failed() && (p == Stop || p == Continue)
}

// blame adds a node's end to the failures of the run, if it is one.
func (s *State) blame(n *node, status Status, by int) {
	if !status.Failed() {
		return
	}
	switch n.policy {
	case Stop:
		s.stops += by
		s.failures += by
	case Continue:
		s.failures += by
	case Handle, Ignore:
	}
}
