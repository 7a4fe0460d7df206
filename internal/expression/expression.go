// Package expression reads the small expressions that users write over a job's payload, such as payload.customer_id,
// and evaluates them.
//
// An expression is read-only: it accesses members of payload, compares, counts and joins text, and calls a few plain
// functions. It has no loops, makes no lists and knows no clock, and what it reads, makes and compares is limited, so
// that it ends soon, whatever the payload is, and always has the same value. A process evaluates only a few at once.
// A missing member is null, however deep. The value is returned as canonical text: as JSON, with numbers in one form,
// so that two values are equal if and only if their texts are.
package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// Limits of an expression.
const (
	MaxLength = 512 // characters
	maxNodes  = 100
	memory    = 10_000 // of the machine that runs it, in its own units; see also budget.go
	maxCached = 1000
)

// Error describes what is wrong with an expression, or why it has no value for a payload.
type Error struct {
	Position int // the position of the character, from 1; 0: none in particular
	Reason   string
}

func (e *Error) Error() string {
	if e.Position == 0 {
		return e.Reason
	}
	return fmt.Sprintf("at character %d: %s", e.Position, e.Reason)
}

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	program *vm.Program
	path    []string   // to its member, if it just reads one
	paths   [][]string // to all the members that it reads
}

// Compile compiles an expression. Its error is an *Error.
func Compile(text string) (*Expression, error) {
	if e := cached.get(text); e != nil {
		return e, nil
	}
	program, err := compile(text, MaxLength, maxNodes, environment{}, &guard{names: "payload"})
	if err != nil {
		return nil, err
	}
	e := &Expression{program, pathOf(program.Node()), pathsOf(program.Node())}
	cached.put(text, e)
	return e, nil
}

// compile compiles a text with a maximum number of characters and nodes in an environment. Its error is an *Error.
func compile(text string, length int, nodes uint, env any, g *guard) (*vm.Program, error) {
	switch n := utf8.RuneCountInString(text); {
	case strings.TrimSpace(text) == "":
		return nil, &Error{Reason: "it is empty"}
	case n > length:
		return nil, &Error{Reason: fmt.Sprintf("it has %d characters; %d are allowed", n, length)}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return nil, &Error{Reason: "it holds control characters, line breaks or broken UTF-8"}
	}
	turns <- struct{}{}
	defer func() { <-turns }()
	program, err := parse(text, nodes, env, g)
	if g.err != nil { // a forbidden construct is the better reason
		return nil, g.err
	}
	if err != nil {
		return nil, reason(err)
	}
	return program, nil
}

// parse parses the text with the library; if that panics over a user's text, the text is at fault.
func parse(text string, nodes uint, env any, g *guard) (p *vm.Program, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("it cannot be read: %v", x)
		}
	}()
	options := []expr.Option{expr.Env(env), expr.MaxNodes(nodes), expr.DisableAllBuiltins(), expr.Patch(g)}
	for name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	return expr.Compile(text, options...)
}

// reason turns an error of the library into a sentence, which may repeat some of the payload.
func reason(err error) *Error {
	var at *file.Error
	var ours *Error
	e := &Error{}
	if errors.As(err, &at) {
		e.Position, e.Reason = at.Column+1, at.Message
	} else {
		e.Reason, _, _ = strings.Cut(err.Error(), "\n")
	}
	if errors.As(err, &ours) {
		e.Reason = ours.Reason
	}
	if len(e.Reason) > maxReason {
		e.Reason = strings.ToValidUTF8(e.Reason[:maxReason], "") + "…"
	}
	return e
}

// Eval returns the expression's value for a JSON payload, in canonical text; a missing payload is null. Its error is
// an *Error.
func (e *Expression) Eval(payload []byte) (string, error) {
	if len(e.path) > 0 && len(payload) > 0 && valid(payload) {
		if text, ok := member(payload, e.path); ok {
			return short(text)
		}
	}
	turns <- struct{}{}
	defer func() { <-turns }()
	v, err := e.read(payload)
	if err != nil {
		return "", err
	}
	machine := vm.VM{MemoryBudget: memory}
	got, err := machine.Run(e.program, newEnvironment(plain(v)))
	if err != nil {
		return "", reason(err)
	}
	return canonical(got)
}

// short returns the value for its text in a valid payload.
func short(text []byte) (string, error) {
	if len(text) > 0 && text[0] != '{' && text[0] != '[' {
		if len(text) > 6*MaxValue+2 { // longer than any text of a value within the limit
			return "", tooLong(len(text))
		}
	} else if len(text) > 0 {
		text = append(text[:1:1], text[0]+2) // distinguishing the kind is enough: { } and [ ] are two apart
	}
	v, err := scalar(text)
	if err != nil {
		return "", err
	}
	return canonical(plain(v))
}

// read decodes the part of a payload that the expression reads.
func (e *Expression) read(payload []byte) (any, error) {
	if len(payload) <= MaxRead {
		return decode(payload)
	}
	if !valid(payload) {
		return nil, &Error{Reason: "the payload is no JSON"}
	}
	return pruned(payload, e.paths)
}

// scalar decodes valid JSON, numbers on a fast path.
func scalar(text []byte) (any, error) {
	if len(text) > 0 && (text[0] == '-' || text[0] >= '0' && text[0] <= '9') {
		return json.Number(text), nil
	}
	return decode(text)
}

// decode decodes JSON, with numbers as they are written; empty input is null.
func decode(payload []byte) (v any, err error) {
	if len(payload) > 0 {
		d := json.NewDecoder(bytes.NewReader(payload))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return nil, &Error{Reason: "the payload is no JSON: " + err.Error()}
		}
	}
	return v, nil
}

// plain converts numbers for arithmetic: integers to int, others to float64. An integer that is too large stays as it
// is written, so that two ids that differ in the last digit never become one.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return int(i)
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return f
		}
		return v
	case map[string]any:
		for k, x := range v {
			v[k] = plain(x)
		}
	case []any:
		for i, x := range v {
			v[i] = plain(x)
		}
	}
	return v
}

func tooLong(n int) error {
	return &Error{Reason: fmt.Sprintf("its value has %d bytes; at most %d", n, MaxValue)}
}

func canonical(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(v), nil
	case string:
		if len(v) > MaxValue {
			return "", tooLong(len(v))
		}
		b, err := json.Marshal(v)
		return string(b), err
	case json.Number:
		if len(v) > MaxValue {
			return "", tooLong(len(v))
		}
		return v.String(), nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return "", &Error{Reason: "its value is no number that JSON knows"}
		case v == math.Trunc(v) && math.Abs(v) < 1<<53:
			return strconv.FormatInt(int64(v), 10), nil // 1.0 is 1
		}
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case map[string]any:
		return "", &Error{Reason: "its value is an object; want a string, number, true, false or null"}
	case []any:
		return "", &Error{Reason: "its value is a list; want a string, number, true, false or null"}
	}
	return "", &Error{Reason: fmt.Sprintf("its value is of the type %T; want a string, number, true, false or null", v)}
}

// cache holds compiled expressions; when it is full, it is emptied.
type cache struct {
	mu    sync.RWMutex
	known map[string]*Expression // guarded by mu
}

var cached = cache{known: map[string]*Expression{}}

func (c *cache) get(text string) *Expression {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.known[text]
}

func (c *cache) put(text string, e *Expression) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCached {
		clear(c.known)
	}
	c.known[text] = e
}
