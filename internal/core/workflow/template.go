package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/internal/expression"
)

// template is JSON in which strings may hold {{ expressions }}. A string that is just one becomes its value; inside
// other text it becomes text. Rendered values are never rendered again, and never name a secret.
type template struct {
	name string // of the member of the execution; empty: the whole
	root any    // as of Decode, with *text in place of strings that hold expressions
}

// text is a string with expressions in it.
type text struct {
	parts []part
	whole bool // it is one expression and nothing else
}

// part is a piece of text, or an expression.
type part struct {
	literal string
	program *expression.Program
}

// secretOpening begins a reference to a secret; after another $ it is literal.
const secretOpening = "${secret:"

// template compiles JSON; nil if it is refused.
func (c *compiler) template(at place, name string, doc []byte) *template {
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber() // other values stay as they are written
	if err := d.Decode(&v); err != nil {
		c.refuse(at.field, string(doc), "JSON: "+err.Error())
		return nil
	}
	before := len(c.bad)
	root := c.templates(at, v)
	if len(c.bad) > before {
		return nil
	}
	return &template{name: name, root: root}
}

// templates replaces each string that holds an expression with a text.
func (c *compiler) templates(at place, v any) any {
	field := at.field
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "{{") {
			return c.text(at, v)
		}
	case []any:
		for i := range v {
			at.field = fmt.Sprintf("%s[%d]", field, i)
			v[i] = c.templates(at, v[i])
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at.field = field + "." + k
			v[k] = c.templates(at, v[k])
		}
	}
	return v
}

const wantTemplate = `each {{ closed by }}; for the text itself write {{ "{{" }}`

// text splits a string into literals and expressions.
func (c *compiler) text(at place, s string) any {
	t := &text{}
	rest := s
	for {
		i := strings.Index(rest, "{{")
		if i < 0 {
			break
		}
		literal := rest[:i]
		end := closing(rest[i+2:])
		if end < 0 {
			c.refuse(at.field, s, wantTemplate)
			return s
		}
		if open := strings.LastIndex(literal, secretOpening); open >= 0 && !strings.Contains(literal[open:], "}") {
			c.refuse(at.field, s, "no expression inside of ${secret:…}: write the secret's name out")
			return s
		}
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		p := c.expression(at, strings.TrimSpace(rest[i+2:i+2+end]))
		t.parts = append(t.parts, part{program: p})
		rest = rest[i+2+end+2:]
		if strings.HasPrefix(rest, secretOpening) {
			c.refuse(at.field, s, "something between }} and ${secret:…}, such as a space: a value that ends with $ would hide the reference")
			return s
		}
	}
	if rest != "" {
		t.parts = append(t.parts, part{literal: rest})
	}
	t.whole = len(t.parts) == 1
	return t
}

// closing returns the position of the }} that ends an expression, outside of its strings; -1 if there is none.
func closing(s string) int {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\' && quote != '`':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '}' && i+1 < len(s) && s[i+1] == '}':
			return i
		}
	}
	return -1
}

// renderer renders templates over values. The total size that expressions add is limited.
type renderer struct {
	values map[string]any
	left   int // bytes
}

// value renders a value of a template.
func (r *renderer) value(v any) (any, error) {
	switch v := v.(type) {
	case *text:
		return r.text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			x, err := r.value(v[i])
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) { // so that the first error is always the same
			x, err := r.value(v[k])
			if err != nil {
				return nil, err
			}
			out[k] = x
		}
		return out, nil
	}
	return v, nil
}

func (r *renderer) text(t *text) (any, error) {
	var b strings.Builder
	literals := make([][2]int, 0, len(t.parts)) // where each begins and ends
	for _, p := range t.parts {
		if p.program == nil {
			literals = append(literals, [2]int{b.Len(), b.Len() + len(p.literal)})
			b.WriteString(p.literal)
			continue
		}
		v, err := p.program.Value(r.values)
		if err != nil {
			return nil, fmt.Errorf("`%s`: %w", p.program, err)
		}
		if t.whole {
			v = inert(v)
		}
		doc, err := r.write(v, t.whole)
		if err != nil {
			return nil, err
		}
		if t.whole {
			return json.RawMessage(doc), nil
		}
		b.WriteString(doc)
	}
	return escapeSecrets(b.String(), literals), nil
}

// write writes a value, as JSON or as text, and counts it.
func (r *renderer) write(v any, asJSON bool) (string, error) {
	s, ok := v.(string)
	if !ok || asJSON {
		doc, err := expression.Encode(v)
		if err != nil {
			return "", err
		}
		s = string(doc)
	}
	if r.left -= len(s); r.left < 0 {
		return "", &expression.Error{Reason: fmt.Sprintf("what is rendered has more than %d bytes", MaxValue)}
	}
	return s, nil
}

// inert escapes references to secrets in every string of a value.
func inert(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, secretOpening, "$"+secretOpening)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = inert(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[strings.ReplaceAll(k, secretOpening, "$"+secretOpening)] = inert(v[k])
		}
		return out
	}
	return v
}

// escapeSecrets escapes references to secrets that are not entirely within one of the literals.
func escapeSecrets(s string, literals [][2]int) string {
	if !strings.Contains(s, secretOpening) {
		return s
	}
	var b strings.Builder
	from := 0
	for {
		i := strings.Index(s[from:], secretOpening)
		if i < 0 {
			b.WriteString(s[from:])
			return b.String()
		}
		at := from + i
		b.WriteString(s[from:at])
		own := false
		for _, l := range literals {
			own = own || l[0] <= at && at+len(secretOpening) <= l[1]
		}
		if !own {
			b.WriteByte('$')
		}
		b.WriteString(secretOpening)
		from = at + len(secretOpening)
	}
}

// RendersTarget reports whether templates change what an inline node runs, besides its payload.
func (g *Graph) RendersTarget(n int) bool {
	return slices.ContainsFunc(g.nodes[n].templates, func(t *template) bool { return t.name != "payload" })
}

// RendersPayload reports whether templates change the payload of an inline node.
func (g *Graph) RendersPayload(n int) bool {
	return slices.ContainsFunc(g.nodes[n].templates, func(t *template) bool { return t.name == "payload" })
}

// execution renders what a node runs: the rendered members replace those of the definition.
func (n *node) execution(d *Node, values map[string]any) (json.RawMessage, error) {
	r := &renderer{values: values, left: MaxValue}
	if n.payload != nil {
		v, err := r.value(n.payload.root)
		if err != nil {
			return nil, err
		}
		return encode(v)
	}
	if len(n.templates) == 0 {
		return d.Execution, nil
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(d.Execution, &raw); err != nil {
		return nil, err
	}
	for _, t := range n.templates {
		v, err := r.value(t.root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		doc, err := encode(v)
		if err != nil {
			return nil, err
		}
		raw[t.name] = doc
	}
	return encode(raw)
}

// encode writes a value of at most MaxValue bytes.
func encode(v any) (json.RawMessage, error) {
	doc, err := expression.Encode(v)
	if err == nil && len(doc) > MaxValue {
		err = &expression.Error{Reason: fmt.Sprintf("its value has %d bytes; at most %d", len(doc), MaxValue)}
	}
	return doc, err
}
