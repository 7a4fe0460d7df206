package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// letters counts letters and digits. Layouts add, drop and stand for the rest: of a value with few of them, little can be known again.
func letters(s string) (n int) {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

// foreign reports whether a value has characters of which a text need not be from it: controls, with which terminals are told colours
// and which tell nothing of the value if they alone are left, and the one that stands for what was no text.
func foreign(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	})
}

// secrets draws values: tokens, sentences, any characters but foreign ones, several lines, keys in PEM.
func secrets(t *rapid.T) string {
	token := rapid.StringMatching(`[A-Za-z0-9._~+/=-]{6,60}`)
	free := rapid.StringN(6, 40, -1).Filter(func(s string) bool { return len(strings.TrimSpace(s)) >= shortest })
	pem := rapid.Custom(func(t *rapid.T) string {
		body := base64.StdEncoding.EncodeToString(rapid.SliceOfN(rapid.Byte(), 30, 400).Draw(t, "key"))
		return "-----BEGIN PRIVATE KEY-----\n" + wrap(body, 64, "\n") + "\n-----END PRIVATE KEY-----\n"
	})
	lines := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.OneOf(token, free, rapid.StringMatching(`[a-z ]{0,8}`)), 2, 6).Draw(t, "lines"), rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "break"))
	})
	sentence := rapid.StringMatching(`([a-z]{2,8} ){2,6}[a-z]{2,8}`)
	return rapid.OneOf(token, free, pem, lines, sentence).Filter(func(s string) bool {
		return len(strings.TrimSpace(s)) >= shortest && letters(s) >= shortest && !foreign(s)
	}).Draw(t, "secret")
}

// wrap parts a text into lines.
func wrap(s string, columns int, sep string) string {
	var parts []string
	text := []rune(s)
	for len(text) > columns {
		parts, text = append(parts, string(text[:columns])), text[columns:]
	}
	return strings.Join(append(parts, string(text)), sep)
}

var encodings = map[string]func(string) string{
	"itself":                     func(s string) string { return s },
	"base64":                     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 without padding":     func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) },
	"base64 of URLs":             func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64 of URLs, no padding": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 behind one":          func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u" + s + "!")) },
	"base64 behind two":          func(s string) string { return base64.StdEncoding.EncodeToString([]byte("u:" + s + "!!")) },
	"base64 behind three":        func(s string) string { return base64.URLEncoding.EncodeToString([]byte("usr" + s + "!")) },
	"hex":                        func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":                        func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"query":                      url.QueryEscape,
	"path":                       url.PathEscape,
	"percent, lower":             func(s string) string { return lowerEscapes(url.QueryEscape(s)) },
	"JSON":                       func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"JSON, without HTML":         escape,
	"ASCII JSON":                 func(s string) string { return strconv.QuoteToASCII(s) },
	"HTML":                       html.EscapeString,
	"Go":                         strconv.Quote,
	"shell":                      func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
}

// told are the texts of which none may be left: the value, its lines, and these encoded.
func told(secret string) []string {
	out := []string{secret}
	for _, l := range strings.FieldsFunc(secret, func(c rune) bool { return c == '\n' || c == '\r' }) {
		if l = strings.TrimSpace(l); len(l) >= shortest {
			out = append(out, l)
		}
	}
	for _, s := range out {
		for _, enc := range encodings {
			out = append(out, strings.Trim(enc(s), `"'=`))
		}
	}
	return out
}

// fair reports whether a value can be told from what redaction itself writes.
func fair(texts []string) bool {
	for _, s := range texts {
		if strings.TrimSpace(s) == "" || strings.Contains("before "+Hidden+" §after "+Hidden, strings.TrimSpace(s)) {
			return false
		}
	}
	return true
}

func TestNothingOfASecretIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := secrets(t)
		texts := told(secret)
		if !fair(texts) {
			t.Skip("it is a part of what stands for it")
		}
		x := newIndex(secret, "another-secret", secret+"-and-more")
		for _, name := range slices.Sorted(maps.Keys(encodings)) {
			coded := encodings[name](secret)
			for _, columns := range []int{1 << 30, 76, 64, rapid.IntRange(8, 80).Draw(t, "columns")} {
				breaks := []string{"\n", "\r\n", "\n    "}
				if strings.HasPrefix(name, "base64") || strings.EqualFold(name, "hex") {
					breaks = append(breaks, "\\n", "\\r\\n") // as JSON has them
				}
				wrapped := wrap(coded, columns, rapid.SampledFrom(breaks).Draw(t, "break"))
				got := x.clean("before " + wrapped + " §after")
				if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " §after") {
					t.Fatalf("%s of %q at %d: what is around is gone: %q", name, secret, columns, got)
				}
				bare := strings.NewReplacer("\r", "", "\n", "", "\\r", "", "\\n", "", " ", "").Replace(got)
				for _, s := range texts {
					if strings.Contains(got, s) || len(s) > 12 && strings.Contains(bare, s) {
						t.Fatalf("%s of %q at %d: %q is left in %q", name, secret, columns, s, got)
					}
				}
			}
		}
	})
}

// A text may be cut anywhere, before or behind.
func TestNothingOfACutSecretIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := strings.TrimSpace(secrets(t))
		if !fair(told(secret)) {
			t.Skip("it is a part of what stands for it")
		}
		x := newIndex(secret)
		enc := rapid.SampledFrom([]string{"itself", "base64", "hex", "JSON", "query"}).Draw(t, "encoding")
		coded := encodings[enc](secret)
		switch enc {
		case "base64":
			coded = strings.TrimRight(coded, "=")
		case "JSON":
			coded = coded[1 : len(coded)-1]
		}
		at := rapid.IntRange(min(12, len(coded)-1), len(coded)-1).Draw(t, "cut")
		if len(fold(coded, layer{text: coded[:at]}.decode(backslashes|percents)).text) < gram || len(fold(coded, layer{text: coded[len(coded)-at:]}.decode(backslashes|percents)).text) < gram {
			t.Skip("too little is left")
		}
		if head := coded[:at]; leaves(x.clean("before "+head), head) || leaves(x.clean("before "+head+"…"), head) {
			t.Errorf("the head %q of %q: %q", head, secret, x.clean("before "+head))
		}
		if tail := coded[len(coded)-at:]; !strings.ContainsAny(coded, `\%`) && (leaves(x.clean(tail+" after"), tail) || leaves(x.clean("it ends with …"+tail+" after"), tail)) {
			t.Errorf("the tail %q of %q: %q", tail, secret, x.clean(tail+" after"))
		}
	})
}

// leaves reports whether a part of eight characters is left, as far as letters and digits go. What stands for others is decoded.
func leaves(got, part string) bool {
	bare := func(s string) string { return string(fold(s, layer{text: s}.decode(backslashes|percents)).text) }
	got = bare(strings.ReplaceAll(got, Hidden, "\n"))
	folded := bare(part)
	for i := 0; i+gram <= len(folded); i++ {
		if strings.Contains(got, folded[i:i+gram]) {
			return true
		}
	}
	return false
}

// Lines that follow one another in a log are looked at together, and each by itself finds its part.
func TestNothingIsLeftInLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := secrets(t)
		texts := told(secret)
		if !fair(texts) {
			t.Skip("it is a part of what stands for it")
		}
		x := newIndex(secret)
		enc := rapid.SampledFrom([]string{"itself", "base64", "hex", "JSON"}).Draw(t, "encoding")
		all := strings.Split(wrap(strings.ReplaceAll(encodings[enc](secret), "\r", ""), rapid.SampledFrom([]int{40, 64, 76, 1 << 30}).Draw(t, "columns"), "\n"), "\n")
		wanted := len(all)
		for i, l := range all {
			if alone := x.clean(l); len(all) > 1 && len(l) >= 32 && enc != "JSON" && leaves(alone, l) {
				t.Fatalf("line %d by itself: %q of %q", i, alone, l)
			}
		}
		lines := append(append([]string{"first"}, all...), "last")
		redactLines(lines, x)
		if lines[0] != "first" || lines[len(lines)-1] != "last" || len(lines) != wanted+2 {
			t.Fatalf("other lines changed: %q", lines)
		}
		got := strings.Join(lines, "\n")
		for _, s := range texts {
			if strings.Contains(got, s) || len(s) > 12 && strings.Contains(strings.Join(lines, ""), s) {
				t.Fatalf("%q is left in %q", s, lines)
			}
		}
	})
}

func TestOrdinaryTextStays(t *testing.T) {
	x := newIndex("postgres://app:hunter2-and-more@db.internal.example.com:5432/orders", "correct horse battery staple")
	for _, s := range []string{
		"cannot connect to db.internal.example.com: refused", "orders table is missing", "postgres://other@host/shop: no such host", "a correct answer",
		`{"horse": "battery"}`, "550e8400-e29b-41d4-a716-446655440000", "https://example.com:5432/orders/7",
	} {
		if got := x.clean(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	for in, want := range map[string]string{
		"PGPASSWORD=hunter2-and-more":           "PGPASSWORD=hunter2-and-more", // a part of a secret in the middle of a text is not known for one
		"correct-horse-battery-staple":          Hidden,
		"it ends with …5432/orders | next line": "it ends with …" + Hidden + " | next line",
	} {
		if got := x.clean(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("topsecret-value", `\u0074opsecret%2dvalue &amp; \x`)
	f.Add("line one\nline two", "bGluZSBvbmUKbGluZSB0d28=")
	f.Fuzz(func(t *testing.T, secret, text string) {
		x := newIndex(secret)
		got := x.clean(text + secret + text)
		if len(secret) >= shortest && len(strings.ReplaceAll(got, Hidden, "")) > 2*len(text) {
			t.Errorf("%q is left in %q", secret, got)
		}
		for esc := range escapes(16) {
			f := fold(text, layer{text: text}.unwrap().decode(esc))
			n := len(f.text)
			f.locate()
			if len(f.from) != n || len(f.text) != n {
				t.Fatalf("%q: %d bytes come from %d places", text, n, len(f.from))
			}
			for _, o := range f.from {
				if o.start < 0 || o.end <= o.start || int(o.end) > len(text) {
					t.Fatalf("%q: %v", text, o)
				}
			}
		}
	})
}

// noise is a text of words, numbers and ids.
func noise(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "2026-11-18T04:%02d:11Z INFO request %x from 10.0.%d.%d took %d ms: {\"path\": \"/api/v1/jobs\", \"ok\": true}\n", r.IntN(60), r.Uint64(), r.IntN(256), r.IntN(256), r.IntN(900))
	}
	return b.String()[:n]
}

func randomValues(n, size int) []string {
	r := rand.New(rand.NewPCG(3, 4))
	out := make([]string, n)
	for i := range out {
		b := make([]byte, size*3/4)
		for k := range b {
			b[k] = byte(r.Uint32())
		}
		out[i] = "sk_live_" + base64.StdEncoding.EncodeToString(b)
	}
	return out
}

func BenchmarkRedact(b *testing.B) {
	text := noise(1 << 20)
	for _, c := range []struct {
		name    string
		n, size int
	}{{"1 of 40 bytes", 1, 40}, {"100 of 40 bytes", 100, 40}, {"1000 of 40 bytes", 1000, 40}, {"1000 of 3 KiB", 1000, 3 << 10}} {
		x := newIndex(randomValues(c.n, c.size)...)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportMetric(float64(x.bytes())/float64(c.n*c.size), "index-bytes/byte")
			for b.Loop() {
				x.clean(text)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	values := randomValues(1000, 40)
	for b.Loop() {
		newIndex(values...)
	}
}

// The worst that a tenant can do with its own secrets and its own output: everything is alike.
func BenchmarkRedactAlike(b *testing.B) {
	var values []string
	for n := range 1000 {
		values = append(values, strings.Repeat("a", 6+n%50)+strconv.Itoa(n))
	}
	values = append(values, strings.Repeat("a", 60_000))
	x, text := newIndex(values...), strings.Repeat(strings.Repeat("a", 31)+"b ", 1<<15)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		x.clean(text)
	}
}
