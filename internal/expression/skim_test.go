package expression

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is told at a glance is what encoding/json says, of payloads and of all that a byte more, less or changed makes of them.
func TestValid(t *testing.T) {
	seen := 0
	check := func(p string) {
		t.Helper()
		if got, want := valid([]byte(p)), json.Valid([]byte(p)); got != want {
			t.Errorf("%q is valid: %v, want %v", p, got, want)
		}
		if _, ok := skim([]byte(p), 0, 0); ok {
			seen++
		}
	}
	more := []string{`{"a":[1,-2,0,{"b":[]}],"c":{"d":"e"}}`, `[[[[true,false,null]]]]`, `-`, `01`, `-0`, `1.5`, `tru`, `nul`, `{"a"}`, `{"a":}`, `[1,]`, `[,1]`, `{,}`, `[1 2]`, "\"\t\"", strings.Repeat("[", 40) + strings.Repeat("]", 40)}
	for _, p := range append(more, payloads...) {
		if len(p) > 500 {
			continue
		}
		check(p)
		for i := range len(p) {
			check(p[:i] + p[i+1:])
			for _, c := range []byte(" \t\"\\{}[]:,0-.et\x00\xff") {
				check(p[:i] + string(c) + p[i:])
				check(p[:i] + string(c) + p[i+1:])
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d were told at a glance", seen)
	}
}

func FuzzValid(f *testing.F) {
	for _, p := range payloads {
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if got, want := valid(p), json.Valid(p); got != want {
			t.Errorf("%q is valid: %v, want %v", p, got, want)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	payload := []byte(`{"customer": 17, "text": "` + strings.Repeat("x", 220) + `"}`)
	for name, f := range map[string]func([]byte) bool{"at a glance": valid, "encoding/json": json.Valid} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f(payload)
			}
		})
	}
}
