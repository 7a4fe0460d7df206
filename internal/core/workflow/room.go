package workflow

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// The room of a run bounds how many executions of its nodes and items are live at once; 0: nothing does. A run that is
// a node of another one gets a part of that one's room, such that all parts together are no more than the whole, and at
// least 1. So whatever a trigger begins has at most MaxNesting times the room of its own run live, and yet each run has
// always something live: no run waits for another one to end, except for those below it.

// free returns how many more executions may start.
func (a *advance) free() int {
	if a.s.room == 0 {
		return math.MaxInt
	}
	return max(0, a.s.room-a.s.busy(a.g))
}

// busy counts the executions that are live.
func (s *State) busy(g *Graph) (n int) {
	for i := range s.cells {
		if s.cells[i].live() && g.executes(i) {
			n++
		}
	}
	for _, m := range s.maps {
		n += m.live
	}
	return n
}

// crowded reports whether nothing may start before something ends.
func (s *State) crowded(g *Graph) bool { return s.room > 0 && s.busy(g) >= s.room }

// waitsForRoom returns the reason why a node, or an item, waits while the run is crowded.
func (s *State) waitsForRoom() string {
	return fmt.Sprintf("waits until one of the run's executions ends: at most %d are live at once, since the tenant's tier limits what one trigger begins", s.room)
}

// executes reports whether a node has one execution of its own.
func (g *Graph) executes(n int) bool { return g.nodes[n].wait == nil && !g.nodes[n].mapped }

// refill starts what had no room, now that something has ended: nodes first, then items of the map that has the fewest.
func (a *advance) refill() {
	if a.s.room == 0 || a.s.paused || a.s.Status.Final() {
		return
	}
	for _, n := range a.g.order {
		if !a.s.cells[n].held {
			continue
		}
		if a.s.stops == 0 && a.free() == 0 {
			break
		}
		a.start(n)
	}
	for a.free() > 0 {
		next := a.narrowest()
		if next < 0 {
			break
		}
		m := a.s.maps[next]
		a.startItems(next, m)
		a.finishMap(next, m)
	}
	a.tell()
}

// narrowest finds the map with the fewest live items of those that have more to start; -1: there is none.
func (a *advance) narrowest() int32 {
	next := int32(-1)
	for n, m := range a.s.maps {
		if a.s.cells[n].status != Running || m.cursor >= m.width || m.live >= m.window(a.g.limits) || m.lost() || slices.Contains(a.d.More, int(n)) {
			continue
		}
		if next < 0 || cmp.Or(cmp.Compare(m.live, a.s.maps[next].live), cmp.Compare(n, next)) < 0 {
			next = n
		}
	}
	return next
}

// RoomBelow returns the room of a run that is a node, or an item, of a run in this state. The number of those that can
// be live at once falls while the run goes on, so those that have begun have no more than their parts, unless a map is
// given more items at once meanwhile.
func RoomBelow(g *Graph, s *State) int {
	if s.room == 0 {
		return 0
	}
	parts := 0
	for i := range g.nodes {
		if g.def.Nodes[i].JobID == "" || s.cells[i].status.Final() {
			continue
		}
		switch m := s.maps[int32(i)]; {
		case m != nil:
			parts += min(m.width, m.window(g.limits))
		case g.nodes[i].mapped:
			parts += cmp.Or(g.nodes[i].parallel, g.limits.Live, liveItems)
		default:
			parts++
		}
	}
	return max(1, s.room/max(1, parts))
}
