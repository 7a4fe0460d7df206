package engine

import (
	"errors"
	"testing"
	"time"
)

// What is read as a cursor is written as the same one, and is an instant that a database takes.
func FuzzDecodeCursor(f *testing.F) {
	f.Add(EncodeCursor(time.Unix(1_700_000_000, 0), [16]byte{1}))
	f.Add(EncodePlace(7))
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		at, id, err := DecodeCursor(text)
		if err != nil {
			if !errors.Is(err, ErrCursor) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if y := at.Year(); y < 1 || y > 9999 {
			t.Errorf("%q is of the year %d", text, y)
		}
		if again, same, err := DecodeCursor(EncodeCursor(at, id)); err != nil || !again.Equal(at) || same != id {
			t.Errorf("%q: %v %x, then %v %x, %v", text, at, id, again, same, err)
		}
	})
}
