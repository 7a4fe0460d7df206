package expression

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	machine "github.com/expr-lang/expr/vm/runtime"
)

// Cost limits of one evaluation. Together they limit its memory to a few MiB and its time to milliseconds, whatever
// the expression and the payload are; see TestMemoryOfOneEvaluation.
const (
	MaxRead  = 64 << 10 // bytes of a payload that are decoded
	MaxValue = 4 << 10  // bytes of the value, in canonical text

	maxMade   = 32 << 10 // bytes of text that operators and functions make
	maxSteps  = 100_000  // elements of lists and objects that are compared
	maxCutset = 256      // bytes of the set of characters that trim removes
	maxReason = 300      // bytes of an error's reason
)

// turns limits how many expressions are compiled or evaluated at once in this process, so that many concurrent
// requests need no more memory than a few.
var turns = make(chan struct{}, max(4, runtime.GOMAXPROCS(0)))

// budget limits one evaluation. Its methods replace the operators and functions whose cost depends on the payload;
// when it is used up they panic with an *Error, which the machine turns into an error.
type budget struct {
	made, steps       int
	maxMade, maxSteps int
}

// environment is everything that an expression can see. Only payload has a name that can be written.
type environment struct {
	Payload any              `expr:"payload"`
	Add     func(...any) any `expr:"+"`
	Equal   func(...any) any `expr:"=="`
	Unequal func(...any) any `expr:"!="`
	In      func(...any) any `expr:"in"`
	String  func(...any) any `expr:"string()"`
	Upper   func(...any) any `expr:"upper()"`
	Lower   func(...any) any `expr:"lower()"`
	Trim    func(...any) any `expr:"trim()"`
}

func newEnvironment(payload any) environment {
	b := &budget{maxMade: maxMade, maxSteps: maxSteps}
	return environment{payload, b.add, b.equal, b.unequal, b.in, b.text, b.upper, b.lower, b.trim}
}

// arities holds the numbers of arguments of the functions that a budget replaces.
var arities = map[string][2]int{"string": {1, 1}, "upper": {1, 1}, "lower": {1, 1}, "trim": {1, 2}}

// call returns the node that calls a method of the budget.
func call(name string, args ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// make charges text that is about to be created.
func (b *budget) make(n int) {
	if b.made += n; b.made > b.maxMade {
		panic(&Error{Reason: fmt.Sprintf("it makes more than %d bytes of text", b.maxMade)})
	}
}

func (b *budget) step() {
	if b.steps++; b.steps > b.maxSteps {
		panic(&Error{Reason: fmt.Sprintf("it compares more than %d elements of lists and objects", b.maxSteps)})
	}
}

func (b *budget) add(args ...any) any {
	x, ok := args[0].(string)
	y, also := args[1].(string)
	if ok && also {
		b.make(len(x) + len(y))
		return x + y
	}
	return machine.Add(args[0], args[1])
}

func (b *budget) equal(args ...any) any { return b.same(args[0], args[1]) }

func (b *budget) unequal(args ...any) any { return !b.same(args[0], args[1]) }

// same compares like the machine: numbers by value, but inside lists and objects also by type.
func (b *budget) same(x, y any) bool {
	if holds(x) && holds(y) {
		return b.deep(x, y)
	}
	return machine.Equal(x, y)
}

func holds(x any) bool {
	switch x.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

func (b *budget) deep(x, y any) bool {
	b.step()
	switch x := x.(type) {
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !b.deep(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := y.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i, v := range x {
			if !b.deep(v, y[i]) {
				return false
			}
		}
		return true
	}
	return !holds(y) && x == y
}

func (b *budget) in(args ...any) any {
	list, ok := args[1].([]any)
	if !ok {
		return machine.In(args[0], args[1])
	}
	for _, v := range list {
		b.step()
		if b.same(v, args[0]) {
			return true
		}
	}
	return false
}

func (b *budget) text(args ...any) any {
	if reflect.ValueOf(args[0]).Kind() == reflect.Func {
		panic(&Error{Reason: "string takes a value, not a function"})
	}
	s := builtin.String(args[0]).(string)
	b.make(len(s))
	return s
}

func (b *budget) upper(args ...any) any { return b.mapped("upper", strings.ToUpper, args[0]) }

func (b *budget) lower(args ...any) any { return b.mapped("lower", strings.ToLower, args[0]) }

func (b *budget) mapped(name string, f func(string) string, arg any) string {
	s := texts(name, arg)
	b.make(len(s))
	return f(s)
}

func (b *budget) trim(args ...any) any {
	s := texts("trim", args[0])
	if len(args) == 1 {
		return strings.TrimSpace(s)
	}
	cut := texts("trim", args[1])
	if len(cut) > maxCutset {
		panic(&Error{Reason: fmt.Sprintf("trim removes characters of a text of %d bytes; at most %d", len(cut), maxCutset)})
	}
	return strings.Trim(s, cut)
}

// texts checks an argument that must be text.
func texts(name string, arg any) string {
	s, ok := arg.(string)
	if !ok {
		panic(&Error{Reason: fmt.Sprintf("%s takes a string, not %s", name, kindOf(arg))})
	}
	return s
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return "a number"
}
