package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// shortest is the minimum length of a value, or of a line of one, that is searched for: shorter ones occur by
	// chance.
	shortest = 6
	// long is the length from which any part of a value counts as a part of it, wherever it occurs.
	long = 32
	// gram is the length of the pieces by which parts are found.
	gram = 8
	// A piece begins at every near or far bytes of a form: any part of near+gram-1 bytes of a short value is found,
	// and of far+gram-1, which is less than long, of any other one.
	near, far = 4, 16
	shortForm = 1 << 10
	// maxAlike limits how many places of one piece are known: what so many values have in common is not their secret
	// part.
	maxAlike = 8
)

// The kinds of forms.
const (
	formPlain = iota
	formHex
	formBase64
	formShifted // base64 of something with a prefix
)

// index finds values in texts: whole, line by line and in parts, as they are and in the common encodings. It is
// immutable. A nil index finds nothing.
type index struct {
	all    []byte // the forms of the values, folded, each followed by a 0
	forms  []form // in the order of all
	starts bitset // where a value, or a line of one, begins in all
	ends   bitset // and where one has ended
	filter bitset // a Bloom filter of the shortest bytes with which anything begins or ends
	shift  int    // of a hash, so that it is an index into filter

	whole map[string]uint8 // values, and lines of them, of at most long bytes, with the kinds of their forms
	sizes uint64           // which lengths whole has
	heads []uint32         // the starts, sorted by what follows them
	tails []uint32         // the ends, sorted by what comes before them, backwards
	grams []uint64         // pieces of the forms, sorted
	at    []uint32         // where each of them is in all

	rest *exact
	size int // bytes, about
}

type form struct {
	start uint32
	kind  uint8
}

type bitset []uint64

func (b bitset) has(i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }

func (b *bitset) set(i int) {
	for i>>6 >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[i>>6] |= 1 << (i & 63)
}

// newIndex compiles values.
func newIndex(values ...string) *index {
	x := &index{whole: map[string]uint8{}, rest: &exact{by: map[[shortest]byte][]string{}}}
	values = slices.Clone(values)
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		if len(v) >= shortest {
			x.add(v)
		}
	}
	if len(x.all) == 0 && len(x.rest.by) == 0 {
		return nil
	}
	if len(x.rest.by) == 0 {
		x.rest = nil
	}
	x.compile()
	return x
}

// bytes returns the approximate size of an index.
func (x *index) bytes() int {
	if x == nil {
		return 0
	}
	return x.size
}

// span is a line of a value.
type span struct{ start, end int }

// lines returns the lines of a value that are searched for, and the value itself.
func lines(v string) []span {
	out := []span{{0, len(v)}}
	if !strings.ContainsAny(v, "\r\n") {
		return out
	}
	at := 0
	for _, line := range strings.FieldsFunc(v, func(c rune) bool { return c == '\n' || c == '\r' }) {
		at += strings.Index(v[at:], line)
		text := strings.TrimSpace(line)
		begin := at + strings.Index(line, text)
		at += len(line)
		if len(text) >= shortest {
			out = append(out, span{begin, begin + len(text)})
		}
	}
	return out
}

// add adds the forms of a value.
func (x *index) add(v string) {
	all := lines(v)
	x.form(formPlain, v, all, func(i int) int { return i }, func(i int) int { return i })
	twice := func(i int) int { return 2 * i }
	text := hex.EncodeToString([]byte(v))
	x.form(formHex, text, all, twice, twice)
	if upper := strings.ToUpper(text); upper != text {
		x.form(formHex, upper, all, twice, twice)
	}
	for shift := range 3 { // it may be anywhere in what was encoded
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), v...))
		begin := (shift*8 + 5) / 6        // what is independent of anything before it …
		whole := (shift + len(v)) * 8 / 6 // … nor after it
		kind := uint8(formBase64)
		if shift > 0 {
			kind = formShifted
		}
		x.form(kind, text[begin:whole], all,
			func(i int) int { return ((shift+i)*8+5)/6 - begin }, func(i int) int { return (shift+i)*8/6 - begin })
	}
}

// form adds a form of a value. from and to delimit the part of the value in it.
func (x *index) form(kind uint8, text string, parts []span, from, to func(int) int) {
	begin := len(x.all)
	where := make([]uint32, len(text)+1) // of each byte of the text in all
	for i := 0; i < len(text); {
		where[i] = uint32(len(x.all))
		r, n := utf8.DecodeRuneInString(text[i:])
		for k := 1; k < n; k++ {
			where[i+k] = where[i]
		}
		switch {
		case r < utf8.RuneSelf:
			if b := plain[r]; b != 0 {
				x.all = append(x.all, b)
			}
		case !dropped(r):
			x.all = append(x.all, text[i:i+n]...)
		}
		i += n
	}
	where[len(text)] = uint32(len(x.all))
	if len(x.all)-begin < shortest {
		x.all = x.all[:begin]
		for _, p := range parts {
			x.short(kind, text, p, from, to)
		}
		return
	}
	x.forms = append(x.forms, form{uint32(begin), kind})
	x.all = append(x.all, 0)
	for _, p := range parts {
		start, end := int(where[max(0, from(p.start))]), int(where[min(len(text), to(p.end))])
		n := end - start
		if n < shortest {
			x.short(kind, text, p, from, to)
			continue
		}
		x.starts.set(start)
		x.ends.set(end)
		x.heads, x.tails = append(x.heads, uint32(start)), append(x.tails, uint32(end))
		if n <= long {
			if was, there := x.whole[string(x.all[start:end])]; !there || kind < was {
				x.whole[string(x.all[start:end])] = kind
			}
			x.sizes |= 1 << n
		}
	}
}

// short keeps a part of a form of which folding leaves too little.
func (x *index) short(kind uint8, text string, p span, from, to func(int) int) {
	switch kind {
	case formPlain:
		x.rest.add(text[p.start:p.end])
	case formBase64, formShifted:
		if start, end := from(p.start), to(p.end); start < end {
			text = text[start:end]
			x.rest.keep(text, strings.NewReplacer("+", "-", "/", "_").Replace(text))
		}
	}
}

// ahead returns what follows a position in all, as far as it matters.
func (x *index) ahead(p uint32) []byte {
	b := x.all[p:min(int(p)+long, len(x.all))]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return b
}

// behind returns what comes before a position in all, as far as it matters.
func (x *index) behind(p uint32) []byte {
	b := x.all[max(0, int(p)-long):p]
	return b[bytes.LastIndexByte(b, 0)+1:]
}

// backwards compares texts from their ends.
func backwards(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Compare(a[len(a)-1-i], b[len(b)-1-i]); c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

// compile sorts what was added.
func (x *index) compile() {
	slices.SortFunc(x.heads, func(a, b uint32) int { return bytes.Compare(x.ahead(a), x.ahead(b)) })
	x.heads = slices.CompactFunc(x.heads, func(a, b uint32) bool { return bytes.Equal(x.ahead(a), x.ahead(b)) })
	slices.SortFunc(x.tails, func(a, b uint32) int { return backwards(x.behind(a), x.behind(b)) })
	x.tails = slices.CompactFunc(x.tails, func(a, b uint32) bool { return bytes.Equal(x.behind(a), x.behind(b)) })
	type piece struct {
		gram uint64
		at   uint32
	}
	var pieces []piece
	for i, f := range x.forms {
		end := len(x.all) - 1
		if i+1 < len(x.forms) {
			end = int(x.forms[i+1].start) - 1
		}
		step := near
		if end-int(f.start) > shortForm {
			step = far
		}
		for p := int(f.start); p+gram <= end; p += step {
			pieces = append(pieces, piece{word(x.all[p:]), uint32(p)})
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Or(cmp.Compare(a.gram, b.gram), cmp.Compare(a.at, b.at)) })
	alike := 0
	for i, p := range pieces {
		if alike++; i == 0 || p.gram != pieces[i-1].gram {
			alike = 1
		}
		if alike <= maxAlike {
			x.grams, x.at = append(x.grams, p.gram), append(x.at, p.at)
		}
	}
	n := len(x.grams) + len(x.heads) + len(x.tails)
	size := max(12, bits.Len(uint(n))+4) // sixteen bits for each
	x.shift = 64 - size
	x.filter = make(bitset, 1<<(size-6))
	for _, g := range x.grams {
		x.note(g >> (8 * (gram - shortest)))
	}
	for _, p := range x.heads {
		x.note(half(x.all[p:]))
	}
	for _, p := range x.tails {
		x.note(half(x.all[p-shortest:]))
	}
	x.all, x.grams, x.at = slices.Clip(x.all), slices.Clip(x.grams), slices.Clip(x.at)
	x.size = len(x.all)*5/4 + 12*len(x.grams) + 4*(len(x.heads)+len(x.tails)) + 8*len(x.filter)
	for s := range x.whole {
		x.size += len(s) + 24
	}
	if x.rest != nil {
		x.size += x.rest.size
	}
}

// word returns the first gram bytes as a number.
func word(b []byte) (w uint64) {
	for _, c := range b[:gram] {
		w = w<<8 | uint64(c)
	}
	return w
}

// half returns the first shortest bytes as a number.
func half(b []byte) (w uint64) {
	for _, c := range b[:shortest] {
		w = w<<8 | uint64(c)
	}
	return w
}

// note adds shortest bytes to the filter.
func (x *index) note(w uint64) {
	x.filter.set(int(w * mixer >> x.shift))
	x.filter.set(int(w * mixer2 >> x.shift))
}

// The multipliers of the two hashes.
const mixer, mixer2 = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
