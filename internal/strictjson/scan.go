package strictjson

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

const (
	bom       = "\uFEFF"
	wantValue = "a JSON value"
)

var wantDepth = fmt.Sprintf("at most %d levels of nesting", MaxDepth)

// peek returns the byte at pos, or 0 at the end. A NUL in the document looks the same, which is harmless: neither may
// occur outside a string.
func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

// next skips white space and returns the byte after it, or 0 at the end.
func (d *decoder) next() byte {
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		if c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
		d.pos++
	}
	return 0
}

// token returns the text at pos for use in an error: one character, or everything up to the next delimiter if it
// looks like a word.
func (d *decoder) token() []byte {
	rest := d.data[d.pos:]
	end := bytes.IndexAny(rest, " \t\r\n,:[]{}\"")
	switch {
	case end < 0:
		return rest
	case end == 0:
		return rest[:1]
	}
	return rest[:end]
}

// unexpected returns the syntax error for the text at pos.
func (d *decoder) unexpected(want string) bool {
	got := d.token()
	if len(got) > 0 && (got[0] == '/' || got[0] == '#') {
		want += " (JSON has no comments)"
	}
	return d.fail(d.pos, got, want)
}

// enter steps into the list or object at pos.
func (d *decoder) enter() bool {
	if d.depth == MaxDepth {
		d.add(d.pos, d.data[d.pos:d.pos+1], wantDepth)
		d.stopped = true
		return false
	}
	d.depth++
	d.pos++
	d.path = append(d.path, segment{start: segmentNone})
	return true
}

// leave steps out of the list or object whose end elem or member has read,
// and returns false if they stopped for another reason.
func (d *decoder) leave() bool {
	d.depth--
	d.path = d.path[:len(d.path)-1]
	return !d.stopped
}

// elem moves to element i of a list and returns false at its end.
func (d *decoder) elem(i int) bool {
	top := &d.path[len(d.path)-1]
	top.start = segmentNone
	c := d.next()
	if c == ']' {
		d.pos++
		return false
	}
	if i > 0 {
		if c != ',' {
			return d.unexpected("a comma or ]")
		}
		d.pos++
		if d.next() == ']' {
			return d.unexpected("a JSON value after the comma")
		}
	}
	*top = segment{segmentIndex, i}
	return true
}

// key is the place of a member's name, without its quotes.
type key struct {
	start, end int
	escaped    bool
}

// member moves to the value of the next member of an object and returns
// false at the object's end.
func (d *decoder) member(first bool) (k key, more bool) {
	top := &d.path[len(d.path)-1]
	top.start = segmentNone
	c := d.next()
	if c == '}' {
		d.pos++
		return k, false
	}
	want := "a key in double quotes or }"
	if !first {
		if c != ',' {
			return k, d.unexpected("a comma or }")
		}
		d.pos++
		c = d.next()
		want = "a key in double quotes after the comma"
	}
	if c != '"' {
		return k, d.unexpected(want)
	}
	k.start = d.pos + 1
	var ok bool
	if _, k.escaped, ok = d.str(); !ok {
		return k, false
	}
	k.end = d.pos - 1
	*top = segment{k.start, k.end}
	if d.next() != ':' {
		return k, d.unexpected("a colon after the key")
	}
	d.pos++
	d.next()
	return k, true
}

// name returns the text of a key; it is valid until the next call of text.
func (d *decoder) name(k key) []byte {
	return d.text(d.data[k.start:k.end], k.escaped)
}

// text decodes the raw content of a string; the result is valid until the next call.
func (d *decoder) text(raw []byte, escaped bool) []byte {
	if !escaped {
		return raw
	}
	d.scratch = unescape(d.scratch[:0], raw)
	return d.scratch
}

func (d *decoder) literal(word string) bool {
	if end := d.pos + len(word); end <= len(d.data) && string(d.data[d.pos:end]) == word {
		d.pos = end
		return true
	}
	return d.unexpected(wantValue)
}

// special marks the bytes that end the plain run of a string.
var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf
	}
	return t
}()

// str reads the string whose opening quote is at pos and returns its content
// as written.
func (d *decoder) str() (raw []byte, escaped, ok bool) {
	data := d.data
	start := d.pos + 1
	for i := start; i < len(data); {
		c := data[i]
		switch {
		case !special[c]:
			i++
		case c == '"':
			d.pos = i + 1
			return data[start:i], escaped, true
		case c == '\\':
			size := d.escape(i)
			if size == 0 {
				return nil, false, false
			}
			escaped = true
			i += size
		case c < ' ':
			return nil, false, d.fail(i, data[i:i+1], `control characters escaped, such as \n or \u0000`)
		default:
			_, size := utf8.DecodeRune(data[i:])
			if size == 1 {
				return nil, false, d.fail(i, data[i:i+1], "valid UTF-8")
			}
			i += size
		}
	}
	return nil, false, d.fail(len(data), nil, "a closing quote")
}
