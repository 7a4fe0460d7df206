package secret

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// xxd prints bytes as that program does: groups of so many bytes, in rows of so many.
func xxd(b []byte, group, columns int) string {
	var out strings.Builder
	for at := 0; at < len(b); at += columns {
		row := b[at:min(at+columns, len(b))]
		var digits strings.Builder
		for i, c := range row {
			if i > 0 && i%group == 0 {
				digits.WriteByte(' ')
			}
			fmt.Fprintf(&digits, "%02x", c)
		}
		width := 2*columns + (columns-1)/group
		fmt.Fprintf(&out, "%08x: %-*s  %s\n", at, width, digits.String(), printed(row))
	}
	return out.String()
}

// od prints bytes as od -A x -t x1z does.
func od(b []byte) string {
	var out strings.Builder
	for at := 0; at < len(b); at += 16 {
		row := b[at:min(at+16, len(b))]
		fmt.Fprintf(&out, "%06x %-47s  >%s<\n", at, fmt.Sprintf("% x", row), printed(row))
	}
	return fmt.Sprintf("%s%06x\n", out.String(), len(b))
}

// words prints bytes as hexdump does without options, on a machine whose low bytes come first.
func words(b []byte) string {
	var out strings.Builder
	for at := 0; at < len(b); at += 16 {
		fmt.Fprintf(&out, "%07x", at)
		for row := b[at:min(at+16, len(b))]; len(row) > 0; row = row[min(2, len(row)):] {
			high := byte(0)
			if len(row) > 1 {
				high = row[1]
			}
			fmt.Fprintf(&out, " %02x%02x", high, row[0])
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func printed(row []byte) string {
	out := make([]byte, len(row))
	for i, c := range row {
		if out[i] = c; c < ' ' || c > '~' {
			out[i] = '.'
		}
	}
	return string(out)
}

// Nothing of a value is left in a hex dump of it, in either column, however its bytes lie in the rows.
func TestHexDumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_~]{12,80}`), rapid.StringMatching(`[a-z|<>: ]{2}[A-Za-z0-9|<> ]{12,40}[a-z]{6}`)).Draw(t, "secret")
		before := rapid.StringMatching(`[A-Z=]{0,20}`).Draw(t, "before")
		behind := rapid.StringMatching(`[A-Z!]{0,20}\n?`).Draw(t, "behind")
		all := []byte(before + secret + behind)
		columns := rapid.SampledFrom([]int{8, 16, 32}).Draw(t, "columns")
		text := map[string]string{
			"xxd": xxd(all, 2, columns), "xxd -g1": xxd(all, 1, columns), "xxd -g4": xxd(all, 4, columns), "hexdump -C": hex.Dump(all), "od": od(all), "hexdump": words(all),
			"indented": "  " + strings.ReplaceAll(hex.Dump(all), "\n", "\n  "), "with carriage returns": strings.ReplaceAll(hex.Dump(all), "\n", "\r\n"),
			"behind a prefix": "x | " + strings.ReplaceAll(strings.TrimSuffix(hex.Dump(all), "\n"), "\n", "\nx | "),
			"in JSON":         fmt.Sprintf("%q", xxd(all, 2, columns)),
		}
		x := newIndex(secret, "another-secret")
		for name, dumped := range text {
			got := x.clean("dump:\n" + dumped + "\n§after")
			if !strings.HasPrefix(got, "dump:\n") || !strings.HasSuffix(got, "\n§after") {
				t.Fatalf("%s: what is around is gone: %q", name, got)
			}
			// Whatever is left of a row, in hex or as text, holds no piece of the value.
			left := strings.NewReplacer(" ", "", "\r", "", "\n", "").Replace(got)
			for i := 0; i+6 <= len(secret); i++ {
				piece := secret[i : i+6]
				if strings.Contains(before+behind+"dump§after", strings.ReplaceAll(piece, " ", "")) {
					continue
				}
				if strings.Contains(got, piece) || strings.Contains(left, hex.EncodeToString([]byte(piece))) {
					t.Fatalf("%s of %q: %q is left in\n%s\nof\n%s", name, secret, piece, got, dumped)
				}
			}
		}
	})
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
	x := newIndex("correct-horse-battery-staple")
	for _, s := range []string{
		hex.Dump([]byte("nothing of any secret, but long enough for several rows")), xxd([]byte("nothing of any secret, but long enough"), 2, 16),
		"00000000: ", "0000", "deadbeef cafe  |", "00000000  zz |x|", "12345678:\n12345678: 1", "00000000: 61  a much longer text than there are bytes",
	} {
		if got := x.clean(s); got != s {
			t.Errorf("%q is told as %q", s, got)
		}
	}
}
