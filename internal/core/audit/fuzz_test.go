package audit

import (
	"bytes"
	"testing"
)

// Whatever lies in the store as marks, whole ones are read as they were written, and a seal over others does not hold.
func FuzzMarks(f *testing.F) {
	f.Add(EncodeMarks([]Mark{{Seq: 1, Sum: Sum{1}}, {Seq: 1 << 40, Sum: Sum{2}}}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		ms := DecodeMarks(data)
		if got := EncodeMarks(ms); !bytes.HasPrefix(data, got) || len(data)-len(got) >= markSize {
			t.Errorf("%x became %x", data, got)
		}
		if broken := Verify(Seal{}, Seal{Number: 1, Marks: ms}, nil); broken == nil {
			t.Errorf("a seal that was never made holds: %x", data)
		}
	})
}
