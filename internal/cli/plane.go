package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/carillon-jobs/carillon/internal/core/layout"
)

// plane draws a layout in the cells of a terminal: nodes in columns, and between two columns a channel, in which each
// edge that changes its row has its own lane.
type plane struct {
	drawing
	l      *layout.Layout
	height int
	labels map[string][]string
	run    map[string]nodeState

	wires []map[int]*wire // by the layer they leave, then by row
	start []int           // where each layer begins, in cells
	width []int           // of a layer
	lanes []int           // after a layer
	rows  int
	over  int // all columns
	top   int // rows above the nodes
	cells [][]cell
}

// wire leaves a layer in one row and leads to rows of the next layer.
type wire struct {
	row    int
	to     []int
	lane   int // -1: it goes straight on
	onNode bool
}

func (n *wire) from() int  { return min(n.row, slices.Min(n.to)) }
func (n *wire) until() int { return max(n.row, slices.Max(n.to)) }

// joins reports whether both lead to one and the same row.
func (n *wire) joins(o *wire) bool { return len(n.to) == 1 && len(o.to) == 1 && n.to[0] == o.to[0] }

// arrange computes where layers begin; it returns false if the drawing is too wide.
func (p *plane) arrange() bool {
	layers := p.l.Layers
	p.width, p.lanes, p.start = make([]int, layers), make([]int, layers), make([]int, layers)
	p.wires = make([]map[int]*wire, layers)
	column := make([]int, layers) // where each layer begins in the layout
	box := make(map[string]layout.Box, len(p.l.Nodes))
	for i := range p.wires {
		p.wires[i] = map[int]*wire{}
	}
	for _, b := range p.l.Nodes {
		p.width[b.Layer], column[b.Layer] = b.W, b.X
		p.rows = max(p.rows, b.Y+b.H)
		box[b.Key] = b
	}
	for _, e := range p.l.Edges {
		from, to := box[e.From], box[e.To]
		row := from.Y + from.H/2
		at := 0 // the segment of the edge at the current layer
		for l := from.Layer; l < to.Layer; l++ {
			next := to.Y + to.H/2
			if l+1 < to.Layer {
				for e.Points[at+1][0] < column[l+1] {
					at++
				}
				next = e.Points[at+1][1]
			}
			n := p.wires[l][row]
			if n == nil {
				n = &wire{row: row, lane: -1, onNode: l == from.Layer}
				p.wires[l][row] = n
			}
			if !slices.Contains(n.to, next) {
				n.to = append(n.to, next)
			}
			p.rows = max(p.rows, row+1, next+1)
			row = next
		}
	}
	x := 0
	for l := range layers {
		p.start[l] = x
		p.lanes[l] = lanes(p.wires[l])
		x += p.width[l]
		if l < layers-1 {
			x += p.channel(l)
		}
	}
	p.over = x
	if p.l.Finally != nil {
		p.top = 1
		p.over = max(x, p.start[p.firstFinally()]+len("finally"))
	}
	return p.over <= p.columns
}

// channel returns the width of the channel behind a layer.
func (p *plane) channel(l int) int { return max(p.lanes[l]+3, 4) }

// lanes gives each wire that changes its row a lane, and returns how many there are. Wires in the same lane do not touch, unless
// both lead to one and the same row. A wire
// that leaves the row in which another one arrives has a lane before that one's, so that they do not share a line.
func lanes(wires map[int]*wire) int {
	var bent []*wire
	for _, row := range slices.Sorted(maps.Keys(wires)) {
		if n := wires[row]; n.from() < n.until() {
			bent = append(bent, n)
		}
	}
	// Downward wires from the lowest first, then upward ones from the highest: these do not cross each other.
	order := func(n *wire) int {
		if n.until() > n.row {
			return -n.row
		}
		return n.row
	}
	slices.SortStableFunc(bent, func(a, b *wire) int { return cmp.Compare(order(a), order(b)) })
	used := 0
	var taken [][]*wire
	for len(bent) > 0 {
		// The next one that need not wait for another; in a cycle, the first.
		next := slices.IndexFunc(bent, func(n *wire) bool {
			return !slices.ContainsFunc(bent, func(o *wire) bool { return o != n && slices.Contains(n.to, o.row) })
		})
		n := bent[max(next, 0)]
		bent = slices.Delete(bent, max(next, 0), max(next, 0)+1)
		lane := 0
		for i, others := range taken {
			for _, o := range others {
				touch := n.from() <= o.until() && o.from() <= n.until() && !n.joins(o)
				if touch || slices.Contains(n.to, o.row) {
					lane = max(lane, i+1)
				}
			}
		}
		n.lane = lane
		if lane == len(taken) {
			taken = append(taken, nil)
		}
		taken[lane] = append(taken[lane], n)
		used = len(taken)
	}
	return used
}

// fill draws edges, then nodes over them.
func (p *plane) fill() {
	p.cells = make([][]cell, p.rows+p.top)
	for i := range p.cells {
		p.cells[i] = make([]cell, p.over)
	}
	ends := map[[2]int]bool{} // the rows in which nodes begin, by layer
	for _, b := range p.l.Nodes {
		ends[[2]int{b.Layer, b.Y + b.H/2}] = true
	}
	for l, wires := range p.wires {
		for _, row := range slices.Sorted(maps.Keys(wires)) {
			p.edge(l, wires[row], ends)
		}
	}
	for _, b := range p.l.Nodes {
		p.node(b)
	}
	if p.l.Finally != nil {
		p.finally()
	}
}

// edge draws a wire: out of its layer, along its lane, into the next layer, and through it if it goes on there.
func (p *plane) edge(l int, n *wire, ends map[[2]int]bool) {
	begin, end := p.start[l]+p.width[l], p.start[l+1]
	at := begin + 1 + max(n.lane, 0)
	if !n.onNode { // it passes the layer
		p.across(n.row, p.start[l], begin)
	}
	p.across(n.row, begin, at)
	for _, row := range n.to {
		p.across(row, at+1, end)
		if ends[[2]int{l + 1, row}] {
			p.cells[row+p.top][end-1] = cell{char: p.pick('▸', '>')}
		}
	}
	if n.lane < 0 {
		p.across(n.row, at, at+1)
		return
	}
	for row := n.from(); row <= n.until(); row++ {
		c := &p.cells[row+p.top][at]
		if row == n.row {
			c.lane |= toLeft
		}
		if slices.Contains(n.to, row) {
			c.lane |= toRight
		}
		if row > n.from() {
			c.lane |= toUp
		}
		if row < n.until() {
			c.lane |= toDown
		}
	}
}

// across draws a line in a row.
func (p *plane) across(row, from, to int) {
	for x := from; x < to; x++ {
		p.cells[row+p.top][x].lines |= toLeft | toRight
	}
}

func (p *plane) node(b layout.Box) {
	x, y := p.start[b.Layer], b.Y+p.top
	w := p.width[b.Layer]
	_, colour := p.statusSign(p.run[b.Key].Status)
	text := strings.Join(p.labels[b.Key], " ")
	if b.H == 1 {
		p.write(x, y, " "+text+" ", colour)
		for i := x + 2 + utf8.RuneCountInString(text); i < x+w; i++ {
			p.cells[y][i] = cell{}
			if p.wires[b.Layer][b.Y] != nil {
				p.cells[y][i].lines = toLeft | toRight
			}
		}
		return
	}
	for row := range 3 {
		for i := range w {
			c := cell{char: ' ', colour: colour}
			switch {
			case row != 1 && i == 0:
				c.char = p.pick([]rune("╭ ╰")[row], '+')
			case row != 1 && i == w-1:
				c.char = p.pick([]rune("╮ ╯")[row], '+')
			case row != 1:
				c.char = p.pick('─', '-')
			case i == 0 || i == w-1:
				c.char = p.pick('│', '|')
			}
			p.cells[y+row][x+i] = c
		}
	}
	p.write(x+2, y+1, text, colour)
}

func (p *plane) write(x, y int, text, colour string) {
	for i, r := range []rune(text) {
		p.cells[y][x+i] = cell{char: r, colour: colour}
	}
}

// firstFinally returns the layer in which finally nodes begin.
func (p *plane) firstFinally() int {
	first := p.l.Layers
	for _, b := range p.l.Nodes {
		if b.Finally {
			first = min(first, b.Layer)
		}
	}
	return first
}

// finally draws a dashed line before the finally nodes.
func (p *plane) finally() {
	first := p.firstFinally()
	if first > 0 {
		for y := range p.cells {
			p.cells[y][p.start[first]-2] = cell{char: p.pick('┊', ':'), colour: "2"}
		}
	}
	p.write(p.start[first], 0, "finally", "2")
}

func (p *plane) pick(char, ascii rune) rune {
	if p.ascii {
		return ascii
	}
	return char
}

// text returns all cells as lines.
func (p *plane) text() string {
	var b strings.Builder
	for _, row := range p.cells {
		var line strings.Builder
		used := len(row)
		for used > 0 && row[used-1].char == 0 && row[used-1].lines|row[used-1].lane == 0 {
			used--
		}
		for i := 0; i < used; {
			j := i
			var part strings.Builder
			for ; j < used && row[j].colour == row[i].colour; j++ {
				part.WriteRune(p.char(row[j]))
			}
			line.WriteString(p.paint(part.String(), row[i].colour))
			i = j
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// char returns the character of a cell.
func (p *plane) char(c cell) rune {
	if c.char != 0 {
		return c.char
	}
	lines := c.lines | c.lane
	if c.lane == toUp|toDown { // a lane passes above the lines of others
		lines = c.lane
	}
	switch lines {
	case 0:
		return ' '
	case toLeft, toRight, toLeft | toRight:
		return p.pick('─', '-')
	case toUp, toDown, toUp | toDown:
		return p.pick('│', '|')
	case toRight | toDown:
		return p.pick('╭', '.')
	case toLeft | toDown:
		return p.pick('╮', '.')
	case toRight | toUp:
		return p.pick('╰', '\'')
	case toLeft | toUp:
		return p.pick('╯', '\'')
	case toUp | toDown | toRight:
		return p.pick('├', '+')
	case toUp | toDown | toLeft:
		return p.pick('┤', '+')
	case toLeft | toRight | toDown:
		return p.pick('┬', '+')
	case toLeft | toRight | toUp:
		return p.pick('┴', '+')
	}
	return p.pick('┼', '+')
}
