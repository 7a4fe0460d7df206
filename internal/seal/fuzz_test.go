package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// Whatever a file of keys holds, it is refused, or all of it are keys under which can be sealed.
func FuzzParseKeys(f *testing.F) {
	f.Add("")
	f.Add("# a comment\n\n" + NewKey() + "\r\n" + NewKey())
	f.Add("AAAA\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseKeys(text)
		if err != nil {
			return
		}
		ring, err := NewRing(keys...)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		sealed, err := ring.Seal("a", []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := ring.Open("a", sealed); err != nil || string(plain) != "x" {
			t.Errorf("%q: %q, %v", text, plain, err)
		}
	})
}

// Whatever lies in the store as sealed, only what was sealed for its place is opened.
func FuzzOpen(f *testing.F) {
	ring, err := NewRing(bytes.Repeat([]byte{7}, KeySize))
	if err != nil {
		f.Fatal(err)
	}
	// Sealed once and written down: a fuzz target runs in several processes, and each would seal it again.
	good, err := hex.DecodeString("01ca478d9bb947a561197d0469d204d3f3528c47386c53a9d1e94bc1d671e0946eaf5efb41df770ce167")
	if err != nil {
		f.Fatal(err)
	}
	if plain, err := ring.Open("place", good); err != nil || string(plain) != "plain" {
		f.Fatalf("what was sealed is no longer opened: %q, %v", plain, err)
	}
	f.Add("place", good)
	f.Add("elsewhere", good)
	f.Add("place", good[:headSize])
	f.Add("place", []byte{})
	f.Fuzz(func(t *testing.T, place string, data []byte) {
		plain, err := ring.Open(place, data)
		switch {
		case err == nil && (place != "place" || !bytes.Equal(data, good) || string(plain) != "plain"):
			t.Errorf("%q at %q was opened: %q", data, place, plain)
		case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownKey):
			t.Error(err)
		}
	})
}
