package layout

import (
	"cmp"
	"slices"
)

// layered is a connected graph whose edges lead from each layer to the next one. Vertices below len(nodes) are nodes,
// the others dummies: all edges of a node that pass a layer share a dummy there.
type layered struct {
	nodes  []int32   // the numbers of the nodes
	layer  []int32   // by vertex
	layers [][]int32 // vertices in their order
	pos    []int32   // the position of a vertex in its layer
	up     adjacency
	down   adjacency
	first  []int32 // by node: its first dummy, in the next layer
	size   []int   // across, of nodes
	at     []int   // the middle of a vertex, across
	extent int
}

// adjacency lists neighbours: those of v are list[start[v]:start[v+1]].
type adjacency struct {
	start []int32
	list  []int32
}

func (a adjacency) of(v int32) []int32 { return a.list[a.start[v]:a.start[v+1]] }

// gather builds the adjacency lists of pairs, in their order.
func gather(n int, from, to []int32) adjacency {
	a := adjacency{make([]int32, n+1), make([]int32, len(from))}
	for _, v := range from {
		a.start[v+1]++
	}
	for i := range n {
		a.start[i+1] += a.start[i]
	}
	next := slices.Clone(a.start[:n])
	for i, v := range from {
		a.list[next[v]] = to[i]
		next[v]++
	}
	return a
}

func newLayered(nodes []int32, ups [][]int32, layer []int32, size []int) *layered {
	g := &layered{nodes: nodes, size: size, first: make([]int32, len(nodes))}
	vertex := make(map[int32]int32, len(nodes))
	lowest := layer[nodes[0]]
	for v, n := range nodes {
		vertex[n] = int32(v)
		g.layer = append(g.layer, layer[n])
		lowest = min(lowest, layer[n])
	}
	reach := slices.Clone(g.layer) // the last layer that an edge of a node reaches
	for v, n := range nodes {
		for _, p := range ups[n] {
			reach[vertex[p]] = max(reach[vertex[p]], g.layer[v])
		}
	}
	for v := range nodes {
		g.first[v] = int32(len(g.layer))
		for l := g.layer[v] + 1; l < reach[v]; l++ {
			g.layer = append(g.layer, l)
		}
	}
	var from, to []int32
	for v, n := range nodes {
		for _, p := range ups[n] {
			f := vertex[p]
			if g.layer[v]-g.layer[f] > 1 {
				f = g.dummy(f, g.layer[v]-1)
			}
			from, to = append(from, f), append(to, int32(v))
		}
	}
	for v := range nodes { // after those to nodes: the first order places long edges beside the nodes they pass
		before := int32(v)
		for l := g.layer[v] + 1; l < reach[v]; l++ {
			d := g.dummy(int32(v), l)
			from, to = append(from, before), append(to, d)
			before = d
		}
	}
	g.down, g.up = gather(len(g.layer), from, to), gather(len(g.layer), to, from)
	g.begin()
	return g
}

// dummy returns the vertex through which the edges of a node pass a layer.
func (g *layered) dummy(v, layer int32) int32 { return g.first[v] + layer - g.layer[v] - 1 }

func (g *layered) isDummy(v int32) bool { return int(v) >= len(g.nodes) }

// begin makes the first order: depth first, from nodes in the order of the definition. A tree then has no crossings.
func (g *layered) begin() {
	last := int32(0)
	for _, l := range g.layer {
		last = max(last, l)
	}
	g.layers = make([][]int32, last+1)
	g.pos = make([]int32, len(g.layer))
	seen := make([]bool, len(g.layer))
	var visit func(v int32)
	visit = func(v int32) {
		if seen[v] {
			return
		}
		seen[v] = true
		g.layers[g.layer[v]] = append(g.layers[g.layer[v]], v)
		for _, d := range g.down.of(v) {
			visit(d)
		}
	}
	roots := make([]int32, len(g.nodes))
	for i := range roots {
		roots[i] = int32(i)
	}
	slices.SortStableFunc(roots, func(a, b int32) int { return cmp.Compare(g.layer[a], g.layer[b]) })
	for _, v := range roots {
		visit(v)
	}
	g.number()
}

// number records the position of each vertex.
func (g *layered) number() {
	for _, l := range g.layers {
		for i, v := range l {
			g.pos[v] = int32(i)
		}
	}
}

// sweepWork limits how many vertices and edges all sweeps together visit.
const sweepWork = 6_000_000

// order reduces crossings: sweeps sort each layer by the barycenters of its neighbours in the layer before or after
// it, and swap neighbours if that reduces crossings. It keeps the best order found.
func (g *layered) order() {
	best := g.crossings()
	if best == 0 {
		return
	}
	work := len(g.layer) + len(g.down.list)
	rounds := min(max(sweepWork/(10*work), 2), 24)
	kept := g.keep()
	value := make([]float64, len(g.layer))
	for round, idle := 0, 0; round < rounds && idle < 5; round++ {
		forward := round%2 == 0
		biased := round/2%2 == 1
		for i := range g.layers {
			l, near := i, g.up
			if !forward {
				l, near = len(g.layers)-1-i, g.down
			}
			g.sort(g.layers[l], near, value, biased)
		}
		g.swap()
		if n := g.crossings(); n < best {
			best, kept, idle = n, g.keep(), 0
		} else {
			idle++
		}
		if best == 0 {
			break
		}
	}
	g.layers = kept
	g.number()
}

func (g *layered) keep() [][]int32 {
	out := make([][]int32, len(g.layers))
	for i, l := range g.layers {
		out[i] = slices.Clone(l)
	}
	return out
}

// sort orders a layer by barycenters. Vertices without neighbours stay in place; of two with the same barycenter the
// earlier one stays first or, with a bias, the later one.
func (g *layered) sort(layer []int32, near adjacency, value []float64, biased bool) {
	var sortable, slots []int32
	for i, v := range layer {
		ns := near.of(v)
		if len(ns) == 0 {
			continue
		}
		sum := 0
		for _, n := range ns {
			sum += int(g.pos[n])
		}
		value[v] = float64(sum) / float64(len(ns))
		sortable, slots = append(sortable, v), append(slots, int32(i))
	}
	slices.SortFunc(sortable, func(a, b int32) int {
		if c := cmp.Compare(value[a], value[b]); c != 0 {
			return c
		}
		if biased {
			a, b = b, a
		}
		return cmp.Compare(g.pos[a], g.pos[b])
	})
	for i, v := range sortable {
		layer[slots[i]] = v
	}
	for i, v := range layer {
		g.pos[v] = int32(i)
	}
}

// swapWork limits the size of graphs in which neighbours are swapped, and the number of swaps.
const (
	swapWork   = 60_000
	swapRounds = 4
)

// swap exchanges neighbours in a layer as long as that reduces crossings.
func (g *layered) swap() {
	if len(g.layer)+len(g.down.list) > swapWork {
		return
	}
	g.sortNeighbours()
	for range swapRounds {
		better := false
		for _, layer := range g.layers {
			for i := 1; i < len(layer); i++ {
				v, w := layer[i-1], layer[i]
				now := g.between(g.up, v, w) + g.between(g.down, v, w)
				if now > 0 && now > g.between(g.up, w, v)+g.between(g.down, w, v) {
					layer[i-1], layer[i] = w, v
					g.pos[v], g.pos[w] = g.pos[w], g.pos[v]
					better = true
				}
			}
			// The lists of neighbours stay sorted: after an exchange they are sorted again.
		}
		if !better {
			return
		}
		g.sortNeighbours()
	}
}

// between counts the crossings between the edges of two neighbours on one side, if the first one is before the
// second.
func (g *layered) between(a adjacency, v, w int32) int {
	n := 0
	ws := a.of(w)
	i := 0
	for _, x := range a.of(v) {
		for i < len(ws) && g.pos[ws[i]] < g.pos[x] {
			i++
		}
		n += i
	}
	return n
}

func (g *layered) sortNeighbours() {
	for _, a := range []adjacency{g.up, g.down} {
		for v := range g.layer {
			if ns := a.of(int32(v)); len(ns) > 1 {
				slices.SortFunc(ns, func(x, y int32) int { return cmp.Compare(g.pos[x], g.pos[y]) })
			}
		}
	}
}

// crossings counts how many edges cross, with a Fenwick tree for each pair of layers.
func (g *layered) crossings() int {
	total := 0
	var ends, tree []int32
	for l := 0; l+1 < len(g.layers); l++ {
		ends = ends[:0]
		for _, v := range g.layers[l] {
			from := len(ends)
			for _, d := range g.down.of(v) {
				ends = append(ends, g.pos[d])
			}
			if len(ends)-from > 1 {
				slices.Sort(ends[from:])
			}
		}
		n := len(g.layers[l+1])
		tree = append(tree[:0], make([]int32, n+1)...)
		for i, e := range ends {
			before := int32(0) // edges so far that end at e or earlier
			for j := e + 1; j > 0; j &= j - 1 {
				before += tree[j]
			}
			total += i - int(before)
			for j := e + 1; j <= int32(n); j += j & -j {
				tree[j]++
			}
		}
	}
	return total
}
