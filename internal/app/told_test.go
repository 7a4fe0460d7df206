package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// value draws a secret: a token, several lines, a key in PEM, or text with characters that encodings escape. It is random enough to be in
// nothing by chance.
func value(t *rapid.T) string {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	text := func(n int, of string) string {
		var b strings.Builder
		for range n {
			c := []rune(of)
			b.WriteRune(c[r.IntN(len(c))])
		}
		return b.String()
	}
	const letters = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	const wild = letters + `"'\/<>&%+-_ =é€😀`
	switch rapid.IntRange(0, 4).Draw(t, "shape") {
	case 0:
		return text(12+r.IntN(40), letters)
	case 1:
		return text(14+r.IntN(40), wild)
	case 2:
		lines := make([]string, 2+r.IntN(5))
		for i := range lines {
			lines[i] = text(10+r.IntN(30), wild)
		}
		return strings.Join(lines, "\n")
	case 3:
		return fmt.Sprintf("{\n  \"user\": %q,\n  \"password\": %q\n}\n", text(14, letters), text(20, letters))
	}
	return "-----BEGIN PRIVATE KEY " + text(8, letters) + "-----\n" + columns(text(200+r.IntN(300), letters+"+/"), 64, "\n") + "\n-----END PRIVATE KEY " + text(8, letters) + "-----\n"
}

func columns(s string, n int, sep string) string {
	var parts []string
	text := []rune(s)
	for len(text) > n {
		parts, text = append(parts, string(text[:n])), text[n:]
	}
	return strings.Join(append(parts, string(text)), sep)
}

// codes are a text as programs write it down.
func codes(s string) []string {
	quoted, _ := json.Marshal(s)
	b := []byte(s)
	return []string{
		s, string(quoted), strconv.Quote(s), strconv.QuoteToASCII(s), url.QueryEscape(s), url.PathEscape(s), html.EscapeString(s), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
		base64.StdEncoding.EncodeToString(b), base64.RawStdEncoding.EncodeToString(b), base64.URLEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b),
		base64.StdEncoding.EncodeToString(append([]byte("u"), b...)), base64.StdEncoding.EncodeToString(append([]byte("u:"), b...)), "'" + strings.ReplaceAll(s, "'", `'\''`) + "'",
	}
}

// parts are a secret, its lines, and how these are written down.
func parts(secret string) []string {
	all := []string{secret}
	for l := range strings.SplitSeq(secret, "\n") {
		if l = strings.TrimSpace(l); len(l) >= 6 {
			all = append(all, l)
		}
	}
	var out []string
	for _, s := range all {
		for _, c := range codes(s) {
			out = append(out, strings.Trim(c, `"'=`))
		}
	}
	return out
}

// everyWay returns a secret as programs write it down, in lines of a width.
func everyWay(secret string, width int) string {
	var wrapped []string
	for _, c := range codes(secret) {
		wrapped = append(wrapped, columns(c, width, "\n"))
	}
	return strings.Join(wrapped, "\n--\n")
}

// inHeader reports whether a text may be the value of a header.
func inHeader(s string) bool {
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
