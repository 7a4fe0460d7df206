package strictjson

import (
	"strconv"
)

// segment is one step of the path to the value being read: the raw content
// of a key, data[start:end], or an element's index, or nothing yet.
type segment struct {
	start, end int
}

const (
	segmentIndex = -1
	segmentNone  = -2
)

// A longer path is shown by its first and its last steps.
const (
	maxSteps  = 16
	keepSteps = 6 // at each end
)

// field renders the path to the value being read.
func (d *decoder) field() string {
	var out []byte
	for i, s := range d.path {
		if n := len(d.path); n > maxSteps && i >= keepSteps && i < n-keepSteps {
			if i == keepSteps {
				out = append(out, "…"...)
			}
			continue
		}
		switch s.start {
		case segmentNone:
		case segmentIndex:
			out = append(out, '[')
			out = strconv.AppendInt(out, int64(s.end), 10)
			out = append(out, ']')
		default:
			out = appendKey(out, unescape(nil, d.data[s.start:s.end]))
		}
	}
	return string(out)
}

func appendKey(out, key []byte) []byte {
	if !isPlain(key) {
		// Quote before cutting, so that a quote within the key stays escaped.
		quoted := strconv.AppendQuote(nil, string(key))
		out = append(out, `["`...)
		out = append(out, show(quoted[1:len(quoted)-1])...)
		return append(out, `"]`...)
	}
	if len(out) > 0 {
		out = append(out, '.')
	}
	return append(out, show(key)...)
}

// isPlain reports whether a key needs no quotes in a path. A hyphen does, as headers.X-A would read like a
// subtraction.
func isPlain(key []byte) bool {
	for _, c := range key {
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(key) > 0
}
