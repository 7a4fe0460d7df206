package expression

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// pathOf returns the names that lead to the member if an expression just reads one, such as payload.customer.id; nil
// if it does anything else.
func pathOf(n ast.Node) []string {
	names, _ := memberPath(n)
	return names
}

// memberPath returns the names that lead a node to a member of payload: none for payload itself.
func memberPath(n ast.Node) (names []string, ok bool) {
	names, root, ok := pathTo(n)
	if root != "payload" {
		return names, false
	}
	return names, ok
}

// pathTo returns the name a node begins with, and the names of the members after it.
func pathTo(n ast.Node) (names []string, root string, ok bool) {
	for {
		switch x := n.(type) {
		case *ast.ChainNode:
			n = x.Node
		case *ast.MemberNode:
			name, ok := x.Property.(*ast.StringNode)
			if !ok || x.Method {
				return nil, "", false
			}
			names, n = append(names, name.Value), x.Node
		case *ast.IdentifierNode:
			slices.Reverse(names)
			return names, x.Value, true
		default:
			return nil, "", false
		}
	}
}

// member finds the text of the member at a path in a valid JSON payload, without decoding the whole; nil: there is
// none, or it is null. If ok is false, a full decode is needed.
func member(payload []byte, path []string) (text []byte, ok bool) {
	text = bytes.TrimSpace(payload)
	for _, name := range path {
		switch {
		case len(text) == 0 || text[0] == 'n':
			return nil, true
		case text[0] != '{':
			return nil, false
		}
		text = memberOf(text, name)
	}
	return text, true
}

// memberOf finds a member of an object, which is valid JSON: the last one with the name counts.
func memberOf(object []byte, name string) (text []byte) {
	i := blank(object, 1)
	for object[i] != '}' {
		end := value(object, i)
		key := object[i:end]
		i = blank(object, end)
		i = blank(object, i+1) // after the colon
		end = value(object, i)
		if named(key, name) {
			text = object[i:end]
		}
		if i = blank(object, end); object[i] == ',' {
			i = blank(object, i+1)
		}
	}
	return text
}

// named reports whether a JSON key, including its quotes, equals a name.
func named(key []byte, name string) bool {
	inner := key[1 : len(key)-1]
	if len(inner) > 6*len(name) { // \u0041 is the longest way to write a byte
		return false
	}
	for _, c := range inner {
		if c == '\\' || c >= 0x80 { // it may be written in many ways
			var s string
			return json.Unmarshal(key, &s) == nil && s == name
		}
	}
	return string(inner) == name
}

// value returns where the value that begins at i ends.
func value(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = text(b, i+1)
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // after a number or a word
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// text returns where the text that begins at i ends: at its quote.
func text(b []byte, i int) int {
	for end := -1; ; {
		if i > end { // the quote was escaped, or none was searched for yet
			end = i + bytes.IndexByte(b[i:], '"')
		}
		escape := bytes.IndexByte(b[i:end], '\\')
		if escape < 0 {
			return end
		}
		i += escape + 2 // after the escaped character
	}
}
