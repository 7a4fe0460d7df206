package expression

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// pathsOf returns the members of payload that an expression reads, each by its path from payload, shortest first. An
// empty path is the whole payload.
func pathsOf(n ast.Node) [][]string {
	var f finder
	f.find(n)
	slices.SortStableFunc(f.paths, func(a, b []string) int { return len(a) - len(b) })
	return f.paths
}

// finder collects paths: from payload, or from any of the roots, which are then part of the paths.
type finder struct {
	roots []string
	paths [][]string
}

func (f *finder) find(n ast.Node) {
	if f.roots == nil {
		if names, ok := memberPath(n); ok {
			f.paths = append(f.paths, names)
			return
		}
	} else if names, root, ok := pathTo(n); ok && slices.Contains(f.roots, root) {
		f.paths = append(f.paths, slices.Insert(names, 0, root))
		return
	}
	switch n := n.(type) {
	case *ast.UnaryNode:
		f.find(n.Node)
	case *ast.BinaryNode:
		f.find(n.Left)
		f.find(n.Right)
	case *ast.ChainNode:
		f.find(n.Node)
	case *ast.MemberNode:
		f.find(n.Node)
		f.find(n.Property)
	case *ast.CallNode:
		for _, x := range n.Arguments {
			f.find(x)
		}
	case *ast.BuiltinNode:
		for _, x := range n.Arguments {
			f.find(x)
		}
	case *ast.ConditionalNode:
		f.find(n.Cond)
		f.find(n.Exp1)
		f.find(n.Exp2)
	}
}

// pruned decodes only the members at the paths of a large payload, which is valid JSON.
func pruned(payload []byte, paths [][]string) (any, error) {
	root, read := map[string]any{}, 0
	payload = bytes.TrimSpace(payload)
	if payload[0] != '{' {
		return nil, tooMuch(len(payload))
	}
next:
	for _, path := range paths {
		text, at := payload, root
		for i, name := range path {
			if text = memberOf(text, name); len(text) == 0 || text[0] == 'n' {
				continue next // it is null
			}
			if i < len(path)-1 && text[0] == '{' {
				inner, ok := at[name].(map[string]any)
				if !ok {
					inner = map[string]any{}
					at[name] = inner
				}
				at = inner
				continue
			}
			if _, ok := at[name]; ok {
				continue next // a shorter path has it
			}
			if read += len(text); read > MaxRead {
				return nil, tooMuch(read)
			}
			v, err := decode(text)
			if err != nil {
				return nil, err
			}
			at[name] = v
			continue next // whatever is below it is included
		}
		return nil, tooMuch(len(payload)) // it is the whole payload, or an object of which a part was taken
	}
	return root, nil
}

func tooMuch(n int) error {
	return &Error{Reason: fmt.Sprintf("it looks at %d bytes of the payload or more; at most %d", n, MaxRead)}
}
