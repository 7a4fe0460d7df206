package secret

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapes is the set of escape sequences that are decoded in a text.
type escapes uint8

const (
	backslashes escapes = 1 << iota // \n, \", \u00e9, \xe9, \351: JSON, Go, C and shell
	nested                          // with backslashes: several before a letter count as one
	percents                        // %C3%A9
	entities                        // &amp;, &#39;
)

// origin is where a byte comes from.
type origin struct {
	start, end int32
	first      bool // it is the first byte of a line
}

// layer is a text decoded from another one.
type layer struct {
	text string
	from []origin // of each byte; nil: it is the source itself
	part bool     // it does not extend to the end of the source
}

func (l layer) at(i, n int) origin {
	if l.from == nil {
		return origin{int32(i), int32(i + n), false}
	}
	return origin{l.from[i].start, l.from[i+n-1].end, l.from[i].first}
}

// folded is a text without what quoting, wrapping and indenting add to it. Values are folded in the same way, so that
// one is found however it is laid out.
type folded struct {
	source string
	layer  layer
	text   []byte
	from   []origin // of each byte of text; nil until locate is called
}

// plain maps ASCII characters to their folded form; 0 drops one. White space and control characters are dropped, and
// so are + and -, and _ or / because base64 has two alphabets, and quotes and backslashes.
var plain = func() (t [utf8.RuneSelf]byte) {
	for c := range byte(utf8.RuneSelf) {
		switch {
		case c <= ' ' || c == 0x7f || strings.IndexByte("+-'\"`\\", c) >= 0:
		case c == '_':
			t[c] = '/'
		default:
			t[c] = c
		}
	}
	return t
}()

// dropped reports whether folding drops a rune that is not ASCII. What cannot be stored as text is replaced on the way.
func dropped(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r) }

// fold folds a layer of a text.
func fold(source string, l layer) *folded {
	f := &folded{source: source, layer: l, text: make([]byte, 0, len(l.text))}
	f.run(false)
	return f
}

// locate finds out where each byte comes from.
func (f *folded) locate() {
	if f.from == nil {
		n := len(f.text)
		f.text, f.from = f.text[:0], make([]origin, 0, n)
		f.run(true)
	}
}

func (f *folded) run(located bool) {
	s, first := f.layer.text, true
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if b := plain[c]; b != 0 {
				f.text = append(f.text, b)
				if located {
					o := f.layer.at(i, 1)
					o.first = o.first || first
					f.from = append(f.from, o)
				}
				first = false
			} else if c == '\n' || c == '\r' || located && f.layer.at(i, 1).first {
				first = true
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if !dropped(r) {
			f.text = append(f.text, s[i:i+n]...)
			if located {
				o := f.layer.at(i, n)
				o.first = o.first || first
				for range n {
					f.from = append(f.from, o)
					o.first = false
				}
			}
			first = false
		}
		i += n
	}
}

// unwrap takes line breaks out, with the indentation behind them: they may be within escape sequences.
func (l layer) unwrap() layer {
	s := l.text
	if strings.IndexByte(s, '\n') < 0 {
		return l
	}
	out := make([]byte, 0, len(s))
	from := make([]origin, 0, len(s))
	broken := false
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n' || c == '\r':
			broken = true
		case broken && (c == ' ' || c == '\t'):
		default:
			o := l.at(i, 1)
			o.first = o.first || broken
			out, from, broken = append(out, c), append(from, o), false
		}
	}
	return layer{text: string(out), from: from, part: l.part}
}

// decode reads escape sequences of a layer as what they stand for.
func (l layer) decode(esc escapes) layer {
	s := l.text
	out := layer{from: make([]origin, 0, len(s)), part: l.part}
	text := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		n, r, read := 1, rune(0), true
		switch c := s[i]; {
		case c == '\\' && esc&backslashes != 0:
			n, r = backslash(s[i:], esc&nested != 0)
		case c == '%' && esc&percents != 0:
			n, r = percent(s[i:])
		case c == '&' && esc&entities != 0:
			n, r = entity(s[i:])
		default:
			read = false
		}
		if !read {
			text, out.from = append(text, s[i]), append(out.from, l.at(i, 1))
			i++
			continue
		}
		was, o := len(text), l.at(i, n)
		for text = utf8.AppendRune(text, r); was < len(text); was++ {
			out.from = append(out.from, o)
			o.first = false
		}
		i += n
	}
	out.text = string(text)
	return out
}

// views are the readings of a text in which values are looked for: as it is, without the colours of terminals, with the escape sequences
// of one kind or another read, also within those of JSON, and with what is encoded twice decoded once.
func views(s string) []*folded {
	whole := layer{text: s}
	out := []*folded{fold(s, whole)}
	add := func(ls ...layer) {
		for _, l := range ls {
			out = append(out, fold(s, l))
		}
	}
	again := func(l layer) {
		for _, d := range l.encoded() {
			add(d)
			if strings.IndexByte(d.text, '%') >= 0 {
				add(d.decode(percents))
			}
			if strings.IndexByte(d.text, '\\') >= 0 {
				add(d.decode(backslashes))
			}
		}
	}
	add(whole.dumps()...)
	again(whole)
	bare, styled := whole.unstyled()
	if styled {
		add(bare)
		again(bare)
	}
	if !strings.ContainsAny(s, `\%&`) {
		return out
	}
	more := func(l layer) {
		l = l.unwrap()
		if strings.IndexByte(l.text, '%') >= 0 {
			d := l.decode(percents)
			add(d)
			again(d)
			if strings.IndexByte(d.text, '%') >= 0 {
				add(d.decode(percents))
			}
		}
		if strings.IndexByte(l.text, '&') >= 0 {
			add(l.decode(entities))
		}
	}
	if styled { // what looks like a colour may be of the value
		more(whole)
		if strings.IndexByte(s, '\\') >= 0 {
			add(whole.unwrap().decode(backslashes))
		}
	}
	bare = bare.unwrap()
	more(bare)
	if strings.IndexByte(s, '\\') >= 0 {
		l := bare.decode(backslashes)
		add(l)
		add(l.dumps()...)
		more(l)
		if l, ok := l.unwrap().unstyled(); ok {
			add(l)
			more(l)
		}
		if strings.Contains(l.text, `\`) {
			for _, l := range []layer{bare.decode(backslashes | nested), l.unwrap().decode(backslashes)} { // escaped twice, and wrapped in between
				add(l)
				more(l)
			}
		}
	}
	return out
}

// unhex is the value of n hexadecimal digits at the beginning of a text.
func unhex(s string, n int) (rune, bool) {
	if len(s) < n {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s[:n]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// cutEscape reports whether an escape sequence of n digits was cut off, and after how many.
func cutEscape(s string, n int) (int, bool) {
	k := 0
	for k < n && k < len(s) {
		if _, ok := unhex(s[k:], 1); !ok {
			break
		}
		k++
	}
	return k, k < n && (k == len(s) || strings.HasPrefix(s[k:], "…") || strings.HasPrefix(s[k:], "..."))
}

var controls = map[byte]rune{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'f': '\f', 'v': '\v', 'a': '\a'}

// backslash reads an escape sequence: how long it is and what it stands for. What is none stands for its backslash, which is dropped.
func backslash(s string, nested bool) (int, rune) {
	k := 1
	if nested {
		for k < len(s) && s[k] == '\\' {
			k++
		}
	}
	if k == len(s) {
		return k, '\\'
	}
	c, rest := s[k], s[k+1:]
	if r, ok := controls[c]; ok {
		return k + 1, r
	}
	switch c {
	case '\\':
		return k + 1, '\\'
	case 'x':
		if n, cut := cutEscape(rest, 2); cut {
			return k + 1 + n, '\\'
		}
		return unbytes(k, func(s string) (int, rune, bool) {
			if len(s) < 4 || s[0] != '\\' || s[1] != 'x' {
				return 0, 0, false
			}
			r, ok := unhex(s[2:], 2)
			return 4, r, ok
		}, s[k-1:], k-1)
	case 'u', 'U':
		n := 4
		if c == 'U' {
			n = 8
		}
		if n, cut := cutEscape(rest, n); cut {
			return k + 1 + n, '\\'
		}
		r, ok := unhex(rest, n)
		if !ok {
			return k, '\\'
		}
		if r >= 0xd800 && r < 0xdc00 { // half of a pair
			after := strings.TrimLeft(rest[n:], `\`)
			if len(after) < len(rest[n:]) && after != "" && after[0] == 'u' {
				if low, ok := unhex(after[1:], 4); ok && low >= 0xdc00 && low < 0xe000 {
					return len(s) - len(after) + 5, (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
				}
			}
		}
		return k + 1 + n, r
	case '0', '1', '2', '3':
		return unbytes(k, func(s string) (int, rune, bool) {
			if len(s) < 4 || s[0] != '\\' || s[1] < '0' || s[1] > '3' || s[2] < '0' || s[2] > '7' || s[3] < '0' || s[3] > '7' {
				return 0, 0, false
			}
			return 4, rune(s[1]-'0')<<6 | rune(s[2]-'0')<<3 | rune(s[3]-'0'), true
		}, s[k-1:], k-1)
	}
	return k, '\\'
}

// percent reads a character that is percent-encoded.
func percent(s string) (int, rune) {
	if n, cut := cutEscape(s[1:], 2); cut {
		return 1 + n, '\\'
	}
	n, r := unbytes(1, func(s string) (int, rune, bool) {
		if len(s) < 3 || s[0] != '%' {
			return 0, 0, false
		}
		r, ok := unhex(s[1:], 2)
		return 3, r, ok
	}, s, 0)
	if n == 1 {
		return 1, '%'
	}
	return n, r
}

// unbytes reads the bytes of one character, each of which is an escape sequence at the beginning of at. Where there is none it
// answers with least, and a rune that is dropped. skipped is added to the length of what was read.
func unbytes(least int, one func(string) (int, rune, bool), at string, skipped int) (int, rune) {
	var b [utf8.UTFMax]byte
	n, size := 0, 0
	for size < len(b) {
		k, r, ok := one(at[n:])
		if !ok {
			break
		}
		b[size] = byte(r)
		n, size = n+k, size+1
		if utf8.FullRune(b[:size]) {
			break
		}
	}
	if size == 0 {
		return least, '\\'
	}
	r, _ := utf8.DecodeRune(b[:size])
	return skipped + n, r
}

// entity reads an HTML entity.
func entity(s string) (int, rune) {
	const longest = 10
	i := strings.IndexByte(s[:min(len(s), longest)], ';')
	if i < 0 {
		return 1, '&'
	}
	text := html.UnescapeString(s[:i+1])
	r, n := utf8.DecodeRuneInString(text)
	if n != len(text) {
		return 1, '&'
	}
	return i + 1, r
}
