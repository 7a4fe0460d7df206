package workflow

// EventKind is the kind of an event.
type EventKind uint8

// What happens to a run.
const (
	NodeEnded    EventKind = iota + 1 // the execution of a node ended, its wait did, or Prepare decided so
	Expanded                          // a map was evaluated: Width items
	ItemEnded                         // the execution of a map's item ended
	MoreItems                         // Decisions.More named the node: it, or its next items, may start
	NodeTimedOut                      // a node's own timeout is over
	RunTimedOut                       // the run's timeout is over
)

// Event is something that happened to a run.
type Event struct {
	Kind   EventKind
	Node   int
	Item   int    // of ItemEnded
	Status Status // of NodeEnded and ItemEnded: a final one
	Reason Reason // of NodeEnded, if it is more specific than the status
	Width  int    // of Expanded
}

// Decisions are the consequences of an event. The State already includes them; the caller carries them out.
type Decisions struct {
	// Start lists nodes that start: Prepare each of them.
	Start []int
	// Items lists items of maps that start.
	Items []Items
	// More lists maps, and other nodes, that may start more than one commit should: send MoreItems for each.
	More []int
	// Cancel lists nodes whose execution, or whose live items, are to be cancelled.
	Cancel []int
	// Closed lists waits that ended without being released.
	Closed []int
	// Ended lists nodes that ended: by the event, or by a decision without an execution.
	Ended []int
	// Run is how the run ended; 0: it continues.
	Run Status
	// Ignored reports that the event changed nothing: it came too late, or for a second time.
	Ignored bool
}

// Items are items of a map that start.
type Items struct {
	Node  int
	Items []int
}

// Advance applies an event to a state. An event that was applied before, or that comes too late, changes nothing. Its
// cost is proportional to the number of children of the nodes that end.
func Advance(g *Graph, s *State, e Event) Decisions {
	a := &advance{g: g, s: s}
	if s.Status.Final() || e.Kind != RunTimedOut && (e.Node < 0 || e.Node >= len(g.nodes)) || !a.apply(e) {
		return Decisions{Ignored: true}
	}
	a.tell()
	a.refill()
	return a.settle()
}

// advance is a change of a state in progress.
type advance struct {
	g *Graph
	s *State
	d Decisions

	queue []int32 // nodes that ended and whose children have not been told
}

func (a *advance) apply(e Event) bool {
	n := int32(e.Node)
	switch e.Kind {
	case NodeEnded:
		return a.nodeEnded(n, e.Status, e.Reason)
	case Expanded:
		return a.expanded(n, e.Width)
	case ItemEnded:
		return a.itemEnded(n, e.Item, e.Status)
	case MoreItems:
		return a.moreItems(n)
	case NodeTimedOut:
		return a.nodeTimedOut(n)
	case RunTimedOut:
		if a.s.ending != 0 {
			return false
		}
		a.endRun(TimedOut)
		return true
	}
	return false
}

// live reports whether a node has started and not ended.
func (c *cell) live() bool {
	return c.status == Pending || c.status == Running || c.status == Cancelling
}

func (a *advance) nodeEnded(n int32, status Status, reason Reason) bool {
	c := &a.s.cells[n]
	if !c.live() || !status.Final() || status == NotRun {
		return false
	}
	if a.s.maps[n] != nil {
		return false // its items end it
	}
	if c.status == Cancelling && status == Cancelled {
		status, reason = a.cancelledAs(c)
	}
	if status == Skipped && reason == NoReason {
		reason = ByHandler
	}
	a.end(n, status, reason)
	return true
}

// cancelledAs returns how a node ends that was asked to stop and did: by its own timeout it is TIMED_OUT.
func (a *advance) cancelledAs(c *cell) (Status, Reason) {
	if c.reason == ByTimeout {
		return TimedOut, ByTimeout
	}
	return Cancelled, c.reason
}

// end gives a node its final status. settle tells its children.
func (a *advance) end(n int32, status Status, reason Reason) {
	c, x := &a.s.cells[n], &a.g.nodes[n]
	c.status, c.reason, c.held = status, reason, false
	a.s.count(x, -1)
	a.s.blame(x, status, 1)
	a.queue = append(a.queue, n)
	a.d.Ended = append(a.d.Ended, int(n))
}

// judge checks whether a node's trigger holds, and starts or ends the node accordingly.
func (a *advance) judge(n int32) {
	c, x := &a.s.cells[n], &a.g.nodes[n]
	if c.status != Waiting || c.held || x.finally && !a.s.cleanup {
		return
	}
	if reason := a.s.gone(x); reason != NoReason {
		a.end(n, NotRun, reason)
		return
	}
	switch x.trigger.judge(c.seen, int(c.unmet)) {
	case run:
		a.start(n)
	case skip:
		a.end(n, Skipped, ByTrigger)
	case notRun:
		a.end(n, NotRun, ByTrigger)
	case notRunStopped:
		a.end(n, NotRun, ByStop)
	case undecided:
	}
}

// gone returns why nothing of this kind starts any more.
func (s *State) gone(x *node) Reason {
	switch {
	case s.ending == 0 || x.finally && !s.forced:
		return NoReason
	case s.ending == TimedOut && !s.forced:
		return ByRunTimeout
	}
	return ByCancel
}

// start starts a node whose trigger holds.
func (a *advance) start(n int32) {
	c, x := &a.s.cells[n], &a.g.nodes[n]
	switch {
	case a.s.stops > 0 && !x.goesOn:
		a.end(n, NotRun, ByStop)
		return
	case a.s.paused, a.g.executes(int(n)) && a.free() == 0:
		c.held = true
		return
	}
	c.held, c.reason = false, NoReason
	if m := a.s.maps[n]; m != nil { // a retry continues with its items
		c.status = Running
		a.startItems(n, m)
		a.finishMap(n, m)
		return
	}
	c.status = Pending
	if x.mapped || x.wait != nil {
		c.status = Running
	}
	a.d.Start = append(a.d.Start, int(n))
}

// resume starts a node, or items of it, that a pause held back.
func (a *advance) resume(n int32) {
	if c := &a.s.cells[n]; c.held {
		a.start(n)
	} else if m := a.s.maps[n]; m != nil && c.status == Running {
		a.startItems(n, m)
		a.finishMap(n, m)
	}
}

// judgeAll judges every waiting node, parents first.
func (a *advance) judgeAll() {
	for _, n := range a.g.order {
		a.judge(n)
	}
}

// tell informs the children of ended nodes, and their children in turn.
func (a *advance) tell() {
	for len(a.queue) > 0 {
		n := a.queue[0]
		a.queue = a.queue[1:]
		as := a.g.classOf(n, &a.s.cells[n])
		for _, child := range a.g.nodes[n].children {
			c := &a.s.cells[child]
			c.unmet--
			c.seen |= as
			a.judge(child)
		}
	}
}

// settle completes the change: children are judged, finally nodes start, the run ends.
func (a *advance) settle() Decisions {
	a.tell()
	if a.s.open == 0 && !a.s.cleanup {
		a.s.cleanup = true
		for _, n := range a.g.finally {
			a.judge(n)
		}
		a.tell()
	}
	switch {
	case a.s.open == 0 && a.s.openLast == 0:
		a.s.Status, a.s.paused = a.s.Verdict(), false
		a.d.Run = a.s.Status
	case a.s.ending != 0:
		a.s.Status = Cancelling
	case a.s.paused:
		a.s.Status = Paused
	default:
		a.s.Status = Running
	}
	return a.d
}

// nodeTimedOut ends a wait as its on_timeout says; other nodes are cancelled first.
func (a *advance) nodeTimedOut(n int32) bool {
	c, x := &a.s.cells[n], &a.g.nodes[n]
	if c.status != Pending && c.status != Running {
		return false
	}
	if x.wait != nil {
		status := map[OnTimeout]Status{TimeoutFails: TimedOut, TimeoutSkips: Skipped, TimeoutSucceeds: Succeeded}[x.onTimeout]
		a.d.Closed = append(a.d.Closed, int(n))
		a.end(n, status, ByTimeout)
		return true
	}
	a.stop(n, ByTimeout)
	return true
}

// stop cancels a node that has started.
func (a *advance) stop(n int32, reason Reason) {
	c, x := &a.s.cells[n], &a.g.nodes[n]
	if x.wait != nil {
		a.d.Closed = append(a.d.Closed, int(n))
		a.end(n, Cancelled, reason)
		return
	}
	c.status, c.reason = Cancelling, reason
	if m := a.s.maps[n]; x.mapped && (m == nil || m.live == 0) {
		status, reason := a.cancelledAs(c)
		a.end(n, status, reason)
		return
	}
	a.d.Cancel = append(a.d.Cancel, int(n))
}

// endRun cancels running nodes and does not run the rest; finally nodes are left alone, unless forced.
func (a *advance) endRun(how Status) {
	a.s.ending, a.s.paused = how, false
	for i := range a.s.cells {
		n, c, x := int32(i), &a.s.cells[i], &a.g.nodes[i]
		reason := a.s.gone(x)
		switch {
		case reason == NoReason: // a pause ends with the run
			a.resume(n)
		case c.status == Waiting && (!x.finally || a.s.forced):
			a.end(n, NotRun, reason)
		case c.status == Cancelling && a.s.forced: // its execution may be a run, which is to skip its finally nodes, too
			a.d.Cancel = append(a.d.Cancel, int(n))
		case c.status == Pending || c.status == Running:
			a.stop(n, reason)
		}
	}
}
