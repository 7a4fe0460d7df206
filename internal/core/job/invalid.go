package job

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Invalid names an invalid field of a request, its value, and what would be valid.
type Invalid struct {
	Field string
	Value string
	Want  string
}

func (i Invalid) Error() string {
	return fmt.Sprintf("%s: %s is not valid; want %s", i.Field, i.Value, i.Want)
}

// Invalids lists everything that is wrong with one request.
type Invalids []Invalid

func (v Invalids) Error() string {
	parts := make([]string, len(v))
	for i, x := range v {
		parts[i] = x.Error()
	}
	return strings.Join(parts, "; ")
}

// Add adds one more invalid field.
func (v *Invalids) Add(field string, value any, want string) {
	*v = append(*v, Invalid{Field: field, Value: Show(value), Want: want})
}

// Under puts a prefix before every field, for a part of a larger request.
func (v Invalids) Under(prefix string) Invalids {
	out := make([]Invalid, len(v))
	for i, x := range v {
		x.Field = prefix + x.Field
		out[i] = x
	}
	return out
}

// Err returns the list as an error, or nil if it is empty.
func (v Invalids) Err() error {
	if len(v) == 0 {
		return nil
	}
	return v
}

const shown = 100

// Show formats a value for a message: short, and without control characters.
func Show(value any) string {
	s, ok := value.(string)
	if !ok {
		s = fmt.Sprint(value)
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == shown {
			b.WriteRune('…')
			break
		}
		n++
		switch {
		case r == utf8.RuneError || unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ':
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// printable reports whether text has no control characters and is valid UTF-8.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
