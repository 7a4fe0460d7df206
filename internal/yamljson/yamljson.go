// Package yamljson converts YAML to JSON, and remembers the line of each part, so that strict readers of the JSON can
// report where a mistake is.
//
// Numbers stay as they were written. Anchors, aliases and merge keys are resolved, up to a size; tags other than
// !!str, and what JSON cannot represent, are mistakes. It knows nothing of what documents mean.
package yamljson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a document, with its aliases resolved.
const (
	maxNodes = 500_000
	maxDepth = 200
)

// Document is one document of a file as JSON, with the lines of its parts in the file.
type Document struct {
	JSON  []byte
	marks []mark         // ascending
	lines map[string]int // by path
}

// mark records the line of the file for what begins at a byte of the JSON.
type mark struct{ offset, line int }

// Line returns the line of a byte of the JSON in the file; 0 if unknown.
func (d *Document) Line(offset int) int {
	i := sort.Search(len(d.marks), func(i int) bool { return d.marks[i].offset > offset })
	if i == 0 {
		return 0
	}
	return d.marks[i-1].line
}

// LineOf returns the line of the field with a path such as jobs[3].name, or of the nearest enclosing one.
func (d *Document) LineOf(path string) int {
	for path != "" {
		if n, ok := d.lines[path]; ok {
			return n
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			break
		}
		path = path[:i]
	}
	return d.lines[""]
}

// Error is the error for a file that is not YAML, or cannot be represented in JSON.
type Error struct {
	Line int // 0: unknown
	Want string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: want %s", e.Line, e.Want) }

// Parse parses YAML, of which JSON is a subset, into its documents; empty ones are left out. Its errors are *Error.
func Parse(data []byte) ([]Document, error) {
	var out []Document
	for _, c := range chunks(data) {
		d, err := c.parse()
		if err != nil {
			return nil, err
		}
		out = append(out, d...)
	}
	return out, nil
}

// chunk is one document's text, and how many lines precede it.
type chunk struct {
	text   []byte
	before int
}

// chunks splits a file at its markers, which are unambiguous. The parser could do it, too, but stops after an empty
// document.
func chunks(data []byte) (out []chunk) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var c chunk
	n := 0
	for line := range bytes.Lines(data) {
		bare := bytes.TrimRight(line, " \t\r\n")
		begins := bytes.Equal(bare, []byte("---")) || bytes.HasPrefix(line, []byte("--- ")) || bytes.HasPrefix(line, []byte("---\t"))
		switch {
		case begins:
			out = append(out, c)
			c = chunk{before: n, text: append([]byte("   "), line[3:]...)}
		case bytes.Equal(bare, []byte("...")):
			out = append(out, c)
			c = chunk{before: n + 1}
		default:
			c.text = append(c.text, line...)
		}
		n++
	}
	return append(out, c)
}

// empty reports whether a chunk holds comments and directives only.
func (c chunk) empty() bool {
	for line := range bytes.Lines(c.text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

func (c chunk) parse() ([]Document, error) {
	if c.empty() {
		return nil, nil
	}
	tree, err := parser.ParseBytes(c.text, 0)
	if err != nil {
		var at interface {
			GetToken() *token.Token
			GetMessage() string
		}
		bad := &Error{Want: "valid YAML: " + firstLine(err.Error())}
		if errors.As(err, &at) {
			bad.Want = "valid YAML: " + at.GetMessage()
			if t := at.GetToken(); t != nil && t.Position != nil {
				bad.Line = t.Position.Line + c.before
			}
		}
		return nil, bad
	}
	var out []Document
	for _, doc := range tree.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		w := &writer{doc: Document{lines: map[string]int{}}, anchors: map[string]ast.Node{}, before: c.before}
		if err := w.node(doc.Body, "", 0); err != nil {
			return nil, &Error{w.at, err.Error()}
		}
		out = append(out, w.doc)
	}
	return out, nil
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// number is a number as in JSON.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// writer writes nodes as JSON.
type writer struct {
	doc     Document
	anchors map[string]ast.Node
	before  int // how many lines precede the document
	at      int // the line that is being read
	nodes   int
	aliased int // within how many aliases it is
}

func (w *writer) put(s string) { w.doc.JSON = append(w.doc.JSON, s...) }

func (w *writer) text(s string) {
	b, _ := json.Marshal(s) // a text always encodes
	w.doc.JSON = append(w.doc.JSON, b...)
}

// mark records that what comes next is in a line.
func (w *writer) mark(n ast.Node, path string) {
	if t := n.GetToken(); t != nil && t.Position != nil {
		w.at = t.Position.Line + w.before
	}
	w.doc.marks = append(w.doc.marks, mark{len(w.doc.JSON), w.at})
	if w.aliased > 0 {
		return // the alias stands for all of it
	}
	if _, ok := w.doc.lines[path]; !ok {
		w.doc.lines[path] = w.at
	}
}

func (w *writer) node(n ast.Node, path string, depth int) error {
	if w.nodes++; w.nodes > maxNodes || depth > maxDepth {
		return errors.New("a smaller document: it is too large, too deep, or its aliases stand for too much")
	}
	w.mark(n, path)
	switch n := n.(type) {
	case *ast.NullNode:
		w.put("null")
	case *ast.BoolNode:
		w.put(strconv.FormatBool(n.Value))
	case *ast.IntegerNode:
		w.number(n.Token.Value, fmt.Sprint(n.Value))
	case *ast.FloatNode:
		w.number(n.Token.Value, strconv.FormatFloat(n.Value, 'g', -1, 64))
	case *ast.StringNode:
		if n.Token.Type == token.StringType && number.MatchString(n.Value) {
			w.put(n.Value) // which the parser finds too large, or takes for a text
			return nil
		}
		w.text(n.Value)
	case *ast.LiteralNode:
		w.text(n.Value.Value)
	case *ast.InfinityNode, *ast.NanNode:
		return errors.New("a number that is finite")
	case *ast.AnchorNode:
		if err := w.node(n.Value, path, depth+1); err != nil {
			return err
		}
		w.anchors[n.Name.GetToken().Value] = n.Value // only now: nothing can contain itself
	case *ast.AliasNode:
		to, err := w.follow(n)
		if err != nil {
			return err
		}
		w.aliased++
		defer func() { w.aliased-- }()
		return w.node(to, path, depth+1)
	case *ast.TagNode:
		if tag := n.Start.Value; tag == "!!str" {
			if s, ok := n.Value.(ast.ScalarNode); ok {
				w.text(s.GetToken().Value)
				return nil
			}
		}
		return fmt.Errorf("a value without the tag %s", n.Start.Value)
	case *ast.MappingNode:
		return w.mapping(n.Values, path, depth)
	case *ast.MappingValueNode:
		return w.mapping([]*ast.MappingValueNode{n}, path, depth)
	case *ast.SequenceNode:
		w.put("[")
		for i, v := range n.Values {
			if i > 0 {
				w.put(",")
			}
			if err := w.node(v, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
		w.put("]")
	default:
		return fmt.Errorf("something else than a %s", n.Type())
	}
	return nil
}

// number writes a number as it was written, if that is valid JSON.
func (w *writer) number(written, value string) {
	if json.Valid([]byte(written)) {
		value = written
	}
	w.put(value)
}

// follow returns the node of an alias.
func (w *writer) follow(n *ast.AliasNode) (ast.Node, error) {
	name := n.Value.GetToken().Value
	to, ok := w.anchors[name]
	if !ok {
		return nil, fmt.Errorf("an anchor before its alias: there is no &%s so far", name)
	}
	return to, nil
}

// mapping writes an object. The content of a merge key (<<) comes after the mapping's own.
func (w *writer) mapping(values []*ast.MappingValueNode, path string, depth int) error {
	w.put("{")
	seen := map[string]bool{}
	var merged []*ast.MappingValueNode
	write := func(v *ast.MappingValueNode, key string) error {
		if len(seen) > 0 {
			w.put(",")
		}
		seen[key] = true
		at := key
		if path != "" {
			at = path + "." + key
		}
		w.mark(v.Key, at)
		w.text(key)
		w.put(":")
		return w.node(v.Value, at, depth+1)
	}
	for _, v := range values {
		if v.Key.IsMergeKey() {
			more, err := w.merge(v.Value)
			if err != nil {
				return err
			}
			merged = append(merged, more...)
			continue
		}
		w.mark(v.Key, path)
		key, err := keyOf(v.Key)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("each name once: %s is there twice", key)
		}
		if err := write(v, key); err != nil {
			return err
		}
	}
	for _, v := range merged {
		key, err := keyOf(v.Key)
		if err != nil {
			return err
		}
		if !seen[key] {
			if err := write(v, key); err != nil {
				return err
			}
		}
	}
	w.put("}")
	return nil
}

func keyOf(n ast.MapKeyNode) (string, error) {
	if k, ok := n.(*ast.MappingKeyNode); ok {
		return "", fmt.Errorf("plain names, not %s", firstLine(k.String()))
	}
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value, nil
	}
	return n.GetToken().Value, nil
}

// merge returns the content of a merge key: a mapping, or several.
func (w *writer) merge(n ast.Node) ([]*ast.MappingValueNode, error) {
	switch n := n.(type) {
	case *ast.AliasNode:
		to, err := w.follow(n)
		if err != nil {
			return nil, err
		}
		return w.merge(to)
	case *ast.MappingNode:
		var out []*ast.MappingValueNode
		for _, v := range n.Values {
			if !v.Key.IsMergeKey() {
				out = append(out, v)
				continue
			}
			if w.nodes++; w.nodes > maxNodes {
				return nil, errors.New("fewer merge keys")
			}
			more, err := w.merge(v.Value)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
		return out, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, nil
	case *ast.SequenceNode:
		var out []*ast.MappingValueNode
		for _, v := range n.Values {
			more, err := w.merge(v)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
		return out, nil
	}
	return nil, errors.New("an alias of a mapping behind <<")
}
