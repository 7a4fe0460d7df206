package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// functions lists those that an expression may call: each reads its arguments once; those that make text do so under
// the budget.
var functions = map[string]bool{
	"len": true, "abs": true, "ceil": true, "floor": true, "round": true, "int": true, "float": true, "string": true,
	"trim": true, "trimPrefix": true, "trimSuffix": true, "upper": true, "lower": true, "hasPrefix": true, "hasSuffix": true,
	"indexOf": true, "lastIndexOf": true, "type": true,
}

// operators lists those that an expression may use. Not among them are the range, which makes lists, and the power
// and the regular expression, whose cost the user could choose.
var operators = map[string]bool{
	"==": true, "!=": true, "<": true, "<=": true, ">": true, ">=": true, "and": true, "&&": true, "or": true, "||": true,
	"+": true, "-": true, "*": true, "/": true, "%": true, "??": true, "in": true,
	"contains": true, "startsWith": true, "endsWith": true,
}

// guard refuses forbidden constructs, makes each step into payload yield null if there is nothing, and puts operators
// and functions whose cost depends on the payload under the budget.
type guard struct {
	err   *Error
	names string // the names an expression may begin with, for messages
}

// Visit checks one node, after those below it.
func (g *guard) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			g.refuse(n, `there is no "$env" here; want `+g.names)
		}
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConstantNode,
		*ast.UnaryNode, *ast.ChainNode, *ast.ConditionalNode:
	case *ast.BinaryNode:
		if !operators[n.Operator] {
			g.refuse(n, fmt.Sprintf("the operator %q may not be used here", n.Operator))
			return
		}
		switch n.Operator {
		case "+", "==", "!=", "in":
			ast.Patch(node, call(n.Operator, n.Left, n.Right))
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
			return
		}
		g.meter(node, n.Name, n.Arguments)
	case *ast.CallNode:
		name := "…"
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			name = id.Value
		}
		if !functions[name] {
			g.refuse(n, unknownFunction(name))
			return
		}
		g.meter(node, name, n.Arguments)
	default:
		g.refuse(n, "only members of "+g.names+", literals, operators and functions may be used: no lists, objects, slices, variables or loops")
	}
}

// meter replaces a function that makes text by its budgeted version.
func (g *guard) meter(node *ast.Node, name string, args []ast.Node) {
	arity, ok := arities[name]
	if !ok {
		return
	}
	if len(args) < arity[0] || len(args) > arity[1] {
		g.refuse(*node, fmt.Sprintf("%s takes %d to %d arguments, not %d", name, arity[0], arity[1], len(args)))
		return
	}
	ast.Patch(node, call(name+"()", args...))
}

func unknownFunction(name string) string {
	return fmt.Sprintf("there is no function %q here; there are %s", name, strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
}

func (g *guard) refuse(n ast.Node, why string) {
	if g.err == nil {
		g.err = &Error{Position: n.Location().From + 1, Reason: why}
	}
}
