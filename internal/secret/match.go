package secret

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

// shortest is the least length of a value that is looked for: shorter ones are in too many texts by chance.
const shortest = 6

// index finds values in texts, as they are and in the common encodings. A nil one finds nothing.
type index struct {
	first [256]bool
	by    map[[shortest]byte][]string // the forms by how they begin, in their order
	size  int                         // bytes of the forms
}

func newIndex(values ...string) *index {
	x := &index{by: map[[shortest]byte][]string{}}
	for _, v := range values {
		x.add(v)
	}
	if len(x.by) == 0 {
		return nil
	}
	return x
}

// bytes is how much an index takes up, about.
func (x *index) bytes() int {
	if x == nil {
		return 0
	}
	return x.size
}

// order puts the longest first.
func order(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }

// add adds a value, and reports whether it was not there.
func (x *index) add(value string) (fresh bool) {
	if len(value) < shortest {
		return false
	}
	for _, f := range forms(value) {
		if len(f) < shortest {
			continue
		}
		k := [shortest]byte([]byte(f[:shortest]))
		i, there := slices.BinarySearchFunc(x.by[k], f, order)
		if there {
			continue
		}
		x.by[k], x.first[f[0]] = slices.Insert(x.by[k], i, f), true
		x.size += len(f)
		fresh = true
	}
	return fresh
}

// forms are a value and what it looks like encoded.
func forms(v string) []string {
	out := []string{v, escape(v), html.EscapeString(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	if marshalled, err := json.Marshal(v); err == nil {
		out = append(out, string(marshalled[1:len(marshalled)-1]))
	}
	for _, e := range []string{url.QueryEscape(v), url.PathEscape(v)} {
		out = append(out, e, lowerEscapes(e))
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, enc.EncodeToString([]byte(v)), enc.WithPadding(base64.NoPadding).EncodeToString([]byte(v)))
		for shift := range 3 { // it may stand anywhere in what was encoded
			text := enc.WithPadding(base64.NoPadding).EncodeToString(append(make([]byte, shift), v...))
			whole := (shift + len(v)) * 8 / 6 // what depends on nothing behind it …
			begin := []int{0, 2, 3}[shift]    // … nor before it
			out = append(out, text[begin:whole])
		}
	}
	return out
}

// lowerEscapes is an escaped URL with %2F as %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:], strings.ToLower(string(b[i:i+3])))
		}
	}
	return string(b)
}

// clean is a text with Hidden in place of every value, and of the beginning of one where the text ends within it.
func (x *index) clean(s string) string {
	if x == nil || len(s) < shortest {
		return s
	}
	var b strings.Builder
	done := 0
	for i := 0; i+shortest <= len(s); i++ {
		if !x.first[s[i]] {
			continue
		}
		list, ok := x.by[[shortest]byte([]byte(s[i:i+shortest]))]
		if !ok {
			continue
		}
		n := 0
		for _, f := range list {
			if strings.HasPrefix(s[i:], f) {
				n = len(f)
				break
			}
			if strings.HasPrefix(f, s[i:]) {
				n = len(s) - i // it was cut off
				break
			}
		}
		if n > 0 {
			b.WriteString(s[done:i])
			b.WriteString(Hidden)
			done = i + n
			i = done - 1
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}
