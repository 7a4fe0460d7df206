package expression

import (
	"encoding/binary"
	"encoding/json"
)

// valid reports whether a payload is valid JSON. Most are recognised at a glance, several times as fast as with
// encoding/json.
func valid(payload []byte) bool {
	i, ok := skim(payload, 0, 0)
	if !ok {
		return json.Valid(payload)
	}
	return blank(payload, i) == len(payload) || json.Valid(payload)
}

// skimDepth limits how deep skimmed values may be nested.
const skimDepth = 16

// skim returns where the value that begins at i, after white space, ends. It handles texts without escapes, integers,
// words, and objects and arrays of these; for anything else, including invalid JSON, ok is false.
func skim(b []byte, i, depth int) (end int, ok bool) {
	if i = blank(b, i); i == len(b) || depth > skimDepth {
		return i, false
	}
	switch c := b[i]; {
	case c == '"':
		return skimText(b, i)
	case c == '{', c == '[':
		return skimList(b, i, depth)
	case c == 't':
		return i + 4, i+4 <= len(b) && string(b[i:i+4]) == "true"
	case c == 'f':
		return i + 5, i+5 <= len(b) && string(b[i:i+5]) == "false"
	case c == 'n':
		return i + 4, i+4 <= len(b) && string(b[i:i+4]) == "null"
	default:
		return skimNumber(b, i)
	}
}

// skimList skims an object or an array, whose bracket is at i.
func skimList(b []byte, i, depth int) (end int, ok bool) {
	object, shut := b[i] == '{', b[i]+2 // { } and [ ] are two apart
	if i = blank(b, i+1); i < len(b) && b[i] == shut {
		return i + 1, true
	}
	for {
		if object {
			if i = blank(b, i); i == len(b) || b[i] != '"' {
				return i, false
			}
			if i, ok = skimText(b, i); !ok {
				return i, false
			}
			if i = blank(b, i); i == len(b) || b[i] != ':' {
				return i, false
			}
			i++
		}
		if i, ok = skim(b, i, depth+1); !ok {
			return i, false
		}
		if i = blank(b, i); i == len(b) || b[i] != ',' && b[i] != shut {
			return i, false
		}
		if i++; b[i-1] == shut {
			return i, true
		}
	}
}

// skimText skims a text whose quote is at i.
func skimText(b []byte, i int) (end int, ok bool) {
	for i = leap(b, i+1); i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, true
		case c == '\\' || c < ' ':
			return i, false
		}
	}
	return i, false
}

// leap advances from i by eight bytes at a time, as long as none of them is a quote, a backslash or a control
// character.
func leap(b []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080 // in each byte: 1, and its highest bit
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^ones*'"', w^ones*'\\' // 0 where there is one
		if ((quote-ones)&^quote|(slash-ones)&^slash|(w-ones*' ')&^w)&highs != 0 {
			break
		}
	}
	return i
}

// skimNumber skims an integer.
func skimNumber(b []byte, i int) (end int, ok bool) {
	if b[i] == '-' {
		i++
	}
	first := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == first || b[first] == '0' && i > first+1 || i < len(b) && (b[i] == '.' || b[i] == 'e' || b[i] == 'E') {
		return i, false
	}
	return i, true
}

// blank returns where the white space at i ends.
func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
