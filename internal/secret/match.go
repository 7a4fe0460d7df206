package secret

import (
	"bytes"
	"math/bits"
	"slices"
	"sort"
	"strings"
)

var ellipsis = []byte("…")

// hit is a part of a text to be hidden.
type hit struct{ start, end int }

// search is one search through a folded text.
type search struct {
	*index
	f    *folded
	hits []hit // in the source
	done int   // up to where the folded text is hidden
}

// find searches a text.
func (x *index) find(f *folded) []hit {
	if x == nil || len(f.text) < shortest {
		return nil
	}
	s := search{index: x, f: f}
	const mask = 1<<(8*shortest) - 1
	t := f.text
	w := half(t) >> 8
	for i := 0; i+shortest <= len(t); i++ {
		w = (w<<8 | uint64(t[i+shortest-1])) & mask
		if k := w * mixer >> x.shift; x.filter[k>>6]&(1<<(k&63)) != 0 {
			if k := w * mixer2 >> x.shift; x.filter[k>>6]&(1<<(k&63)) != 0 {
				s.look(i)
			}
		}
	}
	return s.hits
}

// look examines a position where something may begin or end.
func (s *search) look(i int) {
	s.heading(i)
	s.trailing(i + shortest)
	t := s.f.text
	if i+gram > len(t) || i+gram <= s.done { // within hidden text nothing is searched that goes on and on
		return
	}
	g := word(t[i:])
	k, ok := slices.BinarySearch(s.grams, g)
	for ; ok && k < len(s.grams) && s.grams[k] == g; k++ {
		s.consider(i, int(s.at[k]))
	}
}

// heading looks for what begins at a position.
func (s *search) heading(i int) {
	t := s.f.text
	rest := t[i:min(i+long, len(t))]
	k := sort.Search(len(s.heads), func(k int) bool { return bytes.Compare(s.ahead(s.heads[k]), rest) >= 0 })
	most := 0 // the most that any has in common with it: those beside its position do
	for _, c := range [2]int{k - 1, k} {
		if c >= 0 && c < len(s.heads) {
			most = max(most, common(rest, s.ahead(s.heads[c])))
		}
	}
	if most < shortest {
		return
	}
	for sizes := s.sizes & (1<<(most+1) - 1); sizes != 0; { // the longest first
		n := 63 - bits.LeadingZeros64(sizes)
		sizes &^= 1 << n
		if kind, ok := s.whole[string(rest[:n])]; ok {
			s.hide(i, i+n, kind)
			break
		}
	}
	for _, c := range [2]int{k - 1, k} {
		if c >= 0 && c < len(s.heads) {
			s.consider(i, int(s.heads[c]))
		}
	}
}

// trailing looks for what ends at a position.
func (s *search) trailing(end int) {
	rest := s.f.text[max(0, end-long):end]
	k := sort.Search(len(s.tails), func(k int) bool { return backwards(s.behind(s.tails[k]), rest) >= 0 })
	for _, c := range [2]int{k - 1, k} {
		if c >= 0 && c < len(s.tails) {
			s.consider(end, int(s.tails[c]))
		}
	}
}

// consider hides the common part around a position in the text and one in a form, if it is a part of the value and
// not equal by chance: if it is long, or begins and ends where the value or a line of it does, or where a text may
// have been cut or wrapped.
func (s *search) consider(i, p int) {
	t := s.f.text
	lo := max(0, s.done-2*long) // hidden text need not be compared again
	a, b := 0, 0
	for i-a > lo && p-a > 0 && s.all[p-a-1] == t[i-a-1] {
		a++
	}
	for i+b < len(t) && s.all[p+b] == t[i+b] { // a form ends with a 0, which no text contains
		b++
	}
	if a+b >= long {
		s.hide(i-a, i+b, s.kind(p-a))
		return
	}
	if a+b < shortest {
		return
	}
	s.f.locate()
	start, end := i-a, i+b
	d := p - i
	for start < end && !s.starts.has(start+d) && !s.begins(start) {
		start++
	}
	for end > start && !s.ends.has(end+d) && !s.stops(end) {
		end--
	}
	need := shortest
	if kind := s.kind(p - a); !s.starts.has(start+d) && (kind == formPlain || !s.ends.has(end+d)) {
		need = gram // a word at the beginning of a line is often the end of an address
	}
	if end-start >= need {
		s.hide(start, end, s.kind(p-a))
	}
}

// kind returns the kind of the form at a position in all.
func (s *search) kind(p int) uint8 {
	k := sort.Search(len(s.forms), func(k int) bool { return int(s.forms[k].start) > p })
	return s.forms[k-1].kind
}

// begins reports whether a text may have been cut or wrapped before a position.
func (s *search) begins(i int) bool {
	return s.f.from[i].first || i > 0 && s.joint(i)
}

// stops reports whether a text may have been cut or wrapped at a position.
func (s *search) stops(i int) bool {
	if i == len(s.f.text) || s.f.from[i].first {
		return true
	}
	rest := s.f.text[i:]
	return bytes.HasPrefix(rest, ellipsis) || bytes.HasPrefix(rest, []byte("...")) || s.bar(i)
}

// joint reports whether a mark for omitted text, or for a line break, precedes a position.
func (s *search) joint(i int) bool {
	before := s.f.text[:i]
	return bytes.HasSuffix(before, ellipsis) || bytes.HasSuffix(before, []byte("...")) || s.bar(i-1)
}

// bar reports whether there is a | with spaces around it.
func (s *search) bar(i int) bool {
	if s.f.text[i] != '|' {
		return false
	}
	at, src := s.f.from[i], s.f.source
	return strings.HasSuffix(src[:at.start], " ") && strings.HasPrefix(src[at.end:], " ")
}

// hide marks a part of the folded text as hidden.
func (s *search) hide(start, end int, kind uint8) {
	s.done = max(s.done, end)
	s.f.locate()
	h := hit{int(s.f.from[start].start), int(s.f.from[end-1].end)}
	switch { // what folding dropped before a cut may be a part of it, too
	case end == len(s.f.text) && !s.f.layer.part:
		h.end = max(h.end, len(strings.TrimRight(s.f.source, " \t\r\n'\"")))
	case bytes.HasPrefix(s.f.text[end:], ellipsis):
		h.end = int(s.f.from[end].start)
	}
	if kind >= formBase64 { // the digits at its ends hold a few bits of it, and of what is beside it
		src := s.f.source
		if kind == formShifted && h.start > 0 && digit64(src[h.start-1]) && !strings.ContainsAny(src[max(0, h.start-3):h.start], `\%`) {
			h.start--
		}
		if h.end < len(src) && digit64(src[h.end]) {
			h.end++
		}
		for n := 0; n < 2 && h.end < len(src) && src[h.end] == '='; n++ {
			h.end++
		}
	}
	s.hits = append(s.hits, h)
}

// digit64 reports whether a character is one of base64, in either alphabet.
func digit64(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '+' || c == '/' || c == '-' || c == '_'
}
