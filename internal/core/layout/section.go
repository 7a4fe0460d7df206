package layout

import "errors"

// alone is the number of unconnected nodes above which they are placed in several columns.
const alone = 12

// section places some of the nodes, beginning at an offset along, with layers numbered from first. It returns where
// the section ends along, and its extent.
func (c *canvas) section(members []int32, parents [][]int32, along, firstLayer int) (int, extent, error) {
	if len(members) == 0 {
		return along, extent{layers: firstLayer, across: c.Margin}, nil
	}
	local := make([]int32, len(c.nodes))
	for i := range local {
		local[i] = -1
	}
	for i, n := range members {
		local[n] = int32(i)
	}
	ups := make([][]int32, len(members))
	for i, n := range members {
		for _, p := range parents[n] {
			if local[p] >= 0 {
				ups[i] = append(ups[i], local[p])
			}
		}
	}
	layer, err := layersOf(ups)
	if err != nil {
		return 0, extent{}, err
	}

	var parts []*layered
	var single []int32
	for _, part := range components(ups) {
		if len(part) == 1 {
			single = append(single, part[0])
			continue
		}
		size := make([]int, len(part))
		for i, n := range part {
			size[i] = c.across(members[n])
		}
		g := newLayered(part, ups, layer, size)
		g.order()
		g.place(c.Gap, c.EdgeGap)
		parts = append(parts, g)
	}

	// Columns: as wide as the widest node of their layer.
	layers := 0
	for i := range members {
		layers = max(layers, int(layer[i])+1)
	}
	width := make([]int, layers)
	for i, n := range members {
		width[layer[i]] = max(width[layer[i]], c.along(n))
	}
	start := make([]int, layers)
	end := along
	for l := range start {
		if l > 0 {
			end += c.LayerGap
		}
		start[l] = end
		end += width[l]
	}

	// Components below each other.
	at := c.Margin
	for i, g := range parts {
		if i > 0 {
			at += c.Gap
		}
		for v := range g.at {
			g.at[v] += at
		}
		at += g.extent
	}
	if len(single) > 0 {
		if len(parts) > 0 {
			at += c.Gap
		}
		var far int
		far, at = c.grid(single, members, along, at, width[0])
		end = max(end, far)
	}
	used := extent{layers: firstLayer + layers, from: c.Margin, to: at, across: at}
	shift := 0
	if c.middle > 0 { // beside an existing section
		shift = max((c.middle+c.Margin)/2-(used.from+used.to)/2, c.frame())
		used.from, used.to = used.from+shift, used.to+shift
	}

	for i, n := range members {
		c.boxes[n].Layer = firstLayer + int(layer[i])
	}
	for _, n := range single {
		c.boxes[members[n]].Y += shift
	}
	for _, g := range parts {
		for v := range g.at {
			g.at[v] += shift
		}
		for v, n := range g.nodes {
			b := &c.boxes[members[n]]
			b.X, b.Y = start[layer[n]], g.at[v]-c.across(members[n])/2
			if c.Direction != Down {
				b.W = width[layer[n]]
			}
		}
		c.route(g, members, parents, local, start, width)
	}
	return end, used, nil
}

// grid places nodes without edges: a few in a column, more in several. It returns where they end along and across.
func (c *canvas) grid(single, members []int32, along, at, column int) (int, int) {
	columns := 1
	if len(single) > alone && !c.OneColumn {
		for columns*columns*2 < len(single) { // boxes are wider than high
			columns++
		}
	}
	rows := (len(single) + columns - 1) / columns
	end, bottom := along, at
	for from := 0; from < len(single); from += rows {
		part := single[from:min(from+rows, len(single))]
		if from > 0 {
			end += c.LayerGap
			column = 0
		}
		for _, n := range part {
			column = max(column, c.along(members[n]))
		}
		y := at
		for i, n := range part {
			if i > 0 {
				y += c.Gap
			}
			b := &c.boxes[members[n]]
			b.X, b.Y = end, y
			if c.Direction != Down {
				b.W = column
			}
			y += c.across(members[n])
		}
		end += column
		bottom = max(bottom, y)
	}
	return end, bottom
}

// route gives every edge of a part its points: out of its parent, through its dummies, into its child.
func (c *canvas) route(g *layered, members []int32, parents [][]int32, local []int32, start, width []int) {
	vertex := make(map[int32]int32, len(g.nodes))
	for v, n := range g.nodes {
		vertex[n] = int32(v)
	}
	for v, n := range g.nodes {
		for i, p := range parents[members[n]] {
			if local[p] < 0 {
				continue
			}
			from := vertex[local[p]]
			points := []Point{{start[g.layer[from]] + width[g.layer[from]], g.at[from]}}
			if c.Direction == Down {
				points[0][0] = start[g.layer[from]] + c.along(p)
			}
			for l := g.layer[from] + 1; l < g.layer[v]; l++ {
				y := g.at[g.dummy(from, l)]
				points = bend(points, Point{start[l], y})
				points = bend(points, Point{start[l] + width[l], y})
			}
			c.routes[members[n]][i] = bend(points, Point{start[g.layer[v]], g.at[v]})
		}
	}
}

// bend adds a point, and drops the previous one if the edge continues straight.
func bend(points []Point, p Point) []Point {
	n := len(points)
	if n >= 2 && points[n-1][1] == p[1] && points[n-2][1] == p[1] {
		points[n-1] = p
		return points
	}
	return append(points, p)
}

// components lists the nodes of each connected part, in the order of their first nodes.
func components(ups [][]int32) [][]int32 {
	root := make([]int32, len(ups))
	for i := range root {
		root[i] = int32(i)
	}
	find := func(i int32) int32 {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for i, up := range ups {
		for _, p := range up {
			a, b := find(int32(i)), find(p)
			root[max(a, b)] = min(a, b)
		}
	}
	place := make([]int32, len(ups))
	var out [][]int32
	for i := range ups {
		r := find(int32(i))
		if int(r) == i { // the first of its part
			place[i] = int32(len(out))
			out = append(out, nil)
		}
		out[place[r]] = append(out[place[r]], int32(i))
	}
	return out
}

// layersOf returns the layer of each node. Nodes come directly after their last parent, and then as close to their
// children as possible if they have fewer parents than children: that shortens the edges.
func layersOf(ups [][]int32) ([]int32, error) {
	downs := make([][]int32, len(ups))
	open := make([]int, len(ups))
	for i, up := range ups {
		open[i] = len(up)
		for _, p := range up {
			downs[p] = append(downs[p], int32(i))
		}
	}
	order := make([]int32, 0, len(ups))
	for i := range ups {
		if open[i] == 0 {
			order = append(order, int32(i))
		}
	}
	layer := make([]int32, len(ups))
	for at := 0; at < len(order); at++ {
		n := order[at]
		for _, d := range downs[n] {
			layer[d] = max(layer[d], layer[n]+1)
			if open[d]--; open[d] == 0 {
				order = append(order, d)
			}
		}
	}
	if len(order) < len(ups) {
		return nil, errors.New("edges form a cycle")
	}
	for i := len(order) - 1; i >= 0; i-- {
		n := order[i]
		if len(downs[n]) == 0 || len(ups[n]) >= len(downs[n]) {
			continue
		}
		nearest := layer[downs[n][0]]
		for _, d := range downs[n] {
			nearest = min(nearest, layer[d])
		}
		layer[n] = nearest - 1
	}
	return layer, nil
}
