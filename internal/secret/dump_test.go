package secret

import (
	"encoding/hex"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Nothing of a value is left in a dump of it, in any column, however its bytes lie in the rows. The places that
// would look different with another value are all hidden.
func TestHexDumps(t *testing.T) {
	names := slices.Sorted(maps.Keys(layouts))
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9_~]{12,80}`),
			rapid.StringMatching(`[a-z|<>: ]{2}[A-Za-z0-9|<> ]{12,40}[a-z]{6}`),
			rapid.StringMatching(`[0-9a-f]{12,64}`), // its text looks like units
			rapid.StringMatching(`[a-f]([0-9a-f]{2} ){6,12}[0-9a-f]{2}`),
			rapid.StringMatching(`[a-zéü]{6,20}-[A-Z0-9]{6}`), // not all of it is ASCII
		).Draw(t, "secret")
		before := rapid.StringMatching(`[G-Z=]{0,20}`).Draw(t, "before")
		behind := rapid.StringMatching(`[G-Z!]{0,20}\n?`).Draw(t, "behind")
		x := newIndex(secret, "another-secret")
		for _, name := range names {
			if name == "od -a" && strings.ContainsFunc(secret, func(r rune) bool { return r >= utf8.RuneSelf }) {
				continue // it prints seven bits of each byte
			}
			dumped := layouts[name]([]byte(before + secret + behind))
			text := "dump:\n" + dumped + "\n§after"
			hits := hidden(text, x)
			for _, h := range hits {
				if h.start < len("dump:\n") || h.end > len(text)-len("\n§after") {
					t.Fatalf("%s of %q: what is around is gone: %q", name, secret, x.clean(text))
				}
			}
			for turn := 1; turn < 3; turn++ {
				at := len("dump:\n")
				for i, c := range []byte(layouts[name]([]byte(before + another(secret, turn) + behind))) {
					if dumped[i] != c && !slices.ContainsFunc(hits, func(h hit) bool { return h.start <= at+i && at+i < h.end }) {
						t.Fatalf("%s of %q: %q at %d tells of it in\n%s\nof\n%s", name, secret, dumped[i], i, x.clean(text), dumped)
					}
				}
			}
		}
	})
}

// another is a text that differs from a value in most places, and is printed at the same width.
func another(secret string, turn int) string {
	out := []rune(secret)
	for i, c := range out {
		for _, class := range [][]rune{[]rune("0123456789"), []rune("abc"), []rune("defghijklmnopqrstuvwxyz"), []rune("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), []rune("éüö")} {
			if k := slices.Index(class, c); k >= 0 {
				out[i] = class[(k+turn)%len(class)]
			}
		}
	}
	return string(out)
}

// Programs print what the layouts of these tests say.
func TestDumpsOfPrograms(t *testing.T) {
	const secret = "correct-horse-battery-staple, 42 deadbeef and a long tail"
	x := newIndex(secret)
	run := 0
	for _, args := range [][]string{
		{"xxd"}, {"xxd", "-b"}, {"xxd", "-i"}, {"xxd", "-e"}, {"xxd", "-g", "8"}, {"xxd", "-c", "30"}, {"xxd", "-u"}, {"xxd", "-p"}, {"xxd", "-d"},
		{"od"}, {"od", "-c"}, {"od", "-a"}, {"od", "-b"}, {"od", "-x"}, {"od", "-t", "x1z"}, {"od", "-t", "x4"}, {"od", "-t", "x8"}, {"od", "-A", "n", "-t", "u1"}, {"od", "-A", "d", "-t", "o8"},
		{"hexdump"}, {"hexdump", "-C"}, {"hexdump", "-c"}, {"hexdump", "-b"}, {"hexdump", "-o"}, {"hexdump", "-x"},
	} {
		path, err := exec.LookPath(args[0])
		if err != nil {
			continue
		}
		for _, before := range []string{"", "key=", "PASSWORD: "} {
			c := exec.Command(path, args[1:]...)
			c.Stdin = strings.NewReader(before + secret + "\n")
			dumped, err := c.Output()
			if err != nil {
				t.Fatalf("%s: %v", args, err)
			}
			run++
			got := x.clean(string(dumped))
			if strings.Count(got, "\n") > 4 || len(got) > len(dumped)/2 && len(got) > 120 {
				t.Errorf("%s of %q is told as\n%s\nof\n%s", args, before, got, dumped)
			}
		}
	}
	if run == 0 {
		t.Skip("no program of these is here")
	}
}

// Rows of a dump that arrive one by one are each looked through, as parts of a text that was wrapped.
func TestRowsOfAHexDumpThatArriveAlone(t *testing.T) {
	const secret = "correct-horse-battery-staple-and-a-long-tail"
	x := newIndex(secret)
	for _, dumped := range []string{hex.Dump([]byte("key=" + secret)), xxd([]byte("key="+secret), 2, 16)} {
		for _, row := range strings.Split(strings.TrimSpace(dumped), "\n") {
			if got := x.clean(row); strings.Count(got, Hidden) != 2 {
				t.Errorf("%s is told as %s", row, got)
			}
		}
	}
}

// A dump of something else stays as it is.
func TestOtherHexDumpsStay(t *testing.T) {
	x := newIndex("correct-horse-battery-staple", "0123456789abcdef")
	for name, layout := range layouts {
		if s := layout([]byte("nothing of any secret, but long enough for several rows, 2026, and then some more")); x.clean(s) != s {
			t.Errorf("%s: %q is told as %q", name, s, x.clean(s))
		}
	}
	for _, s := range []string{
		noise(1 << 14), "7 8 9 10 11 12", "a b c d e f", "1234: 5 of 7, 0x10 0x20 0x30 0x40 0x50 0x60 0x70",
		hex.Dump([]byte("nothing of any secret, but long enough for several rows")), xxd([]byte("nothing of any secret, but long enough"), 2, 16),
		"00000000: ", "0000", "deadbeef cafe  |", "00000000  zz |x|", "12345678:\n12345678: 1", "00000000: 61  a much longer text than there are bytes",
	} {
		if got := x.clean(s); got != s {
			t.Errorf("%q is told as %q", s, got)
		}
	}
}

// Dumps cost about as much as other text, also one that has nothing but units in a single line.
func BenchmarkRedactDumps(b *testing.B) {
	x := newIndex(randomValues(100, 40)...)
	text := []byte(noise(1 << 16))
	for _, name := range slices.Sorted(maps.Keys(layouts)) {
		s := layouts[name](text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				x.clean(s)
			}
		})
	}
	for _, unit := range []string{"00 ", "61 ", "00000000: 00 "} {
		s := strings.Repeat(unit, 1<<20/len(unit))
		b.Run(unit, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				x.clean(s)
			}
		})
	}
}
