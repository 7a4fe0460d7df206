package strictjson

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxProblems = 20
	maxShown    = 100
)

// Problem is one mistake in a document.
type Problem struct {
	// Field is the path of the value, such as jobs[3].schedule.type, or "" for
	// the document itself. For an unknown or repeated key it is the key's path.
	Field string
	// Value is the input at that place, safe to print and cut to 100 characters; for an unknown or repeated key it is
	// the key. It is "" if the document ended too early.
	Value string
	// Want describes what would be valid.
	Want string
	// Offset is the byte position in the document.
	Offset int
}

// String describes the problem in one line.
func (p Problem) String() string {
	var b strings.Builder
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	switch {
	case p.Value != "":
		b.WriteString("got " + p.Value + ", want ")
	case p.Offset == 0:
		b.WriteString("the body is empty; want ")
	default:
		fmt.Fprintf(&b, "the body ends too early at byte %d; want ", p.Offset)
	}
	b.WriteString(p.Want)
	return b.String()
}

// Error lists what is wrong with a document: either the first syntax error alone (Syntax is set) or up to 20 other
// problems in the order of the document.
type Error struct {
	Problems []Problem
	Syntax   bool
}

// Error describes all problems in one line.
func (e *Error) Error() string {
	if e.Syntax && len(e.Problems) == 1 && e.Problems[0].Value != "" {
		return fmt.Sprintf("invalid JSON at byte %d: %s", e.Problems[0].Offset, e.Problems[0])
	}
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.String()
	}
	return strings.Join(parts, "; ")
}

// show makes a piece of a document safe to print: unprintable characters are escaped and the whole is cut to maxShown
// characters.
func show(b []byte) string {
	out := make([]byte, 0, min(len(b), maxShown)+len("…"))
	for chars := 0; len(b) > 0; {
		r, size := utf8.DecodeRune(b)
		mark := len(out)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, b[0])
		case strconv.IsPrint(r):
			out = utf8.AppendRune(out, r)
		default:
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		if chars += utf8.RuneCount(out[mark:]); chars > maxShown {
			return string(append(out[:mark], "…"...))
		}
		b = b[size:]
	}
	return string(out)
}
