package layout

import "slices"

// place sets the position of every vertex across, after Brandes and Köpf: each vertex is aligned with the median of
// its neighbours in four ways, two for each direction of each axis; each alignment is compacted, and the mean of the
// middle two is the result. Edges between dummies take precedence, so long edges are straight wherever they do not
// cross each other.
func (g *layered) place(gap, edgeGap int) {
	n := len(g.layer)
	conflicts := g.conflicts()
	sep := func(a, b int32) int { // between the middles of two neighbours
		size, between := 0, gap
		switch {
		case g.isDummy(a) && g.isDummy(b):
			return max(edgeGap, 1)
		case g.isDummy(a) || g.isDummy(b):
			between = edgeGap
		}
		if !g.isDummy(a) {
			size += g.size[a]
		}
		if !g.isDummy(b) {
			size += g.size[b]
		}
		return (size+1)/2 + between
	}
	var ways [4][]int
	for w := range ways {
		ways[w] = g.compact(g.align(w&1 == 1, w&2 == 2, conflicts), w&2 == 2, sep)
	}
	// Each of the four is aligned with the narrowest one: at its beginning if it was packed to the beginning, else at
	// its end.
	from, to := [4]int{}, [4]int{}
	narrow := 0
	for w, at := range ways {
		from[w], to[w] = slices.Min(at), slices.Max(at)
		if to[w]-from[w] < to[narrow]-from[narrow] {
			narrow = w
		}
	}
	g.at = make([]int, n)
	for v := range n {
		var four [4]int
		for w := range ways {
			if w&2 == 0 {
				four[w] = ways[w][v] + from[narrow] - from[w]
			} else {
				four[w] = ways[w][v] + to[narrow] - to[w]
			}
		}
		slices.Sort(four[:])
		g.at[v] = (four[1] + four[2]) >> 1
	}
	low, high := g.at[0], g.at[0]
	for v, at := range g.at {
		size := 0
		if !g.isDummy(int32(v)) {
			size = g.size[v]
		}
		low, high = min(low, at-size/2), max(high, at-size/2+size)
	}
	for v := range g.at {
		g.at[v] -= low
	}
	g.extent = high - low
}

// edge names an edge by the two vertices.
type edge struct{ from, to int32 }

// conflicts lists the edges that cross an edge between two dummies: these are not straightened.
func (g *layered) conflicts() map[edge]bool {
	out := map[edge]bool{}
	inner := func(v int32) (int32, bool) { // the dummy before a dummy
		if !g.isDummy(v) {
			return 0, false
		}
		u := g.up.of(v)[0]
		return u, g.isDummy(u)
	}
	for l := 1; l < len(g.layers); l++ {
		k0, scan := int32(0), 0
		layer := g.layers[l]
		for i, v := range layer {
			u, ok := inner(v)
			if !ok && i < len(layer)-1 {
				continue
			}
			k1 := int32(len(g.layers[l-1]))
			if ok {
				k1 = g.pos[u]
			}
			for ; scan <= i; scan++ {
				w := layer[scan]
				for _, p := range g.up.of(w) {
					if (g.pos[p] < k0 || g.pos[p] > k1) && !(g.isDummy(p) && g.isDummy(w)) {
						out[edge{p, w}] = true
					}
				}
			}
			k0 = k1
		}
	}
	return out
}

// blocks are vertices in a line: root is the first of each block.
type blocks struct{ root []int32 }

// align makes blocks: each vertex joins its median neighbour, unless that would cross an existing line. backward uses
// the neighbours after it, reverse begins at the other end of each layer.
func (g *layered) align(backward, reverse bool, conflicts map[edge]bool) blocks {
	n := len(g.layer)
	root := make([]int32, n)
	for v := range root {
		root[v] = int32(v)
	}
	var near []int32
	for i := range g.layers {
		l, adj := i, g.up
		if backward {
			l, adj = len(g.layers)-1-i, g.down
		}
		layer := g.layers[l]
		reached := int32(-1) // the position of the last neighbour that was joined
		for j := range layer {
			v := layer[j]
			if reverse {
				v = layer[len(layer)-1-j]
			}
			ns := adj.of(v)
			if len(ns) == 0 {
				continue
			}
			near = append(near[:0], ns...)
			place := func(x int32) int32 { return g.pos[x] }
			if reverse {
				width := int32(len(g.layers[g.layer[ns[0]]]))
				place = func(x int32) int32 { return width - 1 - g.pos[x] }
			}
			slices.SortFunc(near, func(a, b int32) int { return int(place(a) - place(b)) })
			for m := (len(near) - 1) / 2; m <= len(near)/2; m++ {
				u := near[m]
				e := edge{u, v}
				if backward {
					e = edge{v, u}
				}
				if place(u) > reached && !conflicts[e] {
					root[v] = root[u]
					reached = place(u)
					break
				}
			}
		}
	}
	return blocks{root}
}

// compact gives each block one position, as close to the beginning as its neighbours allow, and then as close to what
// follows. With reverse it begins at the other end.
func (g *layered) compact(b blocks, reverse bool, sep func(a, b int32) int) []int {
	n := len(g.layer)
	var from, to []int32
	var gap []int
	for _, layer := range g.layers {
		for i := 1; i < len(layer); i++ {
			x, y := layer[i-1], layer[i]
			gap = append(gap, sep(x, y))
			if reverse {
				x, y = y, x
			}
			from, to = append(from, b.root[x]), append(to, b.root[y])
		}
	}
	ids := make([]int32, len(from))
	for i := range ids {
		ids[i] = int32(i)
	}
	out := gather(n, from, ids)
	open := make([]int32, n)
	for _, t := range to {
		open[t]++
	}
	order := make([]int32, 0, n)
	for v := range n {
		if b.root[v] == int32(v) && open[v] == 0 {
			order = append(order, int32(v))
		}
	}
	at := make([]int, n)
	for i := 0; i < len(order); i++ {
		v := order[i]
		for _, e := range out.of(v) {
			w := to[e]
			at[w] = max(at[w], at[v]+gap[e])
			if open[w]--; open[w] == 0 {
				order = append(order, w)
			}
		}
	}
	for i := len(order) - 1; i >= 0; i-- {
		v := order[i]
		es := out.of(v)
		if len(es) == 0 {
			continue
		}
		room := at[to[es[0]]] - gap[es[0]]
		for _, e := range es {
			room = min(room, at[to[e]]-gap[e])
		}
		at[v] = max(at[v], room)
	}
	for v := range at {
		if r := b.root[v]; r != int32(v) {
			at[v] = at[r]
		}
	}
	if reverse {
		for v := range at {
			at[v] = -at[v]
		}
	}
	return at
}
