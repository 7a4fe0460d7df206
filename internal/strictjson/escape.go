package strictjson

import (
	"unicode/utf16"
	"unicode/utf8"
)

const (
	wantEscape    = `one of the escapes \" \\ \/ \b \f \n \r \t \uXXXX`
	wantHex       = `four hexadecimal digits after \u`
	wantSurrogate = `a surrogate pair such as \ud83d\ude00`
)

var simpleEscape = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escape checks the escape sequence at i and returns its length, or 0.
func (d *decoder) escape(i int) int {
	rest := d.data[i:]
	if len(rest) < 2 {
		d.fail(len(d.data), nil, "the rest of an escape and a closing quote")
		return 0
	}
	if rest[1] != 'u' {
		if simpleEscape[rest[1]] == 0 {
			_, size := utf8.DecodeRune(rest[1:])
			d.fail(i, rest[:1+size], wantEscape)
			return 0
		}
		return 2
	}
	r, ok := hex4(rest)
	if !ok {
		d.fail(i, rest[:min(6, len(rest))], wantHex)
		return 0
	}
	if !utf16.IsSurrogate(r) {
		return 6
	}
	if low, ok := hex4(rest[6:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
		return 12
	}
	d.fail(i, rest[:6], wantSurrogate)
	return 0
}

// hex4 decodes the \uXXXX that b begins with.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape appends the decoded form of raw, the checked content of a string.
func unescape(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			i++
			continue
		}
		if raw[i+1] != 'u' {
			dst = append(dst, simpleEscape[raw[i+1]])
			i += 2
			continue
		}
		r, _ := hex4(raw[i:])
		i += 6
		if utf16.IsSurrogate(r) {
			low, _ := hex4(raw[i:])
			i += 6
			r = utf16.DecodeRune(r, low)
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}
