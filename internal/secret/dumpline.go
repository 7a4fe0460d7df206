package secret

import (
	"strings"
	"unicode/utf8"
)

// notation is the way a dump writes its bytes.
type notation uint8

const (
	inHex     notation = iota // 73, 7365, 0x73, 73656372
	inBinary                  // 01110011
	inOctal                   // 163, 062563
	inDecimal                 // 115
	inLetters                 // s, \n, 303, nl
	notations

	anyHex uint8 = 1 << notations // hexadecimal digits, possibly an odd number of them: perhaps an offset
)

const (
	maxRow   = 64 // units of a row with a column of text, at most
	maxUnit  = 16 // bytes of a unit, at most
	fewUnits = 4  // enough for a row, whatever else is in the line

	dateUnits = 5 // as many as in a date with a time of day; a row after an offset counts for more
)

// unit is one number of a dump, or one character.
type unit struct {
	start, end int32
	digits     int32 // where its digits begin
	size       int8  // bytes that it stands for
}

// token is a run of letters and digits in a line.
type token struct {
	start, end int32
	digits     int32 // where its digits begin
	after      int32 // where a quoted character after it ends, or end
	kinds      uint8 // a bit for each notation that it may be a unit of
	joined     bool  // only blanks, a comma, a colon or a dash separate it from the word before it
	offset     bool  // an offset with a colon stands before it
}

func (w token) is(n notation) bool { return w.kinds&(1<<n) != 0 }

// prefixed reports whether it begins with 0x or 0b.
func (w token) prefixed() bool { return w.digits > w.start+1 }

func (w token) size(n notation) int8 {
	switch count := w.end - w.digits; n {
	case inHex:
		return int8((count + 1) / 2)
	case inOctal:
		return octals[count]
	default:
		return 1
	}
}

// octals returns the number of bytes of an octal number with that many digits.
var octals = [...]int8{3: 1, 6: 2, 11: 4, 22: 8}

// characters marks the characters of words.
var characters = func() (t [256]uint8) {
	for c := range 256 {
		if c == '_' || c >= utf8.RuneSelf || c|0x20 >= 'g' && c|0x20 <= 'z' {
			t[c] = noHex
		}
	}
	for _, c := range "0123456789abcdefABCDEF" {
		t[c] = inWord
	}
	return t
}()

const (
	inWord uint8 = 1 << iota // a hexadecimal digit
	noHex                    // another letter
)

// scanner finds rows of dumps in lines. It reuses its memory for each line.
type scanner struct {
	line  string
	words []token
	kinds uint8 // of all of its words
	row   []unit
	after bool // the row follows an offset and a colon
}

// scan splits a line into words.
func (s *scanner) scan(line string) {
	s.line, s.words, s.kinds = line, s.words[:0], 0
	behind := 0 // where the word before ended
	for i := 0; i < len(line); {
		if characters[line[i]] == 0 {
			i++
			continue
		}
		w := token{start: int32(i), digits: int32(i)}
		kinds := uint8(0)
		for ; i < len(line) && characters[line[i]] != 0; i++ {
			kinds |= characters[line[i]]
		}
		w.end, w.after = int32(i), int32(i)
		if kinds == inWord || line[w.start] == '0' {
			w.classify(line, kinds)
		}
		if w.is(inDecimal) && negative(line, int(w.start)) {
			w.start--
		}
		if len(s.words) > 0 && w.kinds != 0 {
			before := s.words[len(s.words)-1]
			w.joined, w.offset = between(line, behind, int(w.start), before)
		}
		if w.is(inDecimal) {
			w.after = int32(quoted(line, i))
			i = int(w.after)
		}
		s.kinds |= w.kinds
		s.words = append(s.words, w)
		behind = i
	}
}

// classify determines which notations a word may be in.
func (w *token) classify(line string, kinds uint8) {
	text := line[w.start:w.end]
	if kinds != inWord || len(text) > 2 && text[1]|0x20 == 'b' && len(text) == 10 {
		if len(text) < 3 {
			return
		}
		text = text[2:]
		switch line[w.start+1] | 0x20 {
		case 'x':
			if len(text) <= 2*maxUnit && only(text, 'f') {
				w.kinds, w.digits = 1<<inHex|anyHex, w.start+2
			}
		case 'b':
			if len(text) == 8 && only(text, '1') {
				w.kinds, w.digits = 1<<inBinary, w.start+2
			}
		}
		if w.kinds != 0 || kinds != inWord {
			return
		}
		text = line[w.start:w.end]
	}
	n := len(text)
	if n > 2*maxUnit {
		return
	}
	w.kinds = anyHex
	if n%2 == 0 {
		w.kinds |= 1 << inHex
	}
	if n == 8 && only(text, '1') {
		w.kinds |= 1 << inBinary
	}
	if n < len(octals) && octals[n] > 0 && only(text, '7') && octal(text)>>(8*octals[n]-1)>>1 == 0 {
		w.kinds |= 1 << inOctal
	}
	if n <= 3 && only(text, '9') && decimal(text) < 256 {
		w.kinds |= 1 << inDecimal
	}
}

// only reports whether a text of hexadecimal digits, of which f is the highest, has none above one.
func only(s string, highest byte) bool {
	for i := range len(s) {
		if highest == 'f' {
			if characters[s[i]] != inWord {
				return false
			}
		} else if s[i] < '0' || s[i] > highest {
			return false
		}
	}
	return true
}

func octal(s string) (v uint64) {
	for i := range len(s) {
		v = v<<3 | uint64(s[i]-'0')
	}
	return v
}

func decimal(s string) (v uint64) {
	for i := range len(s) {
		v = v*10 + uint64(s[i]-'0')
	}
	return v
}

// between judges what separates two words: whether it joins them, and whether the first one is an offset.
func between(line string, from, to int, before token) (joined, offset bool) {
	gap := line[from:to]
	rest := strings.TrimLeft(gap, " \t")
	switch {
	case rest == "":
		return gap != "", false
	case gap == ":" || gap == "-":
		return true, false
	case rest[0] == ',':
		return strings.TrimLeft(rest[1:], " \t") == "", false
	}
	head, ok := strings.CutSuffix(strings.TrimRight(gap, " \t"), ":")
	if !ok || strings.HasSuffix(gap, ":") {
		return false, false
	}
	return false, head == "" && before.kinds&anyHex != 0 && before.end-before.digits >= 4 || head == ">" && strings.Contains(line[:from], " <") // <symbol+8>:
}

// negative reports whether a minus precedes the digits at a position.
func negative(line string, i int) bool {
	return i > 0 && line[i-1] == '-' && (i == 1 || strings.IndexByte(" \t[,", line[i-2]) >= 0)
}

// quoted returns where a quoted character after a number ends, as printed by a debugger; i if there is none.
func quoted(line string, i int) int {
	k := blanks(line, i)
	if k == i || k == len(line) || line[k] != '\'' {
		return i
	}
	n := 2
	if rest := line[k:]; len(rest) > 2 && rest[1] == '\\' {
		n = 3 + max(0, strings.IndexByte(rest[3:min(len(rest), 6)], '\''))
	}
	if k+n < len(line) && line[k+n] == '\'' {
		return k + n + 1
	}
	return i
}

// find finds the row of the line in a notation: its longest run of units of one width. It is empty if there is none.
func (s *scanner) find(n notation) []unit {
	if n == inLetters {
		return s.letters()
	}
	if s.kinds&(1<<n) == 0 {
		return nil
	}
	best, length, score := 0, 0, 0
	for i := 0; i < len(s.words); {
		if !s.words[i].is(n) {
			i++
			continue
		}
		begun, w := i, s.words[i]
		for i++; i < len(s.words) && s.words[i].is(n) && s.words[i].joined && alike(n, w, s.words[i]); i++ {
		}
		k := i - begun
		if n == inHex && i < len(s.words) && s.words[i].is(n) && s.words[i].joined && s.words[i].shorter(w) && (k > 1 || w.offset) {
			if k == 1 && i+1 < len(s.words) && s.words[i+1].joined && alike(n, s.words[i], s.words[i+1]) && !s.beside(n, begun, i+1) {
				s.words[i].offset = true // what precedes it is the offset
				continue
			}
			k++ // the last unit of a row may have fewer bytes
		}
		points := k
		if w.offset {
			points += dateUnits
		}
		if points >= score { // the later one: before it may be an offset
			best, length, score = begun, k, points
		}
	}
	run := s.words[best : best+length]
	if !run[0].offset && length < fewUnits && length < len(s.words) {
		if best == 0 {
			return nil
		}
		if w := s.words[best-1]; !run[0].joined || w.kinds&anyHex == 0 || w.end-w.digits < 4 {
			return nil
		}
	}
	return s.take(n, run)
}

// take turns words into units.
func (s *scanner) take(n notation, run []token) []unit {
	s.row, s.after = s.row[:0], run[0].offset
	for _, w := range run {
		u := unit{w.start, w.end, w.digits, w.size(n)}
		if n == inDecimal {
			u.end = w.after
		}
		s.row = append(s.row, u)
	}
	return s.row
}

// beside reports whether the line repeats some of its words as text after them.
func (s *scanner) beside(n notation, from, to int) bool {
	_, _, order := s.split(n, s.take(n, s.words[from:to]))
	return order != unshown
}

// alike reports whether words may be units of one row.
func alike(n notation, a, b token) bool {
	switch {
	case n == inDecimal:
		return true
	case a.prefixed() != b.prefixed():
		return false
	case a.prefixed():
		return a.size(n) == b.size(n)
	default:
		return a.end-a.start == b.end-b.start
	}
}

func (w token) shorter(than token) bool {
	return !w.prefixed() && !than.prefixed() && w.end-w.start < than.end-than.start
}

// controlNames lists the names of control characters and blanks.
var controlNames = func() map[string]bool {
	out := map[string]bool{"**": true} // the rest of a multi-byte character
	for _, n := range strings.Fields("nul soh stx etx eot enq ack bel bs ht nl lf vt ff np cr so si dle dc1 dc2 dc3 dc4 nak syn etb can em sub esc fs gs rs us sp del") {
		out[n] = true
	}
	return out
}()

// letters finds a row of single characters, up to the end of the line. Named characters are left out, since comparing
// drops them.
func (s *scanner) letters() []unit {
	s.row = s.row[:0]
	line, end, all := s.line, len(s.line), 0
	for {
		for end > 0 && (line[end-1] == ' ' || line[end-1] == '\t') {
			end--
		}
		if end == 0 {
			break // there is no offset
		}
		start := end
		for start > 0 && line[start-1] != ' ' && line[start-1] != '\t' && end-start <= maxUnit {
			start--
		}
		text := line[start:end]
		size, ok := letter(text)
		if !ok {
			if text = strings.TrimSuffix(text, ":"); all == 0 || len(text) < 4 || len(text) > maxUnit || !only(text, 'f') {
				return nil
			}
			all = fewUnits
			break
		}
		if size > 0 {
			s.row = append(s.row, unit{int32(start), int32(end), int32(start), size})
		}
		all++
		end = start
	}
	if all < fewUnits {
		return nil
	}
	for i, k := 0, len(s.row)-1; i < k; i, k = i+1, k-1 {
		s.row[i], s.row[k] = s.row[k], s.row[i]
	}
	return s.row
}

// letter returns how many bytes a text stands for, if it stands for a character.
func letter(text string) (int8, bool) {
	switch n := len(text); {
	case n == 1:
		return 1, true
	case n == 3 && only(text, '7') && text[0] <= '3':
		return 1, true
	case n == 2 && text[0] == '\\':
		return 0, true
	case n <= 3 && controlNames[text]:
		return 0, true
	case n <= utf8.UTFMax:
		_, k := utf8.DecodeRuneInString(text)
		return int8(n), k == n
	}
	return 0, false
}

// bytes appends the bytes of a unit, its high byte first.
func (u unit) bytes(line string, n notation, out []byte) []byte {
	text := line[u.digits:u.end]
	var v uint64
	switch n {
	case inHex:
		if len(text)%2 != 0 { // 0x9
			b, _ := unhex(text, 1)
			out, text = append(out, byte(b)), text[1:]
		}
		for ; text != ""; text = text[2:] {
			b, _ := unhex(text, 2)
			out = append(out, byte(b))
		}
		return out
	case inLetters:
		if len(text) == 3 && u.size == 1 {
			return append(out, byte(octal(text)))
		}
		return append(out, text...)
	case inBinary:
		for i := range len(text) {
			v = v<<1 | uint64(text[i]-'0')
		}
	case inOctal:
		v = octal(text)
	case inDecimal:
		end := 0
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		if v = decimal(text[:end]); line[u.start] == '-' {
			v = -v
		}
	}
	for k := int(u.size) - 1; k >= 0; k-- {
		out = append(out, byte(v>>(8*k)))
	}
	return out
}
