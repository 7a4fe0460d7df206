package job

import "testing"

// Whatever stands for an id, a place in a log or a fingerprint, it is refused, or it is written as it was read.
func FuzzNames(f *testing.F) {
	for _, text := range []string{"", "0190a6c8-7b3e-7cc0-8a1b-0123456789ab", "{0190a6c8-7b3e-7cc0-8a1b-0123456789ab}", "0190A6C8-7B3E-7CC0-8A1B-0123456789AB", "7.12", "-1.2", "1.2 ", "9f86d081884c7d65", "9F86D081884C7D65", "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := ParseLogPlace(text); ok && (p.String() != text || p.Token < 0 || p.Line < 0) {
			t.Errorf("%q is the place %v", text, p)
		}
		if p, err := ParseFingerprint(text); err == nil {
			if again, err := ParseFingerprint(p.String()); err != nil || again != p {
				t.Errorf("%q is the fingerprint %v, which is %v, %v", text, p, again, err)
			}
		}
		if id, err := ParseID(text); err == nil {
			if again, err := ParseID(id.String()); err != nil || again != id {
				t.Errorf("%q is the id %v, which is %v, %v", text, id, again, err)
			}
			e, err := ParseExecutionID(text)
			w, err2 := ParseWorkerID(text)
			o, err3 := ParseOperationID(text)
			if err != nil || err2 != nil || err3 != nil || ID(e) != id || ID(w) != id || ID(o) != id {
				t.Errorf("%q is %v, %v, %v and %v", text, id, e, w, o)
			}
		}
		if ValidKey(text) && (len(text) == 0 || len(text) > 128) {
			t.Errorf("%q is a key", text)
		}
	})
}
