package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// coloured are ways in which programs break up a text for terminals.
var coloured = map[string]func(s string, at int) string{
	"a colour within":     func(s string, at int) string { return s[:at] + "\x1b[1;31m" + s[at:] + "\x1b[0m" },
	"a colour for a word": func(s string, at int) string { return "\x1b[38;5;196m" + s[:at] + "\x1b[0m\x1b[K" + s[at:] },
	"a match of grep": func(s string, at int) string {
		return s[:at-2] + "\x1b[01;31m\x1b[K" + s[at-2:at] + "\x1b[m\x1b[K" + s[at:]
	},
	"a link": func(s string, at int) string {
		return s[:at] + "\x1b]8;;https://a.example\x1b\\" + s[at:] + "\x1b]8;;\a"
	},
	"another alphabet": func(s string, at int) string { return s[:at] + "\x1b(B\x1b[m" + s[at:] },
	"bold by overstriking": func(s string, _ int) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			b.Write([]byte{c, '\b', c})
		}
		return b.String()
	},
	"in JSON":    func(s string, at int) string { return s[:at] + `\u001b[31m` + s[at:] },
	"in Go":      func(s string, at int) string { return s[:at] + `\x1b[31m` + s[at:] + `\x1b[0m` },
	"in a shell": func(s string, at int) string { return s[:at] + `\033[31m` + s[at:] },
}

// blotted is a text as a worker or a codec hands it on that replaces control characters.
func blotted(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' {
			return '\ufffd'
		}
		return c
	}, s)
}

// tokens draws values that are of one line and have no escape sequences of their own.
func tokens(t *rapid.T) string {
	// Not of punctuation alone: layouts add and drop some.
	return rapid.StringMatching(`[A-Za-z0-9]{6}[A-Za-z0-9._~:@/=-]{6,54}`).Draw(t, "secret")
}

func TestColoursHideNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := tokens(t)
		x := newIndex(secret)
		at := rapid.IntRange(2, len(secret)-2).Draw(t, "at")
		for _, name := range slices.Sorted(maps.Keys(coloured)) {
			told := coloured[name](secret, at)
			if rapid.Bool().Draw(t, "blotted") {
				told = blotted(told)
			}
			got := x.clean("before " + told + " §after")
			bare, _ := layer{text: got}.decode(backslashes).unstyled()
			if plain, _ := (layer{text: got}).unstyled(); leaves(bare.text, secret) || leaves(plain.text, secret) || leaves(got, secret) {
				t.Fatalf("%s of %q: %q", name, secret, got)
			}
			if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " §after") {
				t.Fatalf("%s of %q: what is around is gone: %q", name, secret, got)
			}
		}
	})
}

func TestSequences(t *testing.T) {
	for s, want := range map[string]string{
		"a\x1b[31mb\x1b[0mc": "abc", "\x1b": "", "a\x1b[": "a", "a\x1b[31": "a", "a\x1b[3\nb": "a\nb", "a\x1b]0;title\ab": "ab", "a\x1b]never ends": "anever ends", "\b\ba": "a", "a\x1bMb": "ab", "a\x1b(": "a",
		"a\ufffd[31mb\ufffd[0mc": "abc", "\ufffd": "", "a\ufffd[": "a", "a\ufffd]0;title\ufffdb": "ab", "a\ufffd]8;;u\ufffd\\b": "ab", "a\ufffdab\ufffdb": "ab", "_\ufffdb": "b", "a\ufffdb": "ab", "a\ufffd(Bb": "ab",
	} {
		if got, _ := (layer{text: s}).unstyled(); got.text != want || len(got.from) != len(got.text) {
			t.Errorf("%q: %q, want %q", s, got.text, want)
		}
	}
}

// twice are encodings of encodings.
var twice = func() map[string]func(string) string {
	in := map[string]func(string) string{
		"base64":  func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"URLs":    func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("x" + s)) },
		"hex":     func(s string) string { return hex.EncodeToString([]byte(s)) },
		"JSON":    func(s string) string { b, _ := json.Marshal(map[string]string{"password": s}); return string(b) },
		"percent": url.QueryEscape,
	}
	out := map[string]func(string) string{}
	for a, outer := range in {
		for b, inner := range in {
			out[a+" of "+b] = func(s string) string { return outer(inner(s)) }
		}
	}
	return out
}()

func TestNothingOfASecretThatIsEncodedTwiceIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := tokens(t)
		x := newIndex(secret, "another-secret")
		for _, name := range slices.Sorted(maps.Keys(twice)) {
			coded := twice[name](secret)
			for _, columns := range []int{1 << 30, 76} {
				for _, before := range []string{"before ", "before: k=", `{"auth":"`} {
					got := x.clean(before + wrap(coded, columns, "\n") + " §after")
					if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, " §after") {
						t.Fatalf("%s of %q: what is around is gone: %q", name, secret, got)
					}
					rest := strings.NewReplacer(before, "", " §after", "", Hidden, "", "\n", "").Replace(got)
					if len(rest) > len(twice[name](""))+8 { // what is around it, and the digits that it shares with that
						t.Fatalf("%s of %q: %q of %q", name, secret, got, coded)
					}
				}
			}
		}
	})
}

func TestOrdinaryCodeStays(t *testing.T) {
	x := newIndex("hunter2-and-some-more-of-it", "correct horse battery staple")
	for _, s := range []string{
		"/usr/local/lib/python3.12/site-packages/requests/adapters.py", "018f6f0e-7a54-7d2f-8b0c-0123456789ab", strings.Repeat("deadbeef", 20), base64.StdEncoding.EncodeToString([]byte(strings.Repeat("ordinary text of a program, ", 10))),
		"\x1b[32mPASS\x1b[0m ok  \x1b[1mgithub.com/a/b\x1b[0m 0.5s",
	} {
		if got := x.clean(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}
