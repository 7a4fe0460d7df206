package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// functions are those an expression may call: each looks at its arguments once and makes nothing much larger.
var functions = map[string]bool{
	"len": true, "abs": true, "ceil": true, "floor": true, "round": true, "int": true, "float": true, "string": true,
	"trim": true, "trimPrefix": true, "trimSuffix": true, "upper": true, "lower": true, "hasPrefix": true, "hasSuffix": true,
	"indexOf": true, "lastIndexOf": true, "type": true,
}

// operators are those an expression may use. Missing are the range, which makes lists, and the power and the regular
// expression, whose costs are the user's to choose.
var operators = map[string]bool{
	"==": true, "!=": true, "<": true, "<=": true, ">": true, ">=": true, "and": true, "&&": true, "or": true, "||": true,
	"+": true, "-": true, "*": true, "/": true, "%": true, "??": true, "in": true,
	"contains": true, "startsWith": true, "endsWith": true,
}

// guard refuses what an expression may not hold, and makes each step into payload one that finds null where there is
// nothing.
type guard struct{ err *Error }

// Visit looks at one node, after those below it.
func (g *guard) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.NilNode, *ast.IdentifierNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConstantNode,
		*ast.UnaryNode, *ast.ChainNode, *ast.ConditionalNode:
	case *ast.BinaryNode:
		if !operators[n.Operator] {
			g.refuse(n, fmt.Sprintf("the operator %q may not be used here", n.Operator))
		}
	case *ast.MemberNode:
		if n.Method {
			g.refuse(n, "there are no methods to call here")
			return
		}
		if !n.Optional {
			n.Optional = true
			ast.Patch(node, &ast.ChainNode{Node: n})
		}
	case *ast.BuiltinNode:
		if !functions[n.Name] || len(n.Arguments) > 4 {
			g.refuse(n, unknownFunction(n.Name))
		}
	case *ast.CallNode:
		name := "…"
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			name = id.Value
		}
		if !functions[name] {
			g.refuse(n, unknownFunction(name))
		}
	default:
		g.refuse(n, "only members of payload, literals, operators and functions may be used: no lists, objects, slices, variables or loops")
	}
}

func unknownFunction(name string) string {
	return fmt.Sprintf("there is no function %q here; there are %s", name, strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
}

func (g *guard) refuse(n ast.Node, why string) {
	if g.err == nil {
		g.err = &Error{Position: n.Location().From + 1, Reason: why}
	}
}
