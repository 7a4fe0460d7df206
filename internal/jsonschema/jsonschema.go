// Package jsonschema checks JSON against schemas that users write (JSON Schema 2020-12), such as the input of a workflow
// and the data of an approval.
//
// A schema stands alone: it never loads another one, from a network or a file, and its size is bounded. Patterns are
// matched in linear time.
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

// MaxSize bounds a schema, in bytes.
const MaxSize = 64 << 10

// maxProblems bounds how many problems Check lists.
const maxProblems = 20

// Schema is a compiled schema. Many goroutines may use it at once.
type Schema struct{ schema *jsonschema.Schema }

// Problem is one place where a value does not fit its schema.
type Problem struct {
	Path string // from the value, such as files[2].name; empty: the value itself
	Want string // what is wrong, and what would be right
}

// nothing loads no schema.
type nothing struct{}

func (nothing) Load(url string) (any, error) {
	return nil, errors.New("a schema may only refer to itself, such as #/$defs/name")
}

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
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
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
			return nil, errors.New(problems(invalid)[0].String())
		}
		return nil, bad.Err
	case errors.As(err, &load):
		return nil, fmt.Errorf("it refers to %s: %w", load.URL, load.Err)
	case err != nil:
		return nil, errors.New(strings.ReplaceAll(err.Error(), here, ""))
	}
	return &Schema{compiled}, nil
}

// String says what is wrong and where.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Want
	}
	return p.Path + ": " + p.Want
}

// Check lists what is wrong with a value of JSON; none: it fits. Nothing at all is null.
func (s *Schema) Check(value []byte) []Problem {
	if len(bytes.TrimSpace(value)) == 0 {
		value = []byte("null")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []Problem{{Want: "it is no JSON; want one JSON value"}}
	}
	var invalid *jsonschema.ValidationError
	if err := s.schema.Validate(doc); errors.As(err, &invalid) {
		return problems(invalid)
	}
	return nil
}

// problems are the leaves of an error, by their place.
func problems(e *jsonschema.ValidationError) (out []Problem) {
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			out = append(out, Problem{Path: path(e.InstanceLocation), Want: e.BasicOutput().Error.String()})
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
			quoted, _ := json.Marshal(step) // a string can always be encoded
			b.Write(quoted)
			continue
		}
		b.WriteString(step)
	}
	return b.String()
}
