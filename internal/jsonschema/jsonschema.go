// Package jsonschema checks JSON against schemas that users write (JSON Schema 2020-12), such as the input of a
// workflow and the data of an approval.
//
// A schema is self-contained: it never loads another one from a network or a file, and its size is limited. Patterns
// are matched in linear time. The cost of a check is computed before it begins, and refused beyond a limit: with $ref
// a small schema can apply 2^40 subschemas to a value.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// MaxSize limits a schema, in bytes.
const MaxSize = 64 << 10

// maxProblems limits how many problems Check lists.
const maxProblems = 20

// maxLeaves limits how many problems are sorted before they are cut to maxProblems, maxWant the text of each.
const maxLeaves, maxWant = 200, 1000

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	schema *jsonschema.Schema
	costs  map[*jsonschema.Schema]int
}

// Problem is one place where a value does not fit its schema.
type Problem struct {
	Path  string // from the value, such as files[2].name; empty: the value itself
	Value []byte // the JSON at that place; nil: it cannot be read
	Want  string // what is wrong, and what would be valid
}

// nothing loads no schema.
type nothing struct{}

func (nothing) Load(url string) (any, error) { return nil, errOutside }

var errOutside = errors.New("a schema may only refer to itself, such as #/$defs/name")

const here = "schema:///input"

// Compile reads a schema.
func Compile(text []byte) (s *Schema, err error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("it has %d bytes; at most %d are allowed", len(text), MaxSize)
	}
	defer func() {
		if x := recover(); x != nil {
			s, err = nil, fmt.Errorf("it cannot be read: %v", x)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New(`it is no object; want a JSON Schema such as {"type": "object", "required": ["day"]}`)
	}
	if err := checkText(doc); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	c.UseRegexpEngine(patterns())
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(here)
	var bad *jsonschema.SchemaValidationError
	var load *jsonschema.LoadURLError
	switch {
	case errors.As(err, &bad):
		var invalid *jsonschema.ValidationError
		if errors.As(bad.Err, &invalid) {
			return nil, errors.New(problems(invalid, doc)[0].String())
		}
		return nil, bad.Err
	case errors.As(err, &load):
		return nil, fmt.Errorf("it refers to %s: %w", load.URL, load.Err)
	case err != nil:
		return nil, errors.New(strings.ReplaceAll(err.Error(), here, ""))
	}
	costs, err := measure(compiled)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled, costs}, nil
}

// String describes what is wrong and where.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Want
	}
	return p.Path + ": " + p.Want
}

// Check lists what is wrong with a JSON value; none: it fits. Empty input is null.
func (s *Schema) Check(value []byte) []Problem {
	if len(bytes.TrimSpace(value)) == 0 {
		value = []byte("null")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []Problem{{Want: "it is no JSON; want one JSON value"}}
	}
	if err := checkNumbers(doc); err != nil {
		return []Problem{{Want: err.Error()}}
	}
	m := meter{s.costs, maxSteps}
	if m.apply(s.schema, doc, 0); m.left < 0 {
		return []Problem{{Want: fmt.Sprintf("checking it takes more than %d steps; want a smaller value or a simpler schema", maxSteps)}}
	}
	var invalid *jsonschema.ValidationError
	if err := s.schema.Validate(doc); errors.As(err, &invalid) {
		return problems(invalid, doc)
	}
	return nil
}

// problems returns the leaves of an error over a document, by their place.
func problems(e *jsonschema.ValidationError, doc any) (out []Problem) {
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(out) == maxLeaves {
			return
		}
		if len(e.Causes) == 0 {
			value, _ := json.Marshal(lookUp(doc, e.InstanceLocation)) // what was JSON can be encoded
			out = append(out, Problem{Path: path(e.InstanceLocation), Value: value, Want: short(e.BasicOutput().Error.String())})
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(e)
	slices.SortStableFunc(out, func(a, b Problem) int {
		return strings.Compare(a.Path+"\x00"+a.Want, b.Path+"\x00"+b.Want) // the library ranges over maps
	})
	return out[:min(len(out), maxProblems)]
}

// lookUp returns the value at a location of a document.
func lookUp(doc any, location []string) any {
	for _, step := range location {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
				doc = v[i]
			}
		}
	}
	return doc
}

// short cuts the middle out of a text that quotes long values, or many.
func short(text string) string {
	if len(text) <= maxWant {
		return text
	}
	return strings.ToValidUTF8(text[:maxWant/2], "") + "…" + strings.ToValidUTF8(text[len(text)-maxWant/2:], "")
}

// path writes a location as the API writes fields: files[2].name.
func path(location []string) string {
	var b strings.Builder
	for _, step := range location {
		if _, err := strconv.ParseUint(step, 10, 32); err == nil {
			b.WriteString("[" + step + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if strings.ContainsAny(step, ".[] ") {
			quoted, _ := json.Marshal(step) // a string always encodes
			b.Write(quoted)
			continue
		}
		b.WriteString(step)
	}
	return b.String()
}
