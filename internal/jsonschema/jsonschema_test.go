package jsonschema

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	s, err := Compile([]byte(`{"type":"object","required":["day"],"properties":{"day":{"type":"string","pattern":"^[0-9-]+$"},"files":{"type":"array","items":{"$ref":"#/$defs/file"}}},
		"$defs":{"file":{"type":"object","properties":{"name":{"type":"string"},"a b":{"type":"null"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for doc, want := range map[string]string{
		`{"day":"2026-01-02"}`:                "[]",
		`{}`:                                  "[missing property 'day']",
		``:                                    "[got null, want object]",
		`{`:                                   "[it is no JSON; want one JSON value]",
		`{"day":7}`:                           "[day: got number, want string]",
		`{"day":"x"}`:                         "[day: 'x' does not match pattern '^[0-9-]+$']",
		`{"day":"1","files":[{},{"name":1}]}`: "[files[1].name: got number, want string]",
		`{"day":"1","files":[{"a b":1},{"name":1}]}`:   `[files[0]."a b": got number, want null files[1].name: got number, want string]`,
		`{"day":"1","files":[` + many(30) + `"last"]}`: "",
	} {
		got := s.Check([]byte(doc))
		if want == "" {
			if len(got) != maxProblems {
				t.Errorf("%d problems; want %d", len(got), maxProblems)
			}
			continue
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %v; want %s", doc, got, want)
		}
	}
}

func many(n int) string { return strings.Repeat(`"x",`, n) }

func TestCompileRefuses(t *testing.T) {
	for doc, want := range map[string]string{
		`{`:                                   "it is no JSON",
		`[]`:                                  "it is no object",
		`7`:                                   "it is no object",
		`{"type":"thing"}`:                    "type: ",
		`{"pattern":"("}`:                     "pattern",
		`{"$ref":"https://example.com/x"}`:    "a schema may only refer to itself",
		`{"$ref":"file:///etc/passwd"}`:       "a schema may only refer to itself",
		`{"$ref":"#/$defs/none"}`:             "none",
		`{"x":"` + many(MaxSize) + `"}`:       "at most 65536",
		`{"$schema":"https://example.com/s"}`: "only refer to itself",
	} {
		_, err := Compile([]byte(doc))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v; want %q", doc, err, want)
		}
	}
	if _, err := Compile([]byte("true")); err != nil {
		t.Error(err)
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","required":["a"],"properties":{"a":{"enum":[1,"x"]}}}`, `{"a":2}`)
	f.Add(`{"$ref":"#"}`, `1`)
	f.Add(`{"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"not":{}}}}`, `[]`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := Compile([]byte(schema))
		if err != nil {
			return
		}
		for _, p := range s.Check([]byte(value)) {
			if p.Want == "" {
				t.Fatalf("%q of %q: a problem without a text at %q", schema, value, p.Path)
			}
		}
	})
}
