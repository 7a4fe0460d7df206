package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// exact finds values as they are and in the common encodings. It is for the few of which folding leaves too little,
// such as a row of dashes. A nil one finds nothing.
type exact struct {
	by   map[[shortest]byte][]string // the forms by their first bytes, in order
	size int                         // bytes of the forms
}

// order puts the longest first.
func order(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }

// add adds a value in all its encodings.
func (x *exact) add(value string) { x.keep(forms(value)...) }

// keep adds texts as they are.
func (x *exact) keep(texts ...string) {
	for _, f := range texts {
		if len(f) < shortest {
			continue
		}
		k := [shortest]byte([]byte(f[:shortest]))
		i, there := slices.BinarySearchFunc(x.by[k], f, order)
		if there {
			continue
		}
		x.by[k] = slices.Insert(x.by[k], i, f)
		x.size += len(f) + 16
	}
}

// forms returns a value and its encodings.
func forms(v string) []string {
	out := []string{v, escape(v), html.EscapeString(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	if marshalled, err := json.Marshal(v); err == nil {
		out = append(out, string(marshalled[1:len(marshalled)-1]))
	}
	for _, q := range []string{strconv.Quote(v), strconv.QuoteToASCII(v)} {
		out = append(out, q[1:len(q)-1])
	}
	out = append(out, strings.ReplaceAll(v, "'", `'\''`))
	for _, e := range []string{url.QueryEscape(v), url.PathEscape(v)} {
		out = append(out, e, lowerEscapes(e))
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, enc.EncodeToString([]byte(v)), enc.WithPadding(base64.NoPadding).EncodeToString([]byte(v)))
		for shift := range 3 { // it may be anywhere in what was encoded
			text := enc.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, shift), v...))
			whole := (shift + len(v)) * 8 / 6 // what is independent of anything before it …
			begin := []int{0, 2, 3}[shift]    // … nor before it
			out = append(out, text[begin:whole])
		}
	}
	return out
}

// lowerEscapes returns an escaped URL with %2F as %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], strings.ToLower(string(b[i:i+3])))
		}
	}
	return string(b)
}

// find calls found with each occurrence of a value, and of the beginning of one if the text, or a line of it, ends
// within it.
func (x *exact) find(s string, found func(start, end int)) {
	if x == nil {
		return
	}
	for i := 0; i+shortest <= len(s); i++ {
		for _, f := range x.by[[shortest]byte([]byte(s[i:i+shortest]))] {
			n := common(s[i:], f)
			if rest := s[i+n:]; n == len(f) || rest == "" || rest[0] == '\n' || rest[0] == '\r' || strings.HasPrefix(rest, "…") || strings.HasPrefix(rest, "...") {
				found(i, i+n)
				break
			}
		}
	}
}

// common returns the length of the common prefix of texts.
func common[A, B string | []byte](a A, b B) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
