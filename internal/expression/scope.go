package expression

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// Scope defines which names the expressions of one use begin with, and their cost limits. Workflows have one with
// run, nodes, item and index. The language is that of Compile; the caller provides the values and limits their size.
type Scope struct {
	Names     []string
	MaxLength int  // characters of an expression
	MaxNodes  uint // operators, members, literals and calls in it
	MaxMade   int  // bytes of text that one evaluation makes
	MaxSteps  int  // elements of lists and objects that one evaluation compares
}

// Program is a compiled expression of a Scope. It is safe for concurrent use.
type Program struct {
	text    string
	scope   *Scope
	program *vm.Program
	paths   [][]string
}

// Compile compiles an expression. Its error is an *Error.
func (s *Scope) Compile(text string) (*Program, error) {
	env := types.Map{}
	for _, name := range s.Names {
		env[name] = types.Any
	}
	for name, f := range s.functions() {
		env[name] = types.TypeOf(f)
	}
	p, err := compile(text, s.MaxLength, s.MaxNodes, env, &guard{names: strings.Join(s.Names, ", ")})
	if err != nil {
		return nil, err
	}
	f := finder{roots: s.Names}
	f.find(p.Node())
	return &Program{text: text, scope: s, program: p, paths: f.paths}, nil
}

// functions returns the operators and functions under a fresh budget, by the names that the guard gives them.
func (s *Scope) functions() map[string]func(...any) any {
	b := &budget{maxMade: s.MaxMade, maxSteps: s.MaxSteps}
	return map[string]func(...any) any{
		"+": b.add, "==": b.equal, "!=": b.unequal, "in": b.in,
		"string()": b.text, "upper()": b.upper, "lower()": b.lower, "trim()": b.trim,
	}
}

// String returns the text of the expression.
func (p *Program) String() string { return p.text }

// Paths lists the members the expression reads, each as the names that lead there, beginning with a name of the
// scope. A path ends where the next step is computed: nodes[run.key] reads nodes and run.key.
func (p *Program) Paths() [][]string { return p.paths }

// Value evaluates the expression over values by name; a name without one is null. The values are those of Decode. The
// result may share memory with them. Its error is an *Error.
func (p *Program) Value(values map[string]any) (any, error) {
	env := make(map[string]any, len(p.scope.Names)+8)
	for _, name := range p.scope.Names {
		env[name] = values[name]
	}
	for name, f := range p.scope.functions() {
		env[name] = f
	}
	turns <- struct{}{}
	defer func() { <-turns }()
	machine := vm.VM{MemoryBudget: memory}
	v, err := machine.Run(p.program, env)
	if err != nil {
		return nil, reason(err)
	}
	return v, nil
}

// Decode reads JSON into values for a Scope: whole numbers as int, others as float64, and numbers too large for either as
// they are written. Nothing at all is null.
func Decode(doc []byte) (any, error) {
	v, err := decode(doc)
	if err != nil {
		return nil, err
	}
	return plain(v), nil
}

// Encode writes a value as JSON, with the members of objects in order and without the escapes of HTML.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, &Error{Reason: fmt.Sprintf("its value cannot be written as JSON: %v", err)}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
