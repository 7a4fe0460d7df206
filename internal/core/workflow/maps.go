package workflow

// FanOut bounds how many items of a map one Advance starts, and so what one commit writes.
const FanOut = 1000

// liveItems bounds how many items of a map without max_parallel are live at once.
const liveItems = 2000

// How an item of a map ended, in two bits.
const (
	itemOpen = iota
	itemGood
	itemFailed
	itemSkipped
)

// mapState is where a map stands. Items below cursor that are open are live, those at or above it have not started in this
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
func (m *mapState) window() int {
	if m.parallel > 0 {
		return m.parallel
	}
	return liveItems
}

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
	a.startItems(n, m)
	a.finishMap(n, m)
	return true
}

func (a *advance) moreItems(n int32) bool {
	m := a.s.maps[n]
	if m == nil || a.s.cells[n].status != Running {
		return false
	}
	cursor := m.cursor
	a.startItems(n, m)
	return m.cursor != cursor
}

// startItems starts as many items as the window has room for.
func (a *advance) startItems(n int32, m *mapState) {
	if a.s.paused || a.s.cells[n].status != Running || m.lost() {
		return
	}
	var items []int
	for ; m.cursor < m.width && m.live < m.window(); m.cursor++ {
		if m.code(m.cursor) != itemOpen { // it ended in an earlier attempt of the run
			continue
		}
		if len(items) == FanOut {
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

// MapCounts are how far a map has come.
type MapCounts struct {
	Total, Succeeded, Failed, Skipped, Running int
}

// Map returns how far a map has come; false: its width is not known yet.
func (s *State) Map(n int) (MapCounts, bool) {
	m := s.maps[int32(n)]
	if m == nil {
		return MapCounts{}, false
	}
	return MapCounts{Total: m.width, Succeeded: m.good, Failed: m.failed, Skipped: m.skipped, Running: m.live}, true
}

// Item returns how an item of a map stands: one that is live is Pending, and one that never starts NotRun. How exactly a
// Failed one ended, its execution says.
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

// Resize changes max_parallel and tolerate of a map that runs; nil leaves as it is.
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
