package secret

import "strings"

const (
	escape1 = 0x1b     // begins the control sequences of terminals
	blot    = "\ufffd" // stands for a control character where a worker or a codec has replaced it
)

// unstyled removes colours, weight and links of terminals, and overstruck characters as in man pages. It reports
// whether there were any.
func (l layer) unstyled() (layer, bool) {
	s := l.text
	if strings.IndexByte(s, escape1) < 0 && strings.IndexByte(s, '\b') < 0 && !strings.Contains(s, blot) {
		return l, false
	}
	text, from := make([]byte, 0, len(s)), make([]origin, 0, len(s))
	back := func() {
		if n := len(text); n > 0 {
			text, from = text[:n-1], from[:n-1]
		}
	}
	for i := 0; i < len(s); {
		switch rest := s[i:]; {
		case rest[0] == escape1:
			i += sequence(rest)
		case rest[0] == '\b':
			back()
			i++
		case strings.HasPrefix(rest, blot):
			i += len(blot)
			switch rest = rest[len(blot):]; {
			case rest == "":
			case strings.IndexByte("[]()", rest[0]) >= 0:
				i += sequence(s[i-1:]) - 1
			case len(text) > 0 && (text[len(text)-1] == rest[0] || text[len(text)-1] == '_'): // struck over
				back()
			}
		default:
			text, from = append(text, s[i]), append(from, l.at(i, 1))
			i++
		}
	}
	return layer{text: string(text), from: from, part: l.part}, true
}

// longestTitle limits the text that a control sequence may carry: a title, or the address of a link.
const longestTitle = 2048

// sequence returns how long the control sequence at the beginning of a text is, whatever byte begins it.
func sequence(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[': // parameters up to a final byte
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] > 0x3f {
				return i // cut off
			}
		}
		return len(s)
	case ']', 'P', '_', '^': // text up to a BEL or ESC \
		for i := 2; i < min(len(s), longestTitle); i++ {
			if s[i] == '\a' {
				return i + 1
			}
			if s[i] == escape1 && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
			if rest, ok := strings.CutPrefix(s[i:], blot); ok {
				return len(s) - len(strings.TrimPrefix(rest, `\`))
			}
		}
	case '(', ')', '*', '+', '#', ' ', '%':
		return min(3, len(s))
	}
	return 2
}

// Doubly encoded text is found by decoding it once: base64 or hex in what is found in base64, hex, percent-encoding
// or escapes.
const (
	leastRun     = 16 // digits of base64 or hex that are decoded
	leastStretch = 12 // characters that decoding must yield
)

// encoded decodes the runs of base64 and of hex digits of a layer, if that yields text. The start of a run is
// unknown, since it may follow other letters, so every alignment is tried.
func (l layer) encoded() (out []layer) {
	s := l.text
	var in64 [4]runs
	var inHex [2]runs
	for i := 0; i < len(s); {
		if values64[s[i]] == noDigit {
			i++
			continue
		}
		begun, digits := i, 0
		for i < len(s) && values64[s[i]] != noDigit {
			digits++
			if i++; i < len(s) && (s[i] == '\n' || s[i] == '\r') {
				i = wrapped(s, i)
			}
		}
		if digits < leastRun {
			continue
		}
		for shift, gives := range worth(s[begun:i]) {
			if gives {
				in64[shift].base64(l, begun, i, shift)
			}
		}
		if strings.IndexFunc(s[begun:i], func(c rune) bool { return c > ' ' && (c > 'f' || !digit16(byte(c))) }) < 0 {
			for shift := range inHex {
				inHex[shift].hex(l, begun, i, shift)
			}
		}
	}
	for _, all := range [][]runs{in64[:], inHex[:]} {
		for _, r := range all {
			if len(r.text) > 0 {
				out = append(out, layer{text: string(r.text), from: r.from, part: true})
			}
		}
	}
	return out
}

// runs holds the decoded runs of digits, line by line.
type runs struct {
	text  []byte
	from  []origin
	begun int // where the last stretch of text begins
}

// add adds a byte with its position, or ends the stretch before one that is not text.
func (r *runs) add(c byte, at origin) {
	if isText[c] {
		r.text, r.from = append(r.text, c), append(r.from, at)
		return
	}
	r.end(at)
}

// end ends a stretch; one short enough to be chance is dropped.
func (r *runs) end(at origin) {
	if len(r.text)-r.begun < leastStretch {
		r.text, r.from = r.text[:r.begun], r.from[:r.begun]
		return
	}
	r.text, r.from = append(r.text, '\n'), append(r.from, at)
	r.begun = len(r.text)
}

// base64 decodes the digits between two positions, except the first few.
func (r *runs) base64(l layer, begin, end, skip int) {
	var word uint32
	n, last := -skip, 0
	for i := begin; i < end; i++ {
		v := values64[l.text[i]]
		if v == noDigit {
			continue // a line break
		}
		if n++; n <= 0 {
			continue
		}
		word = word<<6 | uint32(v)
		if n%4 != 1 { // the 2nd, 3rd and 4th digit of four each complete a byte
			r.add(byte(word>>(6-2*((n+3)%4))), l.at(last, i+1-last))
		}
		last = i
	}
	r.end(l.at(end-1, 1))
}

// hex decodes the digits between two positions, except the first few.
func (r *runs) hex(l layer, begin, end, skip int) {
	n, last := -skip, 0
	for i := begin; i < end; i++ {
		if !digit16(l.text[i]) {
			continue
		}
		if n++; n > 0 && n%2 == 0 {
			high, _ := unhex(l.text[last:], 1)
			low, _ := unhex(l.text[i:], 1)
			r.add(byte(high<<4|low), l.at(last, i+1-last))
		}
		last = i
	}
	r.end(l.at(end-1, 1))
}

// wrapped returns where a text continues that has a line break at a position: after it and the indentation of the
// next line.
func wrapped(s string, i int) int {
	for i < len(s) && (s[i] == '\n' || s[i] == '\r') {
		i++
	}
	return blanks(s, i)
}

func digit16(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// values64 maps digits of base64, in either alphabet, to their values; noDigit: it is none.
var values64 = func() (t [256]byte) {
	for c := range t {
		t[c] = noDigit
	}
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		t[c] = byte(i)
	}
	t['-'], t['_'] = 62, 63
	return t
}()

const noDigit = 0xff

// isText tells for each byte whether it is a character of a text.
var isText = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x20 && c < 0x7f || c == '\n' || c == '\r' || c == '\t'
	}
	return t
}()

// worth returns the alignments in which a run of base64 digits yields a long enough stretch of text.
func worth(run string) (out [4]bool) {
	var word uint32
	var length [4]int // of the stretch in each alignment
	n := 0
	for i := range len(run) {
		v := values64[run[i]]
		if v == noDigit {
			continue
		}
		word = word<<6 | uint32(v)
		n++
		for shift := range 4 {
			k := n - shift
			if k < 2 || k&3 == 1 {
				continue
			}
			if !isText[byte(word>>(6-2*((k+3)&3)))] {
				length[shift] = 0
			} else if length[shift]++; length[shift] == leastStretch {
				out[shift] = true
			}
		}
	}
	return out
}
