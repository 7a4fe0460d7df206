package layout

import (
	"fmt"
	"unicode/utf8"
)

// Direction is the direction of edges.
type Direction string

// The directions.
const (
	Right Direction = "right"
	Down  Direction = "down"
)

// Node is one node to place.
type Node struct {
	Key     string
	After   []string // keys of its parents
	Kind    string   // the kind of its action, such as worker, http, job or approval
	Text    string   // a few words about that
	Marks   []string // special properties, such as "map" or "if"
	Finally bool
}

// Metrics are the sizes that a layout is made for.
type Metrics struct {
	Direction Direction
	Width     func(Node) int // of a node
	Height    int            // of a node
	Gap       int            // between neighbours in a layer
	EdgeGap   int            // between an edge that passes a layer and its neighbours
	LayerGap  int            // between layers
	Margin    int            // around everything
	OneColumn bool           // nodes without edges form a single column, however many
}

// Pixels are the sizes of pictures.
func Pixels(d Direction) Metrics {
	m := Metrics{Direction: d, Width: pixelWidth, Height: 44, Gap: 16, EdgeGap: 12, LayerGap: 56, Margin: 16}
	if d == Down {
		m.LayerGap = 40
	}
	return m
}

// Widths of boxes in pixels: their texts are cut to fit.
const (
	minWidth, maxWidth = 120, 240
	keyChar, textChar  = 7.8, 6.2 // the average width of a character
	boxPadding         = 40       // the icon on the left, and the borders
	markChar, markMore = 6, 14    // of a mark, including the space around it
)

func pixelWidth(n Node) int {
	w := max(float64(len(n.Key))*keyChar, float64(utf8.RuneCountInString(n.Text))*textChar)
	marks := 16
	for _, m := range n.Marks {
		marks += len(m)*markChar + markMore
	}
	return min(max(int(w)+boxPadding+4, marks, minWidth), maxWidth)
}

// Layout is a graph that has been placed.
type Layout struct {
	Width     int       `json:"width"`
	Height    int       `json:"height"`
	Direction Direction `json:"direction"`
	Layers    int       `json:"layers"`
	Nodes     []Box     `json:"nodes"`             // in the order they were given
	Edges     []Edge    `json:"edges"`             // by child, then by parent, in the order they were given
	Finally   *Area     `json:"finally,omitempty"` // around the finally nodes
}

// Box is a placed node; x and y are its top left corner.
type Box struct {
	Key     string   `json:"key"`
	X       int      `json:"x"`
	Y       int      `json:"y"`
	W       int      `json:"w"`
	H       int      `json:"h"`
	Layer   int      `json:"layer"`
	Kind    string   `json:"kind,omitempty"`
	Text    string   `json:"text,omitempty"`
	Marks   []string `json:"marks,omitempty"`
	Finally bool     `json:"finally,omitempty"`
}

// Edge is an arrow from the border of a parent to that of its child. Between two points of the same height it is
// straight, elsewhere it bends.
type Edge struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Points []Point `json:"points"`
}

// Point is a position in the layout.
type Point [2]int

// Area is a rectangle.
type Area struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// Compute places the nodes of a graph. It fails if a parent is unknown, a key is given twice, or edges form a cycle.
func Compute(nodes []Node, m Metrics) (*Layout, error) {
	number := make(map[string]int32, len(nodes))
	for i, n := range nodes {
		if _, twice := number[n.Key]; twice {
			return nil, fmt.Errorf("two nodes have the key %q", n.Key)
		}
		number[n.Key] = int32(i)
	}
	parents := make([][]int32, len(nodes))
	for i, n := range nodes {
		for _, key := range n.After {
			p, ok := number[key]
			if !ok {
				return nil, fmt.Errorf("node %q depends on %q, which is no node", n.Key, key)
			}
			parents[i] = append(parents[i], p)
		}
	}
	c := canvas{Metrics: m, nodes: nodes, boxes: make([]Box, len(nodes)), routes: make([][][]Point, len(nodes))}
	for i, n := range nodes {
		c.boxes[i] = Box{Key: n.Key, W: m.Width(n), H: m.Height, Kind: n.Kind, Text: n.Text, Marks: n.Marks, Finally: n.Finally}
		c.routes[i] = make([][]Point, len(parents[i]))
	}
	var first, last []int32
	for i, n := range nodes {
		if n.Finally {
			last = append(last, int32(i))
		} else {
			first = append(first, int32(i))
		}
	}
	along, layers, across := m.Margin, 0, 0
	end, used, err := c.section(first, parents, along, layers)
	if err != nil {
		return nil, err
	}
	across = used.across
	out := &Layout{Direction: m.Direction, Nodes: c.boxes, Edges: []Edge{}}
	if out.Direction == "" {
		out.Direction = Right
	}
	if len(last) > 0 {
		if len(first) > 0 {
			end += m.LayerGap
			c.middle = across
		}
		begin := end
		var f extent
		end, f, err = c.section(last, parents, end+c.frame(), used.layers)
		if err != nil {
			return nil, err
		}
		end += c.frame()
		used.layers = f.layers
		across = max(across, f.to+c.frame())
		out.Finally = &Area{X: begin, Y: max(f.from-c.frame(), 0), W: end - begin, H: f.to - f.from + 2*c.frame()}
	}
	out.Layers = used.layers
	out.Width, out.Height = end+m.Margin, across+m.Margin
	for i := range nodes {
		for p, route := range c.routes[i] {
			out.Edges = append(out.Edges, Edge{From: nodes[parents[i][p]].Key, To: nodes[i].Key, Points: route})
		}
	}
	if m.Direction == Down {
		out.turn()
	}
	return out, nil
}

// turn swaps the axes, but leaves the sizes of boxes as they are drawn.
func (l *Layout) turn() {
	l.Width, l.Height = l.Height, l.Width
	for i := range l.Nodes {
		l.Nodes[i].X, l.Nodes[i].Y = l.Nodes[i].Y, l.Nodes[i].X
	}
	for _, e := range l.Edges {
		for i, p := range e.Points {
			e.Points[i] = Point{p[1], p[0]}
		}
	}
	if f := l.Finally; f != nil {
		f.X, f.Y, f.W, f.H = f.Y, f.X, f.H, f.W
	}
}

// canvas is a layout under construction. Along is the axis that edges follow, across the other one; X and Y of boxes
// are along and across until everything is placed.
type canvas struct {
	Metrics
	nodes  []Node
	boxes  []Box
	routes [][][]Point // by child and parent
	middle int         // the extent that the next section is centred on; 0: none
}

// extent is the size of a section.
type extent struct {
	layers   int
	from, to int // across
	across   int
}

// frame is the room around finally nodes.
func (c *canvas) frame() int { return c.Gap }

// along returns the size of a box on the axis of edges, across that on the other axis.
func (c *canvas) along(n int32) int {
	if c.Direction == Down {
		return c.boxes[n].H
	}
	return c.boxes[n].W
}

func (c *canvas) across(n int32) int {
	if c.Direction == Down {
		return c.boxes[n].W
	}
	return c.boxes[n].H
}
