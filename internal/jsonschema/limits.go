package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSubschemas = 5000      // in a schema, and of those that apply to the same value, through $ref
	maxDepth      = 100       // of a schema's text
	maxSteps      = 1_000_000 // of a check; a step takes one or two microseconds
	maxPattern    = 1000      // bytes of a pattern
	maxPatterns   = 20_000    // states of all patterns of a schema
	maxDigits     = 400       // of a number, and of its exponent
)

var (
	errMany  = fmt.Errorf("it has more than %d subschemas for the same value, where $ref repeats them; at most %[1]d are allowed", maxSubschemas)
	errCycle = errors.New("its $ref goes round in a circle without properties or items between")
)

// checkText limits the cost of compiling a schema.
func checkText(doc any) error {
	count, anchors := 0, map[string]bool{}
	var walk func(v any, depth int) error
	walk = func(v any, depth int) error {
		if depth > maxDepth {
			return fmt.Errorf("it is nested more than %d deep; at most %[1]d are allowed", maxDepth)
		}
		switch v := v.(type) {
		case bool:
			count++
		case map[string]any:
			count++
			if name, ok := v["$dynamicAnchor"].(string); ok {
				if anchors[name] {
					return fmt.Errorf("it has $dynamicAnchor %q twice; want each once", name)
				}
				anchors[name] = true
			}
			for _, x := range v {
				if err := walk(x, depth+1); err != nil {
					return err
				}
			}
		case []any:
			for _, x := range v {
				if err := walk(x, depth+1); err != nil {
					return err
				}
			}
		}
		if count > maxSubschemas {
			return fmt.Errorf("it has more than %d subschemas; at most %[1]d are allowed", maxSubschemas)
		}
		return nil
	}
	if err := walk(doc, 0); err != nil {
		return err
	}
	return checkNumbers(doc)
}

// checkNumbers refuses numbers that are costly to compare: 1e1000000 has a million digits.
func checkNumbers(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			if err := checkNumbers(x); err != nil {
				return err
			}
		}
	case []any:
		for _, x := range v {
			if err := checkNumbers(x); err != nil {
				return err
			}
		}
	case json.Number:
		exponent := 0
		var err error
		if i := strings.IndexAny(string(v), "eE"); i >= 0 {
			exponent, err = strconv.Atoi(string(v[i+1:]))
		}
		if err != nil || len(v) > maxDigits || max(exponent, -exponent) > maxDigits {
			return fmt.Errorf("the number %.20s has too many digits; want at most %d, and an exponent from -%[2]d to %[2]d", v, maxDigits)
		}
	}
	return nil
}

// pattern is a regular expression with its number of states.
type pattern struct {
	*regexp.Regexp
	states int
}

// steps returns the cost of matching a text.
func (p *pattern) steps(text string) int { return 1 + len(text)*p.states/64 }

// patterns compiles the patterns of one schema.
func patterns() jsonschema.RegexpEngine {
	known, left := map[string]*pattern{}, maxPatterns
	return func(text string) (jsonschema.Regexp, error) {
		if p := known[text]; p != nil {
			return p, nil
		}
		if len(text) > maxPattern {
			return nil, fmt.Errorf("the pattern has %d bytes; at most %d are allowed", len(text), maxPattern)
		}
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		n := states(parsed)
		if left -= n; left < 0 {
			return nil, fmt.Errorf("the patterns of the schema have more than %d states together; use shorter ones, or smaller repetitions", maxPatterns)
		}
		compiled, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		known[text] = &pattern{compiled, n}
		return known[text], nil
	}
}

func states(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/8
	if re.Op == syntax.OpLiteral {
		n = 1 + len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += states(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// same returns the subschemas that apply to the value of a schema itself, if it has all keys.
func same(s *jsonschema.Schema) (out []*jsonschema.Schema) {
	add := func(more ...*jsonschema.Schema) {
		for _, x := range more {
			if x != nil {
				out = append(out, x)
			}
		}
	}
	add(s.Ref, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		add(s.DynamicRef.Ref)
	}
	add(s.AllOf...)
	add(s.AnyOf...)
	add(s.OneOf...)
	for _, x := range s.DependentSchemas {
		add(x)
	}
	for _, x := range s.Dependencies {
		if x, ok := x.(*jsonschema.Schema); ok {
			add(x)
		}
	}
	return out
}

// below returns the subschemas that apply to parts of the value.
func below(s *jsonschema.Schema) (out []*jsonschema.Schema) {
	out = append(out, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems)
	out = append(out, s.PrefixItems...)
	for _, x := range s.Properties {
		out = append(out, x)
	}
	for _, x := range s.PatternProperties {
		out = append(out, x)
	}
	for _, x := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch x := x.(type) {
		case *jsonschema.Schema:
			out = append(out, x)
		case []*jsonschema.Schema:
			out = append(out, x...)
		}
	}
	return out
}

// measure refuses a schema with too many subschemas for one value, and returns the own cost of each subschema.
func measure(root *jsonschema.Schema) (map[*jsonschema.Schema]int, error) {
	const open = -1
	sizes, costs := map[*jsonschema.Schema]int{}, map[*jsonschema.Schema]int{}
	todo := []*jsonschema.Schema{root}
	var size func(s *jsonschema.Schema) (int, error)
	size = func(s *jsonschema.Schema) (int, error) {
		switch n, ok := sizes[s]; {
		case n == open:
			return 0, errCycle
		case ok:
			return n, nil
		case !strings.HasPrefix(s.Location, here):
			return 0, fmt.Errorf("it refers to %s: %w", s.Location, errOutside)
		case s.RecursiveRef != nil:
			return 0, errors.New("$recursiveRef is not supported; want $ref")
		}
		sizes[s] = open
		n := 1
		for _, x := range same(s) {
			more, err := size(x)
			if n += more; err != nil {
				return 0, err
			}
			if n > maxSubschemas {
				return 0, errMany
			}
		}
		sizes[s], costs[s] = n, cost(s)
		todo = append(todo, below(s)...)
		return n, nil
	}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s == nil {
			continue
		}
		if _, err := size(s); err != nil {
			return nil, err
		}
	}
	return costs, nil
}

// cost returns the number of steps of the keywords that compare with lists.
func cost(s *jsonschema.Schema) int {
	n := len(s.Required) + len(s.Properties) + len(s.Dependencies) + len(s.DependentRequired)
	for _, names := range s.DependentRequired {
		n += len(names)
	}
	for _, x := range s.Dependencies {
		if names, ok := x.([]string); ok {
			n += len(names)
		}
	}
	if s.Enum != nil {
		n += compare(s.Enum.Values)
	}
	if s.Const != nil {
		n += compare(*s.Const)
	}
	return n / 8
}

// compare returns the cost of comparing with a value, in eighths of a step: numbers are compared as fractions.
func compare(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			n += compare(x)
		}
	case []any:
		for _, x := range v {
			n += compare(x)
		}
	case json.Number:
		n = 16
	}
	return n
}

// nodes counts the values in a value.
func nodes(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			n += nodes(x)
		}
	case []any:
		for _, x := range v {
			n += nodes(x)
		}
	}
	return n
}
