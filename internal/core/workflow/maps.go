package workflow

import "cmp"

// FanOut bounds how many items of maps one decision starts, and MaxRendered how many bytes of executions and payloads one commit writes, of
// maps and other nodes together. The last one that starts may go beyond MaxRendered.
const (
	FanOut      = 1000
	MaxRendered = 16 << 20
)

// Budget counts what starts in one commit.
type Budget struct {
	items int // of the decision
	bytes int // of all decisions of the commit
}

// Next begins the next decision of the commit.
func (b *Budget) Next() { b.items = 0 }

func (b *Budget) full() bool { return b.bytes >= MaxRendered }

// liveItems limits how many items of a map without max_parallel are live at once.
const liveItems = 2000

// How an item of a map ended, in two bits.
const (
	itemOpen = iota
	itemGood
	itemFailed
	itemSkipped
)

// mapState is the state of a map. Open items below cursor are live; those at or above it have not started in this
// attempt of the run.
type mapState struct {
	width, cursor, live   int
	good, failed, skipped int
	parallel              int // 0: as many as a map may have
	tolerate              Tolerance
	codes                 []byte // two bits an item
}

func (m *mapState) code(i int) int { return int(m.codes[i/4]>>(i%4*2)) & 3 }

func (m *mapState) set(i, code int) {
	m.codes[i/4] = m.codes[i/4]&^(3<<(i%4*2)) | byte(code)<<(i%4*2)
}

// window is how many items may be live at once.
func (m *mapState) window(l Limits) int {
	return cmp.Or(m.parallel, l.Live, liveItems)
}

func (l Limits) fanOut() int { return cmp.Or(l.FanOut, FanOut) }

// lost reports whether more items failed than are tolerated.
func (m *mapState) lost() bool { return m.failed > m.tolerate.Of(m.width) }

func (m *mapState) done() bool { return m.good+m.failed+m.skipped == m.width }

func newMap(x *node, width int) *mapState {
	return &mapState{width: width, parallel: x.parallel, tolerate: x.tolerate, codes: make([]byte, (width+3)/4)}
}

func (a *advance) expanded(n int32, width int) bool {
	c, x := &a.s.cells[n], &a.g.nodes[n]
	if !x.mapped || c.status != Running || a.s.maps[n] != nil {
		return false
	}
	if width < 0 || width > a.g.limits.MapWidth {
		a.end(n, Failed, MapTooWide)
		return true
	}
	m := newMap(x, width)
	a.s.maps[n] = m
	a.startItems(n, m)
	a.finishMap(n, m)
	return true
}

func (a *advance) itemEnded(n int32, item int, status Status) bool {
	m, c := a.s.maps[n], &a.s.cells[n]
	if m == nil || !c.live() || item < 0 || item >= m.cursor || m.code(item) != itemOpen || !status.Final() || status == NotRun {
		return false
	}
	m.live--
	switch {
	case status == Succeeded:
		m.set(item, itemGood)
		m.good++
	case status == Skipped:
		m.set(item, itemSkipped)
		m.skipped++
	default:
		m.set(item, itemFailed)
		m.failed++
	}
	if a.s.room == 0 { // else what waits for room takes turns
		a.startItems(n, m)
	}
	a.finishMap(n, m)
	return true
}

func (a *advance) moreItems(n int32) bool {
	if a.s.cells[n].held && !a.s.paused { // the node itself was put off
		a.start(n)
		return true
	}
	m := a.s.maps[n]
	if m == nil || a.s.cells[n].status != Running {
		return false
	}
	cursor := m.cursor
	a.startItems(n, m)
	return m.cursor != cursor
}

// startItems starts as many items as the window and the run have room for.
func (a *advance) startItems(n int32, m *mapState) {
	if a.s.paused || a.s.cells[n].status != Running || m.lost() {
		return
	}
	var items []int
	for free := a.free(); m.cursor < m.width && m.live < m.window(a.g.limits) && len(items) < free; m.cursor++ {
		if m.code(m.cursor) != itemOpen { // it ended in an earlier attempt of the run
			continue
		}
		if len(items) == a.g.limits.fanOut() {
			a.d.More = append(a.d.More, int(n))
			break
		}
		items = append(items, m.cursor)
		m.live++
	}
	if len(items) > 0 {
		a.d.Items = append(a.d.Items, Items{Node: int(n), Items: items})
	}
}

// putOff undoes the start of a node, which MoreItems starts again.
func (s *State) putOff(n int) { s.cells[n].status, s.cells[n].held = Waiting, true }

// putOffItems undoes the start of items of a map, of which the first is the lowest. MoreItems starts them again.
func putOffItems(g *Graph, s *State, n int, items []int) Decisions {
	a := &advance{g: g, s: s}
	if m := s.maps[int32(n)]; m != nil && s.cells[n].live() {
		m.cursor, m.live = min(m.cursor, items[0]), m.live-len(items)
		if a.d.More = []int{n}; s.cells[n].status == Cancelling || m.lost() { // nothing more of it starts
			a.d.More = nil
			a.finishMap(int32(n), m)
			a.tell()
			a.refill()
		}
	}
	return a.settle()
}

// finishMap ends a map of which nothing is live and nothing more starts.
func (a *advance) finishMap(n int32, m *mapState) {
	c := &a.s.cells[n]
	if m.live > 0 {
		return
	}
	switch {
	case m.done() && !m.lost():
		a.end(n, Succeeded, NoReason)
	case c.status == Cancelling:
		status, reason := a.cancelledAs(c)
		a.end(n, status, reason)
	case m.lost():
		a.end(n, Failed, MapFailed)
	}
}

// MapCounts describes the progress of a map.
type MapCounts struct {
	Total, Succeeded, Failed, Skipped, Running int
}

// RunningMaps returns the maps whose width is known and that have not ended.
func (s *State) RunningMaps() (out []int) {
	for n := range s.maps {
		if !s.cells[n].status.Final() {
			out = append(out, int(n))
		}
	}
	return out
}

// Map returns the progress of a map; false: its width is not known yet.
func (s *State) Map(n int) (MapCounts, bool) {
	m := s.maps[int32(n)]
	if m == nil {
		return MapCounts{}, false
	}
	return MapCounts{Total: m.width, Succeeded: m.good, Failed: m.failed, Skipped: m.skipped, Running: m.live}, true
}

// Item returns the status of an item of a map: a live one is Pending, and one that never starts NotRun. The execution
// of a Failed one has the details.
func (s *State) Item(n, item int) Status {
	m := s.maps[int32(n)]
	switch {
	case m == nil || item < 0 || item >= m.width:
		return 0
	case m.code(item) == itemGood:
		return Succeeded
	case m.code(item) == itemFailed:
		return Failed
	case m.code(item) == itemSkipped:
		return Skipped
	case item < m.cursor:
		return Pending
	case s.cells[n].status.Final() || m.lost():
		return NotRun
	}
	return Waiting
}

// Resize changes max_parallel and tolerate of a running map; nil leaves a value unchanged.
func Resize(g *Graph, s *State, n int, parallel *int, tolerate *Tolerance) (Decisions, error) {
	m := s.maps[int32(n)]
	if m == nil || s.cells[n].status != Running {
		return Decisions{}, conflict("change", g.nodes[n].key, s.cells[n].status, "a map that is RUNNING")
	}
	if parallel != nil {
		m.parallel = *parallel
	}
	if tolerate != nil {
		m.tolerate = *tolerate
	}
	a := &advance{g: g, s: s}
	a.startItems(int32(n), m)
	a.finishMap(int32(n), m)
	return a.settle(), nil
}
