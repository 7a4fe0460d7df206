package expression

import (
	"strings"
	"testing"
)

// payloads are such as a short cut might get wrong.
var payloads = []string{
	sample, "", "null", "{}", "[]", `"text"`, "12", " { } ", `{"a":1}`, `{"a" : 1 , "b" : 2}`, `{"b":{"a":3},"a":4}`, `{"a":1,"a":2}`, `{"a":{"b":1},"a":{"c":2}}`,
	`{"a":{"b":1},"a":null}`, `{"\u0061":5}`, `{"a":1,"\u0061":5}`, `{"ä":1,"a":2}`, `{"a":"x\"}y","b":1}`, `{"x":"\\","a":1}`, `{"x":["}",{"a":9}],"a":[1,2]}`,
	`{"a":{"b":"\u00e4\n"}}`, `{"a":1.0}`, `{"a":1e3}`, `{"a":12345678901234567890}`, `{"a":true}`, `{"a":false}`, `{"a":null}`, `{"a":-0}`, `{"a":"b"}`,
	`{"a":[]}`, `{"a":{}}`, `{"a":{"b":{}}}`, "{\n\t\"a\"\r: {\"b\" :\n7 }\n}", `{"a":1} trailing`, `{"a":`, `{"a":1,}`, "{", "\xff", `{"a":"` + "\xff" + `"}`,
}

// slow is the expression without the short cut.
func slow(t testing.TB, text string) (quick, whole *Expression) {
	quick, err := Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return quick, &Expression{program: quick.program, paths: quick.paths}
}

func TestPath(t *testing.T) {
	for text, want := range map[string]int{
		"payload.a": 1, "payload.a.b": 2, "payload?.a?.b": 2, `payload["a"].b`: 2, "payload": 0, "payload.a[0]": 0, "payload.a + 1": 0, "lower(payload.a)": 0, `payload.a ?? "x"`: 0,
	} {
		if e, _ := slow(t, text); len(e.path) != want {
			t.Errorf("%s: the path %q; want %d names", text, e.path, want)
		}
	}
	for _, text := range []string{"payload.a", "payload.a.b", "payload.b", "payload.customer.id", "payload.customer.tags", `payload["dash-ed"]`, "payload.big"} {
		quick, whole := slow(t, text)
		for _, p := range payloads {
			same(t, quick, whole, text, []byte(p))
		}
	}
}

func same(t testing.TB, quick, whole *Expression, text string, payload []byte) {
	t.Helper()
	got, err := quick.Eval(payload)
	want, wantErr := whole.Eval(payload)
	if got != want || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Errorf("%s of %q: %s, %v; want %s, %v", text, payload, got, err, want, wantErr)
	}
}

// A text of very many escapes takes no longer than its length: were each looked for from where the text begins, this
// would continue for minutes.
func TestManyEscapes(t *testing.T) {
	for _, escape := range []string{`\n`, `\"`, `\\`, `\u0041`} {
		payload := []byte(`{"t":"` + strings.Repeat(escape, 4<<20) + `","a":1}`)
		quick, _ := slow(t, "payload.a")
		if got, err := quick.Eval(payload); err != nil || got != "1" {
			t.Errorf("%s: %s, %v", escape, got, err)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, p := range payloads {
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, text := range []string{"payload.a", "payload.a.b"} {
			quick, whole := slow(t, text)
			same(t, quick, whole, text, payload)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	payload := []byte(`{"customer": 17, "text": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`)
	quick, whole := slow(b, "payload.customer")
	for name, e := range map[string]*Expression{"quick": quick, "whole": whole} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = e.Eval(payload)
			}
		})
	}
}
