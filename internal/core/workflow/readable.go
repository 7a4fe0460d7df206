package workflow

import "github.com/carillon-jobs/carillon/internal/expression"

// MayRead reports whether a node may read the result of another: of its ancestors or, for a finally node, of all that
// are not finally nodes.
func (g *Graph) MayRead(n, of int) bool {
	if g.nodes[n].finally && !g.nodes[of].finally {
		return true
	}
	seen := make([]bool, len(g.nodes))
	todo := []int32{int32(n)}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range g.nodes[at].parents {
			if p == int32(of) {
				return true
			}
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	return false
}

// Item returns an item as JSON; of a map over a number, its index.
func (l *ItemList) Item(i int) ([]byte, error) {
	if l.list == nil {
		return expression.Encode(i)
	}
	return expression.Encode(l.list[i])
}
