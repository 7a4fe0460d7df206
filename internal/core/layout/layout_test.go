package layout

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// list makes nodes out of pairs such as {"b", "a"}: b depends on a.
func list(keys ...[]string) (out []Node) {
	for _, k := range keys {
		out = append(out, Node{Key: k[0], After: k[1:]})
	}
	return out
}

// random makes a graph whose edges lead from earlier nodes to later ones, at most so far apart; shuffled, so that the order
// of the definition says nothing.
func random(r *rand.Rand, nodes, edges, far int) []Node {
	out := make([]Node, nodes)
	for i := range out {
		out[i].Key = fmt.Sprintf("n%d", i)
	}
	seen := map[[2]int]bool{}
	for range edges * 2 {
		if len(seen) == edges || nodes < 2 {
			break
		}
		a := r.IntN(nodes - 1)
		b := a + 1 + r.IntN(min(far, nodes-1-a))
		if !seen[[2]int{a, b}] {
			seen[[2]int{a, b}] = true
			out[b].After = append(out[b].After, out[a].Key)
		}
	}
	for i := range out { // a few finally nodes, which only depend on each other
		if i >= nodes-nodes/20 {
			out[i].Finally = true
			out[i].After = slices.DeleteFunc(out[i].After, func(k string) bool {
				var p int
				fmt.Sscanf(k, "n%d", &p)
				return p < nodes-nodes/20
			})
		}
	}
	r.Shuffle(nodes, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// check says what is wrong with a layout of these nodes.
func check(t *testing.T, nodes []Node, l *Layout) {
	t.Helper()
	box := map[string]Box{}
	right := l.Direction == Right
	for i, b := range l.Nodes {
		if b.Key != nodes[i].Key {
			t.Fatalf("node %d is %q, want %q", i, b.Key, nodes[i].Key)
		}
		box[b.Key] = b
		if b.X < 0 || b.Y < 0 || b.X+b.W > l.Width || b.Y+b.H > l.Height {
			t.Errorf("node %s at %d,%d is outside of %d × %d", b.Key, b.X, b.Y, l.Width, l.Height)
		}
		if f := l.Finally; f != nil {
			inside := b.X >= f.X && b.X+b.W <= f.X+f.W && b.Y >= f.Y && b.Y+b.H <= f.Y+f.H
			if inside != b.Finally {
				t.Errorf("node %s: finally %v, but inside the finally area %v", b.Key, b.Finally, inside)
			}
		}
	}
	for i, a := range l.Nodes {
		for _, b := range l.Nodes[:i] {
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("nodes %s and %s overlap", a.Key, b.Key)
			}
		}
	}
	edges := 0
	for _, n := range nodes {
		edges += len(n.After)
	}
	if len(l.Edges) != edges {
		t.Fatalf("%d edges, want %d", len(l.Edges), edges)
	}
	alone := map[string]bool{} // they may stand behind their layer
	for _, n := range nodes {
		alone[n.Key] = true
	}
	for _, e := range l.Edges {
		delete(alone, e.From)
		delete(alone, e.To)
	}
	for _, e := range l.Edges {
		a, b := box[e.From], box[e.To]
		if a.Layer >= b.Layer {
			t.Errorf("edge %s → %s goes from layer %d to %d", a.Key, b.Key, a.Layer, b.Layer)
		}
		first, last := e.Points[0], e.Points[len(e.Points)-1]
		want := [2]Point{{a.X + a.W, a.Y + a.H/2}, {b.X, b.Y + b.H/2}}
		if !right {
			want = [2]Point{{a.X + a.W/2, a.Y + a.H}, {b.X + b.W/2, b.Y}}
		}
		if first != want[0] || last != want[1] {
			t.Errorf("edge %s → %s goes from %v to %v, want %v", a.Key, b.Key, first, last, want)
		}
		for i := 1; i < len(e.Points); i++ {
			axis := 0
			if !right {
				axis = 1
			}
			if e.Points[i][axis] <= e.Points[i-1][axis] {
				t.Errorf("edge %s → %s goes back: %v", a.Key, b.Key, e.Points)
			}
		}
		if !right {
			continue
		}
		// It passes each layer between by a straight line that touches no node.
		for _, n := range l.Nodes {
			if n.Layer <= a.Layer || n.Layer >= b.Layer || n.Finally != a.Finally || alone[n.Key] {
				continue
			}
			y0, y1 := height(e.Points, n.X), height(e.Points, n.X+n.W)
			if y0 != y1 {
				t.Errorf("edge %s → %s bends beside %s", a.Key, b.Key, n.Key)
			}
			if y0 > n.Y && y0 < n.Y+n.H {
				t.Errorf("edge %s → %s goes through %s", a.Key, b.Key, n.Key)
			}
		}
	}
}

// height is where an edge is at x; -1 where it bends.
func height(points []Point, x int) int {
	for i := 1; i < len(points); i++ {
		if a, b := points[i-1], points[i]; a[0] <= x && x <= b[0] {
			switch {
			case x == a[0]:
				return a[1]
			case x == b[0] || a[1] == b[1]:
				return b[1]
			}
		}
	}
	return -1
}

func TestRandomGraphsAreLaidOutWell(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(60)
		nodes := random(r, n, r.IntN(3*n), 1+r.IntN(n))
		for _, d := range []Direction{Right, Down} {
			m := Pixels(d)
			if seed%3 == 0 { // a terminal's cells
				m = Metrics{Direction: d, Width: func(n Node) int { return len(n.Key) + 4 }, Height: 3, Gap: 1, EdgeGap: 1, LayerGap: 4}
			}
			l, err := Compute(nodes, m)
			if err != nil {
				t.Fatal(err)
			}
			check(t, nodes, l)
			again, _ := Compute(nodes, m)
			if !reflect.DeepEqual(l, again) {
				t.Fatal("the same graph was laid out differently")
			}
			if t.Failed() {
				t.Fatalf("seed %d, %s: %d nodes, %d edges", seed, d, n, len(l.Edges))
			}
		}
	}
}

// Sweeps leave far fewer crossings than the first order has, and never more.
func TestSweepsReduceCrossings(t *testing.T) {
	t.Parallel()
	before, after := 0, 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		nodes := random(r, 40, 60, 12)
		ups := make([][]int32, len(nodes))
		number := map[string]int32{}
		for i, n := range nodes {
			number[n.Key] = int32(i)
		}
		for i, n := range nodes {
			for _, k := range n.After {
				ups[i] = append(ups[i], number[k])
			}
		}
		layer, err := layersOf(ups)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range components(ups) {
			g := newLayered(part, ups, layer, make([]int, len(part)))
			was := g.crossings()
			if slow := slowly(g); slow != was {
				t.Fatalf("seed %d: counted %d crossings, want %d", seed, was, slow)
			}
			g.order()
			is := g.crossings()
			if is > was {
				t.Errorf("seed %d: %d crossings became %d", seed, was, is)
			}
			before, after = before+was, after+is
		}
	}
	if after*2 > before {
		t.Errorf("%d crossings became %d, want less than half", before, after)
	}
}

// slowly counts crossings by comparing all pairs of edges.
func slowly(g *layered) (n int) {
	for _, layer := range g.layers {
		for _, a := range layer {
			for _, b := range layer {
				for _, x := range g.down.of(a) {
					for _, y := range g.down.of(b) {
						if g.pos[a] < g.pos[b] && g.pos[x] > g.pos[y] {
							n++
						}
					}
				}
			}
		}
	}
	return n
}

func TestSmallGraphs(t *testing.T) {
	t.Parallel()
	cells := Metrics{Width: func(Node) int { return 10 }, Height: 3, Gap: 1, EdgeGap: 1, LayerGap: 4}
	for _, c := range []struct {
		name  string
		nodes []Node
		want  string
	}{
		{"nothing", nil, "0×0"},
		{"one", list([]string{"a"}), "10×3 a 0,0"},
		{"a chain is straight", list([]string{"a"}, []string{"b", "a"}, []string{"c", "b"}), "38×3 a 0,0 b 14,0 c 28,0"},
		{"a diamond is symmetric", list([]string{"a"}, []string{"b", "a"}, []string{"c", "a"}, []string{"d", "b", "c"}), "38×7 a 0,2 b 14,0 c 14,4 d 28,2"},
		{"branches keep the order of the definition", list([]string{"a"}, []string{"x", "a"}, []string{"m", "a"}, []string{"c", "a"}), "24×11 a 0,4 x 14,0 m 14,4 c 14,8"},
		{"a long edge passes beside", list([]string{"a"}, []string{"b", "a"}, []string{"c", "a", "b"}), "38×4 a 0,1 b 14,0 c 28,1"},
		{"parts stand below each other", list([]string{"a"}, []string{"x"}, []string{"b", "a"}, []string{"y", "x"}), "24×7 a 0,0 x 0,4 b 14,0 y 14,4"},
		{"a root moves towards its child", list([]string{"a"}, []string{"b", "a"}, []string{"x"}, []string{"c", "b", "x"}), "38×7 a 0,0 b 14,0 x 14,4 c 28,2"},
	} {
		l, err := Compute(c.nodes, cells)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%d×%d", l.Width, l.Height)
		for _, b := range l.Nodes {
			got += fmt.Sprintf(" %s %d,%d", b.Key, b.X, b.Y)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestBadGraphs(t *testing.T) {
	t.Parallel()
	for want, nodes := range map[string][]Node{
		`node "b" depends on "a", which is no node`: list([]string{"b", "a"}),
		`two nodes have the key "a"`:                list([]string{"a"}, []string{"a"}),
		`edges form a cycle`:                        list([]string{"a", "b"}, []string{"b", "a"}),
	} {
		if _, err := Compute(nodes, Pixels(Right)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// large are the hardest graphs that a workflow may be: 1 000 nodes and 10 000 edges, of several shapes.
func large() map[string][]Node {
	r := rand.New(rand.NewPCG(7, 7))
	star := []Node{{Key: "first"}}
	last := Node{Key: "last"}
	for i := range 998 {
		key := fmt.Sprintf("n%d", i)
		star = append(star, Node{Key: key, After: []string{"first"}})
		last.After = append(last.After, key)
	}
	ladder := random(r, 1000, 9000, 1000)
	chain := []Node{{Key: "n0"}}
	for i := 1; i < 1000; i++ {
		n := Node{Key: fmt.Sprintf("n%d", i), After: []string{fmt.Sprintf("n%d", i-1)}}
		for _, p := range r.Perm(i)[:min(9, i)] {
			if p != i-1 {
				n.After = append(n.After, fmt.Sprintf("n%d", p))
			}
		}
		chain = append(chain, n)
	}
	return map[string][]Node{"star": append(star, last), "random": ladder, "near": random(r, 1000, 10_000, 60), "chain": chain}
}

// BenchmarkCompute says how long these take.
func TestTheLargestGraphsAreLaidOutWell(t *testing.T) {
	t.Parallel()
	for name, nodes := range large() {
		if testing.Short() && name != "near" && name != "star" {
			continue
		}
		l, err := Compute(nodes, Pixels(Right))
		if err != nil {
			t.Fatal(err)
		}
		check(t, nodes, l)
		points := 0
		for _, e := range l.Edges {
			points += len(e.Points)
		}
		if points > 20*len(l.Edges) {
			t.Errorf("%s: %d points for %d edges, want long edges to be mostly straight", name, points, len(l.Edges))
		}
		t.Logf("%s: %d nodes, %d edges, %d layers, %d × %d, %d points", name, len(l.Nodes), len(l.Edges), l.Layers, l.Width, l.Height, points)
	}
}

func BenchmarkCompute(b *testing.B) {
	for name, nodes := range large() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Compute(nodes, Pixels(Right)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
