package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fingerprint identifies errors that differ only in numbers, ids and names. The zero Fingerprint stands for all
// others.
type Fingerprint [8]byte

func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// ParseFingerprint parses the format of String.
func ParseFingerprint(s string) (f Fingerprint, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(f) {
		return f, fmt.Errorf("%q is no fingerprint", s)
	}
	return Fingerprint(b), nil
}

// Fingerprint returns the fingerprint of an error, and its message with placeholders for the variable parts.
func (e *Error) Fingerprint() (Fingerprint, string) {
	if e == nil {
		e = &Error{}
	}
	message := Normal(e.Message)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", e.Type, e.HTTPStatus, message))
	return Fingerprint(sum[:8]), message
}

// maxNormal is how much of a message distinguishes errors.
const maxNormal = 500

// The placeholders of Normal.
const (
	aNumber  = "<n>"
	anID     = "<id>"
	someHex  = "<hex>"
	someText = "<text>"
	anIP     = "<addr>"
)

// Normal returns a message on one line, with placeholders for numbers, ids, hexadecimal digits, addresses and quoted
// text.
func Normal(message string) string {
	s := message
	if n := maxNormal; len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		if i == 0 || !wordly(s[i-1]) {
			if n, as := thing(s[i:]); n > 0 {
				b.WriteString(as)
				i += n
				continue
			}
		}
		switch c := s[i]; {
		case c <= ' ' || c == 0x7f:
			for i < len(s) && (s[i] <= ' ' || s[i] == 0x7f) {
				i++
			}
			b.WriteByte(' ')
		case digit(c):
			i += numeral(s[i:])
			b.WriteString(aNumber)
		default:
			b.WriteByte(c)
			i++
		}
	}
	return strings.TrimSpace(b.String())
}

// thing returns how much of the text, at the start of a word, a placeholder replaces, and which one.
func thing(s string) (n int, as string) {
	switch c := s[0]; {
	case c == '"' || c == '\'' || c == '`':
		end := strings.IndexByte(s[1:], c)
		if end < 0 || end+2 < len(s) && wordly(s[end+2]) {
			return 0, ""
		}
		return end + 2, someText
	case !hexadecimal(c) && c != '[':
		return 0, ""
	case c == '[':
		if n := bracketed(s); n > 0 {
			return n, anIP
		}
		return 0, ""
	}
	if len(s) >= 36 && isUUID(s[:36]) && (len(s) == 36 || !wordly(s[36])) {
		return 36, anID
	}
	if n := dotted(s); n > 0 {
		return n, anIP
	}
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		if n := stretchOf(s[2:], hexadecimal); n > 0 {
			return n + 2, someHex
		}
	}
	n = stretchOf(s, hexadecimal)
	if n >= 8 && strings.ContainsAny(s[:n], "0123456789") && strings.ContainsAny(s[:n], "abcdefABCDEF") && (n == len(s) || !wordly(s[n])) {
		return n, someHex
	}
	return 0, ""
}

// numeral returns the length of a number, a date, a time or a fraction.
func numeral(s string) int {
	n := stretchOf(s, digit)
	for n+1 < len(s) && strings.IndexByte(".,:-/T", s[n]) >= 0 && digit(s[n+1]) {
		n += 1 + stretchOf(s[n+1:], digit)
	}
	if n < len(s) && s[n] == 'Z' && n > 10 {
		n++
	}
	return n
}

// dotted returns the length of an IPv4 address, with its port.
func dotted(s string) int {
	n := 0
	for i := range 4 {
		d := stretchOf(s[n:], digit)
		if d == 0 || d > 3 {
			return 0
		}
		n += d
		if i < 3 {
			if n >= len(s) || s[n] != '.' {
				return 0
			}
			n++
		}
	}
	if n+1 < len(s) && s[n] == ':' {
		if d := stretchOf(s[n+1:], digit); d > 0 {
			n += 1 + d
		}
	}
	if n < len(s) && wordly(s[n]) || n+1 < len(s) && s[n] == '.' && digit(s[n+1]) {
		return 0
	}
	return n
}

// bracketed returns the length of an address in brackets, with its port.
func bracketed(s string) int {
	end := strings.IndexByte(s, ']')
	if end < 3 || stretchOf(s[1:], func(c byte) bool { return hexadecimal(c) || c == ':' || c == '.' }) != end-1 || strings.Count(s[:end], ":") < 2 {
		return 0
	}
	n := end + 1
	if n+1 < len(s) && s[n] == ':' {
		if d := stretchOf(s[n+1:], digit); d > 0 {
			n += 1 + d
		}
	}
	return n
}

// stretchOf returns how many bytes at the start of a text are of a kind.
func stretchOf(s string, of func(byte) bool) int {
	n := 0
	for n < len(s) && of(s[n]) {
		n++
	}
	return n
}

func isUUID(s string) bool {
	for i := range len(s) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (s[i] == '-') || !dash && !hexadecimal(s[i]) {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func hexadecimal(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// wordly reports whether a byte may stand within a word.
func wordly(c byte) bool {
	return digit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= utf8.RuneSelf
}

// Literal is the longest piece of a message without a placeholder, to search for; "" if there is none to speak of.
func Literal(normal string) string {
	const least = 4 // letters, or it finds everything
	best := ""
	for rest := normal; rest != ""; {
		at, length := len(rest), 0
		for _, p := range []string{aNumber, anID, someHex, someText, anIP} {
			if i := strings.Index(rest, p); i >= 0 && i < at {
				at, length = i, len(p)
			}
		}
		if piece := strings.TrimSpace(rest[:at]); len(piece) > len(best) {
			best = piece
		}
		rest = rest[at+length:]
	}
	if len(best) < least {
		return ""
	}
	if len(best) > 200 {
		best = strings.ToValidUTF8(best[:200], "")
	}
	return best
}
